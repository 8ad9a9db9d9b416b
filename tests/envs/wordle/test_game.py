"""The colouring rules, by hand and against a slow, obvious implementation."""

import numpy as np
import pytest

from textrl.envs.wordle.game import (
    ALL_GREEN,
    PATTERNS,
    Letters,
    colour,
    colours_of,
    decode_words,
    encode_words,
    pattern_of,
    pattern_table,
    score,
)


def colour_by_hand(guess: list[int], answer: list[int]) -> list[int]:
    """The rule as people say it: greens first, then yellows while copies of the letter last."""
    colours = [2 if ours == theirs else 0 for ours, theirs in zip(guess, answer, strict=True)]
    left = [theirs for ours, theirs in zip(guess, answer, strict=True) if ours != theirs]
    for slot, letter in enumerate(guess):
        if colours[slot] == 0 and letter in left:
            colours[slot] = 1
            left.remove(letter)
    return colours


def random_words(count: int, alphabet: int, seed: int) -> Letters:
    return np.random.default_rng(seed).integers(alphabet, size=(count, 5)).astype(np.uint8)


@pytest.mark.parametrize(
    ("guess", "answer", "expected"),
    [
        ("crane", "crane", "22222"),
        ("crane", "moist", "00000"),
        ("least", "slate", "11211"),
        ("speed", "abide", "00101"),  # one e to find: the second e of the guess is surplus
        ("speed", "erase", "10110"),  # two e's to find: both are yellow
        ("speed", "steal", "20200"),  # the only e is green elsewhere: none left
        ("llama", "label", "21100"),  # one l green, the other yellow; the second a is surplus
        ("geese", "elegy", "11200"),
        ("eerie", "there", "10102"),  # the last e is green before the first may claim a copy
        ("mamma", "magma", "22022"),
    ],
)
def test_hand_computed_colours(guess: str, answer: str, expected: str) -> None:
    colours = colour(encode_words([guess]), encode_words([answer]))
    assert "".join(map(str, colours[0])) == expected


@pytest.mark.parametrize("alphabet", [2, 4, 26])
def test_colour_agrees_with_the_obvious_rule(alphabet: int) -> None:
    guesses, answers = random_words(3000, alphabet, seed=1), random_words(3000, alphabet, seed=2)
    expected = [
        colour_by_hand(*pair) for pair in zip(guesses.tolist(), answers.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(colour(guesses, answers), expected)


def test_table_holds_every_pair_across_its_blocks() -> None:
    guesses, answers = random_words(90, 5, seed=3), random_words(2000, 5, seed=4)
    table = pattern_table(guesses, answers)
    assert table.shape == (90, 2000)
    rng = np.random.default_rng(5)
    rows, columns = rng.integers(90, size=2000), rng.integers(2000, size=2000)
    for row, column in zip(rows, columns, strict=True):
        colours = colour_by_hand(guesses[row].tolist(), answers[column].tolist())
        assert table[row, column] == sum(c * 3**slot for slot, c in enumerate(colours))


def test_score_is_the_pattern_of_the_colours_and_broadcasts() -> None:
    guesses, answers = random_words(7, 4, seed=6), random_words(5, 4, seed=7)
    patterns = score(guesses[:, None], answers[None])
    np.testing.assert_array_equal(patterns, pattern_of(colour(guesses[:, None], answers[None])))
    assert patterns.shape == (7, 5)


def test_patterns_and_colours_are_inverse() -> None:
    patterns = np.arange(PATTERNS, dtype=np.uint8)
    colours = colours_of(patterns)
    np.testing.assert_array_equal(pattern_of(colours), patterns)
    assert len(np.unique(colours, axis=0)) == PATTERNS
    assert colours_of(np.uint8(ALL_GREEN)).tolist() == [2] * 5
    assert colours_of(np.uint8(1)).tolist() == [1, 0, 0, 0, 0]


def test_words_survive_encoding() -> None:
    assert encode_words(["abcyz"]).tolist() == [[0, 1, 2, 24, 25]]
    assert decode_words(encode_words(["crane", "zebra"])) == ["crane", "zebra"]
