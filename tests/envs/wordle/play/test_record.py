"""The record of a person's games: counted right, written whole, damage told."""

import multiprocessing
from pathlib import Path

import pytest

from textrl.envs.wordle.play.duel import Duel, Guess, Row
from textrl.envs.wordle.play.record import Record, add_game, load_record, record_file
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError

RIGHT, WRONG = Row(Guess("slate"), 242, 1), Row(Guess("crane"), 0, 5)


def race(words: WordList, yours: int, models: int) -> Duel:
    """A finished race; 7 guesses are a loss."""

    def rows(guesses: int) -> tuple[Row, ...]:
        return (WRONG,) * 6 if guesses == 7 else (WRONG,) * (guesses - 1) + (RIGHT,)

    return Duel(words, "race", "slate", rows(yours), rows(models))


def test_games_are_counted(words: WordList, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "games.json"
    for yours, models in ((3, 4), (7, 7), (2, 1), (3, 7)):
        add_game(path, "this", race(words, yours, models))
    add_game(path, "this", Duel(words, "stump", "slate", (), (WRONG,) * 6))
    add_game(path, "this", Duel(words, "watch", "slate", (), (RIGHT,)))
    add_game(path, "that", race(words, 1, 2))
    assert load_record(path, "this") == Record(
        won=2,
        drawn=1,
        lost=1,
        yours=(0, 1, 2, 0, 0, 0, 1),
        models=(1, 0, 0, 1, 0, 0, 2),
        stump=(0, 0, 0, 0, 0, 0, 1),
    )
    assert load_record(path, "that").won == 1
    assert load_record(path, "nobody") == Record()
    assert not list(path.parent.glob("*.partial"))


def play_five(words: WordList, path: Path) -> None:
    for _ in range(5):
        add_game(path, "this", race(words, 3, 4))


def test_two_windows_lose_no_game(words: WordList, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    windows = [
        context.Process(target=play_five, args=(words, tmp_path / "games.json")) for _ in range(4)
    ]
    for window in windows:
        window.start()
    for window in windows:
        window.join()
    assert load_record(tmp_path / "games.json", "this").won == 20


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"this": 3}',
        '{"this": {"won": -1}}',
        '{"this": {"won": "many"}}',
        '{"this": {"wins": 1}}',
        '{"this": {"yours": [1, 2]}}',
    ],
)
def test_a_damaged_file_is_told_and_left_alone(
    words: WordList, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "games.json"
    path.write_text(content)
    with pytest.raises(UserError, match="damaged: move it away"):
        load_record(path, "this")
    with pytest.raises(UserError, match="damaged"):
        add_game(path, "this", race(words, 3, 4))
    assert path.read_text() == content


def test_it_is_kept_where_the_desktop_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data/home")
    assert record_file() == Path("/data/home/textrl/wordle-games.json")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert record_file() == Path("/home/someone/.local/share/textrl/wordle-games.json")
