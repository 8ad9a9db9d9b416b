"""Guesses gathered into passes: the same as one by one, nobody's lost, failures told to all."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from textrl.acting.decoding import Decoding
from textrl.envs.wordle.play.desk import Desk
from textrl.envs.wordle.play.duel import Duel, Guess, begin_stump, models_guess, your_colours
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.words import WordList

MakeOpponent = Callable[..., Opponent]


def games_under_way(opponent: Opponent, words: WordList) -> list[Duel]:
    """Games of every length, free ones and such that keep to colours."""
    games = []
    for number, answer in enumerate(words.answers):
        duel = begin_stump(words, answer) if number % 2 else Duel(words, "watch", answer)
        for _ in range(number % 4):
            if duel.is_models_turn:
                duel = models_guess(duel, opponent.guess(duel))
        games += [duel] if duel.is_models_turn else []
    coloured = begin_stump(words, None)
    coloured = your_colours(models_guess(coloured, opponent.guess(coloured)), 0)
    return [*games, *([coloured] if coloured.is_models_turn else [])]


@pytest.mark.parametrize("candidates", [1, 4])
def test_guesses_of_a_pass_are_those_of_one_by_one(
    make_opponent: MakeOpponent, words: WordList, candidates: int
) -> None:
    decoding = Decoding(1.0, sample=False, candidates=candidates)
    games = games_under_way(replace(make_opponent(), decoding=decoding), words)
    assert len({len(game.models) for game in games}) >= 3
    together = replace(make_opponent(), decoding=decoding).guess_all(games)
    for game, guess in zip(games, together, strict=True):
        alone = replace(make_opponent(), decoding=decoding).guess(game)
        assert guess.word == alone.word
        assert [option.word for option in guess.options] == [o.word for o in alone.options]
        for thought, like in zip(guess.thoughts, alone.thoughts, strict=True):
            assert thought.tokens == like.tokens
            np.testing.assert_allclose(thought.chance, like.chance, atol=1e-6)
            np.testing.assert_allclose(thought.q, like.q, atol=1e-6)
            assert thought.v == pytest.approx(like.v, abs=1e-6)


def test_those_who_wait_share_a_pass(opponent: Opponent, words: WordList) -> None:
    passes: list[int] = []

    class Counted(Opponent):
        def guess_all(self, duels: Sequence[Duel]) -> list[Guess]:
            passes.append(len(duels))
            return super().guess_all(duels)

    counted = Counted(opponent.name, opponent.model, opponent.task, opponent.decoding)
    desk = Desk(counted, gather_seconds=0.2, most_at_once=20)
    games = [Duel(words, "watch", words.answers[i % 12]) for i in range(50)]

    async def everyone() -> list[Guess]:
        return await asyncio.gather(*[desk.guess(game) for game in games])

    guesses = asyncio.run(everyone())
    assert sorted(passes) == [10, 20, 20]
    assert [guess.word for guess in guesses] == [opponent.guess(game).word for game in games]


def test_a_failure_is_told_to_all_and_the_desk_goes_on(opponent: Opponent, words: WordList) -> None:
    class Broken(Opponent):
        def guess_all(self, duels: Sequence[Duel]) -> list[Guess]:
            if any(duel.answer == "fjord" for duel in duels):
                raise RuntimeError("out of memory")
            return super().guess_all(duels)

    desk = Desk(Broken(opponent.name, opponent.model, opponent.task, opponent.decoding), 0.1)

    async def all_of(*answers: str) -> list[object]:
        games = [Duel(words, "watch", answer) for answer in answers]
        return await asyncio.gather(*map(desk.guess, games), return_exceptions=True)

    assert [str(each) for each in asyncio.run(all_of("slate", "fjord"))] == ["out of memory"] * 2
    (guess,) = asyncio.run(all_of("slate"))
    assert isinstance(guess, Guess)


def test_who_left_is_not_guessed_for(opponent: Opponent, words: WordList) -> None:
    desk = Desk(opponent, gather_seconds=0.2)

    async def leave_and_stay() -> Guess:
        leaving = asyncio.create_task(desk.guess(Duel(words, "watch", "slate")))
        await asyncio.sleep(0.05)
        leaving.cancel()
        return await desk.guess(Duel(words, "watch", "fjord"))

    assert asyncio.run(leave_and_stay()).word in words.guesses


def test_the_model_is_used_in_one_thread_only(opponent: Opponent, words: WordList) -> None:
    desk = Desk(opponent)
    threads: set[str] = set()

    async def both() -> None:
        await asyncio.gather(
            desk.guess(Duel(words, "watch", "slate")),
            desk.use(lambda _: threads.add(threading.current_thread().name)),
        )

    asyncio.run(both())
    assert len(threads) == 1 and next(iter(threads)).startswith("desk")
