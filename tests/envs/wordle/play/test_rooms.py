"""Visitors' games: apart from each other, bounded in number, and nothing shown too early."""

import pytest

from textrl.envs.wordle.game import colours_of, encode_words, score
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.rooms import NoSuchGame, Rooms
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError


def colours(guess: str, answer: str) -> list[int]:
    return colours_of(score(encode_words([guess])[0], encode_words([answer])[0])).tolist()


def test_a_race_tells_nothing_of_the_model_before_the_end(
    opponent: Opponent, words: WordList
) -> None:
    rooms = Rooms(opponent)
    view = rooms.new("race")
    guesses = ("house", "mount", "party", "blind", "quick", "fudge")
    for turns, word in enumerate(guesses, start=1):
        assert view["models"] == [] and view["answer"] is None and view["share"] is None
        assert not any(answer in str(view) for answer in words.answers)
        view = rooms.guess(view["game"], word)
        assert view["over"] or view["hidden"] <= turns
    assert (
        view["over"] and view["answer"] in words.answers and view["winner"] in ("model", "nobody")
    )
    for row in (*view["yours"], *view["models"]):
        assert list(row["colours"]) == colours(row["word"], view["answer"])
    assert len(view["models"][0]["thoughts"]) == 5
    assert view["message"].endswith(".") and view["answer"].upper() in view["message"]


def test_visitors_do_not_touch_each_others_games(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    mine, yours = rooms.new("race"), rooms.new("race")
    assert mine["game"] != yours["game"] and len(mine["game"]) >= 20
    rooms.guess(mine["game"], "house")
    assert len(rooms.guess(yours["game"], "mount")["yours"]) == 1
    with pytest.raises(NoSuchGame):
        rooms.guess("x" * 22, "house")


def test_the_game_untouched_for_longest_is_forgotten(opponent: Opponent) -> None:
    rooms = Rooms(opponent, most=2)
    first, second = rooms.new("race")["game"], rooms.new("race")["game"]
    rooms.guess(first, "house")  # now the second is the older one
    rooms.new("race")
    rooms.guess(first, "mount")
    with pytest.raises(NoSuchGame, match="begin a new one"):
        rooms.guess(second, "house")


def test_typed_colours_back_and_the_final_word(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    view = rooms.new("stump")
    said = view["said"]["word"]
    with pytest.raises(UserError, match="asked for when"):
        rooms.judge(view["game"], "fjord")
    stuck = rooms.colours(view["game"], [2, 2, 2, 2, 1])
    assert stuck["stuck"] and not stuck["over"] and stuck["said"] is None
    judged = rooms.judge(view["game"], "fjord")
    assert judged["judged"] and f"guess 1, {said.upper()}" in judged["message"]
    back = rooms.back(view["game"])
    assert back["said"]["word"] == said and not back["stuck"] and back["models"] == []
    won = rooms.colours(view["game"], [2] * 5)
    assert won["over"] and won["won"] and said.upper() in won["message"]


def test_one_step_is_one_guess(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    view = rooms.new("stump", "fjord")
    while not view["over"]:
        before = len(view["models"])
        view = rooms.step(view["game"])
        assert len(view["models"]) == before + 1 and view["milliseconds"] > 0
    assert view["models"][-1]["word"] == "fjord"
    with pytest.raises(UserError, match="not the model's turn"):
        rooms.step(view["game"])


def test_moves_of_another_mode_are_refused(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    race, watch = rooms.new("race")["game"], rooms.new("watch")["game"]
    for move in (
        lambda: rooms.step(race),
        lambda: rooms.colours(race, [0] * 5),
        lambda: rooms.back(watch),
        lambda: rooms.guess(watch, "house"),
        lambda: rooms.judge(watch, "house"),
        lambda: rooms.new("chess"),
    ):
        with pytest.raises(UserError):
            move()
