"""An episode that cannot have happened is refused when it is made."""

from dataclasses import FrozenInstanceError

import pytest

from textrl.data.episode import Episode, Step

STEP = Step((5, 7), -1.0, (2,), 3)


def test_the_return_is_the_sum_of_rewards() -> None:
    steps = (STEP, Step((5,), 0.1), Step((5,), 0.2), Step((5,), -0.3))
    assert Episode((1,), steps, True, False, "novice").episode_return == -1.0


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -float("inf")])
def test_a_reward_is_a_finite_number(reward: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Step((5,), reward)


def test_a_step_has_an_action() -> None:
    with pytest.raises(ValueError, match="action token"):
        Step((), 0.0)


@pytest.mark.parametrize(
    ("prompt", "steps", "terminated", "truncated", "fault"),
    [
        ((), (STEP,), True, False, "before its first action"),
        ((1,), (), True, False, "at least one step"),
        ((1,), (STEP,), True, True, "never both"),
    ],
)
def test_a_faulty_episode_is_refused(
    prompt: tuple[int, ...],
    steps: tuple[Step, ...],
    terminated: bool,
    truncated: bool,
    fault: str,
) -> None:
    with pytest.raises(ValueError, match=fault):
        Episode(prompt, steps, terminated, truncated, "novice")


def test_what_happened_stays() -> None:
    with pytest.raises(FrozenInstanceError):
        STEP.reward = 0.0  # type: ignore[misc]
