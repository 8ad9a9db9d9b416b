"""Visitors' games: apart from each other, bounded in number, and nothing shown too early."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from textrl.envs.wordle.game import colours_of, encode_words, score
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.rooms import NoSuchGame, Rooms
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError


def done(move: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    return asyncio.run(move)


def colours(guess: str, answer: str) -> list[int]:
    return colours_of(score(encode_words([guess])[0], encode_words([answer])[0])).tolist()


def test_a_race_tells_nothing_of_the_model_before_the_end(
    opponent: Opponent, words: WordList
) -> None:
    rooms = Rooms(opponent)
    view = done(rooms.new("race"))
    with pytest.raises(UserError, match="when it is over"):
        done(rooms.analysis(view["game"]))
    guesses = ("house", "mount", "party", "blind", "quick", "fudge")
    for turns, word in enumerate(guesses, start=1):
        assert view["models"] == [] and view["answer"] is None and view["share"] is None
        assert not any(answer in str(view) for answer in words.answers)
        view = done(rooms.guess(view["game"], word))
        assert view["over"] or view["hidden"] <= turns
    assert (
        view["over"] and view["answer"] in words.answers and view["winner"] in ("model", "nobody")
    )
    for row in (*view["yours"], *view["models"]):
        assert list(row["colours"]) == colours(row["word"], view["answer"])
    assert len(view["models"][0]["thoughts"]) == 5
    assert done(rooms.look(view["game"])) == {**view, "milliseconds": 0.0}
    assert view["message"].endswith(".") and view["answer"].upper() in view["message"]


def test_visitors_do_not_touch_each_others_games(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    mine, yours = done(rooms.new("race")), done(rooms.new("race"))
    assert mine["game"] != yours["game"] and len(mine["game"]) >= 20
    done(rooms.guess(mine["game"], "house"))
    assert len(done(rooms.guess(yours["game"], "mount"))["yours"]) == 1
    with pytest.raises(NoSuchGame):
        done(rooms.guess("x" * 22, "house"))


def test_the_game_untouched_for_longest_is_forgotten(opponent: Opponent) -> None:
    rooms = Rooms(opponent, most=2)
    first, second = done(rooms.new("race"))["game"], done(rooms.new("race"))["game"]
    done(rooms.guess(first, "house"))  # now the second is the older one
    done(rooms.new("race"))
    done(rooms.guess(first, "mount"))
    with pytest.raises(NoSuchGame, match="begin a new one"):
        done(rooms.guess(second, "house"))


def test_typed_colours_back_and_the_final_word(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    view = done(rooms.new("stump"))
    said = view["said"]["word"]
    with pytest.raises(UserError, match="asked for when"):
        done(rooms.judge(view["game"], "fjord"))
    stuck = done(rooms.colours(view["game"], [2, 2, 2, 2, 1]))
    assert stuck["stuck"] and not stuck["over"] and stuck["said"] is None
    judged = done(rooms.judge(view["game"], "fjord"))
    assert judged["judged"] and f"guess 1, {said.upper()}" in judged["message"]
    back = done(rooms.back(view["game"]))
    assert back["said"]["word"] == said and not back["stuck"] and back["models"] == []
    won = done(rooms.colours(view["game"], [2] * 5))
    assert won["over"] and won["won"] and said.upper() in won["message"]


def test_one_step_is_one_guess(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    view = done(rooms.new("stump", "fjord"))
    while not view["over"]:
        before = len(view["models"])
        view = done(rooms.step(view["game"]))
        assert len(view["models"]) == before + 1 and view["milliseconds"] > 0
    assert view["models"][-1]["word"] == "fjord"
    with pytest.raises(UserError, match="not the model's turn"):
        done(rooms.step(view["game"]))


def test_moves_of_another_mode_are_refused(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    race, watch = done(rooms.new("race"))["game"], done(rooms.new("watch"))["game"]
    for move in (
        lambda: done(rooms.step(race)),
        lambda: done(rooms.colours(race, [0] * 5)),
        lambda: done(rooms.back(watch)),
        lambda: done(rooms.guess(watch, "house")),
        lambda: done(rooms.judge(watch, "house")),
        lambda: done(rooms.new("chess")),
    ):
        with pytest.raises(UserError):
            move()


def test_a_greedy_visitor_loses_their_own_games_only(opponent: Opponent) -> None:
    rooms = Rooms(opponent, most=8, most_each=3)
    mine = done(rooms.new("race", visitor="me"))["game"]
    theirs = [done(rooms.new("race", visitor="greedy"))["game"] for _ in range(20)]
    assert done(rooms.guess(mine, "house"))["yours"][0]["word"] == "house"
    with pytest.raises(NoSuchGame):
        done(rooms.look(theirs[-4]))
    for game in theirs[-3:]:
        done(rooms.look(game))


def test_moves_of_one_game_at_once_wait_for_each_other(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    words = ("house", "mount", "party", "blind", "quick", "fudge")

    async def all_at_once() -> list[dict[str, Any]]:
        game = (await rooms.new("race"))["game"]
        return await asyncio.gather(*[rooms.guess(game, word) for word in words])

    views = asyncio.run(all_at_once())
    for turns, view in enumerate(views, start=1):
        assert [row["word"] for row in view["yours"]] == list(words[:turns])


def test_the_daily_game_is_a_race_for_one_word(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    views = [done(rooms.new("daily")) for _ in range(2)]
    assert views[0]["day"] == views[1]["day"] > 300 and views[0]["mode"] == "race"
    answers = set()
    for view in views:
        for word in ("house", "mount", "party", "blind", "quick", "fudge"):
            view = done(rooms.guess(view["game"], word))
        answers.add(view["answer"])
        assert view["share"].startswith(f"textrl Wordle #{view['day']}: me X/6, the model ")
    assert len(answers) == 1


def test_a_finished_game_is_analysed_guess_by_guess(opponent: Opponent) -> None:
    rooms = Rooms(opponent)
    view = done(rooms.new("race"))
    for word in ("house", "mount", "party", "blind", "quick", "fudge"):
        view = done(rooms.guess(view["game"], word))
    told = done(rooms.analysis(view["game"]))
    assert [each["word"] for each in told["yours"]] == [row["word"] for row in view["yours"]]
    assert [each["after"] for each in told["models"]] == [row["left"] for row in view["models"]]
    assert told["yours"][0]["before"] == 12
    assert "exact search" in told["method"] and told["summary"][0].startswith("You lost ")
