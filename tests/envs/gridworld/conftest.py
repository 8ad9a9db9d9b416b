"""Small maps whose every episode can be followed by hand."""

import pytest

from textrl.envs.gridworld.layout import Layout


@pytest.fixture(scope="session")
def corridor() -> Layout:
    """Cells 0..4: unsafe goal, its switch, start, the safe goal's switch, safe goal."""
    return Layout.parse("UdSrF", "corridor")


@pytest.fixture(scope="session")
def tiny() -> Layout:
    """Open borders, a wall and lava in the middle; both goals near each other."""
    return Layout.parse("Sr.F\nd#..\n..LU", "tiny")
