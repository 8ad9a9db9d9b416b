"""A model as an opponent: it plays what rollouts play, keeps to the colours, and tells its mind."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.acting.rollout import play
from textrl.envs.wordle.play import duel as moves
from textrl.envs.wordle.play.duel import Duel, Row
from textrl.envs.wordle.play.opponent import Opponent, letter_of, load_opponent
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError

MakeOpponent = Callable[..., Opponent]


def test_it_plays_the_same_games_as_an_evaluation(opponent: Opponent, words: WordList) -> None:
    task = opponent.task
    policy = Policy(opponent.model, task.language, opponent.decoding, seed=0)
    played = play(task, policy, len(words.answers), seed=0)
    for answer, episode in zip(words.answers, played.episodes, strict=True):
        duel = opponent.move(Duel(words, "watch", answer))
        spelled = [
            "".join(letter_of(token - task.language.first_action) for token in step.action)
            for step in episode.steps
        ]
        assert [row.word for row in duel.models] == spelled
        assert moves.result_of(duel.models) == min(7, 1 - episode.episode_return)


@pytest.mark.parametrize("constrain", [True, False])
@pytest.mark.parametrize("sample", [True, False])
def test_in_stump_every_guess_fits_the_colours(
    make_opponent: MakeOpponent, words: WordList, constrain: bool, sample: bool
) -> None:
    opponent = replace(make_opponent(constrain=constrain), decoding=Decoding(1.0, sample))
    for answer in words.guesses:
        duel = moves.begin_stump(words, answer)
        while duel.is_models_turn:
            fits = {words.guesses[i] for i in moves.fitting(duel, duel.models)}
            guess = opponent.guess(duel)
            assert guess.word in fits
            duel = moves.models_guess(duel, guess)
        assert duel.winner == "model"  # the list is so short that keeping to it always wins


def test_its_thoughts_spell_its_guess(opponent: Opponent, words: WordList) -> None:
    guess = opponent.guess(Duel(words, "watch", "slate"))
    assert "".join(letter_of(thought.chosen) for thought in guess.thoughts) == guess.word
    first = {word[0] for word in words.guesses}
    for thought in guess.thoughts:
        assert thought.policy is not None and thought.q is not None and thought.v is not None
        assert len(thought.tokens) == len(thought.policy) == len(thought.q) <= 3
    assert {letter_of(token) for token in guess.thoughts[0].tokens} <= first


def test_an_imitator_has_no_values(make_opponent: MakeOpponent, words: WordList) -> None:
    guess = make_opponent(heads=("policy",)).guess(Duel(words, "watch", "slate"))
    assert all(thought.q is None and thought.v is None for thought in guess.thoughts)
    assert guess.thoughts[0].policy == pytest.approx(guess.thoughts[0].chance, rel=1e-5)


def test_a_player_by_q_alone_has_neither_policy_nor_v(
    make_opponent: MakeOpponent, words: WordList
) -> None:
    guess = make_opponent(heads=("q",)).guess(Duel(words, "watch", "slate"))
    assert guess.word in words.guesses
    for thought in guess.thoughts:
        assert thought.policy is None and thought.v is None and thought.q is not None
        assert thought.q[0] == max(thought.q) and thought.tokens[0] == thought.chosen


def test_it_remembers_nothing_between_games(opponent: Opponent, words: WordList) -> None:
    duel = Duel(words, "watch", "slate")
    first = opponent.guess(duel)
    opponent.guess(replace(duel, models=(Row(first, 0, 3), Row(first, 5, 3))))
    assert opponent.guess(duel) == first
    assert opponent.guess(replace(duel, models=(Row(first, 0, 3),))) != first


@pytest.mark.parametrize("name", ["nowhere", "runs/nothing", "./no/such", "/no/such"])
def test_a_missing_checkpoint_is_told_with_a_remedy(name: str) -> None:
    with pytest.raises(UserError, match="make wordle"):
        load_opponent(name)


def test_a_sampling_opponent_varies(opponent: Opponent, words: WordList) -> None:
    sampling = replace(opponent, decoding=Decoding(0.0, sample=True))
    assert len({sampling.guess(Duel(words, "watch", "slate")).word for _ in range(40)}) > 3


def test_thoughts_are_consistent_with_each_other(opponent: Opponent, words: WordList) -> None:
    thought = opponent.guess(Duel(words, "watch", "slate")).thoughts[0]
    assert thought.policy is not None and thought.q is not None and thought.v is not None
    # chance is the softmax of log pi + beta (Q - V), so its ratios are known.
    scores = np.log(thought.policy) + 1.0 * (np.array(thought.q) - thought.v)
    ratios = np.array(thought.chance) / thought.chance[0]
    np.testing.assert_allclose(ratios, np.exp(scores - scores[0]), rtol=1e-4)
