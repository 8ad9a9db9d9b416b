"""Maps: what they say, the text they come from, and the mistakes in a map that are told."""

from pathlib import Path

import numpy as np
import pytest

from textrl.envs.gridworld.layout import (
    DEFAULT,
    DOWN,
    LAVA,
    LEFT,
    RIGHT,
    STAY,
    UP,
    WALL,
    Layout,
    load_layout,
)
from textrl.errors import UserError


def test_the_default_map_is_the_one_that_is_documented() -> None:
    layout = load_layout()
    assert (layout.name, layout.height, layout.width, layout.cells) == ("default", 10, 10, 100)
    assert (layout.start, layout.unsafe_goal, layout.safe_goal) == (21, 88, 61)
    lava = [46, 47, 56, 57, 74, 75, 76, 78, 83, 84, 85, 86]
    assert np.flatnonzero(layout.holds(LAVA)).tolist() == lava
    assert len(layout.open_cells) == 100 - DEFAULT.count(WALL) == 50
    assert layout.cell_name(68) == "r6c8"


def test_text_and_map_are_the_same_thing(tiny: Layout) -> None:
    for layout in (load_layout(), tiny):
        assert Layout.parse(layout.text, layout.name) == layout
        assert Layout.parse(f"\n{layout.text}  \r\n\n", layout.name) == layout


def test_walls_and_the_border_hold_one_back(tiny: Layout) -> None:
    moves = tiny.moves
    assert moves[0, [UP, RIGHT, DOWN, LEFT, STAY]].tolist() == [0, 1, 4, 0, 0]
    assert moves[1, [UP, RIGHT, DOWN, LEFT, STAY]].tolist() == [1, 2, 1, 0, 1]
    assert moves[6, [UP, RIGHT, DOWN, LEFT, STAY]].tolist() == [2, 7, 10, 6, 6]
    assert moves[11, [UP, RIGHT, DOWN, LEFT, STAY]].tolist() == [7, 11, 11, 10, 11]


def test_moves_can_be_undone_or_did_nothing() -> None:
    moves, cells = load_layout().moves, load_layout().open_cells
    for there, back in ((UP, DOWN), (LEFT, RIGHT), (DOWN, UP), (RIGHT, LEFT)):
        after = moves[cells, there]
        assert ((after == cells) | (moves[after, back] == cells)).all()


def test_the_digest_is_the_maps_not_the_names(tiny: Layout) -> None:
    assert Layout.parse(tiny.text, "other").digest == tiny.digest
    assert Layout.parse(tiny.text.replace("L", "."), "tiny").digest != tiny.digest


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("SdxrUF", "row 1, column 3: unknown character 'x'"),
        ("Sd rUF", "row 1, column 3: unknown character ' '"),
        ("SdrUF\n....\n", "row 2 has 4 cells, the first has 5"),
        ("SdrUFS", "'S' 2 times"),
        ("drUF", "'S' 0 times"),
        ("SdrUUF", "'U' 2 times"),
        ("SdrU", "'F' 0 times"),
        ("SrUF", "no switch 'd'"),
        ("SdUF", "no switch 'r'"),
        ("SdrUF", "safe goal cannot be reached"),  # d is always tripped first
        ("UdSrLF", "safe goal cannot be reached"),
        ("U#dSrF", "unsafe goal cannot be reached"),
        ("UdSrF" + "." * 96, "1 rows and 101 columns: at most 100"),
    ],
)
def test_a_map_that_cannot_be_played_is_refused(text: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        Layout.parse(text, "mine.txt")


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("UdSrF\n.?...\n")
    with pytest.raises(UserError, match=r"map 'mine.txt', row 2, column 2: unknown character '\?'"):
        load_layout(str(path))
    path.write_text("UdSrF\n.....\n")
    assert load_layout(str(path)).rows == ("UdSrF", ".....")
    path.write_bytes(b"UdSrF\r\n.....\r\n")
    assert load_layout(str(path)).rows == ("UdSrF", ".....")


def test_what_is_no_map_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no map 'defualt': did you mean 'default'"):
        load_layout("defualt")
    with pytest.raises(UserError, match="is a folder"):
        load_layout(str(tmp_path))
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        load_layout(str(tmp_path / "picture"))


def test_the_largest_map_loads() -> None:
    rows = ["UdSrF" + "." * 95] + ["." * 100] * 99
    assert Layout.parse("\n".join(rows), "large").cells == 10_000
