"""Acting: with a cache as without, legal tokens only, by log pi + beta (Q - V)."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from textrl.acting.decoding import Choice, Decoding
from textrl.acting.policy import Policy, thoughts_of
from textrl.data.language import ActionGrammar, Language
from textrl.envs.wordle.task import WordleTask
from textrl.losses.outputs import TextRLOutput, action_scores
from textrl.model.network import TextRLModel

MakeModel = Callable[..., TextRLModel]
DRAWS = 5000


def slow_scores(
    model: TextRLModel, history: list[int], legal: NDArray[np.bool_], beta: float
) -> NDArray[np.float64]:
    """Log-scores of every token after one history, read anew; minus infinity where illegal."""
    with torch.no_grad():
        output = model(torch.tensor([history]))
    odds = np.where(legal, np.exp(output.policy[0, 0].double().numpy()), 0.0)
    q = output.target_q[:, 0, 0].double().numpy()
    with np.errstate(divide="ignore"):
        return np.log(odds / odds.sum()) + beta * (q.min(axis=0) - float(output.v[0, 0]))


def slow_greedy(
    model: TextRLModel, language: Language, history: list[int], beta: float
) -> list[int]:
    """One action's numbers after one history; the history grows by its tokens."""
    grammar, state, action = language.grammar, 0, []
    while not action or state:
        scores = slow_scores(model, history, grammar.legal[state], beta)
        action.append(int(scores.argmax()))
        history.append(action[-1] + language.first_action)
        state = int(grammar.next_state[state, action[-1]])
    return action


@pytest.mark.parametrize("beta", [0.0, 1.0, 30.0])
def test_greedy_with_a_cache_is_greedy_without(
    wordle: WordleTask, make_model: MakeModel, beta: float
) -> None:
    model, language = make_model(wordle.language), wordle.language
    rng = np.random.default_rng(0)
    policy = Policy(model, language, Decoding(beta, sample=False), seed=0)
    prompt = rng.integers(2, 100, size=(5, 3))
    histories = prompt.tolist()
    policy.begin(prompt)
    for _ in range(3):
        expected = [slow_greedy(model, language, history, beta) for history in histories]
        assert policy.act().tolist() == expected
        seen = rng.integers(2, 100, size=(5, 4))
        policy.observe(seen)
        for history, tokens in zip(histories, seen.tolist(), strict=True):
            history.extend(tokens)


@pytest.mark.parametrize("candidates", [1, 3])
def test_episodes_that_go_alike_act_as_each_does_alone(
    wordle: WordleTask, make_model: MakeModel, candidates: int
) -> None:
    model, language = make_model(wordle.language), wordle.language
    rng = np.random.default_rng(3)
    decoding = Decoding(20.0, sample=False, candidates=candidates)
    together = Policy(model, language, decoding, seed=0)
    alone = {number: Policy(model, language, decoding, seed=0) for number in range(6)}
    together.begin(wordle.prompt(6))
    for policy in alone.values():
        policy.begin(wordle.prompt(1))
    answers = rng.integers(2, 80, size=(3, 5))
    # Who hears which answer, turn by turn, and who goes on.
    for heard, going_on in (
        ([0, 0, 0, 1, 1, 2], [0, 1, 3, 4, 5]),
        ([0, 1, 0, 0, 2], [0, 1, 2, 3, 4]),
        ([1, 1, 2, 2, 0], [2, 3]),
        ([0, 0], [0, 1]),
    ):
        acted = together.act()
        expected = np.concatenate([policy.act() for policy in alone.values()])
        np.testing.assert_array_equal(acted, expected)
        seen = answers[heard]
        together.observe(seen)
        for policy, each in zip(alone.values(), seen, strict=True):
            policy.observe(each[None])
        together.keep(np.array(going_on))
        numbers = list(alone)
        alone = {numbers[place]: alone[numbers[place]] for place in going_on}


def test_begin_forgets(language: Language, make_model: MakeModel) -> None:
    policy = Policy(make_model(language), language, Decoding(1.0, sample=False), seed=0)
    prompt = np.array([[1, 2, 3], [1, 4, 4]])
    policy.begin(prompt)
    first = policy.act()
    policy.observe(np.array([[2], [3]]))
    policy.act()
    policy.begin(prompt)
    np.testing.assert_array_equal(policy.act(), first)


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("beta", [0.0, 1e3])
def test_only_words_of_the_list_are_spelled(
    wordle: WordleTask, make_model: MakeModel, sample: bool, beta: float
) -> None:
    model = make_model(wordle.language)
    with torch.no_grad():  # everything else would be far better
        model.policy[2].bias.copy_(torch.randn(130) * 20)
    policy = Policy(model, wordle.language, Decoding(beta, sample), seed=0)
    policy.begin(wordle.prompt(300))
    words = wordle.actions(wordle.words.guess_letters).tolist()
    spelled = policy.act().tolist()
    assert all(word in words for word in spelled)


def given_output(logits: list[float], q: list[list[float]], v: float) -> TextRLOutput:
    """What a model says at one state of one episode."""
    return TextRLOutput(
        policy=torch.tensor([[logits]]),
        target_q=torch.tensor(q)[:, None, None],
        v=torch.tensor([[v]]),
    )


def test_scores_by_hand() -> None:
    # Odds 1 : 3 of the two legal tokens; min target Q 2 and -1; V 0.5.
    output = given_output([0.0, np.log(3.0), 9.0], [[2.0, 0.0, 9.0], [3.0, -1.0, 9.0]], 0.5)
    legal = torch.tensor([[[True, True, False]]])
    scores = action_scores(output, legal, beta=2.0)
    expected = [np.log(1 / 4) + 2 * 1.5, np.log(3 / 4) - 2 * 1.5, -np.inf]
    np.testing.assert_allclose(scores[0, 0].numpy(), expected, rtol=1e-6)
    alone = action_scores(output, legal, beta=0.0)
    np.testing.assert_allclose(alone[0, 0].exp().numpy(), [0.25, 0.75, 0.0], rtol=1e-6)
    assert action_scores(output, legal, beta=100.0).argmax() == 0


def test_without_values_beta_means_nothing() -> None:
    output = TextRLOutput(policy=torch.tensor([[[0.0, 1.0]]]))
    legal = torch.ones(1, 1, 2, dtype=torch.bool)
    one, other = (action_scores(output, legal, beta) for beta in (0.0, 50.0))
    assert torch.equal(one, other)


def test_without_a_policy_scores_are_beta_q() -> None:
    q = torch.tensor([[1.0, -2.0, 9.0], [3.0, -3.0, 9.0]])[:, None, None]
    legal = torch.tensor([[[True, True, False]]])
    scores = action_scores(TextRLOutput(target_q=q), legal, beta=2.0)
    assert scores[0, 0].tolist() == [2.0, -6.0, -np.inf]
    # At no weight at all, every legal token is as good as the other.
    none = action_scores(TextRLOutput(target_q=q), legal, beta=0.0)
    assert none.softmax(dim=-1)[0, 0].tolist() == [0.5, 0.5, 0.0]


def test_no_beta_is_the_policy_and_a_large_one_is_q(
    wordle: WordleTask, make_model: MakeModel
) -> None:
    model, language = make_model(wordle.language), wordle.language
    model.policy[2].weight.data.mul_(20)  # an opinionated policy
    prompts = np.random.default_rng(1).integers(2, 100, size=(40, 4))
    legal = language.grammar.legal[0]
    first = {}
    for beta in (0.0, 1e5):
        policy = Policy(model, language, Decoding(beta, sample=False), seed=0)
        policy.begin(prompts)
        first[beta] = policy.act()[:, 0]
    with torch.no_grad():
        output = model(torch.from_numpy(prompts))
    liked = np.where(legal, output.policy[:, 0].numpy(), -np.inf).argmax(1)
    valued = np.where(legal, output.target_q[:, :, 0].amin(0).numpy(), -np.inf).argmax(1)
    np.testing.assert_array_equal(first[0.0], liked)
    np.testing.assert_array_equal(first[1e5], valued)
    assert (liked != valued).any()


@pytest.fixture
def dice() -> Language:
    """One token, one action; the last of the four is never legal."""
    return Language((), ("a", "b", "c", "d"), ActionGrammar.from_slots([[0, 1, 2]], 4))


def loaded_dice(make_model: MakeModel, dice: Language) -> TextRLModel:
    """Whatever it reads: policy 1 : 2 : 5 (: 8), advantage 0, log 2, 0 (, log 9) with beta 1."""
    model = make_model(dice)
    heads = [model.policy, model.target_q[0], model.target_q[1], model.v]
    says = [[1.0, 2.0, 5.0, 8.0], [1.0, 2.0, 1.0, 9.0], [1.0, 2.0, 9.0, 9.0], [1.0]]
    with torch.no_grad():
        for head, odds in zip(heads, says, strict=True):
            head[2].weight.zero_()
            head[2].bias.copy_(torch.tensor(odds).log())
    return model


@pytest.mark.parametrize(
    ("beta", "shares"), [(0.0, [1 / 8, 2 / 8, 5 / 8, 0]), (1.0, [0.1, 0.4, 0.5, 0])]
)
def test_samples_follow_the_scores(
    dice: Language, make_model: MakeModel, beta: float, shares: list[float]
) -> None:
    model = loaded_dice(make_model, dice)

    def draw(seed: int) -> NDArray[np.int64]:
        policy = Policy(model, dice, Decoding(beta, sample=True), seed)
        policy.begin(np.ones((DRAWS, 1), dtype=np.int64))
        return policy.act()[:, 0]

    drawn = draw(seed=0)
    # Five standard errors of a share of 5,000 draws are at most 0.036.
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / DRAWS, shares, atol=0.036)
    assert (drawn != 3).all()
    np.testing.assert_array_equal(draw(seed=0), drawn)
    assert (draw(seed=1) != drawn).any()


def test_keep_goes_on_with_those_episodes(wordle: WordleTask, make_model: MakeModel) -> None:
    model, language = make_model(wordle.language), wordle.language
    rng = np.random.default_rng(2)
    prompt, seen = rng.integers(2, 100, size=(6, 3)), rng.integers(2, 100, size=(6, 4))
    kept = np.array([4, 0, 3])

    def play(rows: NDArray[np.int64], keep_late: bool) -> NDArray[np.int64]:
        policy = Policy(model, language, Decoding(1.0, sample=False), seed=0)
        policy.begin(prompt if keep_late else prompt[rows])
        policy.act()
        policy.observe(seen if keep_late else seen[rows])
        if keep_late:
            policy.keep(rows)
        first = policy.act()
        policy.observe(seen[rows][:, :2])
        return np.concatenate([first, policy.act()], axis=1)

    expected = play(kept, keep_late=False)
    np.testing.assert_array_equal(play(kept, keep_late=True), expected)
    assert (play(np.array([0, 3, 4]), keep_late=True) != expected).any()


def test_decodings_have_names() -> None:
    assert [Decoding(1.0, sample).name for sample in (False, True)] == ["greedy", "sampled"]


def test_thoughts_by_hand(dice: Language, make_model: MakeModel) -> None:
    policy = Policy(loaded_dice(make_model, dice), dice, Decoding(1.0, sample=False), seed=0)
    policy.begin(np.ones((1, 1), dtype=np.int64))
    assert policy.act().tolist() == [[2]]
    (thought,) = policy.thoughts(top=2)
    assert thought.chosen == 2 and thought.tokens == (2, 1)
    assert thought.chance == pytest.approx((0.5, 0.4))
    assert thought.policy == pytest.approx((5 / 8, 2 / 8))
    assert thought.q == pytest.approx((0.0, np.log(2.0)), abs=1e-6)
    assert thought.v == pytest.approx(0.0, abs=1e-6)
    # More than are legal cannot come to mind.
    assert policy.thoughts(top=9)[0].tokens == (2, 1, 0)


def test_an_unlikely_sample_is_among_its_thoughts(dice: Language, make_model: MakeModel) -> None:
    policy = Policy(loaded_dice(make_model, dice), dice, Decoding(0.0, sample=True), seed=0)
    seen = set()
    for _ in range(60):
        policy.begin(np.ones((1, 1), dtype=np.int64))
        token = int(policy.act()[0, 0])
        (thought,) = policy.thoughts(top=1)
        assert thought.tokens == (token,) and thought.chosen == token
        assert thought.policy == pytest.approx(((1, 2, 5)[token] / 8,))
        seen.add(token)
    assert seen == {0, 1, 2}


def test_values_without_a_policy_are_thoughts_too() -> None:
    output = TextRLOutput(target_q=torch.tensor([[2.0, 0.0], [3.0, -1.0]])[:, None, None])
    legal = torch.ones(1, 2, dtype=torch.bool)
    at = torch.tensor([0])
    choice = Choice(output, legal, torch.tensor([[2.0, -1.0]]), token=at, parent=at)
    (thought,) = thoughts_of(choice, rows=at, chosen=at, top=2)
    assert thought.policy is None and thought.v is None
    assert thought.q == (2.0, -1.0)


def test_thoughts_of_several_episodes_are_refused(
    language: Language, make_model: MakeModel
) -> None:
    policy = Policy(make_model(language), language, Decoding(1.0, sample=False), seed=0)
    policy.begin(np.array([[1], [1]]))
    policy.act()
    with pytest.raises(ValueError, match="one episode"):
        policy.thoughts()


def test_a_grammar_of_the_moment_narrows_what_is_spelled(
    wordle: WordleTask, make_model: MakeModel
) -> None:
    policy = Policy(make_model(wordle.language), wordle.language, Decoding(1.0, False), seed=0)
    only = wordle.actions(wordle.words.guess_letters[[3]])  # stale
    policy.begin(wordle.prompt(1))
    spelled = policy.act(ActionGrammar.from_spellings(only, len(wordle.language.actions)))
    assert spelled.tolist() == only.tolist()
    assert policy.thoughts()[0].policy == (1.0,)


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("candidates", [1, 5])
def test_thoughts_and_candidates_of_many_are_those_of_each(
    wordle: WordleTask, make_model: MakeModel, sample: bool, candidates: int
) -> None:
    model, language = make_model(wordle.language), wordle.language
    decoding = Decoding(2.0, sample, candidates)
    many = Policy(model, language, decoding, seed=0, apart=True)
    prompts = np.array([[1], [1], [1]]) if sample else np.array([[1, 9], [1, 300], [1, 80]])
    many.begin(prompts)
    actions = many.act().tolist()
    for row, prompt in enumerate(prompts):
        assert [t.chosen for t in many.all_thoughts()[row]] == actions[row]
        assert tuple(actions[row]) in [each.action for each in many.candidates()[row]]
        if sample:
            continue
        one = Policy(model, language, decoding, seed=0)
        one.begin(prompt[None])
        assert one.act()[0].tolist() == actions[row]
        for found, expected in zip(many.all_thoughts()[row], one.thoughts(), strict=True):
            assert found.tokens == expected.tokens
            assert found.chance == pytest.approx(expected.chance, abs=1e-6)
            assert found.q == pytest.approx(expected.q, abs=1e-6)
        (expected_candidates,) = one.candidates()
        assert len(expected_candidates) == candidates
        for each, like in zip(many.candidates()[row], expected_candidates, strict=True):
            assert each.action == like.action
            assert (each.chance, each.q) == pytest.approx((like.chance, like.q), abs=1e-6)


def test_a_candidates_chance_and_q_are_those_of_its_letters(
    wordle: WordleTask, make_model: MakeModel
) -> None:
    model, language = make_model(wordle.language), wordle.language
    policy = Policy(model, language, Decoding(1.0, sample=False, candidates=3), seed=0)
    policy.begin(wordle.prompt(1))
    action = tuple(policy.act()[0].tolist())
    thoughts = policy.thoughts()
    (chosen,) = [each for each in policy.candidates()[0] if each.action == action]
    by_letter = [t.policy[t.tokens.index(t.chosen)] for t in thoughts if t.policy is not None]
    assert chosen.chance == pytest.approx(np.prod(by_letter), rel=1e-5)
    last = thoughts[-1]
    assert last.q is not None
    assert chosen.q == pytest.approx(last.q[last.tokens.index(last.chosen)], abs=1e-6)


def test_each_episode_may_have_a_grammar_of_its_own(
    wordle: WordleTask, make_model: MakeModel
) -> None:
    words = wordle.actions(wordle.words.guess_letters)
    grammars = [
        ActionGrammar.from_spellings(words[which], len(wordle.language.actions))
        for which in ([3], [1, 4, 7], [0, 3, 9])
    ]
    decoding = Decoding(1.0, False, 4)
    policy = Policy(make_model(wordle.language), wordle.language, decoding, seed=0, apart=True)
    policy.begin(wordle.prompt(3))
    together = policy.act(grammars).tolist()
    for row, grammar in enumerate(grammars):
        policy.begin(wordle.prompt(1))
        assert policy.act(grammar).tolist() == [together[row]]
    assert together[0] == words[3].tolist()
