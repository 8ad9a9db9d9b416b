"""The scenario's archive and map, read and rewritten, and the ways through the maze."""

import math
from pathlib import Path

import numpy as np
import pytest

from textrl.envs.vizdoom.maze import load_maze, parse_maze, scenario_path, write_hard_scenario
from textrl.envs.vizdoom.wad import Lump, blocks, map_text, read_wad, with_spots_at, write_wad

ROOM = """namespace = "zdoom";
thing // 0
{ id = 5; x = 232.000; y = 56.000; type = 2018; }
thing { id = 11; x = 40.0; y = 72.0; type = 9001; }
thing { id = 10; x = 40.0; y = 56.0; angle = 90; type = 9001; }
thing { x = 1.0; y = 2.0; type = 1; }
vertex { x = 0.0; y = 0.0; }
vertex { x = 256.0; y = 0.0; }
vertex { x = 256.0; y = 128.0; }
vertex { x = 0.0; y = 128.0; }
vertex { x = 128.0; y = 0.0; }
vertex { x = 128.0; y = 128.0; }
linedef { v1 = 0; v2 = 1; sidefront = 0; blocking = true; }
linedef { v1 = 1; v2 = 2; sidefront = 1; blocking = true; }
linedef { v1 = 2; v2 = 3; sidefront = 2; blocking = true; }
linedef { v1 = 3; v2 = 0; sidefront = 3; blocking = true; }
linedef { v1 = 4; v2 = 5; sidefront = 4; sideback = 5; twosided = true; }
"""


def test_an_archive_is_written_as_it_was_read(tmp_path: Path) -> None:
    lumps = read_wad(scenario_path())
    assert [lump.name for lump in lumps[:2]] == ["MAP01", "TEXTMAP"]
    write_wad(tmp_path / "copy.wad", lumps)
    assert read_wad(tmp_path / "copy.wad") == lumps


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.wad"
    for content in (b"", b"PWAD", b"GIF8" + bytes(8), b"PWAD\x01\0\0\0\x0c\0\0\0" + b"\xff" * 16):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.wad is no WAD"):
            read_wad(path)
    with pytest.raises(ValueError, match="no map as text"):
        map_text([Lump("MAP01", b"")])


def test_only_the_spots_move() -> None:
    moved = list(blocks(with_spots_at(ROOM, 7.5, -9)))
    for (kind, before), (_, after) in zip(blocks(ROOM), moved, strict=True):
        if before.get("type") == "9001":
            assert after == {**before, "x": "7.500", "y": "-9.000"}
        else:
            assert after == before, kind


def test_a_room_is_parsed_and_measured() -> None:
    maze = parse_maze(ROOM)
    assert maze.walls.tolist() == [
        [0, 0, 256, 0],
        [256, 0, 256, 128],
        [256, 128, 0, 128],
        [0, 128, 0, 0],
    ]
    assert maze.spots.tolist() == [[40, 56], [40, 72]]
    assert maze.armor.tolist() == [232, 56]
    # Straight ahead, and with one or two diagonal steps of 8 x 8.
    assert maze.spot_distances[0] == pytest.approx(192)
    assert maze.spot_distances[1] == pytest.approx(192 + 2 * 8 * (math.sqrt(2) - 1))
    assert maze.farthest_spot == 1
    assert maze.nearest_spot(41, 60) == 0
    # Cells are free whose middles are 20 from the walls: 20..236 by 20..108.
    x, y = np.nonzero(maze.is_free & np.isfinite(maze.ways_home.distance))
    middles = maze.origin + (np.stack([x, y], axis=-1) + 0.5) * 8
    assert middles.min(axis=0).tolist() == [20, 20]
    assert middles.max(axis=0).tolist() == [236, 108]
    with pytest.raises(ValueError, match="no armor, or spots are missing"):
        parse_maze(ROOM.replace("2018", "2019"))


def test_the_maze_is_as_it_is_known() -> None:
    maze = load_maze()
    assert maze.spots.shape == (17, 2)
    assert maze.armor.tolist() == [1040, -352]
    assert maze.spots[maze.farthest_spot].round().tolist() == [544, -672]
    assert maze.spot_distances.max() == pytest.approx(1557, abs=20)
    # Nobody flies: every way is at least as long as the straight line.
    straight = np.hypot(*(maze.spots - maze.armor).T)
    assert (maze.spot_distances >= straight - 8).all()


def test_aims_are_in_sight_and_nearer_home() -> None:
    maze = load_maze()
    ways = maze.ways_home
    rows = maze.shape[1]
    for column, row in np.argwhere(np.isfinite(ways.distance))[::37].tolist():
        place = maze.origin + (np.array([column, row]) + 0.5) * 8
        aim = np.array([ways.aim_x[column * rows + row], ways.aim_y[column * rows + row]])
        assert ways.distance[maze.cell(*aim)] <= ways.distance[column, row]
        points = place + np.linspace(0, 1, 9)[:, None, None] * (aim - place)
        start, along = maze.walls[:, :2], maze.walls[:, 2:] - maze.walls[:, :2]
        share = ((points - start) * along).sum(-1) / (along * along).sum(-1)
        gaps = points - start - share.clip(0, 1)[..., None] * along
        assert np.hypot(gaps[..., 0], gaps[..., 1]).min() > 14  # clear of every wall


def test_in_the_hard_scenario_all_spots_are_the_farthest(tmp_path: Path) -> None:
    write_hard_scenario(tmp_path / "hard.wad")
    hard = parse_maze(map_text(read_wad(tmp_path / "hard.wad")))
    maze = load_maze()
    assert np.abs(hard.spots - maze.spots[maze.farthest_spot]).max() < 1e-3
    assert hard.walls.tolist() == maze.walls.tolist()
    others = [lump for lump in read_wad(tmp_path / "hard.wad") if lump.name != "TEXTMAP"]
    assert others == [lump for lump in read_wad(scenario_path()) if lump.name != "TEXTMAP"]
