"""Choosing among whole actions: by exhaustion, by frequency, and where nothing is to choose."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from textrl.acting.decoding import Decoding, Spelling
from textrl.acting.policy import Policy
from textrl.data.language import ActionGrammar, Language
from textrl.envs.wordle.task import WordleTask
from textrl.losses.outputs import TextRLOutput
from textrl.model.network import TextRLModel

MakeModel = Callable[..., TextRLModel]
ACTIONS = ((0, 2), (0, 3), (1, 3))  # of the small language
DRAWS = 4000


def values_of(
    model: TextRLModel, language: Language, history: list[int], action: tuple[int, ...]
) -> tuple[float, float]:
    """log pi of a whole action after one history, and Q at its last token; read anew each time."""
    log_odds, state = 0.0, 0
    for token in action:
        with torch.no_grad():
            output = model(torch.tensor([history]))
        legal = language.grammar.legal[state]
        odds = np.where(legal, np.exp(output.policy[0, 0].double().numpy()), 0.0)
        log_odds += np.log(odds[token] / odds.sum())
        q = 0.0 if output.target_q is None else float(output.target_q[:, 0, 0, token].min())
        history = [*history, token + language.first_action]
        state = int(language.grammar.next_state[state, token])
    return log_odds, q


@pytest.mark.parametrize("beta", [0.0, 2.0, 50.0])
def test_enough_candidates_find_the_best_action(
    wordle: WordleTask, make_model: MakeModel, beta: float
) -> None:
    model, language = make_model(wordle.language), wordle.language
    words = [tuple(word) for word in wordle.actions(wordle.words.guess_letters).tolist()]
    policy = Policy(model, language, Decoding(beta, sample=False, candidates=len(words)), seed=0)
    rng = np.random.default_rng(0)
    prompt = rng.integers(2, 100, size=(3, 3))
    histories = prompt.tolist()
    policy.begin(prompt)
    for _ in range(2):  # the second time the cache has to be that of what was chosen
        expected = []
        for history in histories:
            values = [values_of(model, language, history, word) for word in words]
            expected.append(list(words[int(np.argmax([odds + beta * q for odds, q in values]))]))
        assert policy.act().tolist() == expected
        seen = rng.integers(2, 100, size=(3, 4))
        policy.observe(seen)
        for history, word, tokens in zip(histories, expected, seen.tolist(), strict=True):
            history.extend([number + language.first_action for number in word])
            history.extend(tokens)


@pytest.mark.parametrize(("plausible", "best"), [(0.0, 2), (0.4, 1), (0.9, 0)])
def test_only_what_is_plausible_counts(
    language: Language, make_model: MakeModel, plausible: float, best: int
) -> None:
    # Odds 0.6, 0.3 and 0.1 of the three actions; the less likely, the higher is their Q.
    spelling = Spelling(Decoding(50.0, False, 3, plausible), 3, 1, torch.Generator())

    def said(odds: list[list[float]], q: list[list[float]]) -> TextRLOutput:
        return TextRLOutput(
            policy=torch.tensor(odds)[:, None].log(), target_q=torch.tensor([q])[:, :, None]
        )

    first, last = [[0.9, 0.1, 0.0, 0.0]], [[0.0, 0.0, 2 / 3, 1 / 3]]
    spelling.extend(said(first, [[0.0] * 4]), torch.tensor([[True, True, False, False]]))
    parents = spelling.choices[0].parent
    assert spelling.choices[0].token.tolist() == [0, 1, 0] and parents.tolist() == [0, 0, 0]
    legal = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]]).bool()
    q = [[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 0.0, 3.0], [9.0] * 4]
    spelling.extend(said(last * 3, q), legal)
    actions, _ = spelling.actions(spelling.choose())
    assert tuple(actions[0].tolist()) == ACTIONS[best]


def frequencies(policy: Policy) -> NDArray[np.float64]:
    """How often each of the small language's actions comes first."""
    policy.begin(np.ones((DRAWS, 1), dtype=np.int64))
    drawn = [tuple(action) for action in policy.act().tolist()]
    return np.array([drawn.count(action) for action in ACTIONS]) / DRAWS


def test_samples_are_weighed_by_their_values(language: Language, make_model: MakeModel) -> None:
    model, beta = make_model(language), 3.0
    values = [values_of(model, language, [1], action) for action in ACTIONS]
    odds = np.exp([log_odds for log_odds, _ in values])
    weight = np.exp(beta * np.array([q for _, q in values]))
    # Two candidates by their odds, then one of the two by its weight.
    expected = np.array(
        [
            sum(2 * odds[i] * odds[j] * weight[i] / (weight[i] + weight[j]) for j in range(3))
            for i in range(3)
        ]
    )
    np.testing.assert_allclose(expected.sum(), 1, atol=1e-6)
    found = frequencies(Policy(model, language, Decoding(beta, True, candidates=2), seed=0))
    assert np.abs(found - expected).max() < 4 * 0.5 / np.sqrt(DRAWS)
    assert np.abs(odds - expected).max() > 0.1  # it does make a difference


def test_without_values_samples_are_the_policys(language: Language, make_model: MakeModel) -> None:
    model = make_model(language, heads=("policy",))
    found, other = (
        frequencies(Policy(model, language, Decoding(5.0, True, candidates), seed=0))
        for candidates in (1, 6)
    )
    np.testing.assert_array_equal(found, other)


def test_without_a_policy_tokens_are_chosen_one_by_one(
    language: Language, make_model: MakeModel
) -> None:
    model = make_model(language, heads=("q",), q_heads=1)
    prompt = np.array([[1, 2], [1, 3], [1, 4]])
    chosen = []
    for candidates in (1, 4):
        policy = Policy(model, language, Decoding(1.0, False, candidates), seed=0)
        policy.begin(prompt)
        chosen.append(policy.act().tolist())
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize("sample", [False, True])
def test_more_candidates_than_actions(
    wordle: WordleTask, make_model: MakeModel, sample: bool
) -> None:
    policy = Policy(make_model(wordle.language), wordle.language, Decoding(1.0, sample, 8), seed=0)
    only = wordle.actions(wordle.words.guess_letters[[3, 9]])
    policy.begin(wordle.prompt(5))
    spelled = policy.act(ActionGrammar.from_spellings(only, len(wordle.language.actions)))
    assert all(word in only.tolist() for word in spelled.tolist())


def test_thoughts_are_those_of_the_candidate_chosen(
    wordle: WordleTask, make_model: MakeModel
) -> None:
    model, language = make_model(wordle.language), wordle.language
    policy = Policy(model, language, Decoding(50.0, False, candidates=12), seed=0)
    policy.begin(wordle.prompt(1))
    action = tuple(policy.act()[0].tolist())
    thoughts = policy.thoughts()
    assert tuple(thought.chosen for thought in thoughts) == action
    log_odds, q = values_of(model, language, [1], action)
    by_token = [t.policy[t.tokens.index(t.chosen)] for t in thoughts if t.policy is not None]
    assert np.log(by_token).sum() == pytest.approx(log_odds, abs=1e-5)
    last = thoughts[-1]
    assert last.q is not None
    assert last.q[last.tokens.index(last.chosen)] == pytest.approx(q, abs=1e-5)


def test_decoding_as_trained_unless_told(language: Language, make_model: MakeModel) -> None:
    model = make_model(language, beta=3.0, candidates=5, plausible=0.2)
    assert Decoding.of(model, sample=True) == Decoding(3.0, True, 5, 0.2)
    assert Decoding.of(model, sample=False, beta=0.0, candidates=1) == Decoding(0.0, False, 1, 0.2)
    assert Decoding.of(model, sample=True, temperature=0.5).temperature == 0.5


def test_a_low_temperature_prefers_the_likelier(language: Language) -> None:
    output = TextRLOutput(policy=torch.tensor([[[0.0, 1.0, 0.0, 0.0]]]).expand(DRAWS, 1, 4))
    legal = torch.tensor([True, True, False, False]).expand(DRAWS, 4)
    for temperature in (1.0, 0.5):
        decoding = Decoding(1.0, sample=True, temperature=temperature)
        spelling = Spelling(decoding, 1, DRAWS, torch.Generator().manual_seed(0))
        choice = spelling.extend(output, legal)
        expected = 1 / (1 + np.exp(-1 / temperature))
        assert float(choice.token.float().mean()) == pytest.approx(expected, abs=0.03)
        # What people are shown is the chance that it has.
        chance = choice.scores[0].softmax(dim=-1)[1]
        assert float(chance) == pytest.approx(expected, abs=1e-5)
