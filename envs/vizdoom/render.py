"""Pictures for onlookers: the maze from above with paths on it, views beside it, films of them.

Drawn at twice the size and then shrunk, so that lines come out smooth. Colours differ in lightness
too, so that the pictures can be read in grey.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textrl.envs.vizdoom.maze import Maze, load_maze
from textrl.envs.vizdoom.rules import FRAME_SKIP
from textrl.errors import UserError

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError as error:
    raise UserError("pictures need Pillow: pip install 'offline-textrl[vizdoom]'") from error

Pixels = NDArray[np.uint8]
Place = tuple[float, float]
Path2D = Sequence[Place]
Colour = tuple[int, int, int]

MARGIN = 24.0
"""Map units around the maze."""
MAP_WIDTH = 480
VIEW_HEIGHT = 240
FINE = 2
"""How much larger pictures are drawn than they become."""

OUTSIDE, FLOOR, WALL = (226, 228, 233), (250, 248, 243), (58, 64, 78)
HOME, HOME_RIM = (247, 190, 40), (130, 84, 0)
SPOT, INK = (176, 180, 190), (40, 44, 54)
AGENT, FOUND, MISSED = (28, 84, 196), (16, 62, 150), (240, 150, 100)
LOW, HIGH = (252, 236, 200), (10, 50, 120)
"""Ends of the scale of shares."""


class MapCanvas:
    """The maze from above, to draw on in map units."""

    def __init__(self, width: int = MAP_WIDTH) -> None:
        self.maze = load_maze()
        low, high = _bounds(self.maze)
        self._scale = FINE * width / (high[0] - low[0])
        self._left, self._top = float(low[0]), float(high[1])
        self.size = (width, round(width * (high[1] - low[1]) / (high[0] - low[0])))
        self.image = _ground(width).copy()
        self.draw = ImageDraw.Draw(self.image)

    def at(self, place: Place) -> Place:
        """A place as a point of the picture."""
        return (place[0] - self._left) * self._scale, (self._top - place[1]) * self._scale

    def line(self, path: Path2D, colour: Colour, width: float = 6.0) -> None:
        """A path; width in map units."""
        points = [self.at(place) for place in path]
        if len(points) > 1:
            self.draw.line(points, colour, round(width * self._scale), joint="curve")

    def disc(self, place: Place, radius: float, colour: Colour, rim: Colour | None = None) -> None:
        """A filled circle; radius in map units."""
        x, y = self.at(place)
        r = radius * self._scale
        rim_width = max(1, round(2 * self._scale)) if rim else 0
        self.draw.ellipse((x - r, y - r, x + r, y + r), colour, rim, rim_width)

    def star(self, place: Place, radius: float = 26.0) -> None:
        """The armor."""
        x, y = self.at(place)
        points = []
        for i in range(10):
            reach = radius * self._scale * (1.0 if i % 2 == 0 else 0.45)
            turn = math.pi * i / 5
            points.append((x + reach * math.sin(turn), y - reach * math.cos(turn)))
        self.draw.polygon(points, HOME, HOME_RIM, max(1, round(3 * self._scale)))

    def arrow(self, place: Place, angle: float, radius: float = 22.0) -> None:
        """The agent, looking somewhere."""
        x, y = self.at(place)
        points = []
        for turn, reach in ((0, 1.4), (140, 1.0), (180, 0.45), (220, 1.0)):
            way = math.radians(angle + turn)
            length = radius * self._scale * reach
            points.append((x + length * math.cos(way), y - length * math.sin(way)))
        self.draw.polygon(points, AGENT, (255, 255, 255), max(1, round(2 * self._scale)))

    def text(self, place: Place, words: str, size: float, colour: Colour = INK) -> None:
        """Centred; size in map units."""
        font = ImageFont.load_default(size * self._scale)
        self.draw.text(self.at(place), words, colour, font, anchor="mm")

    def pixels(self) -> Pixels:
        """The picture as it becomes, (height, width, 3)."""
        return np.asarray(self.image.resize(self.size, Image.Resampling.BOX))


def draw_map(path: Path2D = (), angle: float | None = None, width: int = MAP_WIDTH) -> Pixels:
    """The maze with the spots, the armor, and an agent at the end of its path."""
    canvas = MapCanvas(width)
    canvas.line(path, AGENT)
    canvas.star(tuple(canvas.maze.armor))
    if path:
        canvas.disc(path[0], 10, (255, 255, 255), AGENT)
        canvas.arrow(path[-1], angle or 0.0)
    return canvas.pixels()


def draw_view(view: Pixels, path: Path2D, angle: float, height: int = VIEW_HEIGHT) -> Pixels:
    """What the agent sees, in colour or grey, beside where it is."""
    image = Image.fromarray(view).convert("RGB")
    resample = Image.Resampling.NEAREST if view.ndim == 2 else Image.Resampling.BICUBIC
    seen = image.resize((round(image.width * height / image.height), height), resample)
    low, high = _bounds(load_maze())
    top = draw_map(path, angle, int(height * (high[0] - low[0]) / (high[1] - low[1])))
    picture = np.full((height, seen.width + top.shape[1], 3), OUTSIDE, dtype=np.uint8)
    picture[:, : seen.width] = np.asarray(seen)
    picture[: len(top), seen.width :] = top[:height]
    return picture


def draw_paths(
    paths: Sequence[Path2D], success: Sequence[bool], title: str = "", width: int = 960
) -> Pixels:
    """Many paths: dark ones found the armor, light ones, each ended by a dot, did not."""
    canvas = MapCanvas(width)
    for wanted, colour in ((False, MISSED), (True, FOUND)):
        for path, found in zip(paths, success, strict=True):
            if found == wanted:
                canvas.line(path, colour, 3.0)
    for path, found in zip(paths, success, strict=True):
        canvas.disc(path[0], 7, (255, 255, 255), INK)
        if not found:
            canvas.disc(path[-1], 9, MISSED, (150, 70, 20))
    canvas.star(tuple(canvas.maze.armor))
    share = f"{sum(success)} of {len(success)} found the armor"
    note = "dark: found it   light: time ran out at the dot   circle: beginning"
    _caption(canvas, f"{title}: {share}" if title else share, note)
    return canvas.pixels()


def draw_success(
    by_spot: Mapping[int, tuple[int, int]], title: str = "", width: int = 960
) -> Pixels:
    """How often the armor was found from each spot: spot -> (found, episodes); darker is more."""
    canvas = MapCanvas(width)
    canvas.star(tuple(canvas.maze.armor))
    for spot, (found, episodes) in by_spot.items():
        place = tuple(canvas.maze.spots[spot])
        share = found / episodes if episodes else 0.0
        canvas.disc(place, 34, _mix(LOW, HIGH, share), INK)
        ink = (255, 255, 255) if share > 0.5 else INK
        canvas.text((place[0], place[1] + 8), f"{share:.0%}", 22, ink)
        canvas.text((place[0], place[1] - 13), f"{found}/{episodes}", 15, ink)
    _caption(canvas, title, "of the episodes begun there, how many found the armor")
    return canvas.pixels()


def save_picture(path: Path, pixels: Pixels) -> None:
    """As the file's ending asks."""
    Image.fromarray(pixels).save(path)


def save_film(path: Path, pictures: Iterable[Pixels], fps: float = 35 / FRAME_SKIP) -> None:
    """Pictures as an animated GIF that runs on; the last one stays for a second."""
    # One palette for all of a film would flicker less, but needs all of them at once.
    images = [Image.fromarray(picture).quantize(128) for picture in pictures]
    if not images:
        raise ValueError("a film needs at least one picture")
    durations = [round(1000 / fps)] * (len(images) - 1) + [1000]
    images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0)


def _caption(canvas: MapCanvas, title: str, note: str) -> None:
    """In the corner that the maze leaves free: a title and, below it, what the colours mean."""
    low, high = _bounds(canvas.maze)
    right, bottom = canvas.at((float(high[0]) - MARGIN, float(low[1]) + MARGIN))
    large, small = (FINE * canvas.size[0] / share for share in (36, 52))
    for words, size, y in ((title, large, bottom - 1.6 * small), (note, small, bottom)):
        font = ImageFont.load_default(size)
        canvas.draw.text((right, y), words, INK, font, anchor="rs")


def _mix(low: Colour, high: Colour, share: float) -> Colour:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _bounds(maze: Maze) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    corners = maze.walls.reshape(-1, 2)
    return corners.min(axis=0) - MARGIN, corners.max(axis=0) + MARGIN


@cache
def _ground(width: int) -> "Image.Image":
    """What never changes: floor, walls, spots."""
    maze = load_maze()
    low, high = _bounds(maze)
    scale = FINE * width / (high[0] - low[0])
    x = low[0] + (np.arange(FINE * width) + 0.5) / scale
    height = round(width * (high[1] - low[1]) / (high[0] - low[0]))
    y = high[1] - (np.arange(FINE * height) + 0.5) / scale
    # A place is inside if a ray from it to the west crosses an odd number of walls.
    inside = np.zeros((len(y), len(x)), dtype=bool)
    for x0, y0, x1, y1 in maze.walls:
        crosses = (y0 > y) != (y1 > y)
        where = x0 + (y[crosses] - y0) / (y1 - y0) * (x1 - x0)
        inside[crosses] ^= x[None, :] > where[:, None]
    image = Image.fromarray(np.where(inside[..., None], FLOOR, OUTSIDE).astype(np.uint8))
    draw = ImageDraw.Draw(image)

    def at(px: float, py: float) -> Place:
        return (px - low[0]) * scale, (high[1] - py) * scale

    for wall in maze.walls:
        draw.line([at(*wall[:2]), at(*wall[2:])], WALL, max(1, round(5 * scale)))
    for spot in maze.spots:
        (px, py), r = at(*spot), 5 * scale
        draw.ellipse((px - r, py - r, px + r, py + r), SPOT)
    return image
