"""What happened: one episode as steps of action tokens, reward, and the tokens observed next."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One action and its consequence."""

    action: tuple[int, ...]
    """Token ids that the agent chose, in order; at least one."""
    reward: float
    observation: tuple[int, ...] = ()
    """Token ids that the environment answered with."""
    observation_class: int = -1
    """The answer as one class, for the dynamics model; -1 = none."""

    def __post_init__(self) -> None:
        if not self.action:
            raise ValueError("a step needs at least one action token")
        if not math.isfinite(self.reward):
            raise ValueError(f"a reward must be a finite number, not {self.reward}")


@dataclass(frozen=True)
class Episode:
    """A whole episode: what was seen before the first action, then the steps."""

    prompt: tuple[int, ...]
    steps: tuple[Step, ...]
    terminated: bool
    truncated: bool
    behaviour: str
    """Which policy played."""
    frames: tuple[bytes, ...] = ()
    """Encoded images, one for each frame token of the prompt and the steps, in order."""
    start: str = ""
    """How it began, where beginnings differ, for people who look at the data."""

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("an episode needs a token before its first action")
        if not self.steps:
            raise ValueError("an episode needs at least one step")
        if self.terminated and self.truncated:
            raise ValueError("an episode is terminated or truncated, never both")

    @property
    def episode_return(self) -> float:
        """The undiscounted sum of rewards."""
        return math.fsum(step.reward for step in self.steps)
