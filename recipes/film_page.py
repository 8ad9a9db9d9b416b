"""Film a race on Wordle's page: serve it -> play in a browser -> GIF."""

import io
import shutil
import socket
from pathlib import Path
from typing import Any

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

EXAMPLE = "python recipes/film_page.py runs/wordle --output docs/images/play.gif"
SIZE: Any = {"width": 1080, "height": 640}
COLOURS = 64  # of the GIF's palette; the page has few
TYPED, TURN, READ, END = 350, 1100, 2600, 5000  # milliseconds that a picture stays


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser("Film a race against an agent on Wordle's page, in Chromium.", EXAMPLE)
    parser.add_argument("checkpoint", help="folder or Hub id of the agent")
    parser.add_argument("--output", default="play.gif", metavar="FILE", help="the film, a GIF")
    parser.add_argument("--first", default="stare", metavar="WORD", help="your first guess")
    parser.add_argument("--dark", action="store_true", help="the page in its dark colours")
    options = parser.parse_args()
    if Path(options.output).suffix != ".gif":
        raise UserError(f"--output must end in .gif, not {options.output!r}")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise UserError("there is no chromium to film in: install it (apt-get install chromium)")

    import torch
    import transformers

    from textrl.envs.wordle.play.opponent import load_opponent
    from textrl.envs.wordle.play.web import make_app

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    opponent = load_opponent(options.checkpoint)
    app = make_app(opponent)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launching: Any = {"quiet": True, "prevent_thread_lock": True, "share": False, "ssr_mode": False}
    _, url, _ = app.launch(server_name="127.0.0.1", server_port=port, **launching)
    try:
        film = record(browser, url, options.first, opponent.task.words, options.dark)
    finally:
        app.get_blocks().close(verbose=False)
    save(Path(options.output), film)
    kilobytes = Path(options.output).stat().st_size // 1024
    print(f"{len(film)} pictures -> {options.output} ({kilobytes} kB)")


def record(
    browser: str, url: str, first: str, words: Any, is_dark: bool
) -> list[tuple[bytes, int]]:
    """Play a race, always with the first word that fits, and look at its analysis: PNGs, times."""
    from playwright.sync_api import sync_playwright

    film: list[tuple[bytes, int]] = []
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
        )
        context = chromium.new_context(
            viewport=SIZE,
            color_scheme="dark" if is_dark else "light",
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.goto(f"{url}#race")
        is_ready = "#play[aria-busy=false]"
        page.wait_for_selector(is_ready)

        def shoot(milliseconds: int) -> None:
            film.append((page.screenshot(), milliseconds))

        shoot(TURN)
        word = first
        while True:
            for part in (word[:2], word[2:]):  # enough to see that somebody types
                page.keyboard.type(part)
                shoot(TYPED)
            page.keyboard.press("Enter")
            page.wait_for_selector(is_ready)
            again = page.get_by_role("button", name="Play again")
            if again.count():
                break
            shoot(TURN)
            word = next_word(page, words)
        shoot(READ)
        page.locator("#guesses button").first.click()
        shoot(READ)
        page.get_by_role("button", name="Analysis").click()
        page.wait_for_selector("dialog[open] table")
        shoot(END)
        chromium.close()
    return film


def next_word(page: Any, words: Any) -> str:
    """The list's first answer that fits the colours on the page's left board."""
    import numpy as np

    from textrl.envs.wordle.game import encode_words, pattern_of, score

    read = """tiles => tiles.map(tile => [tile.textContent, Number(tile.dataset.colour)])"""
    tiles = page.locator("#left .tile[data-colour]").evaluate_all(read)
    letters = words.guess_letters[: len(words.answers)]
    fits = np.ones(len(letters), dtype=bool)
    for start in range(0, len(tiles), 5):
        guess = "".join(letter for letter, _ in tiles[start : start + 5])
        colours = np.array([colour for _, colour in tiles[start : start + 5]], dtype=np.uint8)
        fits &= score(encode_words([guess])[0], letters) == pattern_of(colours)
    return str(words.answers[int(np.flatnonzero(fits)[0])])


def save(path: Path, film: list[tuple[bytes, int]]) -> None:
    """The pictures as a GIF that begins again and again."""
    from PIL import Image

    pictures = [Image.open(io.BytesIO(png)).convert("RGB") for png, _ in film]
    # One palette, from the last pictures, which have every colour: single ones would flicker.
    palette = pictures[-2].quantize(COLOURS)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    durations = [milliseconds for _, milliseconds in film]
    path.parent.mkdir(parents=True, exist_ok=True)
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0)


if __name__ == "__main__":
    run_recipe(main)
