"""Pictures of an episode for onlookers: in pixels, with numpy alone, and in characters.

Shapes are given by signed distances to their edges in cells, negative inside, x to the right and y
down from a centre; the pixels that an edge crosses are covered in part, so it comes out smooth. A
switch and the goal that it makes live share shape and colour: diamonds are unsafe, discs safe.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from textrl.envs.gridworld.layout import (
    FLOOR,
    LAVA,
    SAFE_GOAL,
    SAFE_LIVE,
    SAFE_SWITCH,
    START,
    UNSAFE_GOAL,
    UNSAFE_LIVE,
    UNSAFE_SWITCH,
    WALL,
    Layout,
)

CELL_PIXELS = 48
MAX_PIXELS = 1600
"""Longest side of a picture: large maps get smaller cells."""
VIEW_ROWS, VIEW_COLUMNS = 22, 40
"""What fits a terminal of 80 x 24 at two characters a cell."""

Array = NDArray[np.float64]
Distance = Callable[[Array, Array], Array]
Colour = tuple[float, ...]

FLOOR_COLOUR, LINE, INK = (0.957, 0.941, 0.910), (0.890, 0.867, 0.827), (0.16, 0.19, 0.26)
WALL_COLOUR, WALL_TOP = (0.275, 0.310, 0.380), (0.365, 0.405, 0.480)
EMBER, FIRE, SPARK = (0.560, 0.090, 0.060), (0.930, 0.330, 0.080), (1.000, 0.830, 0.350)
AGENT, AGENT_RIM = (0.200, 0.480, 0.920), (0.090, 0.240, 0.560)
WHITE = (1.0, 1.0, 1.0)
BADGES: dict[int, tuple[str, str, Colour]] = {
    UNSAFE_LIVE: (UNSAFE_SWITCH, UNSAFE_GOAL, (0.640, 0.180, 0.640)),
    SAFE_LIVE: (SAFE_SWITCH, SAFE_GOAL, (0.050, 0.570, 0.420)),
}


def draw_map(
    layout: Layout, cell: int, mode: int, path: Sequence[int] = (), cell_pixels: int = CELL_PIXELS
) -> NDArray[np.uint8]:
    """The map with the agent in a cell, (height, width, 3); the goal live in the mode shines.

    path: the cells the agent came through, drawn as a trace.
    """
    size = max(4, min(cell_pixels, MAX_PIXELS // max(layout.height, layout.width)))
    canvas = Canvas(_ground(layout, size).copy(), size)
    for live, (switch, goal, colour) in BADGES.items():
        shape = diamond if live == UNSAFE_LIVE else disc
        for place in np.flatnonzero(layout.holds(switch)).tolist():
            _draw_switch(canvas, _centre(layout, place), shape, colour, mode, live)
        place = int(np.flatnonzero(layout.holds(goal))[0])
        _draw_goal(canvas, _centre(layout, place), shape, colour, mode == live)
    _draw_path(canvas, layout, path)
    _draw_agent(canvas, _centre(layout, cell))
    return (canvas.pixels.clip(0, 1) * 255 + 0.5).astype(np.uint8)


class Canvas:
    """Pixels (height, width, channels) of 0..1 to paint on; a cell is size x size of them."""

    def __init__(self, pixels: Array, size: int) -> None:
        self.pixels, self.size = pixels, size

    def paint(
        self,
        centre: tuple[float, float],
        distance: Distance,
        colour: Colour,
        opacity: float = 1.0,
        reach: float = 0.5,
        soft: float = 0.0,
    ) -> None:
        """Lay a shape around a centre (x, y), no farther from it than reach, all in cells.

        soft: how far it fades out beyond its edge; 0: the edge is sharp.
        """
        (column, x), (row, y) = (self._near(centre[i], reach, 1 - i) for i in range(2))
        away = distance(x[None, :], y[:, None])
        if soft:
            cover = np.exp(-((np.maximum(away, 0) / soft) ** 2))
        else:
            cover = (0.5 - away * self.size).clip(0, 1)
        part = self.pixels[row, column]
        part += (opacity * cover)[..., None] * (np.array(colour) - part)

    def _near(self, centre: float, reach: float, axis: int) -> tuple[slice, Array]:
        """The pixels of an axis that are near, and how far from the centre each is."""
        first = max(0, int(np.floor((centre - reach) * self.size)))
        last = min(self.pixels.shape[axis], int(np.ceil((centre + reach) * self.size)))
        return slice(first, last), (np.arange(first, last) + 0.5) / self.size - centre


def disc(radius: float, x: float = 0.0, y: float = 0.0) -> Distance:
    """A filled circle around (x, y)."""
    return lambda u, v: np.hypot(u - x, v - y) - radius


def diamond(radius: float) -> Distance:
    """A square on its tip, about as large as a disc of the radius."""
    return lambda u, v: (np.abs(u) + np.abs(v) - 1.2 * radius) / np.sqrt(2)


def box(half: float, corner: float) -> Distance:
    """A square of side 2 * half with rounded corners."""

    def distance(u: Array, v: Array) -> Array:
        x, y = np.abs(u) - half + corner, np.abs(v) - half + corner
        outside = np.hypot(np.maximum(x, 0), np.maximum(y, 0))
        return np.asarray(outside + np.minimum(np.maximum(x, y), 0) - corner)

    return distance


def star(radius: float) -> Distance:
    """Five points."""
    inner, turn = 0.45 * radius, np.pi / 5
    edge = np.array([inner * np.cos(turn) - radius, inner * np.sin(turn)])
    normal = np.array([edge[1], -edge[0]]) / np.hypot(*edge)

    def distance(u: Array, v: Array) -> Array:
        angle = np.abs((np.arctan2(u, -v) + turn) % (2 * turn) - turn)
        length = np.hypot(u, v)
        from_tip, aside = length * np.cos(angle) - radius, length * np.sin(angle)
        return np.asarray(normal[0] * from_tip + normal[1] * aside)

    return distance


def outline(shape: Distance, width: float) -> Distance:
    """A line along the edge of a shape."""
    return lambda u, v: np.abs(shape(u, v)) - width / 2


def segment(layout: Layout, before: int, after: int) -> Distance:
    """A round-ended line from the centre of one cell to that of its neighbour."""
    (x0, y0), (x1, y1) = _centre(layout, before), _centre(layout, after)
    x, y = x1 - x0, y1 - y0

    def distance(u: Array, v: Array) -> Array:
        along = ((u * x + v * y) / (x * x + y * y)).clip(0, 1)
        return np.hypot(u - along * x, v - along * y) - 0.05

    return distance


def _centre(layout: Layout, cell: int) -> tuple[float, float]:
    row, column = divmod(cell, layout.width)
    return column + 0.5, row + 0.5


@lru_cache(maxsize=4)
def _ground(layout: Layout, size: int) -> Array:
    """What never changes: floor, lava, walls, start."""
    shape = (layout.height, layout.width)

    def spread(symbol: str) -> NDArray[np.bool_]:
        return layout.holds(symbol).reshape(shape).repeat(size, axis=0).repeat(size, axis=1)

    canvas = Canvas(np.empty((shape[0] * size, shape[1] * size, 3)), size)
    pixels = canvas.pixels
    pixels[:] = FLOOR_COLOUR
    pixels[::size], pixels[:, ::size] = LINE, LINE
    for cell in np.flatnonzero(layout.holds(LAVA)).tolist():
        canvas.paint(_centre(layout, cell), box(0.5, 0.1), FIRE, 0.28, 1.1, soft=0.28)
    is_lava = spread(LAVA)
    y, x = np.nonzero(is_lava)
    pixels[y, x] = _lava_colours((x + 0.5) / size, (y + 0.5) / size)
    is_wall = spread(WALL)
    pixels[is_wall] = WALL_COLOUR
    # A lighter rim where a wall ends below something open reads as its upper edge.
    rim = max(1, size // 12)
    open_above = np.zeros_like(is_wall)
    open_above[rim:] = ~is_wall[:-rim]
    pixels[is_wall & open_above] = WALL_TOP
    start = _centre(layout, layout.start)
    canvas.paint(start, box(0.38, 0.12), AGENT, 0.14)
    canvas.paint(start, outline(box(0.38, 0.12), 0.05), AGENT, 0.75)
    pixels.flags.writeable = False
    return pixels


def _lava_colours(x: Array, y: Array) -> Array:
    """Crust with glowing cracks, the zeros of a field of bent waves: (points, 3)."""
    x, y = x + 0.22 * np.sin(3.1 * y + 1.3), y + 0.22 * np.sin(2.7 * x)
    field = np.sin(5.1 * x + 1.1 * np.sin(1.9 * y)) + np.sin(5.7 * y + 1.4 * np.sin(2.3 * x + 0.7))
    heat = 0.25 + 0.75 * np.exp(-((field / 0.55) ** 2)) + 0.12 * np.sin(1.3 * x - 2.1 * y)
    stops = np.array([EMBER, FIRE, SPARK])
    return np.stack([np.interp(heat, (0.1, 0.6, 1.1), stops[:, i]) for i in range(3)], axis=-1)


def _draw_switch(
    canvas: Canvas,
    centre: tuple[float, float],
    shape: Callable[[float], Distance],
    colour: Colour,
    mode: int,
    live: int,
) -> None:
    """A button: a rim with its shape in it, filled once it was the first to be tripped."""
    canvas.paint(centre, box(0.34, 0.10), INK, 0.10)
    canvas.paint(centre, outline(box(0.34, 0.10), 0.04), INK, 0.45)
    strength = 1.0 if mode in (0, live) else 0.35
    canvas.paint(centre, shape(0.20), colour if mode == live else WHITE, strength)
    canvas.paint(centre, outline(shape(0.20), 0.07), colour, strength)


def _draw_goal(
    canvas: Canvas,
    centre: tuple[float, float],
    shape: Callable[[float], Distance],
    colour: Colour,
    is_live: bool,
) -> None:
    """A star in its shape: shining, or a pale drawing of itself."""
    if is_live:
        canvas.paint(centre, disc(0.36), SPARK, 0.9, 1.2, soft=0.26)
        canvas.paint(centre, shape(0.43), colour)
        canvas.paint(centre, star(0.28), SPARK)
    else:
        canvas.paint(centre, shape(0.43), FLOOR_COLOUR, 0.8)
        canvas.paint(centre, outline(shape(0.40), 0.05), colour, 0.45)
        canvas.paint(centre, star(0.24), colour, 0.30)


def _draw_path(canvas: Canvas, layout: Layout, path: Sequence[int]) -> None:
    """One even line, however often the agent went there."""
    line = Canvas(np.zeros((*canvas.pixels.shape[:2], 1)), canvas.size)
    for before, after in sorted(set(pairwise(path))):
        if before != after:
            line.paint(_centre(layout, before), segment(layout, before, after), (1.0,), reach=1.2)
    canvas.pixels += 0.45 * line.pixels * (np.array(AGENT) - canvas.pixels)


def _draw_agent(canvas: Canvas, centre: tuple[float, float]) -> None:
    canvas.paint(centre, disc(0.30, 0.02, 0.07), INK, 0.35, soft=0.08)
    canvas.paint(centre, disc(0.31), AGENT_RIM)
    canvas.paint(centre, disc(0.27), AGENT)
    canvas.paint(centre, disc(0.10, -0.08, -0.12), WHITE, 0.25, soft=0.07)
    for side in (-0.10, 0.10):
        canvas.paint(centre, disc(0.075, side, -0.03), WHITE)
        canvas.paint(centre, disc(0.035, side + 0.01, -0.02), INK)


_TERMINAL_COLOURS = {
    START: "94",
    UNSAFE_SWITCH: "35",
    UNSAFE_GOAL: "35",
    SAFE_SWITCH: "32",
    SAFE_GOAL: "32",
    LAVA: "30;41",
    WALL: "90;100",
    FLOOR: "90",
}


def map_text(layout: Layout, cell: int, mode: int) -> str:
    """The map in terminal colours, the agent as @, a * beside the live goal.

    Of a map too large for a terminal, the part around the agent.
    """
    row, column = divmod(cell, layout.width)
    rows = _window(row, layout.height, VIEW_ROWS)
    columns = _window(column, layout.width, VIEW_COLUMNS)
    live_goal = BADGES[mode][1] if mode in BADGES else None
    lines = []
    for r in rows:
        texts = []
        for c in columns:
            symbol = layout.rows[r][c]
            if (r, c) == (row, column):
                texts.append("\033[1;97;44m@ \033[0m")
            elif symbol == live_goal:
                texts.append(f"\033[1;7;{_TERMINAL_COLOURS[symbol]}m{symbol}*\033[0m")
            else:
                mark = symbol if symbol in (WALL, LAVA) else " "
                texts.append(f"\033[{_TERMINAL_COLOURS[symbol]}m{symbol}{mark}\033[0m")
        lines.append("".join(texts))
    return "\n".join(lines)


def _window(centre: int, length: int, view: int) -> range:
    first = max(0, min(centre - view // 2, length - view))
    return range(first, min(length, first + view))
