"""What an algorithm is: one object that declares its title, options, heads, loss, how it acts.

These files import nothing heavy, because --help reads them. The losses are in textrl.losses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from textrl.config.options import NoOptions

LossFunction = Callable[[Any, Any, Any], Any]
"""(outputs, batch, options) -> a frozen dataclass of named scalars, `total` among them."""


@dataclass(frozen=True)
class Algorithm:
    """How to learn a task. Another one is another object of this class, here or in your package."""

    name: str
    title: str
    """In words, for people who read --help and the cards of trained agents."""
    heads: tuple[str, ...]
    """What it trains: policy, q (with slow copies) and v, as many as it needs."""
    loss: str | LossFunction
    """The loss, or module:function that is it."""
    options: type = NoOptions
    """A frozen dataclass of options, see textrl.config.options; the loss is given one of them.

    Two of them mean something beyond the loss: `discount`, by which returns are discounted wherever
    they are compared with values, and `keep_top`, the share of the episodes that are learned from.
    """
    acts_by: tuple[str, ...] = ()
    """Which of the heads decide when it acts; none named = all of them."""
    q_heads: int = 2

    def loss_function(self) -> LossFunction:
        """The loss itself."""
        if callable(self.loss):
            return self.loss
        module, _, name = self.loss.partition(":")
        function: LossFunction = getattr(import_module(module), name)
        return function
