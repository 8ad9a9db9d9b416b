"""The page in a real browser: whole games by keyboard, clicks and taps, and no request outside."""

import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from textrl.envs.wordle.game import colours_of, encode_words, score
from textrl.envs.wordle.play.daily import number_of_day, word_of_day
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.web import make_app
from textrl.envs.wordle.words import WordList

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
PATIENCE = 90_000  # milliseconds; a busy machine may need half of that to show a page
expect.set_options(timeout=PATIENCE)


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

    def __init__(self, context: BrowserContext, url: str, mode: str = "race") -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.hosts: set[str | None] = set()
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.hosts.add(urlparse(request.url).hostname))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"{url}#{mode}")
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

    def violations(self) -> list[str]:
        """What axe-core finds, of any impact."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']} ({each['impact']}): {node['html'][:120]}"
            for each in found
            for node in each["nodes"]
        ]

    def message(self) -> str:
        return self.page.locator("#message").inner_text()


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Visit]:
    contexts: list[BrowserContext] = []
    visitors: list[Visitor] = []

    def come(mode: str = "race", **options: object) -> Visitor:
        contexts.append(browser.new_context(reduced_motion="reduce", **options))
        visitors.append(Visitor(contexts[-1], url, mode))
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
    assert visitor.page.locator("#sentence").inner_text().startswith("It plays ")
    # No value promises more than that the guess at hand is the last.
    values = visitor.page.locator("#thoughts .q span, #thoughts .v span").all_inner_texts()
    assert min(float(value) for value in values) >= 1.0
    visitor.click("Share")
    shared = visitor.page.locator("#share-text").input_value()
    assert shared.splitlines()[0].startswith("textrl Wordle: me X/6, the model ")
    assert len(shared.splitlines()) == 9 + len(models)
    assert shared.splitlines()[-1].startswith("http://127.0.0.1:")  # where it can be played
    visitor.click("Close")
    visitor.click("Tally")
    lost = "lost 1" if len(models) < 6 or models[-1][1] == [2] * 5 else "drawn 1"
    expect(visitor.page.locator("#dialog-body")).to_contain_text(lost)
    visitor.click("Close")
    visitor.click("Analysis")
    told = visitor.page.locator("#dialog-body").inner_text()
    assert "You lost " in told and "It lost " in told and "exact search" in told
    assert visitor.page.locator(".analysis tr:not(.sentence)").count() == 2 + 6 + len(models)


def test_stump_it_with_a_word_by_clicks(visit: Visit) -> None:
    visitor = visit()
    visitor.tab("Stump it")
    visitor.type("house")
    assert "HOUSE is not one of the 14 words" in visitor.message()
    assert "how about " in visitor.message()
    for _ in range(5):
        visitor.page.locator("[data-key=backspace]").click()
    for letter in "fjord":
        visitor.page.locator(f"[data-key={letter}]").click()
    visitor.click("Guess my word")
    assert not visitor.page.locator("#keyboard").is_visible()  # there is nothing to type
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


def test_a_reload_and_another_tab_keep_the_game(visit: Visit) -> None:
    visitor = visit()
    visitor.type("house")
    visitor.type("mount")
    visitor.page.reload()
    visitor.ready()
    assert [word for word, _ in visitor.rows("left")] == ["house", "mount"]
    visitor.tab("Watch")
    visitor.click("Next guess")
    visitor.tab("Race")
    assert [word for word, _ in visitor.rows("left")] == ["house", "mount"]
    visitor.tab("Watch")
    assert len(visitor.rows("left")) == 1


def test_the_word_of_the_day_is_played_once(visit: Visit, words: WordList) -> None:
    visitor = visit(mode="daily")
    number = number_of_day()
    expect(visitor.page.locator("#left-name")).to_have_text(f"you, day {number}")
    visitor.type(word_of_day(words, number))
    assert "The next word comes in" in visitor.message()
    assert visitor.page.get_by_role("button", name="Play again").count() == 0
    visitor.click("Share")
    shared = visitor.page.locator("#share-text").input_value().splitlines()
    assert shared[0].startswith(f"textrl Wordle #{number}: me 1/6")
    assert shared[-1].endswith("/#daily")
    visitor.click("Close")
    visitor.page.reload()
    visitor.ready()
    assert visitor.rows("left") == [(word_of_day(words, number), [2] * 5)]


def test_watch_plays_by_itself_until_it_is_paused(visit: Visit) -> None:
    visitor = visit(mode="watch")
    # Within the browser, so that it is paused after the first guess however slow the machine is.
    visitor.page.evaluate(
        """async () => {
            const press = name => [...document.querySelectorAll("#actions button")]
                .find(button => button.textContent === name).click();
            press("Play by itself");
            while (!document.querySelector("#left .row[role=img]"))
                await new Promise(wake => setTimeout(wake, 20));
            press("Pause");
        }"""
    )
    visitor.ready()
    paused = len(visitor.rows("left"))
    visitor.page.wait_for_timeout(2000)
    assert len(visitor.rows("left")) == paused
    visitor.click("Play by itself")
    expect(visitor.page.get_by_role("button", name="Play again")).to_be_visible()


def test_by_keyboard_alone(visit: Visit) -> None:
    """Arrow keys between the tabs, and the focus stays on what was pressed."""
    visitor = visit(mode="daily")
    press = visitor.page.keyboard.press
    visitor.page.locator("#tab-daily").focus()
    for key, chosen in (
        ("ArrowRight", "race"),
        ("End", "watch"),
        ("ArrowRight", "daily"),
        ("ArrowLeft", "watch"),
    ):
        press(key)
        visitor.ready()
        expect(visitor.page.locator("[role=tab][aria-selected=true]")).to_have_id(f"tab-{chosen}")
        expect(visitor.page.locator(f"#tab-{chosen}")).to_be_focused()
    visitor.page.get_by_role("button", name="Next guess").focus()
    press("Enter")
    visitor.ready()
    expect(visitor.page.locator("#actions :focus")).to_have_count(1)
    visitor.tab("Race")
    for letter in "house":
        visitor.page.locator(f"[data-key={letter}]").focus()
        press("Enter")
        expect(visitor.page.locator(f"[data-key={letter}]")).to_be_focused()
    visitor.page.locator("[data-key=enter]").focus()
    press("Enter")
    visitor.ready()
    assert [word for word, _ in visitor.rows("left")] == ["house"]


def test_a_click_leaves_enter_to_the_word(visit: Visit) -> None:
    visitor = visit(mode="watch")
    visitor.tab("Race")
    visitor.page.keyboard.type("hous")
    visitor.page.locator("[data-key=e]").click()
    visitor.page.keyboard.press("Enter")
    visitor.ready()
    assert [word for word, _ in visitor.rows("left")] == ["house"]


def test_boards_are_read_out(visit: Visit) -> None:
    visitor = visit()
    visitor.type("house")
    label = visitor.page.locator("#left .row").first.get_attribute("aria-label")
    assert label is not None and re.match(
        r"Guess 1, HOUSE: H (absent|elsewhere|correct), O .*; \d+ words? left$", label
    )
    assert visitor.page.locator("#announce").text_content() == label.removeprefix("Guess 1, ")
    assert (
        visitor.page.locator("#right .row").first.get_attribute("aria-label") == "Guess 1, hidden"
    )


def test_words_and_help_open_at_their_beginning(visit: Visit) -> None:
    visitor = visit(viewport={"width": 320, "height": 568})
    for name in ("Words", "How to play"):
        visitor.click(name)
        expect(visitor.page.locator("#dialog")).to_be_visible()
        expect(visitor.page.locator("#dialog-title")).to_be_focused()
        assert visitor.page.locator("#dialog").evaluate("dialog => dialog.scrollTop") == 0
        visitor.click("Close")


def test_a_small_phone_shows_board_and_keyboard_without_scrolling(visit: Visit) -> None:
    visitor = visit(viewport={"width": 320, "height": 568}, has_touch=True)
    visitor.type("house")
    box = visitor.page.locator("[data-key=enter]").bounding_box()
    assert box is not None and box["y"] + box["height"] <= 568
    board = visitor.page.locator("#left .row").first.bounding_box()
    assert board is not None and board["y"] >= 0
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 320


def test_boards_are_equal_and_under_the_tabs(visit: Visit) -> None:
    visitor = visit(viewport={"width": 1280, "height": 800})
    boxes = [visitor.page.locator(each).bounding_box() for each in ("#left", "#right", "#tabs")]
    left, right, tabs = (box for box in boxes if box is not None)
    assert left["y"] == right["y"] and left["width"] == right["width"]
    middle = (left["x"] + right["x"] + right["width"]) / 2
    assert middle == pytest.approx(tabs["x"] + tabs["width"] / 2, abs=1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("has_contrast", [False, True])
def test_axe_finds_nothing(visit: Visit, scheme: str, has_contrast: bool) -> None:
    """Roles, names, contrast of 4.5:1: on every screen, in every look."""
    visitor = visit(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    if has_contrast:
        visitor.click("Contrast")
    found = {"start": visitor.violations()}
    visitor.type("house")
    visitor.page.keyboard.type("mo")
    found["race"] = visitor.violations()
    for word in ("unt", "party", "blind", "quick", "fudge"):
        visitor.type(word)
    found["over"] = visitor.violations()
    for name in ("Analysis", "How to play", "Words", "Tally", "Share"):
        visitor.click(name)
        expect(visitor.page.locator("#dialog")).to_be_visible()
        found[name] = visitor.violations()
        visitor.click("Close")
    visitor.tab("Watch")
    visitor.click("Next guess")
    found["watch"] = visitor.violations()
    visitor.tab("Stump it")
    found["stump"] = visitor.violations()
    visitor.click("I colour its guesses")
    visitor.page.keyboard.type("byg")
    found["colours"] = visitor.violations()
    assert {screen: problems for screen, problems in found.items() if problems} == {}


def test_the_server_spoke_to_nobody_outside(visit: Visit, connected: set[str]) -> None:
    visit().type("house")
    assert connected <= {"127.0.0.1", "::1", "localhost"}
