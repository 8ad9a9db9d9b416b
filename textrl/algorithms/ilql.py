"""Implicit language Q-learning (Snell et al. 2023): docs/ilql.md."""

from dataclasses import dataclass

from textrl.algorithms.algorithm import Algorithm
from textrl.algorithms.values import ConservativeOptions
from textrl.config.options import option


@dataclass(frozen=True)
class ILQLOptions(ConservativeOptions):
    """What the loss weighs, and how V learns.

    expectile: 0.5 is the mean, 1 the best action's value. action_lambda mixes the targets within an
    action, where nothing random happens between two tokens; the paper's is 0. whole_actions: V
    learns from Q at the last token of the action taken, where Q knows all of it.
    """

    expectile: float = option(
        0.8, "expectile of Q that V learns; 0.5 is the mean, 1 the best", minimum=0, maximum=1
    )
    action_lambda: float = option(
        0.0,
        "Q targets within an action: 0 looks one token ahead, 1 to the action's end",
        minimum=0,
        maximum=1,
    )
    whole_actions: bool = option(
        False, "V learns the value of whole actions, not of their single tokens"
    )


ILQL = Algorithm(
    name="ilql",
    title="implicit language Q-learning (ILQL)",
    heads=("policy", "q", "v"),
    loss="textrl.losses.ilql:ilql_loss",
    options=ILQLOptions,
)
