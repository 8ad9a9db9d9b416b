"""The options that algorithms with values have."""

from dataclasses import dataclass

from textrl.config.options import option


@dataclass(frozen=True)
class ValueOptions:
    """discount: per action token.

    return_lambda mixes what really followed into the targets: 0 looks one action ahead, as the
    paper does, 1 to the episode's end. value_weight scales the errors of Q and V. reward_scale: the
    loss counts rewards and values in units of this, so that its weights mean the same whatever the
    rewards are; outside the loss values stay as they are.
    """

    discount: float = option(0.99, "discount per action token", minimum=0, maximum=1)
    return_lambda: float = option(
        0.0,
        "Q targets across actions: 0 looks one action ahead, 1 to the episode's end",
        minimum=0,
        maximum=1,
    )
    value_weight: float = option(
        1.0, "weight of the errors of Q and V relative to the policy's loss", minimum=0
    )
    reward_scale: float = option(
        1.0,
        "the loss divides rewards and values by this; 0 is the standard"
        " deviation of the data's returns; values are always shown in the data's"
        " units",
        minimum=0,
    )


@dataclass(frozen=True)
class ConservativeOptions(ValueOptions):
    """conservatism: of pushing down what the data do not do, a weight of its own."""

    conservatism: float = option(
        0.001,
        "weight of the conservative term, which pushes down Q of actions that are not in the data",
        minimum=0,
    )
