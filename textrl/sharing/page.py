"""A page of our own on gradio's server: its files, its doors, and nothing on it from elsewhere."""

import asyncio
import ipaddress
import os
import socket
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from gradio import Server
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from textrl.errors import UserError

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
STARTUP = "/gradio_api/startup-events"  # by which launch() sees that the server is up
HEADERS = {
    b"content-security-policy": b"default-src 'self'; base-uri 'none'; form-action 'none'; "
    b"object-src 'none'; frame-ancestors 'self' https://huggingface.co",  # where Spaces are shown
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-cache",
}
BODY_SECONDS = 10
"""In which a request's body has to be here."""


def new_server(
    title: str,
    files: Mapping[str, Path],
    doors: Iterable[str],
    longest: int,
    most_at_once: int | None = None,
) -> Server:
    """A server of these files, by their path on it, to which the API is yet to be added.

    doors: the other paths that are let through. longest: bytes of a request's body.
    most_at_once: requests of one visitor that are worked on at a time; None: any number.
    """
    app = Server(title=title, docs_url=None, redoc_url=None, openapi_url=None)

    def serve_file(file: Path) -> Any:
        content = file.read_bytes()
        return lambda: Response(content, media_type=KINDS[file.suffix])

    for path, file in files.items():
        app.get(path)(serve_file(file))

    @app.exception_handler(RequestValidationError)
    def refuse(request: Request, error: RequestValidationError) -> JSONResponse:
        # FastAPI's own answer repeats what was sent, which fails where that is no text.
        first = error.errors()[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        return JSONResponse({"error": f"malformed request: {where}: {first['msg'][:200]}"}, 422)

    if most_at_once is not None:
        app.add_middleware(Turnstile, most=most_at_once)
    app.add_middleware(Gate, paths=frozenset((*files, STARTUP, *doors)), longest=longest)
    return app


def visitor(request: Request) -> str:
    """Whom a request counts as: its address, which a proxy that uvicorn trusts passes on."""
    return request.client.host if request.client else ""


@dataclass
class Line:
    """The requests of one visitor."""

    turns: asyncio.Semaphore
    present: int = 0


class Turnstile:
    """Lets so many requests of one visitor in at a time; the others stand in that visitor's line.

    So whoever asks without end waits for themselves: what they can give the server to do at once is
    bounded, and everybody else's is done beside it. A line that is too long is sent away slowly.
    """

    def __init__(
        self, app: ASGIApp, most: int, longest: int = 256, seconds_before_refusal: float = 2.0
    ) -> None:
        self._app, self._most, self._longest = app, most, longest
        self._patience = seconds_before_refusal
        self._lines: dict[str, Line] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        who = visitor(Request(scope))
        line = self._lines.setdefault(who, Line(asyncio.Semaphore(self._most)))
        line.present += 1
        try:
            if line.present > self._longest:
                await asyncio.sleep(self._patience)
                refusal = {"error": "too many requests at once: wait for the answers"}
                return await JSONResponse(refusal, 429)(scope, receive, send)
            async with line.turns:
                await self._app(scope, receive, send)
        finally:
            line.present -= 1
            if not line.present:
                self._lines.pop(who, None)


class Gate:
    """Lets through only what the page asks for, and only a little of it at a time."""

    def __init__(self, app: ASGIApp, paths: frozenset[str], longest: int) -> None:
        self._app, self._paths, self._longest = app, paths, longest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":  # a web socket: there are none
            return await send({"type": "websocket.close", "code": 1008})

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0].lower() not in HEADERS]
                message = {**message, "headers": [*kept, *HEADERS.items()]}
            await send(message)

        async def refuse(status: int, why: str) -> None:
            # What was not read of the request must not pass for the next one.
            answer = JSONResponse({"error": why}, status, {"connection": "close"})
            await answer(scope, receive, guarded)

        if not is_from_here(scope):
            return await refuse(421, "this page is for this machine alone, by its own name")
        if scope["path"] not in self._paths:
            return await refuse(404, "not here")
        try:
            body = await asyncio.wait_for(self._body(receive), BODY_SECONDS)
        except TimeoutError:
            return await refuse(408, "too slow")
        if body is None:
            return
        if len(body) > self._longest:
            return await refuse(413, "too long")
        is_read = False

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, guarded)

    async def _body(self, receive: Receive) -> bytes | None:
        """A request's body, or as much of it as is too long; None: its sender is gone."""
        body, is_whole = b"", False
        while not is_whole and len(body) <= self._longest:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            is_whole = not message.get("more_body", False)
        return body


def is_from_here(scope: Scope) -> bool:
    """Whether a request to this machine's own address calls it by its own name.

    A name that somebody else owns can be made to lead here, and their page would then pass for
    ours: that is seen by the host that it asks for. Neither may another page send us anything.
    """
    if not is_loopback((scope.get("server") or [""])[0]):
        return True
    told = {name: value.decode("latin-1") for name, value in scope["headers"]}
    host, origin = told.get(b"host", ""), told.get(b"origin")
    return is_local(f"//{host}") and (origin is None or urlsplit(origin).netloc == host)


def is_local(url: str) -> bool:
    """Whether it names this machine, on any port."""
    try:
        name = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return name == "localhost" or is_loopback(name)


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:  # a name, as of the servers of tests
        return False


def check_address(host: str, port: int) -> None:
    """Refuse a port that is taken and a host that is not ours, before anything is loaded."""
    if not 1 <= port <= 65535:
        raise UserError(f"--port must be from 1 to 65535, not {port}")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            why = error.strerror or error
            raise UserError(
                f"cannot listen on {host}:{port} ({why}): choose another --port or --host"
            ) from error


def serve(app: Server, what: str, host: str, port: int) -> None:
    """Serve the page until Ctrl-C; what: of what it is, for people."""
    _, url, _ = app.launch(
        server_name=host,
        server_port=port,
        share=False,
        quiet=True,
        prevent_thread_lock=True,
        ssr_mode=False,
        show_error=False,
    )
    print(f"{what}: {url} (Ctrl-C ends it)", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print()
    finally:
        app.get_blocks().close(verbose=False)
