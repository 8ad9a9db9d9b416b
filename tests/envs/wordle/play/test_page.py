"""The page in a real browser: whole games by keyboard, clicks and taps, and no request outside."""

import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from textrl.envs.wordle.game import colours_of, encode_words, score
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.web import make_app

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def connected() -> Iterator[set[str]]:
    """Every address that this process connects to while the server runs."""
    addresses: set[str] = set()
    connect = socket.socket.connect

    def watched(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            addresses.add(str(address[0]))  # type: ignore[index]
        connect(self, address)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", watched)
        yield addresses


@pytest.fixture(scope="module")
def url(opponent: Opponent, connected: set[str]) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = make_app(opponent)
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


class Visitor:
    """Someone at the page: what they do, what they see, and what their browser asks for."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.hosts: set[str | None] = set()
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.hosts.add(urlparse(request.url).hostname))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(url)
        self.ready()

    def ready(self) -> None:
        expect(self.page.locator("#play")).to_have_attribute("aria-busy", "false")

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")
        self.ready()

    def click(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()
        self.ready()

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()
        self.ready()

    def rows(self, side: str) -> list[tuple[str, list[int]]]:
        """Word and colours of each coloured row."""
        read = """rows => rows.map(row => [...row.querySelectorAll(".tile[data-colour]")])
            .filter(tiles => tiles.length)
            .map(tiles => [tiles.map(tile => tile.textContent).join(""),
                           tiles.map(tile => Number(tile.dataset.colour))])"""
        found = self.page.locator(f"#{side} .row").evaluate_all(read)
        return [(word, colours) for word, colours in found]

    def message(self) -> str:
        return self.page.locator("#message").inner_text()


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Visit]:
    contexts: list[BrowserContext] = []
    visitors: list[Visitor] = []

    def come(**options: object) -> Visitor:
        contexts.append(browser.new_context(reduced_motion="reduce", **options))
        visitors.append(Visitor(contexts[-1], url))
        return visitors[-1]

    yield come
    for visitor in visitors:
        assert visitor.hosts == {"127.0.0.1"}, "a request left the machine"
        assert visitor.errors == []
    for context in contexts:
        context.close()


def colours(guess: str, answer: str) -> list[int]:
    return colours_of(score(encode_words([guess])[0], encode_words([answer])[0])).tolist()


def test_a_race_by_keyboard(visit: Visit) -> None:
    visitor = visit()
    visitor.type("qqqqq")
    assert visitor.message() == "QQQQQ is not in the dictionary"
    for _ in range(5):
        visitor.page.keyboard.press("Backspace")
    guesses = ["house", "mount", "party", "blind", "quick", "fudge"]
    for word in guesses[:5]:
        visitor.type(word)
        assert visitor.rows("right") == []
        assert len(visitor.page.locator("#thoughts tr").all()) == 0
    hidden = visitor.page.locator("#right .tile.hidden").count()
    assert hidden % 5 == 0 and hidden > 0
    visitor.type(guesses[5])
    answer = re.findall(r"The word was (\w+)", visitor.message())[0].lower()
    assert [word for word, _ in visitor.rows("left")] == [
        "house",
        "mount",
        "party",
        "blind",
        "quick",
        "fudge",
    ]
    models = visitor.rows("right")
    assert 1 <= len(models) <= 6
    for word, shown in visitor.rows("left") + models:
        assert shown == colours(word, answer)
    # What it thought, guess by guess, and how many words were left.
    visitor.click(f"1 {models[0][0]}")
    expect(visitor.page.locator("#thoughts")).to_contain_text("Words left: 12")
    taken = visitor.page.locator("#thoughts tr.taken .letter").all_inner_texts()
    assert "".join(taken).lower() == models[0][0]
    assert visitor.page.locator("#thoughts .meter.q").count() >= 5
    visitor.click("Share")
    shared = visitor.page.locator("#share-text").input_value()
    assert shared.splitlines()[0].startswith("textrl Wordle: me X/6, the model ")
    assert len(shared.splitlines()) == 8 + len(models)
    visitor.click("Close")
    visitor.click("Tally")
    lost = "lost 1" if len(models) < 6 or models[-1][1] == [2] * 5 else "drawn 1"
    expect(visitor.page.locator("#dialog-body")).to_contain_text(lost)


def test_stump_it_with_a_word_by_clicks(visit: Visit) -> None:
    visitor = visit()
    visitor.tab("Stump it")
    visitor.type("house")
    assert "HOUSE is not one of the 14 words" in visitor.message()
    for _ in range(5):
        visitor.page.locator("[data-key=backspace]").click()
    for letter in "fjord":
        visitor.page.locator(f"[data-key={letter}]").click()
    visitor.click("Guess my word")
    for _ in range(6):
        if visitor.page.get_by_role("button", name="Play again").count():
            break
        visitor.click("Next guess")
    rows = visitor.rows("left")
    assert rows[-1] == ("fjord", [2] * 5)
    assert all(shown == colours(word, "fjord") for word, shown in rows)
    assert visitor.message() == f"It found FJORD in {len(rows)}."


def test_stump_it_by_colours_with_a_mistake_taken_back(visit: Visit) -> None:
    visitor = visit()
    visitor.tab("Stump it")
    visitor.click("I colour its guesses")
    said = visitor.rows("left")[0][0]
    visitor.type("ggggy")
    assert "No word at all fits these colours" in visitor.message()
    visitor.type("plumb")
    assert f"guess 1, {said.upper()}, should have been" in visitor.message()
    visitor.click("Take back")
    assert visitor.rows("left") == [(said, [2, 2, 2, 2, 1])]
    for turn in range(6):
        said = visitor.rows("left")[turn][0]
        wanted = colours(said, "plumb")
        for place, shown in enumerate(visitor.rows("left")[turn][1]):
            for _ in range((wanted[place] - shown) % 3):  # black, yellow, green, black, ...
                visitor.page.locator("#left .tile.pick").nth(place).click()
        visitor.click("Confirm colours")
        if said == "plumb":
            break
    assert visitor.message() == f"It found PLUMB in {turn + 1}."


def test_watch_it_on_a_phone(visit: Visit) -> None:
    visitor = visit(
        viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True, color_scheme="dark"
    )
    visitor.tab("Watch")
    for _ in range(6):
        visitor.page.get_by_role("button", name="Next guess").tap()
        visitor.ready()
        if visitor.page.get_by_role("button", name="Play again").count():
            break
    answer = re.findall(r"find ([A-Z]+)|found ([A-Z]+)", visitor.message())[0]
    for word, shown in visitor.rows("left"):
        assert shown == colours(word, "".join(answer).lower())
    # Nothing is wider than the phone, and the keyboard's keys can be hit with a thumb.
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 360
    visitor.tab("Race")
    for letter in "house":
        visitor.page.locator(f"[data-key={letter}]").tap()
    visitor.page.locator("[data-key=enter]").tap()
    visitor.ready()
    assert visitor.rows("left")[0][0] == "house"
    box = visitor.page.locator("[data-key=q]").bounding_box()
    assert box is not None and box["width"] >= 28 and box["height"] >= 40
    bottom = visitor.page.locator("[data-key=enter]").bounding_box()
    assert bottom is not None and bottom["y"] + bottom["height"] <= 740
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_two_visitors_at_once_see_their_own_games(visit: Visit) -> None:
    one, other = visit(), visit()
    one.type("house")
    other.type("mount")
    one.type("party")
    assert [word for word, _ in one.rows("left")] == ["house", "party"]
    assert [word for word, _ in other.rows("left")] == ["mount"]
    other.tab("Watch")
    other.click("Next guess")
    one.type("blind")
    assert [word for word, _ in one.rows("left")] == ["house", "party", "blind"]


def test_tiles_turn_and_contrast_is_kept(browser: Browser, url: str) -> None:
    context = browser.new_context()
    visitor = Visitor(context, url)
    visitor.type("house")
    turning = visitor.page.locator("#left .row").first.locator(".tile.turn")
    assert turning.count() == 5
    assert turning.first.evaluate("tile => getComputedStyle(tile).animationName") == "turn"
    colour = "getComputedStyle(document.documentElement).getPropertyValue('--green')"
    before = visitor.page.evaluate(colour)
    visitor.click("Contrast")
    assert visitor.page.evaluate(colour) != before
    visitor.page.reload()
    assert visitor.page.evaluate(colour) != before
    context.close()


def test_the_server_spoke_to_nobody_outside(visit: Visit, connected: set[str]) -> None:
    visit().type("house")
    assert connected <= {"127.0.0.1", "::1", "localhost"}
