"""Implicit Q-learning (Kostrikov et al. 2022), its policy by advantages: docs/iql.md."""

from dataclasses import dataclass
from typing import Literal

from textrl.algorithms.algorithm import Algorithm
from textrl.algorithms.values import ValueOptions
from textrl.config.options import option

DECISIONS_PER_UNIT = 100
"""A time-to-goal value of -1 says that so many decisions are left."""


@dataclass(frozen=True)
class IQLOptions(ValueOptions):
    """What values are of, how V learns them, and which actions the policy imitates.

    value: of the discounted return, or minus the decisions to the goal, in hundreds and without a
    discount, which still tells near from far where a discounted return is 0 everywhere.
    v_learns: an expectile of Q, as in the paper, or of the returns themselves. The latter takes
    luck for skill, but where little is random it learns faster, because nothing stands between.
    return_cut: data of players who get lost say little about how far the goal is. What followed may
    pull a target below V by so much; a window of an episode that took twice that says nothing.
    """

    value: Literal["return", "time-to-goal"] = option(
        "return", "what values estimate; time-to-goal is for tasks that end only at their goal"
    )
    expectile: float = option(
        0.8, "expectile that V learns; 0.5 is the mean, 1 the best", minimum=0, maximum=1
    )
    v_learns: Literal["q", "returns"] = option(
        "q",
        "whether V is an expectile of Q of the action taken, or of the returns that followed it",
    )
    return_cut: float = option(
        0.0, "how far below V a return may pull a target; 0 is no limit", minimum=0
    )
    huber: float = option(
        0.0,
        "errors of Q and V beyond this count linearly, not squared; 0 squares all",
        minimum=0,
    )
    value_start: float = option(
        -1.5, "time-to-goal: initial value, before anything is learned", maximum=0
    )
    advantage_steps: int = option(1, "action tokens over which an advantage is measured", minimum=1)
    advantage_scale: float = option(
        1.0, "the policy imitates an action with the weight exp(advantage / this)", above=0
    )
    weight_cap: float = option(20.0, "largest weight of an imitated action", above=0)
    policy_weight: float = option(
        1.0, "weight of the policy's loss relative to that of Q and V", above=0
    )


IQL = Algorithm(
    name="iql",
    title="implicit Q-learning with an advantage-weighted policy (IQL)",
    heads=("policy", "q", "v", "slow_v"),
    loss="textrl.losses.iql:iql_loss",
    options=IQLOptions,
    acts_by=("policy",),
)
