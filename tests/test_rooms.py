"""The house: who may import whom, what textrl does not know, how long its functions are."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from textrl.config.registry import TASKS, known

ROOT = Path(__file__).parents[1]
ROOMS = (
    *("config", "algorithms", "data", "tasks", "losses", "bisimulation"),
    *("hindsight", "model", "acting"),
    *("evaluation", "sharing", "training", "theory"),
)
"""In the order of the walk: a file imports from its own room and from those before it."""
ABOVE = {"__init__.py", "cli.py", "errors.py"}
"""Files of no room: the public names, the command, and what everyone may import."""
LIBRARY = sorted((ROOT / "textrl").glob("*.py")) + sorted(
    file for room in ROOMS for file in (ROOT / "textrl" / room).glob("*.py")
)
CODE = [*LIBRARY, *sorted((ROOT / "envs").rglob("*.py")), *sorted((ROOT / "recipes").rglob("*.py"))]
LIGHT = [f for f in LIBRARY if f.parent.name in ("config", "algorithms") or f.name == "cli.py"]
LONGEST_FUNCTION = 60


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports_of(file: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports read the same wherever they stand"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_room_is_known() -> None:
    here = {path.name for path in (ROOT / "textrl").iterdir() if path.is_dir()}
    assert here - {"__pycache__", "envs", "recipes"} == {*ROOMS}
    assert {path.name for path in (ROOT / "textrl").glob("*.py")} == ABOVE


@pytest.mark.parametrize("file", LIBRARY, ids=name_of)
def test_a_file_knows_only_the_rooms_before_it(file: Path) -> None:
    inside = file.parent.name in ROOMS
    reach = ROOMS[: ROOMS.index(file.parent.name) + 1] if inside else ROOMS
    for module in imports_of(file):
        top, _, rest = module.partition(".")
        room = rest.split(".")[0]
        if top == "textrl" and (ROOT / "textrl" / room).is_dir() and room:
            assert room in reach, f"{name_of(file)} imports {module}"


@pytest.mark.parametrize("file", LIGHT, ids=name_of)
def test_what_help_reads_imports_nothing_heavy(file: Path) -> None:
    heavy = {"torch", "transformers", "datasets", "numpy", "accelerate", "gymnasium", "pyarrow"}
    assert not {module.split(".")[0] for module in imports_of(file)} & heavy


@pytest.mark.parametrize("file", LIBRARY, ids=name_of)
def test_the_library_names_no_task(file: Path) -> None:
    tasks = {*known(TASKS)} - {"text"}  # which is a word like others
    constants = [
        node.value
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant)
    ]
    assert not [each for each in constants if each in tasks]


@pytest.mark.parametrize("file", CODE, ids=name_of)
def test_functions_can_be_read_at_a_glance(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef):
            lines = int(node.end_lineno or 0) - node.lineno + 1
            assert lines <= LONGEST_FUNCTION, f"{node.name} has {lines} lines"
