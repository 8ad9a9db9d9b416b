"""The measurements behind the figures."""

import math

import numpy as np
import pytest
from datasets import Dataset

from textrl.data.language import Language
from textrl.theory.agent import agent_clusters, history_representations, spread
from textrl.theory.study import cluster_counts, learning_curves, needed, pair_checks, size_of


def test_episodes_needed_by_hand() -> None:
    sizes = [8, 16, 32, 64]
    assert needed(sizes, [0.5, 0.3, 0.1, 0.0], 0.2) == pytest.approx(4.5)  # between 16 and 32
    assert needed(sizes, [0.5, 0.1, 0.3, 0.1], 0.2) == pytest.approx(5.5)  # it has to stay there
    assert needed(sizes, [0.1, 0.1, 0.1, 0.1], 0.2) == 3
    assert math.isnan(needed(sizes, [0.1, 0.1, 0.1, 0.3], 0.2))


def test_summaries_need_fewer_episodes_than_histories() -> None:
    curves = learning_curves("switch", 5, 0, [500, 2_000_000], [1.0])
    # Random play is 0.52 below the optimum of 0.92.
    assert curves["histories", 1.0].suboptimality == pytest.approx([0.52, 0.0])
    assert curves["every-action", 1.0].suboptimality == pytest.approx([0.0, 0.0])
    assert curves["every-action", 1.0].too_hopeful == [False, False]


def test_without_a_bonus_some_history_looks_better_than_it_is() -> None:
    curves = learning_curves("switch", 4, 0, [500], [0.0])
    assert curves["histories", 0.0].too_hopeful == [True]


def test_on_policy_summaries_stay_at_random_play_where_modes_are_alike() -> None:
    curves = learning_curves("listening", 4, 0, [1_000_000], [1.0])
    assert curves["every-action", 1.0].suboptimality == pytest.approx([0.0])
    assert curves["on-policy", 1.0].suboptimality == pytest.approx([0.896 - 0.5])


def test_the_same_seed_draws_the_same_data() -> None:
    one, same, other = (learning_curves("listening", 4, seed, [64], [0.1]) for seed in (1, 1, 2))
    assert one == same != other


def test_sizes_by_hand() -> None:
    found = size_of("switch", 4)
    assert found["histories"] == {"states": 1 + 4 + 16 + 64, "c_star": 4}
    # Of the summary, the first action alone decides: 0.8 of the optimum's, 0.5 of the data's
    # episodes have the better switch, and each of its last actions half of those.
    assert found["every-action"]["states"] == 1 + 2 + 2 + 2
    assert found["every-action"]["c_star"] == pytest.approx(2 * 0.8 / 0.5)


def test_a_larger_epsilon_leaves_fewer_clusters() -> None:
    found = cluster_counts("random", 3, (0.0, 0.1, 0.4, 9.0), seed=1)
    assert found["histories"] == [42] * 4
    for metric in ("every-action", "on-policy"):
        assert found[metric] == sorted(found[metric], reverse=True)
        assert found[metric][0] == 42 and found[metric][-1] == 3


@pytest.mark.parametrize("seed", range(3))
def test_no_pair_of_values_differs_by_more_than_its_distance(seed: int) -> None:
    for gaps, apart in pair_checks("random", 3, seed).values():
        assert len(gaps) == 1 + 28 + 496
        assert (gaps <= apart + 1e-6).all()


def test_representations_of_histories_are_those_of_the_model(
    language: Language, random_episodes, make_rows, make_model
) -> None:
    rows: Dataset = make_rows(random_episodes(70))
    model = make_model(language)
    points, found = history_representations(model, rows, language, count=150)
    assert points.shape == (150, 16) and len(set(found)) == 150
    import torch

    for i in (0, 77, 149):
        tokens = torch.from_numpy(np.frombuffer(found[i], dtype=np.int64).copy())[None]
        alone = model(tokens).representation[0, -1].double().detach().numpy()
        assert np.allclose(points[i], alone, atol=1e-5)
    everything, _ = history_representations(model, rows, language, count=10**6)
    assert len(everything) < 10**6 and (everything[:150] == points).all()


def test_clusters_of_three_heaps() -> None:
    random = np.random.default_rng(0)
    heaps = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])[np.arange(90) % 3]
    points = heaps + 0.01 * random.normal(size=(90, 2))
    histories = [np.array([i, i % 3]).tobytes() for i in range(90)]
    assert spread(points) == pytest.approx(math.sqrt(400 / 9), rel=0.01)
    found = agent_clusters(points, histories, [0.0, 0.1, 9.0], [30, 90], seeds=2)
    assert found["last_tokens"] == [3, 3]
    assert [each["mean"] for each in found["clusters"]] == [[30, 90], [3, 3], [1, 1]]
