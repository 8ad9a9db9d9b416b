"""The maze of My Way Home: its walls, where episodes begin, and the shortest ways through it.

Places are in map units, x to the east and y to the north; angles in degrees, 0 is east, 90 north.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textrl.envs.vizdoom.wad import (
    MAP_SPOT,
    Lump,
    blocks,
    map_text,
    read_wad,
    with_spots_at,
    write_wad,
)
from textrl.errors import UserError

Array = NDArray[np.float64]

SCENARIO = "my_way_home.wad"
ARMOR = 2018
"""The type of the thing to find."""
FIRST_SPOT = 10
"""The map's script draws one of the spots with the ids from here on."""
CELL = 8
"""Side of a cell of the navigation grid."""
CLEARANCE = 20
"""What stays between a way and the walls; the agent is a box of 16 to each side."""
LOOK_AHEAD = 20
"""How many cells along its way a navigator looks for the farthest that it can go straight to."""
STEPS = tuple(
    (dx, dy, math.hypot(dx, dy)) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if (dx, dy) != (0, 0)
)


@dataclass(frozen=True)
class Ways:
    """The shortest ways from everywhere to the armor, on the grid.

    distance: (columns, rows) in map units; infinite where nobody can be.
    aims: where to head for from a cell, as flat lists indexed column * rows + row.
    """

    distance: Array
    aim_x: list[float]
    aim_y: list[float]


@dataclass(frozen=True, eq=False)
class Maze:
    """walls: (walls, 4) x, y to x, y. spots: (17, 2), numbered from 0. armor: (2,)."""

    walls: Array
    spots: Array
    armor: Array

    @cached_property
    def origin(self) -> Array:
        """The corner of the grid's first cell."""
        corner: Array = self.walls.reshape(-1, 2).min(axis=0) - CELL
        return corner

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Columns and rows of the grid."""
        size = self.walls.reshape(-1, 2).max(axis=0) + CELL - self.origin
        return int(size[0] // CELL) + 1, int(size[1] // CELL) + 1

    @cached_property
    def is_free(self) -> NDArray[np.bool_]:
        """(columns, rows): cells whose middle is clear of all walls, inside as well as outside."""
        columns, rows = self.shape
        x, y = np.meshgrid(np.arange(columns), np.arange(rows), indexing="ij")
        points = self.origin + (np.stack([x, y], axis=-1) + 0.5) * CELL
        nearest = np.full(self.shape, np.inf)
        for wall in self.walls:
            along = wall[2:] - wall[:2]
            share = ((points - wall[:2]) @ along / (along @ along)).clip(0, 1)
            gap = points - wall[:2] - share[..., None] * along
            nearest = np.minimum(nearest, np.hypot(gap[..., 0], gap[..., 1]))
        return np.asarray(nearest >= CLEARANCE)

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """The column and row of a place."""
        return int((x - self.origin[0]) // CELL), int((y - self.origin[1]) // CELL)

    @cached_property
    def ways_home(self) -> Ways:
        """Distances to the armor, and from each cell the farthest of its way that is in sight."""
        home = self.cell(*self.armor)
        distance, following = self._distances(home)
        rows = self.shape[1]
        cells = np.flatnonzero(np.isfinite(distance))
        aims = np.full(distance.size, -1)
        aims[cells] = cells
        ahead = cells
        for _ in range(LOOK_AHEAD):
            ahead = following[ahead]
            in_sight = self._in_sight(cells, ahead)
            aims[cells[in_sight]] = ahead[in_sight]
        aims = _spread(aims.reshape(self.shape)).reshape(-1)
        places = self.origin + (np.stack(np.divmod(aims, rows), axis=-1) + 0.5) * CELL
        places[aims == home[0] * rows + home[1]] = self.armor
        return Ways(distance.reshape(self.shape), places[:, 0].tolist(), places[:, 1].tolist())

    @cached_property
    def spot_distances(self) -> Array:
        """(17,) how far it is from each spot to the armor, on foot."""
        return np.array([self.ways_home.distance[self.cell(*spot)] for spot in self.spots])

    @property
    def farthest_spot(self) -> int:
        """The number of the spot that the hard task begins at."""
        return int(self.spot_distances.argmax())

    def nearest_spot(self, x: float, y: float) -> int:
        """The number of the spot at a place where an episode began."""
        return int(np.hypot(*(self.spots - (x, y)).T).argmin())

    def _distances(self, goal: tuple[int, int]) -> tuple[Array, NDArray[np.int64]]:
        """(cells,) how far the goal is, and the next cell on the way there (the goal's: itself)."""
        rows = self.shape[1]
        free = self.is_free.reshape(-1).tolist()
        start = goal[0] * rows + goal[1]
        distance = [math.inf] * len(free)
        following = list(range(len(free)))
        distance[start] = 0.0
        queue = [(0.0, start)]
        while queue:
            far, cell = heapq.heappop(queue)
            if far > distance[cell]:
                continue
            # The grid has a margin that is not reached, so no neighbour is beyond its edge.
            for dx, dy, length in STEPS:
                neighbour = cell + dx * rows + dy
                farther = far + CELL * length
                if free[neighbour] and farther < distance[neighbour] - 1e-9:
                    distance[neighbour] = farther
                    following[neighbour] = cell
                    heapq.heappush(queue, (farther, neighbour))
        return np.array(distance), np.array(following)

    def _in_sight(self, cells: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the straight line from each cell to the other one stays on free cells."""
        rows = self.shape[1]
        start, end = (np.stack(np.divmod(each, rows), axis=-1) for each in (cells, others))
        in_sight = np.ones(len(cells), dtype=bool)
        for share in np.linspace(0, 1, 2 * LOOK_AHEAD + 1):
            x, y = np.rint(start + share * (end - start)).astype(int).T
            in_sight &= self.is_free[x, y]
        return in_sight


def _spread(aims: NDArray[np.int64], cells: int = 3) -> NDArray[np.int64]:
    """Let the cells next to a way, too near to a wall to be on it, aim as their neighbours do."""
    for _ in range(cells):
        before = aims.copy()
        for axis, shift in ((0, 1), (0, -1), (1, 1), (1, -1)):
            aims = np.where(aims < 0, np.roll(before, shift, axis=axis), aims)
    return aims


def parse_maze(text: str) -> Maze:
    """The maze that a map's text describes."""
    vertices: list[tuple[float, float]] = []
    lines: list[tuple[int, int]] = []
    spots: dict[int, tuple[float, float]] = {}
    armor = None
    for kind, fields in blocks(text):
        if kind == "vertex":
            vertices.append((float(fields["x"]), float(fields["y"])))
        elif kind == "linedef" and "sideback" not in fields:  # two sides: one walks through
            lines.append((int(fields["v1"]), int(fields["v2"])))
        elif kind == "thing":
            place = float(fields["x"]), float(fields["y"])
            if int(fields["type"]) == MAP_SPOT:
                spots[int(fields["id"]) - FIRST_SPOT] = place
            elif int(fields["type"]) == ARMOR:
                armor = place
    if armor is None or sorted(spots) != list(range(len(spots))) or not spots:
        raise ValueError("the map is not that of My Way Home: no armor, or spots are missing")
    walls = [(*vertices[a], *vertices[b]) for a, b in lines]
    return Maze(np.array(walls), np.array([spots[i] for i in range(len(spots))]), np.array(armor))


def scenario_path() -> Path:
    """The scenario's file in the vizdoom package."""
    package = find_spec("vizdoom")
    if package is None or package.origin is None:
        raise UserError("ViZDoom is not installed: pip install 'offline-textrl[vizdoom]'")
    return Path(package.origin).parent / "scenarios" / SCENARIO


@cache
def load_maze() -> Maze:
    """The maze of the installed scenario."""
    return parse_maze(map_text(read_wad(scenario_path())))


def write_hard_scenario(path: Path) -> None:
    """A copy of the scenario in which every episode begins at the spot farthest from the armor."""
    maze = load_maze()
    x, y = maze.spots[maze.farthest_spot]
    write_wad(path, list(_moved(read_wad(scenario_path()), x, y)))


def _moved(lumps: list[Lump], x: float, y: float) -> Iterator[Lump]:
    for lump in lumps:
        if lump.name == "TEXTMAP":
            text = with_spots_at(lump.content.decode("utf-8"), x, y)
            lump = Lump(lump.name, text.encode("utf-8"))
        yield lump
