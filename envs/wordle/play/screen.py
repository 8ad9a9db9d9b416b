"""What the terminal shows: pure functions from a game to lines of text with ANSI colours.

Green is [A], yellow (A), black plain, so that nothing depends on colours alone. Tiles set text and
background together and the rest keeps the terminal's own colours: dark and light both work.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textrl.acting.policy import Thought
from textrl.envs.wordle.game import BLACK, GREEN, MAX_GUESSES, WORD_LENGTH, YELLOW
from textrl.envs.wordle.play.duel import Guess, Rows
from textrl.envs.wordle.play.explain import about_its_guess, guesses_to_go
from textrl.envs.wordle.play.opponent import letter_of
from textrl.envs.wordle.play.record import Counts, Record

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
MARKS = {GREEN: ("[", "]"), YELLOW: ("(", ")"), BLACK: (" ", " ")}
SIXTEEN_COLOURS = {GREEN: "30;42", YELLOW: "30;43", BLACK: "97;100"}
MANY_COLOURS = {
    GREEN: "1;38;5;231;48;5;28",
    YELLOW: "1;38;5;16;48;5;178",
    BLACK: "1;38;5;231;48;5;240",
}
LEAST_COLUMNS, LEAST_ROWS = 32, 16
LEFT_COLUMNS = 37  # the board, how many words are left, and the keyboard
TWO_COLUMNS = 76  # from here on the panel has room beside the board
TALL = 24  # from here on there is an empty line between the board's rows

_ESCAPES = re.compile(r"\033\[[0-9;]*m")


@dataclass(frozen=True)
class Look:
    """What the terminal can show."""

    columns: int
    rows: int
    colours: Mapping[int, str]
    """Tile colours as ANSI codes; empty: none."""
    is_unicode: bool = True

    @property
    def has_two_columns(self) -> bool:
        """The panel stands beside the board, not in its place."""
        return self.columns >= TWO_COLUMNS


def look_of(columns: int, rows: int, encoding: str, environment: Mapping[str, str]) -> Look:
    """What this terminal can show, by its size and its environment variables."""
    colours: Mapping[int, str] = SIXTEEN_COLOURS
    if environment.get("NO_COLOR"):
        colours = {}
    elif "256color" in environment.get("TERM", "") or environment.get("COLORTERM"):
        colours = MANY_COLOURS
    return Look(columns, rows, colours, encoding.lower().replace("-", "") == "utf8")


def look_here() -> Look:
    """What the terminal of this process can show now."""
    size = os.get_terminal_size()
    encoding = os.device_encoding(1) or "ascii"
    return look_of(size.columns, size.lines, encoding, os.environ)


@dataclass(frozen=True)
class View:
    """Everything on one screen."""

    title: str
    score: str
    left: Sequence[str]
    """Lines of the left column, at most LEFT_COLUMNS wide unless the view is one wide column."""
    right: Sequence[str] = ()
    message: str = ""
    keys: str = ""
    is_wide: bool = False
    """One column only."""


def compose(view: View, look: Look) -> list[str]:
    """The screen's lines, none longer than the screen is wide, no more than it has."""
    if look.columns < LEAST_COLUMNS or look.rows < LEAST_ROWS:
        too_small = f"This window is {look.columns} x {look.rows}; "
        too_small += f"the game needs {LEAST_COLUMNS} x {LEAST_ROWS}."
        return wrap(too_small, look.columns)[: look.rows]
    inner = look.columns - 2
    gap = inner - width(view.title) - width(view.score)
    title = bold(clip(view.title, inner)) + (" " * gap + view.score if gap >= 2 else "")
    message = wrap(view.message, inner)[: 3 if look.rows >= TALL else 2]
    keys = wrap(view.keys, inner)[:1]
    room = look.rows - 3 - len(message) - len(keys)
    body = list(view.left)
    if not view.is_wide:
        body = side_by_side(view.left, view.right, LEFT_COLUMNS)
    body = [clip(line, inner) for line in body[:room]]
    body += [""] * (room - len(body))
    lines = [title, "", *body, *(bold(line) for line in message), "", *keys]
    return [f" {line}" for line in lines[: look.rows]]


def tile(letter: str, colour: int | None, look: Look) -> str:
    """One letter, five columns wide; colour None: not coloured (yet)."""
    if colour is None:
        return f"  {letter.upper() or '_'}  "
    opening, closing = MARKS[colour]
    text = f"{opening} {letter.upper()} {closing}"
    return f"\033[{look.colours[colour]}m{text}\033[0m" if look.colours else text


def tiles(word: str, colours: Sequence[int | None], look: Look) -> str:
    """Five tiles, the first len(word) with letters."""
    padded = [*word, *[""] * (WORD_LENGTH - len(word))]
    given = [*colours, *[None] * (WORD_LENGTH - len(colours))]
    return " ".join(tile(x, colour, look) for x, colour in zip(padded, given, strict=True))


def board(rows: Rows, look: Look, entry: str = "", entry_colours: Sequence[int] = ()) -> list[str]:
    """Six rows of tiles: those played, the one under way, empty ones; with the words left."""
    lines = [tiles(row.word, row.colours, look) for row in rows]
    if look.columns > LEFT_COLUMNS:
        lines = [f"{line}  {row.left:>5,}" for line, row in zip(lines, rows, strict=True)]
    if len(lines) < MAX_GUESSES:
        lines.append(tiles(entry, entry_colours, look))
    lines += [tiles("", (), look)] * (MAX_GUESSES - len(lines))
    return spaced(lines, look)


def hidden_board(guesses: int, look: Look) -> list[str]:
    """A board of which only the number of guesses may be seen."""
    lines = [" ".join(["  ?  "] * WORD_LENGTH)] * guesses
    lines += [tiles("", (), look)] * (MAX_GUESSES - guesses)
    return spaced(lines, look)


def spaced(lines: Sequence[str], look: Look) -> list[str]:
    """With empty lines between where the window is tall."""
    if look.rows < TALL:
        return list(lines)
    return [part for line in lines for part in (line, "")][:-1]


def keyboard(best: Mapping[str, int], look: Look) -> list[str]:
    """What is known of each letter; a letter that is not in the word becomes a dot."""
    lines = []
    for indent, letters in enumerate(KEYBOARD):
        keys = []
        for letter in letters:
            colour = best.get(letter)
            opening, closing = MARKS[BLACK if colour is None else colour]
            text = f"{opening}{'.' if colour == BLACK else letter}{closing}"
            if colour is not None and look.colours:
                text = f"\033[{look.colours[colour]}m{text}\033[0m"
            keys.append(text)
        lines.append(" " * indent + "".join(keys))
    return lines


def thinking(number: int, guess: Guess, before: int, after: str | None, look: Look) -> list[str]:
    """What the model thought at its guess of this number (from 1): in a sentence, then by letters.

    before, after: how many words fitted; after is None while the guess has no colours. Values are
    shown as guesses to go, the right one included.
    """
    word = bold(guess.word.upper())
    left = f"{before:,}" + ("" if after is None else f" -> {after}")
    room = look.columns - 3 - (LEFT_COLUMNS if look.has_two_columns else 0)
    sentence = wrap(about_its_guess(guess), room)
    lines = [f"guess {number}: {word}   words left {left}", *sentence, ""]
    if not guess.thoughts:
        return lines
    height = look.rows - 8 - len(sentence)
    first = guess.thoughts[0]
    heads = "policy" if first.policy is not None else "chance"
    heads = f"       {heads:14}" + ("      Q" if first.q is not None else "")
    lines.append(heads + ("       V" if first.v is not None else ""))
    for place, thought in enumerate(guess.thoughts, start=1):
        lines += thought_lines(place, thought, height, look)
    return lines


def thought_lines(place: int, thought: Thought, height: int, look: Look) -> list[str]:
    """The letters that came to mind at one place, as many as there is room for in all."""
    shares = thought.policy if thought.policy is not None else thought.chance
    count = min(len(thought.tokens), max(1, height // WORD_LENGTH))
    chosen = thought.tokens.index(thought.chosen)
    shown = sorted({*range(count - 1), chosen if chosen >= count else count - 1})
    lines = []
    for i in shown:
        letter = letter_of(thought.tokens[i])
        name = bold(f"> {letter.upper()}") if i == chosen else f"  {letter}"
        head = place if i == shown[0] else " "
        line = f"{head} {name}  {bar(shares[i], 8, look)} {shares[i]:4.0%}"
        if thought.q is not None:
            line += f"   {guesses_to_go(thought.q[i]):6.2f}"
        if thought.v is not None and i == shown[0]:
            line += f"  {guesses_to_go(thought.v):6.2f}"
        lines.append(line)
    return lines


def bar(share: float, cells: int, look: Look) -> str:
    """A share of 1 as a bar, this many cells long when full."""
    full = round(share * cells)
    return ("\N{FULL BLOCK}" if look.is_unicode else "#") * full + " " * (cells - full)


def histogram(counts: Counts, look: Look) -> list[str]:
    """How many games took how many guesses."""
    most = max(1, *counts)
    names = [str(n) for n in range(1, MAX_GUESSES + 1)] + ["lost"]
    return [
        f"{name:>4} {bar(count / most, 16, look)} {count}"
        for name, count in zip(names, counts, strict=True)
    ]


def statistics(record: Record, look: Look) -> tuple[list[str], list[str]]:
    """Both columns of the statistics: races, and games in which the model guessed."""
    races = sum(record.yours)
    left = [f"races: {races}", f"won {record.won}, drawn {record.drawn}, lost {record.lost}", ""]
    left += ["your guesses", *histogram(record.yours, look)]
    stumps = sum(record.stump)
    right = [f"stump the model: {stumps}", f"stumped {record.stump[-1]}", ""]
    right += ["its guesses in races", *histogram(record.models, look), ""]
    right += ["its guesses at your words", *histogram(record.stump, look)]
    return left, right


def bold(text: str) -> str:
    """Emphasis that works in any colour scheme."""
    return f"\033[1m{text}\033[0m" if text else ""


def width(text: str) -> int:
    """How many columns a line takes."""
    return len(_ESCAPES.sub("", text))


def clip(line: str, columns: int) -> str:
    """The line, cut to this many columns; escapes stay whole."""
    if width(line) <= columns:
        return line
    kept, used = [], 0
    for part in re.split(r"(\033\[[0-9;]*m)", line):
        if _ESCAPES.fullmatch(part):
            kept.append(part)
        else:
            kept.append(part[: columns - used])
            used += len(kept[-1])
    return "".join(kept)


def wrap(text: str, columns: int) -> list[str]:
    """Plain text in lines of at most this many columns."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= columns:
            lines[-1] += " " + word
        else:
            lines.append(word[:columns])
    return lines if text else []


def side_by_side(left: Sequence[str], right: Sequence[str], columns: int) -> list[str]:
    """Two columns, the first this wide."""
    count = max(len(left), len(right))
    padded = [*left, *[""] * (count - len(left))]
    others = [*right, *[""] * (count - len(right))]
    return [
        line + " " * (columns - width(line)) + " " + other
        for line, other in zip(padded, others, strict=True)
    ]
