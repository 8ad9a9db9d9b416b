"""Off-policy estimates against loops, and against the truth of small MDPs."""

from functools import partial

import numpy as np
import pytest
import torch

from textrl.evaluation.estimators import (
    Decisions,
    Interval,
    effective_sizes,
    estimate,
    importance_terms,
    mean_of,
    overlap,
    pooled,
    robust_terms,
    usable_decisions,
)
from textrl.evaluation.fitted import (
    Choices,
    Tokens,
    fit_q,
    fit_returns,
    floor_of,
    per_decision,
    retrace_targets,
    values_of,
)

STATES, ACTIONS, HORIZON = 4, 3, 4


class Chain:
    """A random MDP of a few steps; its state at each step is known."""

    def __init__(self, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.moves = random.dirichlet(np.full(STATES, 0.5), (STATES, ACTIONS))
        self.rewards = random.normal(size=(STATES, ACTIONS))
        self.data = random.dirichlet(np.full(ACTIONS, 3.0), STATES)
        self.target = random.dirichlet(np.full(ACTIONS, 1.0), STATES)

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """The target's Q and V by step, by going backwards."""
        v = np.zeros((HORIZON + 1, STATES))
        q = np.zeros((HORIZON, STATES, ACTIONS))
        for step in reversed(range(HORIZON)):
            q[step] = self.rewards + self.moves @ v[step + 1]
            v[step] = (self.target * q[step]).sum(-1)
        return q, v

    def play(self, episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States, actions and rewards of the data's policy; some episodes end early."""
        random = np.random.default_rng(seed)
        state = np.zeros(episodes, dtype=int)
        states, actions = [], []
        for _ in range(HORIZON):
            action = np.array([random.choice(ACTIONS, p=self.data[s]) for s in state])
            states.append(state)
            actions.append(action)
            moves = self.moves[state, action]
            state = np.array([random.choice(STATES, p=each) for each in moves])
        s, a = np.stack(states, 1), np.stack(actions, 1)
        return s, a, self.rewards[s, a]

    def decisions(self, episodes: int, seed: int, wrong: float = 0.0) -> Decisions:
        """wrong: how far the values are off."""
        s, a, rewards = self.play(episodes, seed)
        q, v = self.values()
        steps = np.arange(HORIZON)
        return Decisions(
            rewards=rewards,
            exists=np.ones(rewards.shape, dtype=bool),
            ratio=self.target[s, a] / self.data[s, a],
            q=q[steps, s, a] + wrong,
            v=v[steps, s] + wrong,
        )


def test_against_loops() -> None:
    random = np.random.default_rng(0)
    exists = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0]], dtype=bool)
    r, ratio, q, v = (random.random((3, 3)) for _ in range(4))
    logged = Decisions(r, exists, ratio, q, v)
    w = np.ones((3, 3))
    for i in range(3):
        total = 1.0
        for t in range(3):
            total *= ratio[i, t] if exists[i, t] else 1.0
            w[i, t] = total
    by_importance = sum(
        sum(w[i, t] * r[i, t] for i in range(3) if exists[i, t]) / sum(w[:, t]) for t in range(3)
    )
    groups = np.arange(3)
    assert estimate(logged, groups, importance_terms).mean == pytest.approx(by_importance)
    robust = float(v[:, 0].mean())
    for t in range(3):
        for i in range(3):
            if exists[i, t]:
                after = v[i, t + 1] if t < 2 and exists[i, t + 1] else 0.0
                robust += w[i, t] * (r[i, t] + after - q[i, t]) / sum(w[:, t])
    assert estimate(logged, groups, robust_terms).mean == pytest.approx(robust)
    last = w[:, -1]
    assert effective_sizes(logged)[-1] == pytest.approx(last.sum() ** 2 / (last**2).sum())
    assert overlap(logged) == pytest.approx(np.minimum(ratio, 1)[exists].mean())


def test_the_values_are_left_alone_where_weights_are_of_few() -> None:
    """Of twenty episodes, one has all the weight from the second decision on."""
    rewards, ratio = np.ones((20, 2)), np.ones((20, 2))
    ratio[0, 1] = 1e9
    logged = Decisions(rewards, ratio > 0, ratio, np.full((20, 2), 5.0), np.full((20, 2), 3.0))
    assert effective_sizes(logged) == pytest.approx([20, 1], abs=1e-6)
    assert usable_decisions(logged) == 1
    assert estimate(logged, np.arange(20), robust_terms).mean == pytest.approx(3 + (1 + 3 - 5))


def test_refits_are_pooled() -> None:
    one, two = (Interval(mean, np.full(4, mean)) for mean in (1.0, 3.0))
    both = pooled([one, two])
    assert both.mean == 2 and both.samples.tolist() == [1, 3, 1, 3]


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_right_on_a_small_mdp_though_values_are_wrong(wrong: float) -> None:
    chain = Chain()
    truth = chain.values()[1][0, 0]
    logged = chain.decisions(4_000, seed=1, wrong=wrong)
    groups = np.arange(4_000)
    data = mean_of(logged.rewards.sum(1), groups)
    # To the last decision, however few episodes have all the weight there.
    robust = estimate(logged, groups, partial(robust_terms, least_effective=0.0))
    importance = estimate(logged, groups, importance_terms)
    assert abs(data.mean - truth) > 0.3  # there is something to tell
    for each in (robust, importance):
        low, high = each.interval
        assert low < truth < high
        assert high - low < 0.5
    if not wrong:  # right values leave little to chance
        assert robust.samples.std() < 0.7 * importance.samples.std()


def test_intervals_cover_the_truth() -> None:
    chain = Chain(seed=3)
    truth, hits = chain.values()[1][0, 0], 0
    for seed in range(60):
        logged = chain.decisions(150, seed)
        low, high = estimate(logged, np.arange(150), robust_terms, 200).interval
        hits += low < truth < high
    assert hits >= 50  # 57 expected


def test_groups_count_once() -> None:
    values = np.repeat(np.random.default_rng(0).normal(size=50), 2)
    together = mean_of(values, np.repeat(np.arange(50), 2)).samples.std()
    apart = mean_of(values, np.arange(100)).samples.std()
    assert together == pytest.approx(apart * 2**0.5, rel=0.15)


def test_differences_are_of_the_same_episodes() -> None:
    chain = Chain()
    logged = chain.decisions(300, 0)
    ours = estimate(logged, np.arange(300), robust_terms)
    same = ours.minus(estimate(logged, np.arange(300), robust_terms))
    assert same.mean == 0 and same.interval == (0.0, 0.0)


def test_retrace_by_hand() -> None:
    """Two tokens: what follows the first is V there, moved by ratio 0.5 towards what happened."""
    targets = retrace_targets(
        rewards=torch.tensor([[1.0, 2.0, 9.0]]),
        q=torch.tensor([[0.0, 5.0, 9.0]]),
        v=torch.tensor([[0.0, 4.0, 9.0]]),
        ratio=torch.tensor([[3.0, 0.5, 9.0]]),
        is_action=torch.tensor([[True, True, False]]),
    )
    torch.testing.assert_close(targets, torch.tensor([[1 + 4 + 0.5 * (2 - 5), 2.0, 0.0]]))


@pytest.mark.parametrize("drawn", [False, True])
def test_fitted_q_finds_the_truth(drawn: bool) -> None:
    """With a feature for every state and step, where nothing has to be generalized."""
    chain = Chain()
    s, a, rewards = chain.play(4_000, seed=2)
    known = np.eye(HORIZON * STATES)[s + STATES * np.arange(HORIZON)]
    there = torch.ones(rewards.shape, dtype=torch.bool)
    data = Tokens(
        torch.from_numpy(known).float(),
        torch.from_numpy(a),
        torch.from_numpy(rewards).float(),
        there,
        there,
    )
    odds = torch.from_numpy(chain.target[s]).float()
    ratio = torch.from_numpy(chain.target[s, a] / chain.data[s, a]).float()
    choices = Choices(odds, ratio)
    if drawn:
        tokens = torch.multinomial(odds.flatten(0, 1), 16, replacement=True).view(*s.shape, 16)
        choices = Choices(torch.full(tokens.shape, 1 / 16), ratio, tokens)
    head = fit_q(data, choices, ACTIONS, hidden=0, rounds=40, learning_rate=0.03)
    v = values_of(head, data, choices)[1]
    assert float(v[:, 0].mean()) == pytest.approx(chain.values()[1][0, 0], abs=0.1)


def test_tokens_of_one_decision_belong_together() -> None:
    is_action = torch.tensor([[True] * 5, [True, True, False, False, False]])
    ends = torch.tensor([[False, True, False, True, False], [False, True, False, False, False]])
    values = torch.arange(10.0).view(2, 5)
    tokens = Tokens(values[..., None], values.long(), values, is_action, ends)
    assert per_decision(values, tokens, "sum").tolist() == [[1, 5, 4], [11, 0, 0]]
    assert per_decision(values, tokens, "first").tolist() == [[0, 2, 4], [5, 0, 0]]
    assert per_decision(values, tokens, "last").tolist() == [[1, 3, 4], [6, 0, 0]]


def test_what_the_data_hardly_do_counts_as_bad() -> None:
    """By hand: of 0.6 and 0.4, with 0.5 and 0.05 in the data, 0.6 and 0.1 are believed."""
    chances, logged = torch.tensor([[[0.6, 0.4]]]), torch.tensor([[[0.5, 0.05]]])
    low = torch.tensor([[-10.0]])
    choices = Choices(chances, torch.ones(1, 1), shown=logged / chances, low=low, trust=2.0)
    q = torch.tensor([[[1.0, 100.0]]])
    expected = 0.6 * 1 + 0.1 * 100 + 0.3 * -10
    assert float(choices.expected(q)) == pytest.approx(expected, abs=1e-5)
    drawn = Choices(
        chances=torch.full((1, 1, 2), 0.5),
        ratio=torch.ones(1, 1),
        tokens=torch.tensor([[[1, 0]]]),
        shown=(logged / chances).flip(-1),
        low=low,
        trust=2.0,
    )
    expected = 0.5 * 0.25 * 100 + 0.5 * 1 + 0.375 * -10
    assert float(drawn.expected(q)) == pytest.approx(expected, abs=1e-5)


def test_the_floor_is_what_was_left_to_earn_at_worst() -> None:
    rewards = torch.tensor([[-1.0, -1.0, 0.0]]).repeat(200, 1)
    rewards[0] = -1.0  # one in 200 lost its last, too: less than one in a hundred
    is_action = torch.ones_like(rewards, dtype=torch.bool)
    is_action[1, 2] = False
    nothing = torch.zeros_like(rewards)
    tokens = Tokens(nothing[..., None], nothing.long(), rewards, is_action, is_action)
    assert floor_of(tokens).tolist() == [-2.0, -1.0, 0.0]


def test_who_was_logged_earns_what_was_logged() -> None:
    random = torch.Generator().manual_seed(0)
    count = 40_000
    actions = torch.randint(2, (count, 1), generator=random)
    rewards = actions + 0.5 * torch.randn(count, 1, generator=random)
    there = torch.ones(count, 1, dtype=torch.bool)
    features = torch.randn(count, 1, 4, generator=random)
    head = fit_returns(Tokens(features, actions, rewards, there, there), 2)
    said = head(features).mean(dim=(0, 1)).detach()
    assert float(said[0]) == pytest.approx(0, abs=0.1)
    assert float(said[1]) == pytest.approx(1, abs=0.1)
