"""Pictures: that they show what happened, and nothing else."""

import re

import numpy as np

from textrl.envs.gridworld.env import SwitchGridEnv
from textrl.envs.gridworld.layout import RIGHT, Layout, load_layout
from textrl.envs.gridworld.render import MAX_PIXELS, draw_map, map_text


def cell_part(picture: np.ndarray, cell: int, width: int = 10, size: int = 48) -> np.ndarray:
    row, column = divmod(cell, width)
    return picture[row * size : (row + 1) * size, column * size : (column + 1) * size]


def plain(text: str) -> list[str]:
    return re.sub(r"\033\[[0-9;]*m", "", text).splitlines()


def test_a_picture_has_48_pixels_a_cell_and_is_always_the_same() -> None:
    layout = load_layout()
    picture = draw_map(layout, 44, 1, [11, 21])
    assert (picture.shape, picture.dtype) == ((480, 480, 3), np.uint8)
    np.testing.assert_array_equal(draw_map(layout, 44, 1, [11, 21]), picture)


def test_only_the_agents_cells_change_when_it_moves() -> None:
    layout = load_layout()
    before, after = draw_map(layout, 43, 0), draw_map(layout, 44, 0)
    changed = [
        cell for cell in range(100) if (cell_part(before, cell) != cell_part(after, cell)).any()
    ]
    assert changed == [43, 44]


def test_the_live_goal_shines_and_the_other_is_pale() -> None:
    layout = load_layout()

    def colourful(mode: int, cell: int) -> float:
        part = cell_part(draw_map(layout, 21, mode), cell).astype(float)
        return float((part.max(axis=-1) - part.min(axis=-1)).mean())

    for live, other, mode in ((88, 61, 1), (61, 88, 2)):
        assert colourful(mode, live) > 2 * colourful(mode, other)
        assert colourful(mode, live) > 2 * colourful(0, live)
        assert colourful(mode, other) == colourful(0, other)


def test_switches_differ_in_shape_not_only_in_colour() -> None:
    is_dark = draw_map(load_layout(), 44, 0).mean(axis=-1) < 150
    unsafe, safe = cell_part(is_dark, 21), cell_part(is_dark, 12)
    assert (unsafe & safe).sum() < 0.7 * (unsafe | safe).sum()


def test_the_path_is_a_trace_that_going_there_again_does_not_darken() -> None:
    layout = load_layout()
    without, once = draw_map(layout, 44, 0), draw_map(layout, 44, 0, [42, 43, 44])
    assert (cell_part(without, 43) != cell_part(once, 43)).any()
    again = draw_map(layout, 44, 0, [42, 43, 42, 42, 43, 44])
    assert np.abs(again.astype(int) - once).max() <= 25  # where line meets line, its soft edge


def test_lava_walls_and_floor_look_different_without_colour() -> None:
    grey = draw_map(load_layout(), 21, 0).mean(axis=-1)
    wall, lava, floor = (float(cell_part(grey, cell).mean()) for cell in (0, 56, 43))
    assert wall < 110 < lava < 180 < floor


def test_large_maps_get_smaller_cells() -> None:
    rows = ["UdSrF" + "." * 95] + ["." * 100] * 99
    layout = Layout.parse("\n".join(rows), "large")
    assert draw_map(layout, 9999, 0).shape == (MAX_PIXELS, MAX_PIXELS, 3)


def test_the_map_in_characters() -> None:
    lines = plain(map_text(load_layout(), 22, 2))
    assert lines[0] == "####################"
    assert lines[2] == "##S @ . . . . . . ##"
    assert lines[5] == "##. . . . . LLLL. ##"
    assert lines[6] == "##F*. . . . . . . ##"
    assert lines[8] == "##. . LLLLLLLL. U ##"
    assert len(lines) == 10
    assert plain(map_text(load_layout(), 22, 0))[6].startswith("##F . ")
    assert plain(map_text(load_layout(), 22, 1))[8] == "##. . LLLLLLLL. U*##"


def test_of_a_large_map_a_terminal_shows_the_part_around_the_agent() -> None:
    rows = ["UdSrF" + "." * 95] + ["." * 100] * 99
    layout = Layout.parse("\n".join(rows), "large")
    for cell in (2, 5050, 9999):
        lines = plain(map_text(layout, cell, 0))
        assert len(lines) <= 22
        assert {len(line) for line in lines} == {80}
        assert sum(line.count("@") for line in lines) == 1


def test_the_environment_shows_agent_mode_and_path(corridor: Layout) -> None:
    env = SwitchGridEnv(corridor, slip=0, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(RIGHT)
    np.testing.assert_array_equal(env.render(), draw_map(corridor, 3, 2, [2, 3]))
    env.reset(seed=0)
    np.testing.assert_array_equal(env.render(), draw_map(corridor, 2, 0, [2]))
    env = SwitchGridEnv(corridor, slip=0, render_mode="ansi")
    env.reset(seed=0)
    env.step(RIGHT)
    assert plain(str(env.render())) == ["U d S @ F*"]
    assert SwitchGridEnv(corridor).render() is None
