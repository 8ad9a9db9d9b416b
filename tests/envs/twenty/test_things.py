"""The world: what its file says holds together, and faults in such a file are found."""

import itertools

import numpy as np
import pytest

from textrl.envs.twenty.things import World, with_article


def named(world: World, question: str) -> set[str]:
    return set(world.yes[question])


def test_the_world_has_eighty_things_that_forty_questions_tell_apart(world: World) -> None:
    assert (len(world.things), len(world.kinds), len(world.questions)) == (80, 40, 120)
    for a, b in itertools.combinations(range(80), 2):
        assert (world.facts[:, a] != world.facts[:, b]).any()


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("is it a mammal ?", "does it have bones ?"),
        ("does it have bones ?", "is it an animal ?"),
        ("is it a bird ?", "does it lay eggs ?"),
        ("does it lay eggs ?", "is it an animal ?"),
        ("is it a pet ?", "is it an animal ?"),
        ("do we milk it ?", "is it a mammal ?"),
        ("does it weigh tonnes ?", "does it outweigh you ?"),
        ("is it a fruit ?", "is it a food ?"),
        ("does it taste sweet ?", "is it a food ?"),
        ("is it a vehicle ?", "is it man made ?"),
        ("does it have wheels ?", "is it a vehicle ?"),
        ("do you need two ?", "can you wear it ?"),
        ("can you wear it ?", "is it man made ?"),
        ("does it need electricity ?", "is it man made ?"),
    ],
)
def test_what_is_the_one_is_the_other(world: World, narrow: str, wide: str) -> None:
    assert named(world, narrow) < named(world, wide)


def test_what_is_the_one_is_not_the_other(world: World) -> None:
    for several in (
        ["is it an animal ?", "is it man made ?"],
        ["is it an animal ?", "is it a food ?", "is it a plant ?", "is it a vehicle ?"],
        ["is it a mammal ?", "is it a bird ?"],
        ["is it a mammal ?", "does it lay eggs ?"],
        ["is it thumb sized ?", "does it outweigh you ?"],
        [f"is it mostly {of} ?" for of in ("metal", "wooden", "cloth", "paper")],
        ["is it an instrument ?", "is it a toy ?", "is it kitchen equipment ?"],
    ):
        for a, b in itertools.combinations(several, 2):
            assert not named(world, a) & named(world, b)


def test_guesses_come_after_the_kinds_and_are_true_of_one_thing(zoo: World) -> None:
    assert zoo.questions[3:] == (
        "is it an ant ?",
        "is it a bat ?",
        "is it a car ?",
        "is it a kite ?",
    )
    assert zoo.table.astype(int).tolist() == [
        [1, 1, 0, 0],
        [0, 1, 0, 1],
        [0, 0, 1, 0],
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]
    assert [zoo.questions[zoo.guess_of(i)] for i in (0, 3)] == ["is it an ant ?", "is it a kite ?"]
    assert [with_article(thing) for thing in ("cat", "owl")] == ["a cat", "an owl"]


def test_a_text_is_read_with_comments_and_things_on_several_lines(zoo: World) -> None:
    text = """
# a comment: with a colon
things: ant bat
things: car kite
is it an animal ?: ant bat
can it actually fly ?: bat kite

does it have wheels ?: car
"""
    parsed = World.parse(text)
    assert (parsed.things, parsed.kinds) == (zoo.things, zoo.kinds)
    np.testing.assert_array_equal(parsed.facts, zoo.facts)
    assert parsed.digest == zoo.digest
    changed = World.parse(text.replace(": bat kite", ": bat"))
    assert changed.digest != zoo.digest


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("things: ant", "none of them twice"),
        ("is it an animal ?: ant", "new question"),
        ("is it alive ?: ant bat", "4 words"),
        ("is it an animal now: ant bat", "4 words"),
        ("is it a bat ?: bat", "what a guess asks"),
        ("is it a bird ?: owl", "none of the things"),
        ("is it a bird ?: bat bat", "twice"),
        ("is it a bird ?:", "no two things apart"),
        ("is it a thing ?: ant bat car kite", "no two things apart"),
        ("things: bee", "no question tells 'bee' from 'kite'"),
        ("is it a bird", "a colon"),
    ],
)
def test_faults_are_found(line: str, fault: str) -> None:
    text = "things: ant bat car kite\nis it an animal ?: ant bat\nis it a machine ?: car\n"
    text += "does it have fur ?: bat\n"
    World.parse(text)
    with pytest.raises(ValueError, match=fault):
        World.parse(text + line)
