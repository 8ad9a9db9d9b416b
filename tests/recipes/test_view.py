"""textrl view in a real browser and over the wire, and textrl plot."""

import json
import math
import os
import re
import shutil
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.tiny_lms import save_chat_lm
from textrl.errors import UserError, run_recipe
from textrl.recipes import plot, train, view
from textrl.recipes.viewing.load import load_exhibition
from textrl.recipes.viewing.web import MOST_BYTES, Exhibition, make_app
from textrl.sharing.checkpoint import load_agent
from textrl.training.metrics import read_curves

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium: apt-get install chromium"
)
SETTINGS = "--task text --data talks.jsonl --backbone lm --context 96 --batch-size 4 --threads 1"
SETTINGS += " --accumulation 1 --max-steps 4 --evaluate-every 2 --log-every 1 --save-every 4"
SETTINGS += " --learning-rate 3e-2 --warmup-steps 0 --no-final-evaluation"
LONG = 20  # the row whose beginning the agents cannot read


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations in talks.jsonl, and two small agents of them in ilql/ and bc/."""
    folder = tmp_path_factory.mktemp("view")
    save_chat_lm(folder / "lm")
    said = ("hello there", "how are you today?", "please tell me the price")
    answers = ("I am fine, thank you.", "What can I do for you?", "no")
    with (folder / "talks.jsonl").open("w") as file:
        for number in range(60):
            messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
            for turn in range(9 if number == LONG else 1 + number % 3):
                messages.append({"role": "user", "content": said[(number + turn) % 3]})
                messages.append({"role": "assistant", "content": answers[(number - turn) % 3]})
            print(json.dumps({"messages": messages, "reward": number % 10 - 4}), file=file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXTRL_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        for algo in ("ilql", "bc"):
            arguments = [*SETTINGS.split(), "--algo", algo, "--output", algo]
            patch.setattr(sys, "argv", ["train", *arguments])
            train.main()
    return folder


@pytest.fixture(scope="module")
def shown(place: Path) -> Exhibition:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("TEXTRL_CACHE", str(place / "cache"))
        return load_exhibition(["ilql", "bc"], None, None, None)


@pytest.fixture
def client(shown: Exhibition, place: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.chdir(place)
    return TestClient(make_app(shown), raise_server_exceptions=False)


def test_rows_are_filtered_by_return_and_sorted(client: TestClient) -> None:
    about = client.get("/api/about").json()
    assert about["data"]["count"] == 60 and about["data"]["mean"] == pytest.approx(0.5)
    assert sum(about["data"]["histogram"]["counts"]) == 60
    assert [agent["heads"] for agent in about["agents"]] == [["policy", "q", "v"], ["policy"]]
    found = client.get("/api/list?low=4&high=5&sort=best").json()
    assert [row["earned"] for row in found["rows"]] == [5.0] * 6 + [4.0] * 6
    assert found["rows"][0]["title"] == "hello there"
    assert client.get("/api/list?low=77").json()["total"] == 0
    with warnings.catch_warnings(action="error"):
        assert client.get("/api/list?low=1e300").json()["total"] == 0
    beyond = client.get("/api/list?first=50").json()
    assert len(beyond["rows"]) == 10 and beyond["rows"][0]["row"] == 50


def test_values_are_what_the_model_says(client: TestClient, place: Path) -> None:
    model, task = load_agent("ilql")
    shown = client.get("/api/episode?row=1").json()
    assert [part["turn"] for part in shown["parts"]] == [None, None, 0, None, 1]
    assert shown["earned"] == -3 and shown["parts"][-1]["reward"] == -3
    values = client.get("/api/values?row=1&agent=0").json()
    assert values["first"] == 0 and len(values["turns"]) == 2
    for part, turn in zip(shown["parts"][2::2], values["turns"], strict=True):
        assert "".join(token["text"] for token in turn) == part["text"] + "<|eot_id|>"
    # By hand, at the last token of all.
    (conversation,) = task.index.read(np.array([1]))
    tokens = task.language.spell(conversation, 96).tokens
    with torch.no_grad():
        said = model(torch.tensor([tokens[:-1]]))
    last = values["turns"][-1][-1]
    assert last["q"] == pytest.approx(float(said.target_q[:, 0, -1, tokens[-1]].min()), abs=1e-5)
    assert last["v"] == pytest.approx(float(said.v[0, -1]), abs=1e-5)
    chance = float(said.policy[0, -1].softmax(-1)[tokens[-1]])
    assert last["pi"] == pytest.approx(chance, abs=1e-5)
    assert last["top"][0]["pi"] >= last["pi"] and len(last["top"]) == 4

    imitator = client.get("/api/values?row=1&agent=1").json()["turns"][0][0]
    assert imitator["q"] is None and imitator["v"] is None and 0 < imitator["pi"] < 1
    long = client.get(f"/api/values?row={LONG}&agent=0").json()
    assert long["first"] == 9 - len(long["turns"]) > 0


def test_agents_answer_in_a_turn_and_to_a_message(client: TestClient) -> None:
    asked = {"agent": 0, "row": 1, "turn": 1, "candidates": 3, "seed": 5}
    said = client.post("/api/act", json=asked).json()
    (chosen,) = [each for each in said["candidates"] if each["is_chosen"]]
    assert said["text"] == chosen["text"] and said["tokens"][-1]["q"] == pytest.approx(
        chosen["q"], abs=1e-5
    )
    assert client.post("/api/act", json=asked).json() == said
    one = client.post("/api/answer", json={"agent": 1, "prompt": "hello"}).json()
    assert one["tokens"] and one["candidates"] == []
    for path, body, told in (
        ("act", {**asked, "turn": 7}, "no turn 7"),
        ("act", {**asked, "row": 999}, "no row 999"),
        ("answer", {"agent": 2, "prompt": "hello"}, "no agent 2"),
    ):
        answer = client.post(f"/api/{path}", json=body)
        assert answer.status_code == 404 and told in answer.json()["error"]
    refused = client.post("/api/answer", json={"agent": 0, "prompt": "odd <|eot_id|>"})
    assert refused.status_code == 400 and "control token" in refused.json()["error"]
    assert client.post("/api/answer", json={"agent": 0, "prompt": ""}).status_code == 422
    assert client.post("/api/answer", content=b" " * (MOST_BYTES + 1)).status_code == 413
    assert client.get("/gradio_api/info").status_code == 404


def test_episodes_of_a_game(small_run: Path, small_data: Path) -> None:
    client = TestClient(make_app(load_exhibition([str(small_run)], None, None, None)))
    about = client.get("/api/about").json()
    assert about["data"]["unit"] == "episode" and about["data"]["count"] == 2000
    worst = client.get("/api/list?sort=worst").json()["rows"][0]
    assert worst["earned"] == -6.0
    parts = client.get(f"/api/episode?row={worst['row']}").json()["parts"]
    turns = [part for part in parts if part["turn"] is not None]
    assert len(turns) == 6 and sum(part["reward"] for part in turns) == -6
    values = client.get(f"/api/values?row={worst['row']}&agent=0").json()["turns"]
    assert [" ".join(token["text"] for token in turn) for turn in values] == [
        p["text"] for p in turns
    ]
    said = client.post("/api/act", json={"agent": 0, "row": worst["row"], "turn": 2}).json()
    assert len(said["tokens"]) == 5 and said["tokens"][0]["v"] is not None
    alone = TestClient(make_app(load_exhibition([str(small_data)], None, None, None)))
    assert alone.get("/api/about").json()["agents"] == []
    assert alone.get("/api/episode?row=0").json()["parts"][1]["who"] == "agent"


@pytest.mark.parametrize(
    ("names", "data", "told"),
    [
        (["nowhere/run"], None, "nowhere/run"),
        (["talks.jsonl", "ilql"], None, "textrl view RUN --data talks.jsonl"),
        (["ilql", "talks.jsonl"], None, "give it with --data"),
        (["ilql"], "gone.jsonl", "no such conversations"),
        (["ilql", "ilql"], None, "the same name"),
    ],
)
def test_what_cannot_be_shown(
    place: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], data: str | None, told: str
) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(UserError, match=told):
        load_exhibition(names, data, None, None)


def test_a_taken_port_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        monkeypatch.setattr(sys, "argv", ["view", "x", "--port", port])
        with pytest.raises(SystemExit):
            run_recipe(view.main)
    assert "cannot listen on" in capsys.readouterr().err


# --- in Chromium


@pytest.fixture(scope="module")
def url(shown: Exhibition) -> Iterator[str]:
    app = make_app(shown)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _, address, _ = app.launch(
        server_name="127.0.0.1", server_port=port, quiet=True, prevent_thread_lock=True
    )
    yield address
    app.get_blocks().close(verbose=False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


Visit = Callable[..., Page]


@pytest.fixture
def visit(
    browser: Browser, url: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Visit]:
    monkeypatch.chdir(place)
    hosts: set[str | None] = set()
    errors: list[str] = []
    contexts = []

    def come(**options: Any) -> Page:
        contexts.append(browser.new_context(reduced_motion="reduce", **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(30_000)
        page.on("request", lambda request: hosts.add(urlparse(request.url).hostname))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        expect(page.locator(".part").first).to_be_visible(timeout=30_000)
        return page

    yield come
    assert hosts == {"127.0.0.1"}, "a request left the machine"
    assert errors == []
    for context in contexts:
        context.close()


@needs_chromium
def test_browsing_by_keyboard(visit: Visit) -> None:
    page = visit()
    page.locator("#low").fill("5")
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_have_text(re.compile("6 of 6 conversations"))
    first = page.locator("#rows button").first
    first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("line 20: return 5")
    expect(page.locator("#rows button").nth(1)).to_have_attribute("aria-current", "true")
    # Through the tokens of a turn: one stop of Tab, then arrows.
    page.locator(".tokens").first.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    shown = page.locator(".tokens .on").inner_text()
    expect(page.locator("#detail code").first).to_have_text(shown.replace(" ", "␣"))
    expect(page.locator("#detail")).to_contain_text("V before it")
    assert page.locator("#detail tbody").nth(1).locator("tr").count() == 4
    turn = page.locator(".part.turn .who").first.inner_text()
    assert all(name in turn for name in ("V ", "Q ", "log π"))
    page.locator("#colour").select_option("pi")
    expect(page.locator("#legend")).to_contain_text("less likely")


@needs_chromium
def test_two_agents_side_by_side(visit: Visit) -> None:
    page = visit()
    page.get_by_role("button", name="Ask here").first.click()
    expect(page.locator(".answer h3")).to_have_text(["as it was logged", "ilql", "bc"])
    page.locator("#candidates").fill("3")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".answer").nth(1)).to_contain_text("whole turns compared by Q")
    expect(page.locator(".answer").nth(1).locator("tr.taken")).to_have_count(1)
    page.get_by_role("button", name="Write a message instead").click()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#message")).to_have_text("write a message first")
    page.get_by_label("Message", exact=True).fill("hello there")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".answer h3")).to_have_text(["ilql", "bc"])
    expect(page.locator("#message")).to_have_text("")


@needs_chromium
def test_curves_of_both_runs(visit: Visit, place: Path) -> None:
    page = visit()
    page.get_by_role("tab", name="Browse").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#runs li")).to_have_text(["ilql", "bc"])
    page.locator("#only").fill("log_likelihood")
    expect(page.locator(".panel")).to_have_count(1)
    last = [read_curves(place / name)["log_likelihood"][1][-1] for name in ("ilql", "bc")]
    shown = page.locator(".panel figcaption").inner_text().replace("\u2212", "-")
    assert all(f"{value:.4g}" in shown for value in last)
    assert page.locator(".panel path.curve").count() == 2


CONTRASTS = """() => {
  const lights = colour => {
    const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
    const of = value => (value /= 255) <= .03928 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
    return [.2126 * of(r) + .7152 * of(g) + .0722 * of(b), a];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const texts = [...node.childNodes].filter(child => child.nodeType === 3);
    const own = texts.some(child => child.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest("svg") || node.disabled) continue;
    let behind = node, back = [0, 0];
    for (; behind && back[1] === 0; behind = behind.parentElement)
      back = lights(getComputedStyle(behind).backgroundColor);
    const front = lights(getComputedStyle(node).color);
    const [dark, light] = [front[0], back[0]].sort((a, b) => a - b);
    const what = node.tagName + "." + node.className + " " + node.textContent.slice(0, 30);
    found.push([(light + .05) / (dark + .05), what]);
  }
  return found;
}"""


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_every_width_and_scheme_can_be_read(visit: Visit, width: int, scheme: str) -> None:
    page = visit(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.locator(".tokens span").nth(1).click()
    for tab in ("Browse", "Compare", "Curves"):
        page.get_by_role("tab", name=tab).click()
        if tab == "Compare":
            page.get_by_label("Message", exact=True).fill("hello")
            page.get_by_role("button", name="Ask", exact=True).click()
            expect(page.locator(".answer")).to_have_count(2)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 5
        assert not [what for ratio, what in contrasts if ratio < 4.5]
    unnamed = "node => ![...node.labels ?? []].length && !node.textContent.trim()"
    fields = page.locator("input, select, textarea, button")
    assert not [each for each in fields.all() if each.evaluate(unnamed)]


# --- textrl plot


def run_plot(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["plot", *arguments])
    run_recipe(plot.main)


def test_plot_draws_the_curves(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(place)
    run_plot(monkeypatch, "ilql", "bc", "--output", str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    names = [*read_curves(place / "ilql")]
    assert names[0] == "log_likelihood" and {"mean_q", "mean_q (training)", "total"} <= {*names}
    run_plot(monkeypatch, "ilql", "--metrics", "total,q", "--output", str(tmp_path / "b.svg"))
    assert "2 figures of 1 runs" in capsys.readouterr().out
    steps, values = read_curves(place / "ilql")["total"]
    assert steps == [1, 2, 3, 4] and all(map(math.isfinite, values))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("nowhere",), "has no metrics.jsonl"),
        (("ilql", "--metrics", "totl"), "did you mean 'total'?"),
        (("ilql", "--output", "x.gif"), "must end in .png"),
        (("ilql", "./ilql"), "the same name"),
    ],
)
def test_mistakes_of_plot(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(SystemExit):
        run_plot(monkeypatch, *given)
    assert told in capsys.readouterr().err
