"""A small dataset and a small finished run that several tests look at."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = ["--layers", "1", "--width", "16", "--attention-heads", "2", "--batch-size", "8"]
TINY += ["--evaluate-every", "1000", "--evaluate-episodes", "4", "--log-every", "1"]
TINY += ["--threads", "2", "--no-final-evaluation"]


def recipe(name: str, *arguments: object) -> list[str]:
    """The command line of a recipe."""
    return [sys.executable, str(ROOT / "recipes" / f"{name}.py"), *map(str, arguments)]


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two thousand games of the 236-word list."""
    folder = tmp_path_factory.mktemp("data") / "games"
    command = recipe("collect", "--task", "wordle", "--episodes", 2000, "--output", folder)
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def maze_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty walks of a T-maze with a short corridor, where the same place pays or does not."""
    folder = tmp_path_factory.mktemp("data") / "walks"
    command = recipe("collect", "--task", "tmaze", "--corridor", 3, "--episodes", 60)
    command += ["--output", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def small_run(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve steps, saved every four, never interrupted."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    command = recipe("train", "--data", small_data, "--output", folder, *TINY)
    command += ["--max-steps", "12", "--save-every", "4"]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    return folder
