"""The pages' server against visitors who mean it ill: slow, loud, in disguise."""

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uvicorn
from pydantic import BaseModel

from textrl.sharing import page

LONGEST = 1_000
ROUNDS = int(os.environ.get("TEXTRL_VISITS", "3"))
NEEDED = {
    "content-security-policy": "default-src 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=()",
    "cache-control": "no-cache",
}


class Said(BaseModel):
    word: str


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    file = tmp_path_factory.mktemp("page") / "index.html"
    file.write_text("<p>hello")
    app = page.new_server("a page", {"/": file}, ["/api/say"], LONGEST)

    @app.post("/api/say")
    def say(said: Said) -> dict[str, str]:
        return {"said": said.word}

    with socket.socket() as listening, pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "BODY_SECONDS", 1)
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        running.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        running.join()


def ask(
    port: int, method: str = "GET", path: str = "/", body: bytes | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, told)
        answer = connection.getresponse()
        return answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
    finally:
        connection.close()


def raw(port: int, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while more := connection.recv(65536):
            found += more
        return found


SAY = json.dumps({"word": "hi"}).encode()
JSON = {"content_type": "application/json"}


def is_up(port: int) -> bool:
    return ask(port, "POST", "/api/say", SAY, **JSON)[:2] == (200, b'{"said":"hi"}')


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:7860", True),
        ("localhost:1", True),
        ("[::1]:80", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:80", False),
        ("127.0.0.1@evil.example", False),
        ("[", False),
        ("", False),
    ],
)
def test_only_its_own_name(port: int, host: str, is_ours: bool) -> None:
    """A stranger's name that leads to this machine does not lead to the page."""
    assert ask(port, host=host)[0] == (200 if is_ours else 421)


def test_no_other_pages_requests(port: int) -> None:
    ours = f"http://127.0.0.1:{port}"
    for origin, status in ((ours, 200), ("https://evil.example", 421), ("null", 421)):
        assert ask(port, "POST", "/api/say", SAY, **JSON, origin=origin)[0] == status


def test_every_answer_has_the_headers(port: int) -> None:
    answers = [ask(port), ask(port, path="/gradio_api/info"), ask(port, host="evil.example")]
    answers += [ask(port, "POST", "/api/say", b"x" * 2 * LONGEST, **JSON)]
    answers += [ask(port, "POST", "/api/say", b"{", **JSON)]
    assert [status for status, _, _ in answers] == [200, 404, 421, 413, 422]
    for _, _, headers in answers:
        for name, value in NEEDED.items():
            assert value in headers[name]
        assert "access-control-allow-origin" not in headers


MALFORMED = [
    b"",
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # it speaks TLS
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /%2e%2e%2fetc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"POST /api/say HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /api/say HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n{}",
    b"POST /api/say HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
    os.urandom(2_000),
]


@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_what_is_no_request(port: int, number: int) -> None:
    found = raw(port, MALFORMED[number])
    assert b"root:" not in found and b"Traceback" not in found
    assert is_up(port)


def test_slow_bodies_are_not_waited_for(port: int) -> None:
    head = b"POST /api/say HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900\r\n\r\n{"
    slow = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(100)]
    try:
        for connection in slow:
            connection.sendall(head)
        assert is_up(port)  # meanwhile
        for connection in slow:
            assert b"408" in connection.recv(100)
    finally:
        for connection in slow:
            connection.close()


def resident() -> int:
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays(port: int) -> None:
    """Long and broken requests leave nothing behind."""

    def round_of(count: int) -> None:
        for number in range(count):
            body = b"x" * 100_000 if number % 2 else b'{"word": ' + b"[" * 500
            ask(port, "POST", "/api/say", body, **JSON)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(round_of, [25] * 4))
        before = resident()
        for _ in range(ROUNDS):
            list(pool.map(round_of, [25] * 4))
    assert resident() - before < 20_000_000
    assert is_up(port)
