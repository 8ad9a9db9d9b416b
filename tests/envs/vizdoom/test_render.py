"""Pictures: what is drawn is where it belongs, and films hold every picture."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from textrl.envs.vizdoom.maze import load_maze
from textrl.envs.vizdoom.render import (
    AGENT,
    FLOOR,
    FOUND,
    HOME,
    MISSED,
    OUTSIDE,
    MapCanvas,
    draw_map,
    draw_paths,
    draw_success,
    draw_view,
    save_film,
)


def colour_at(picture: np.ndarray, place: tuple[float, float], width: int) -> tuple[int, ...]:
    x, y = MapCanvas(width).at(place)
    return tuple(picture[round(y / 2), round(x / 2)].tolist())


def grey(colour: tuple[int, ...]) -> float:
    return float(np.dot(colour, (0.299, 0.587, 0.114)))


def test_a_map_shows_floor_armor_and_agent() -> None:
    path = [(1040.0, 0.0), (1040.0, -150.0)]
    picture = draw_map(path, 270.0, width=480)
    assert colour_at(picture, (1040, -352), 480) == HOME
    assert colour_at(picture, (1000, -320), 480) == FLOOR
    assert colour_at(picture, (800, -600), 480) == OUTSIDE
    assert colour_at(picture, (1040, -80), 480) == AGENT
    assert colour_at(picture, (1040, -155), 480) == AGENT


def test_paths_tell_success_in_grey_too() -> None:
    paths = [[(686.0, -173.0), (686.0, -62.0)], [(464.0, -176.0), (464.0, -60.0)]]
    picture = draw_paths(paths, [True, False], "two", width=960)
    assert colour_at(picture, (686, -120), 960) == FOUND
    assert colour_at(picture, (464, -120), 960) == MISSED
    assert grey(MISSED) - grey(FOUND) > 80
    assert grey(FLOOR) - grey(MISSED) > 60


def test_spots_are_darker_the_more_they_succeed() -> None:
    picture = draw_success({0: (0, 4), 3: (2, 4), 5: (4, 4)}, width=960)
    spots = load_maze().spots
    below = [(spots[i][0], spots[i][1] - 25) for i in (0, 3, 5)]
    shades = [grey(colour_at(picture, place, 960)) for place in below]
    assert shades[0] > shades[1] + 40 > shades[2] + 80


@pytest.mark.parametrize("shape", [(240, 320, 3), (80, 80)])
def test_a_view_is_beside_the_whole_map(shape: tuple[int, ...]) -> None:
    view = np.full(shape, 77, dtype=np.uint8)
    picture = draw_view(view, [(1040.0, -100.0)], 0.0)
    seen = 240 * shape[1] // shape[0]
    assert len(picture) == 240
    assert (picture[:, :seen] == 77).all()
    assert abs(picture.shape[1] - seen - 240 * 1.15) < 12
    assert (picture[:, seen:] == HOME).all(axis=-1).any()


def test_a_film_holds_every_picture(tmp_path: Path) -> None:
    pictures = [np.full((20, 30, 3), shade, dtype=np.uint8) for shade in (10, 120, 240)]
    save_film(tmp_path / "film.gif", pictures, fps=10)
    with Image.open(tmp_path / "film.gif") as film:
        assert (film.n_frames, film.size) == (3, (30, 20))
        durations = []
        for i, shade in enumerate((10, 120, 240)):
            film.seek(i)
            durations.append(film.info["duration"])
            assert abs(np.asarray(film.convert("L")).astype(int) - shade).max() <= 8
    assert durations == [100, 100, 1000]
    with pytest.raises(ValueError, match="at least one picture"):
        save_film(tmp_path / "none.gif", [])
