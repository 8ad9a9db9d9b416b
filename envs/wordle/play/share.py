"""A finished game as text to share: squares, without a letter of it."""

from textrl.envs.wordle.game import GREEN, MAX_GUESSES, YELLOW
from textrl.envs.wordle.play.duel import Duel, Rows, is_won

SQUARES = {GREEN: "\N{LARGE GREEN SQUARE}", YELLOW: "\N{LARGE YELLOW SQUARE}"}
NO_SQUARE = "\N{BLACK LARGE SQUARE}"


def share_text(duel: Duel) -> str:
    """The game for others, who see no letter; the page adds where it can be played."""
    if duel.mode == "race":
        which = "" if duel.day is None else f" #{duel.day}"
        head = f"textrl Wordle{which}: me {count(duel.yours)}, the model {count(duel.models)}"
        return "\n".join([head, *squares(duel.yours), "the model:", *squares(duel.models)])
    is_stumped = duel.mode == "stump" and not is_won(duel.models)
    did = "I stumped the model" if is_stumped else "the model played"
    return "\n".join([f"textrl Wordle: {did} {count(duel.models)}", *squares(duel.models)])


def count(rows: Rows) -> str:
    """How many guesses a finished board took."""
    return f"{len(rows) if is_won(rows) else 'X'}/{MAX_GUESSES}"


def squares(rows: Rows) -> list[str]:
    """Its colours, a line for each guess."""
    return ["".join(SQUARES.get(colour, NO_SQUARE) for colour in row.colours) for row in rows]
