"""The page's server: only its own doors, only small requests, and no word to the outside."""

import asyncio
from collections.abc import Iterator

import pytest
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.web import FILES, MOST_BYTES, make_app
from textrl.sharing.page import Turnstile


@pytest.fixture
def client(opponent: Opponent) -> Iterator[TestClient]:
    with TestClient(make_app(opponent), raise_server_exceptions=False) as client:
        yield client


def test_the_page_is_served_with_a_policy_that_keeps_it_here(client: TestClient) -> None:
    for path in FILES:
        answer = client.get(path)
        kind = {"/": "html", ".css": "css", ".svg": "svg"}.get(path[-4:], "javascript")
        assert answer.status_code == 200 and kind in answer.headers["content-type"]
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert "http://" not in answer.text.replace("http://www.w3.org", "")
        assert "https://" not in answer.text


@pytest.mark.parametrize(
    "path",
    ["/config", "/gradio_api/upload", "/gradio_api/info", "/docs", "/openapi.json", "/file=x"],
)
def test_gradios_other_doors_are_shut(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404
    assert client.post(path, content=b"x").status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("new", {}),
        ("new", {"mode": "race" * 9}),
        ("new", {"mode": "stump", "word": "longer than five"}),
        ("guess", {"game": "x" * 33, "word": "crane"}),
        ("guess", {"game": "x", "word": 5}),
        ("colours", {"game": "x", "colours": [0, 1, 2, 3, 0]}),
        ("colours", {"game": "x", "colours": [0] * 6}),
        ("colours", {"game": "x", "colours": "black"}),
    ],
)
def test_what_does_not_fit_is_not_taken(client: TestClient, path: str, body: object) -> None:
    assert client.post(f"/api/{path}", json=body).status_code == 422


def test_long_requests_are_cut_off(client: TestClient) -> None:
    long = b'{"mode": "race"' + b" " * MOST_BYTES + b"}"
    assert client.post("/api/new", content=long).status_code == 413

    def chunks() -> Iterator[bytes]:  # of no announced length
        for _ in range(1000):
            yield b" " * 100

    assert client.post("/api/new", content=chunks()).status_code == 413


def test_the_words_and_what_is_known_of_the_agent(client: TestClient) -> None:
    about = client.get("/api/about").json()
    words = client.get("/api/words").json()
    assert about["words"] == len(words["words"]) == 14
    assert about["answers"] == words["answers"] == 12
    assert about["name"] == "novice"  # not where it is on this machine


def test_a_greedy_visitor_waits_for_themselves_only() -> None:
    """Three are worked on at a time, two more wait, the rest is refused; another comes at once."""
    is_open, inside = asyncio.Event(), 0

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal inside
        if scope["client"][0] == "greedy":
            inside += 1
            await is_open.wait()
        await JSONResponse({})(scope, receive, send)

    turnstile = Turnstile(slow, most=3, longest=5, seconds_before_refusal=0.01)

    async def ask(who: str) -> int:
        statuses: list[int] = []

        async def send(message: Message) -> None:
            statuses.extend([message["status"]] if "status" in message else [])

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {"type": "http", "client": (who, 1), "headers": [], "method": "GET", "path": "/"}
        await turnstile(scope, receive, send)
        return statuses[0]

    async def both() -> tuple[list[int], int, int, int]:
        greedy = [asyncio.create_task(ask("greedy")) for _ in range(10)]
        await asyncio.sleep(0.05)
        polite, worked_on = await ask("polite"), inside
        is_open.set()
        return await asyncio.gather(*greedy), polite, worked_on, await ask("greedy")

    first, polite, worked_on, later = asyncio.run(both())
    assert sorted(first) == [200] * 5 + [429] * 5
    assert (polite, worked_on, later) == (200, 3, 200)


def test_mistakes_are_told_in_words(client: TestClient) -> None:
    game = client.post("/api/new", json={"mode": "race"}).json()["game"]
    refused = client.post("/api/guess", json={"game": game, "word": "qqqqq"})
    assert refused.status_code == 400
    assert refused.json() == {"error": "QQQQQ is not in the dictionary"}
    gone = client.post("/api/guess", json={"game": "x", "word": "crane"})
    assert gone.status_code == 404 and "begin a new one" in gone.json()["error"]


def test_a_game_over_the_wire(client: TestClient) -> None:
    view = client.post("/api/new", json={"mode": "watch"}).json()
    while not view["over"]:
        view = client.post("/api/step", json={"game": view["game"]}).json()
    assert view["models"][0]["thoughts"][0]["letters"][0].keys() == {
        "letter",
        "chosen",
        "chance",
        "policy",
        "q",
    }
