"""What nobody's browser would send to the pages: never the server's error, never much memory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, note
from hypothesis import strategies as st

from tests.conftest import TWELVE
from tests.faults import limited_memory, limited_time
from tests.test_faults import ODD, damaged, of_all, with_odd_values
from textrl.config.presets import configure
from textrl.envs.wordle.play import web as play
from textrl.envs.wordle.play.opponent import load_opponent
from textrl.model.build import new_model
from textrl.recipes.viewing import web as view
from textrl.recipes.viewing.load import load_exhibition
from textrl.sharing.checkpoint import save_checkpoint
from textrl.tasks.members import Members

MEMORY = 2**29
VIEW = {
    "/api/act": {"agent": 0, "row": 1, "turn": 0, "beta": 1.0, "sample": True, "seed": 3},
    "/api/answer": {"agent": 0, "prompt": "hello", "system": "be brief", "candidates": 2},
}
ASKED = ("about", "list", "episode", "values", "curves")
PARAMETERS = ("row", "agent", "low", "high", "sort", "first")
PLAY = {
    "/api/new": {"mode": "race"},
    "/api/guess": {"game": "x", "word": "crane"},
    "/api/step": {"game": "x"},
    "/api/colours": {"game": "x", "colours": [0, 1, 2, 0, 1]},
    "/api/back": {"game": "x"},
    "/api/look": {"game": "x"},
    "/api/analysis": {"game": "x"},
    "/api/judge": {"game": "x", "word": "crane"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with an agent of each page, and walks to look at."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("words.txt").write_text("\n".join(TWELVE))
        for task, options in (("gridworld", {}), ("wordle", {"words": "words.txt"})):
            run = configure(task, layers=1, width=8, attention_heads=1, **options)
            members = Members.of_run(run)
            save_checkpoint(Path(task), new_model(members, run), members, run)
            if task == "gridworld":
                members.one()[1].collect(8, 0, Path("walks"), workers=1)
        yield folder


def answered(client: TestClient, method: str, path: str, **more: Any) -> Any:
    """The answer, which is never an error of the server."""
    with limited_time(20), limited_memory(MEMORY):
        answer = client.request(method, path, **more)
    note(f"{answer.status_code}: {answer.text[:300]}")
    assert answer.status_code < 500
    return answer


def bodies(whole: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """JSON with odd values, and bytes that were JSON."""
    content = json.dumps(whole).encode()
    odd = with_odd_values(whole).map(lambda value: json.dumps(value).encode())
    return odd | damaged(content) | st.binary(max_size=2_000)


def test_the_viewer(place: Path) -> None:
    client = TestClient(view.make_app(load_exhibition(["gridworld"], "walks", None, None)))

    @of_all(0.06)
    @given(data=st.data(), path=st.sampled_from(sorted(VIEW)))
    def posted(data: st.DataObject, path: str) -> None:
        answered(client, "POST", path, content=data.draw(bodies(VIEW[path])))

    @of_all(0.06)
    @given(
        name=st.sampled_from(ASKED),
        asked=st.dictionaries(st.sampled_from(PARAMETERS), ODD.map(printable)),
    )
    def browsed(name: str, asked: dict[str, str]) -> None:
        answered(client, "GET", f"/api/{name}", params=asked)

    posted()
    browsed()


def printable(value: Any) -> str:
    """What can stand in an address."""
    return str(value).encode("utf-8", "replace").decode()[:5_000]


def test_the_game(place: Path) -> None:
    client = TestClient(play.make_app(load_opponent("wordle")))

    @of_all(0.06)
    @given(data=st.data(), path=st.sampled_from(sorted(PLAY)), mode=st.sampled_from(play_modes()))
    def posted(data: st.DataObject, path: str, mode: str) -> None:
        game = client.post("/api/new", json={"mode": mode}).json()["game"]
        whole = {**PLAY[path], **({"game": game} if "game" in PLAY[path] else {})}
        answered(client, "POST", path, content=data.draw(bodies(whole)))
        answered(client, "POST", "/api/guess", json={"game": game, "word": "crane"})

    posted()


def play_modes() -> list[str]:
    return ["race", "stump", "watch"]
