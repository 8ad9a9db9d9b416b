"""Rewards that cannot be right are told; honest ones of every task are not."""

from collections.abc import Callable

import numpy as np
import pytest
from datasets import Dataset

from textrl.data.episode import Episode, Step
from textrl.data.language import Language
from textrl.data.outliers import outliers, remark_on
from textrl.data.validate import check_episodes
from textrl.errors import UserError

RANDOM = np.random.default_rng(0)
HONEST = {
    "all the same": np.zeros(100),
    "wins and losses": RANDOM.integers(0, 2, 1000).astype(float),
    "rare success": np.array([0.0] * 9999 + [1.0]),
    "wordle": -RANDOM.integers(0, 7, 1000).astype(float),
    "step costs and a goal": np.array([-0.0525] * 990 + [0.97] * 10),
    "heavy tails": RANDOM.standard_cauchy(200),
    "few": np.array([1.0, 2.0, 900.0]),
    "money": RANDOM.lognormal(3, 2, 10_000),
    "one row": np.array([5.0]),
}


@pytest.mark.parametrize("what", HONEST)
def test_no_alarm(what: str) -> None:
    assert len(outliers(HONEST[what])) == 0


@pytest.mark.parametrize("wrong", [1e30, -1e30, 1e5])
@pytest.mark.parametrize("what", ["wins and losses", "rare success", "wordle", "heavy tails"])
def test_a_slip_is_found(what: str, wrong: float) -> None:
    values = HONEST[what].copy()
    values[37] = wrong
    assert outliers(values).tolist() == [37]
    told = remark_on(values, "row {}", "a reward")
    assert told.startswith("warning: row 37: a reward of ") and f"{wrong:g}" in told


def test_many_are_counted() -> None:
    values = np.array([1.0] * 50 + [1e6, 1e7])
    assert "row 50 (and 1 more)" in remark_on(values, "row {}", "a reward")


def one(reward: float) -> Episode:
    return Episode(
        (1,), (Step((5, 7), reward, (2,), 0), Step((5, 7), -reward, (), -1)), True, False, "x"
    )


def test_episodes(language: Language, make_rows: Callable[[list[Episode]], Dataset]) -> None:
    """Also where the sum of the rewards looks like nothing."""
    usual = [one(1.0) for _ in range(20)]
    assert check_episodes(make_rows(usual), language, 64, 7) == ""
    told = check_episodes(make_rows([*usual, one(1e9), *usual]), language, 64, 7)
    assert told.startswith("warning: row 20: a reward of 1e+09")
    with pytest.raises(UserError, match="row 20: a reward is beyond"):
        check_episodes(make_rows([*usual, one(1e30)]), language, 64, 7)
