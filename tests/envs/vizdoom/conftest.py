"""Real engines, headless, started once for many tests."""

from collections.abc import Iterator

import pytest

from textrl.envs.vizdoom.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def hard_engine() -> Iterator[Engine]:
    engine = Engine(hard=True)
    yield engine
    engine.close()
