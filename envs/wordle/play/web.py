"""The game as a page: gradio's server with a page of our own, and nothing on it from elsewhere."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Annotated, Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from gradio import Server
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from textrl.envs.wordle.game import MAX_GUESSES, WORD_LENGTH
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.rooms import NoSuchGame, Rooms
from textrl.errors import UserError

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/game.js": ("game.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
API = ("new", "guess", "step", "colours", "back", "judge")
STARTUP = "/gradio_api/startup-events"  # by which launch() sees that the server is up
MOST_BYTES = 1024  # of a request's body; the longest of ours has a tenth of that
HEADERS = {
    b"content-security-policy": b"default-src 'self'; base-uri 'none'; form-action 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-cache",
}

Word = Annotated[str, Field(max_length=WORD_LENGTH)]
Colour = Annotated[int, Field(ge=0, le=2)]


class NewGame(BaseModel):
    """Begin a game."""

    mode: Annotated[str, Field(max_length=8)]
    word: Word | None = None


class InGame(BaseModel):
    """Something in a game."""

    game: Annotated[str, Field(max_length=32)]


class InGameWord(InGame):
    """A word in a game."""

    word: Word


class InGameColours(InGame):
    """The colours of the model's guess."""

    colours: Annotated[list[Colour], Field(min_length=WORD_LENGTH, max_length=WORD_LENGTH)]


def make_app(opponent: Opponent) -> Server:
    """The page's server: files, moves, and no other door."""
    app = Server(title="Wordle", docs_url=None, redoc_url=None, openapi_url=None)
    rooms = Rooms(opponent)

    def serve_file(name: str, kind: str) -> Any:
        content = (PAGE / name).read_bytes()
        return lambda: Response(content, media_type=kind)

    for path, (name, kind) in FILES.items():
        app.get(path)(serve_file(name, kind))

    @app.get("/api/about")
    def about() -> dict[str, Any]:
        return {
            "name": Path(opponent.name).name,
            "words": list(opponent.task.words.guesses),
            "answers": len(opponent.task.words.answers),
            "heads": opponent.heads,
            "decoding": opponent.decoding.name,
            "beta": opponent.decoding.beta,
        }

    @app.post("/api/new")
    def new(move: NewGame) -> dict[str, Any]:
        return rooms.new(move.mode, move.word)

    @app.post("/api/guess")
    def guess(move: InGameWord) -> dict[str, Any]:
        return rooms.guess(move.game, move.word)

    @app.post("/api/step")
    def step(move: InGame) -> dict[str, Any]:
        return rooms.step(move.game)

    @app.post("/api/colours")
    def colours(move: InGameColours) -> dict[str, Any]:
        return rooms.colours(move.game, move.colours)

    @app.post("/api/back")
    def back(move: InGame) -> dict[str, Any]:
        return rooms.back(move.game)

    @app.post("/api/judge")
    def judge(move: InGameWord) -> dict[str, Any]:
        return rooms.judge(move.game, move.word)

    @app.exception_handler(UserError)
    def refuse(request: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 404 if isinstance(error, NoSuchGame) else 400)

    app.add_middleware(Gate)
    return app


class Gate:
    """Lets through only what the page asks for, and only a little of it at a time."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._paths = {*FILES, STARTUP, "/api/about", *(f"/api/{name}" for name in API)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http" or scope["path"] not in self._paths:
            return await JSONResponse({"error": "not here"}, 404)(scope, receive, send)
        body, is_whole = b"", False
        while not is_whole and len(body) <= MOST_BYTES:
            message = await receive()
            body += message.get("body", b"")
            is_whole = not message.get("more_body", False)
        if len(body) > MOST_BYTES:
            return await JSONResponse({"error": "too long"}, 413)(scope, receive, send)
        is_read = False

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0].lower() not in HEADERS]
                message = {**message, "headers": [*kept, *HEADERS.items()]}
            await send(message)

        await self._app(scope, replay, guarded)


def serve(opponent: Opponent, host: str, port: int) -> None:
    """Serve the page until Ctrl-C."""
    app = make_app(opponent)
    # The first guesses of a process take several times as long: not in front of a visitor.
    rehearsal = Rooms(opponent)
    game = rehearsal.new("watch", None)["game"]
    with contextlib.suppress(UserError):  # when it is over
        for _ in range(MAX_GUESSES):
            rehearsal.step(game)
    _, url, _ = app.launch(
        server_name=host,
        server_port=port,
        share=False,
        quiet=True,
        prevent_thread_lock=True,
        ssr_mode=False,
        show_error=False,
    )
    print(f"Wordle against {opponent.name}: {url} (Ctrl-C ends it)", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print()
    finally:
        app.get_blocks().close(verbose=False)
