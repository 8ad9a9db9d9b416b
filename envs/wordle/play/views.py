"""The screens of the terminal game: what each moment shows and says."""

from collections.abc import Sequence

from textrl.envs.wordle.game import ALL_GREEN, WORD_LENGTH
from textrl.envs.wordle.play.analysis import Analysis, Judged, how_it_was_judged, summary
from textrl.envs.wordle.play.duel import (
    Duel,
    Rows,
    best_colours,
    fitting,
    is_won,
)
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.phrases import alone_result, stuck
from textrl.envs.wordle.play.record import Record
from textrl.envs.wordle.play.screen import (
    LEFT_COLUMNS,
    TALL,
    Look,
    View,
    board,
    bold,
    hidden_board,
    keyboard,
    spaced,
    statistics,
    thinking,
    tiles,
    wrap,
)

MENU = (
    ("r", "race", "you and the model guess the same word"),
    ("d", "daily", "the same for the word of the day"),
    ("s", "stump", "it guesses a word that you think of"),
    ("w", "watch", "it plays alone"),
    ("l", "list", "the words that it knows"),
    ("t", "tally", "how your games against it went"),
    ("q", "quit", "or Ctrl-C at any time"),
)
MARKS = "[A] green: right place   (A) yellow: elsewhere   A black: not in the word"


def menu(opponent: Opponent, record: Record, look: Look) -> View:
    """What can be played."""
    heads = ", ".join(opponent.heads)
    decoding = opponent.decoding
    about = f"{opponent.name}: {len(opponent.task.words.answers):,} answers, heads {heads}; "
    about += f"{decoding.name}, beta {decoding.beta:g}"
    entries = [f"{key}  {name:6} {what}" for key, name, what in MENU]
    if look.columns < LEFT_COLUMNS + 12:
        entries = [f"{key}  {name}" for key, name, _ in MENU]
    lines = [
        *wrap(about, look.columns - 2),
        "",
        *spaced(entries, look),
        "",
        *wrap(MARKS, look.columns - 2),
    ]
    return View(
        "Wordle against a model", score_of(record), lines, message="Press a letter.", is_wide=True
    )


def race(
    opponent: Opponent, record: Record, look: Look, duel: Duel, entry: str, message: str, page: int
) -> View:
    """Your board, and the model's: hidden until both are done."""
    if duel.is_over:
        models = [f"{'the model':26}words left", "", *board(duel.models, look)]
        pages = [models, *thought_pages(duel, look)]
        keys = "Enter again   Tab its thoughts   a analysis   s share   Esc menu"
        if not look.has_two_columns:
            keys = "Enter  Tab  a analysis  s share"
    else:
        models = ["the model", "", *hidden_board(len(duel.models), look)]
        pages = [models]
        keys = "Enter guess   Tab model   Esc menu"
    left = board_and_keys("you", duel.yours, look, entry)
    title = "Wordle: race" if duel.day is None else f"Wordle: day {duel.day}"
    return paged(title, score_of(record), left, pages, page, message, keys, look)


def ask_word(opponent: Opponent, record: Record, look: Look, entry: str, message: str) -> View:
    """Before the model starts to guess."""
    explained = (
        "Think of a word. Type it and press Enter, and its guesses are coloured for you (the model"
        " does not see it). Or keep it to yourself and press Enter alone: then you colour its"
        " guesses. Either way it keeps to words that fit the colours."
    )
    left = [*wrap(explained, look.columns - 2), "", tiles(entry, (), look)]
    keys = "Enter begin   Esc menu"
    return View("Wordle: stump the model", score_of(record), left, (), message, keys, is_wide=True)


def alone(opponent: Opponent, record: Record, look: Look, duel: Duel, page: int) -> View:
    """The model at work on a word that we know."""
    left = board_and_keys("the model", duel.models, look)
    title = "Wordle: watch" if duel.mode == "watch" else "Wordle: stump the model"
    keys = "Enter next guess   Tab thoughts   Esc menu"
    message = f"The word is {str(duel.answer).upper()}."
    if duel.is_over:
        message = alone_result(duel)
        keys = "Enter again   Tab thoughts   a analysis   s share   Esc menu"
        if not look.has_two_columns:
            keys = "Enter  Tab  a analysis  s share"
    pages = thought_pages(duel, look)[::-1] or [["Its thoughts will stand here."]]
    return paged(title, score_of(record), left, pages, page, message, keys, look)


def by_colours(
    opponent: Opponent,
    record: Record,
    look: Look,
    duel: Duel,
    colours: Sequence[int],
    entry: str,
    message: str,
    page: int,
) -> View:
    """The model at work on a word that only the person knows."""
    said = duel.said.word if duel.said else ""
    left = board_and_keys("the model", duel.models, look, said, colours)
    keys = "g y b colours   Enter confirm   Backspace undo   Tab thoughts   Esc menu"
    if not look.has_two_columns:
        keys = "g y b  Enter  Backspace  Tab"
    if duel.said is not None:
        given = " ".join(f"{''.join('byg'[colour] for colour in colours):_<{WORD_LENGTH}}")
        prompt = f"It says {said.upper()}: {given}   (g green, y yellow, b black; then Enter)"
    elif is_won(duel.models):
        prompt = alone_result(duel)
        keys = "Enter again   Backspace take back   Esc menu"
    else:
        prompt = stuck(duel) if duel.is_stuck else alone_result(duel)
        prompt += f" What was your word? {entry.upper():_<{WORD_LENGTH}}"
        keys = "Enter check   Backspace take back the last colours   Esc menu"
        if duel.is_over:
            keys = "Enter check, or again   Backspace take back   Esc menu"
    pages = thought_pages(duel, look)[::-1]
    return paged(
        "Wordle: stump the model",
        score_of(record),
        left,
        pages,
        page,
        message or prompt,
        keys,
        look,
    )


def analysis(opponent: Opponent, record: Record, look: Look, told: Analysis, page: int) -> View:
    """A finished game, guess by guess, in as many pages as it takes."""
    inner = look.columns - 2
    lines: list[str] = []
    for who, judged in (("You", told.yours), ("It", told.models)):
        if judged:
            lines += [bold(line) for line in wrap(summary(told, who, judged), inner)]
        for each in judged:
            lines += [judged_line(each), *(f"  {x}" for x in wrap(each.sentence, inner - 2))]
        lines += [""] if judged else []
    lines += wrap(how_it_was_judged(told.method), inner)
    height = look.rows - 6
    pages = [lines[start : start + height] for start in range(0, len(lines), height)]
    shown = pages[page % len(pages)]
    title = f"Analysis, page {page % len(pages) + 1} of {len(pages)}"
    return View(title, "", shown, (), "", "Tab next page   Esc back", is_wide=True)


def judged_line(each: Judged) -> str:
    """What is known of a guess in figures."""
    after = "found" if each.is_right else f"{each.after:,}"
    told = [f"words left {each.before:,} -> {after} (expected {each.expected:.1f})"]
    if each.lost is not None:
        best = f" to {str(each.best).upper()}" if each.lost > 0.005 else ""
        told.append(f"lost {each.lost + 0.0:.2f}{best}")
    if each.luck is not None:
        told.append(f"luck {100 * each.luck:.0f}")
    return f"{bold(each.word.upper())} {', '.join(told)}"


def shared(opponent: Opponent, record: Record, look: Look, text: str) -> View:
    """A finished game for others."""
    message = "Select it to copy it; many terminals have it on the clipboard already."
    return View("Share", "", text.splitlines(), (), message, "Esc back", is_wide=True)


def words(opponent: Opponent, record: Record, look: Look, page: int) -> View:
    """The words that the model knows, page by page."""
    known = opponent.task.words.guesses
    across = max(1, (look.columns - 2) // (WORD_LENGTH + 1))
    rows = max(1, look.rows - 7)
    pages = -(-len(known) // (across * rows))
    page %= pages
    shown = known[page * across * rows : (page + 1) * across * rows]
    lines = [" ".join(shown[i : i + across]) for i in range(0, len(shown), across)]
    count = f"{len(known):,} words, page {page + 1} of {pages}"
    return View(
        f"Its words: {count}", "", lines, (), "", "Enter next page   Esc menu", is_wide=True
    )


def tally(opponent: Opponent, record: Record, look: Look, page: int) -> View:
    """How the games went."""
    left, right = statistics(record, look)
    keys = "Esc menu" if look.has_two_columns else "Tab its guesses   Esc menu"
    return paged(f"Games against {opponent.name}", "", left, [right], page, "", keys, look)


def paged(
    title: str,
    shown_score: str,
    left: list[str],
    pages: Sequence[Sequence[str]],
    page: int,
    message: str,
    keys: str,
    look: Look,
) -> View:
    """A view whose right side turns pages; in a narrow window the left side is the first page."""
    if look.has_two_columns:
        return View(title, shown_score, left, pages[page % len(pages)], message, keys)
    page %= len(pages) + 1
    return View(
        title, shown_score, left if page == 0 else pages[page - 1], (), message, keys, is_wide=True
    )


def board_and_keys(
    who: str, rows: Rows, look: Look, entry: str = "", colours: Sequence[int] = ()
) -> list[str]:
    """The left column of a game; a low window has no room for its heading."""
    heading = [f"{who:26}words left", ""] if look.rows >= TALL else []
    return [*heading, *board(rows, look, entry, colours), "", *keyboard(best_colours(rows), look)]


def thought_pages(duel: Duel, look: Look) -> list[list[str]]:
    """What the model thought at each of its guesses, in order."""
    before = len(fitting(duel, ()))
    pages = []
    for number, row in enumerate(duel.models, start=1):
        after = "found" if row.pattern == ALL_GREEN else f"{row.left:,}"
        pages.append(thinking(number, row.guess, before, after, look))
        before = row.left
    if duel.said is not None:
        pages.append(thinking(len(pages) + 1, duel.said, before, None, look))
    return pages


def score_of(record: Record) -> str:
    """The races so far."""
    return f"races: you {record.won}, model {record.lost}, drawn {record.drawn}"
