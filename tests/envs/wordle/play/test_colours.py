"""The page's colours: text that can be read, in the light, the dark and the high-contrast look."""

import re

import pytest

from textrl.envs.wordle.play.web import PAGE

LOOKS = {"light": [0], "dark": [0, 1], "high contrast": [0, 2], "dark, high contrast": [0, 1, 2, 3]}
"""Which of the style sheet's blocks of colours count, in the order in which they stand there."""
TEXT_ON = [
    *[("on-black", "black"), ("on-yellow", "yellow"), ("on-green", "green")],
    *[("on-absent", "absent"), ("ink", "key"), ("ink", "page"), ("ink", "panel")],
    *[("faint", "page"), ("faint", "panel")],
]


def colours_of(look: str) -> dict[str, str]:
    """The variables of a look, as the cascade leaves them."""
    style = (PAGE / "style.css").read_text()
    blocks = re.findall(r":root(?:\.contrast)? \{(.*?)\}", style, re.DOTALL)
    assert len(blocks) == 4
    found: dict[str, str] = {}
    for number in LOOKS[look]:
        found.update(re.findall(r"--([\w-]+): ([^;]+);", blocks[number]))
    return {
        name: found[value[6:-1]] if value.startswith("var(") else value
        for name, value in found.items()
    }


def luminance(colour: str) -> float:
    """Of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_by_hand() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize(("text", "ground"), TEXT_ON)
def test_text_can_be_read(look: str, text: str, ground: str) -> None:
    colours = colours_of(look)
    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("look", LOOKS)
def test_the_borders_of_tiles_can_be_seen(look: str) -> None:
    colours = colours_of(look)
    assert contrast(colours["line"], colours["page"]) >= 3


def test_high_contrast_has_more_of_it() -> None:
    for plain, high in (("light", "high contrast"), ("dark", "dark, high contrast")):
        for tile in ("black", "yellow", "green"):
            ratios = [contrast(of[f"on-{tile}"], of[tile]) for of in map(colours_of, (plain, high))]
            assert ratios[1] > ratios[0]
