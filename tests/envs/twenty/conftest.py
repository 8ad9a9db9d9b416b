"""A small world whose games can be followed by hand, and the one that comes along."""

import pytest

from textrl.envs.twenty.task import TwentyTask
from textrl.envs.twenty.things import World, load_world


@pytest.fixture(scope="session")
def zoo() -> World:
    """Questions: 0 animal, 1 fly, 2 wheels; guesses: 3 ant, 4 bat, 5 car, 6 kite."""
    return World.make(
        ("ant", "bat", "car", "kite"),
        {
            "is it an animal ?": ["ant", "bat"],
            "can it actually fly ?": ["bat", "kite"],
            "does it have wheels ?": ["car"],
        },
    )


@pytest.fixture(scope="session")
def world() -> World:
    return load_world()


@pytest.fixture(scope="session")
def twenty() -> TwentyTask:
    return TwentyTask(load_world())
