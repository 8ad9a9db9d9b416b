"""The environments: gymnasium's checks, a game by hand, and one game against many."""

import re
import warnings
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import textrl.envs.registration  # noqa: F401 (registers the environments)
from textrl.envs.wordle import rendering
from textrl.envs.wordle.env import WordleEnv, WordleVectorEnv
from textrl.envs.wordle.game import colour, colours_of, encode_words
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError

ANSWERS = ("crane", "crate", "slate", "abbey", "eerie", "geese", "speed", "moist")
WORDS = WordList("test", ANSWERS, (*ANSWERS, "trace", "stale"))


@pytest.fixture
def env() -> Iterator[WordleEnv]:
    yield WordleEnv(WORDS, render_mode="ansi")


def letters(word: str) -> np.ndarray:
    return encode_words([word])[0].astype(np.int64)


def test_gymnasium_finds_no_fault() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make("textrl/Wordle-v0").unwrapped)
        vector = gymnasium.make_vec("textrl/Wordle-v0", num_envs=3)
    assert isinstance(vector.unwrapped, WordleVectorEnv)
    boards, _ = vector.reset(seed=0)
    assert boards in vector.observation_space
    assert vector.step(vector.action_space.sample())[0] in vector.observation_space


def test_a_won_game_step_by_step(env: WordleEnv) -> None:
    board, info = env.reset(options={"answer": "crate"})
    assert (board == -1).all()
    assert info == {}

    board, reward, terminated, truncated, info = env.step(letters("trace"))
    assert (reward, terminated, truncated) == (-1.0, False, False)
    assert board[0, :, 0].tolist() == letters("trace").tolist()
    assert board[0, :, 1].tolist() == [1, 2, 2, 1, 2]
    assert (board[1:] == -1).all()
    assert info == {
        "pattern": 1 + 2 * 3 + 2 * 9 + 1 * 27 + 2 * 81,
        "guess": env.words.guesses.index("trace"),
        "valid": True,
        "repeated": False,
        "clue_consistent": True,
        "won": False,
        "answer": -1,
    }

    _, reward, _, _, info = env.step(letters("slate"))  # t was yellow in slot 1, c is missing
    assert (reward, info["valid"], info["clue_consistent"]) == (-1.0, True, False)

    _, reward, terminated, truncated, info = env.step(letters("crate"))
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info["won"], info["answer"], info["pattern"]) == (True, 1, 242)
    assert info["clue_consistent"]


def test_six_wrong_guesses_end_the_game_for_good(env: WordleEnv) -> None:
    env.reset(options={"answer": 0})
    for turn in range(6):
        _, reward, terminated, truncated, info = env.step(letters("moist"))
        assert reward == -1.0
        assert terminated is (turn == 5)
        assert truncated is False
        assert info["repeated"] is (turn > 0)
        assert info["clue_consistent"] is (turn == 0)
    assert (info["won"], info["answer"]) == (False, 0)


def test_a_non_word_takes_its_turn_and_is_coloured(env: WordleEnv) -> None:
    env.reset(options={"answer": "speed"})
    board, reward, _, _, info = env.step(letters("eexee"))
    assert (reward, info["valid"]) == (-1.0, False)
    assert board[0, :, 1].tolist() == [1, 0, 0, 2, 0]
    _, _, _, _, info = env.step(letters("zpzez"))  # fewer e's than the clue promised
    assert info["clue_consistent"] is False
    _, _, _, _, info = env.step(letters("zzeez"))  # no word, yet it would fit the first clue
    assert (info["valid"], info["clue_consistent"]) == (False, False)
    env.reset(options={"answer": "speed"})
    env.step(letters("eexee"))
    _, _, _, _, info = env.step(letters("zzeez"))
    assert (info["valid"], info["clue_consistent"]) == (False, True)


def test_the_answer_is_drawn_by_the_seed() -> None:
    def answers(seed: int) -> list[int]:
        env = WordleVectorEnv(200, WORDS)
        env.reset(seed=seed)
        for _ in range(6):
            infos = env.step(np.tile(letters("zzzzz"), (200, 1)))[4]
        return infos["answer"].tolist()

    assert answers(1) == answers(1) != answers(2)
    assert set(answers(1)) == set(range(len(ANSWERS)))


def test_one_game_plays_as_in_a_batch(env: WordleEnv) -> None:
    rng = np.random.default_rng(0)
    games = 40
    answers = rng.integers(len(ANSWERS), size=games)
    # Words, repeats and non-words over few letters: clues matter and games end at all times.
    non_words = rng.choice(WORDS.guess_letters[0], size=(10, 5))
    pool = np.concatenate([WORDS.guess_letters, non_words])
    guesses = pool[rng.integers(len(pool), size=(6, games))].astype(np.int64)

    batch = WordleVectorEnv(games, WORDS)
    batch.reset(options={"answers": answers})
    steps = [batch.step(guess) for guess in guesses]
    winners = steps[-1][4]["won"].sum()
    assert 0 < winners < games

    for game in range(games):
        env.reset(options={"answer": int(answers[game])})
        for turn in range(6):
            boards, rewards, terminations, truncations, infos = steps[turn]
            board, reward, terminated, truncated, info = env.step(guesses[turn, game])
            np.testing.assert_array_equal(board, boards[game])
            assert reward == rewards[game]
            assert (terminated, truncated) == (terminations[game], truncations[game])
            assert info == {name: infos[name][game] for name in info}
            assert infos["played"][game]
            if terminated:
                break


def test_clue_consistency_by_the_definition() -> None:
    rng = np.random.default_rng(1)
    env = WordleVectorEnv(300, WORDS)
    env.reset(seed=3)
    earlier: list[tuple[np.ndarray, np.ndarray]] = []
    verdicts = []
    for _ in range(4):
        guesses = WORDS.guess_letters[rng.integers(len(WORDS.guesses), size=300)]
        infos = env.step(guesses)[4]
        for game in np.flatnonzero(infos["played"]):
            fits = all(
                (colour(guess[game], guesses[game]) == colours_of(patterns[game])).all()
                for guess, patterns in earlier
            )
            assert infos["clue_consistent"][game] == fits
            verdicts.append(fits)
        earlier.append((guesses, infos["pattern"]))
    assert 0.1 < np.mean(verdicts) < 0.9


def test_finished_games_wait_while_others_go_on() -> None:
    env = WordleVectorEnv(2, WORDS)
    env.reset(options={"answers": np.array([0, 3])})
    won, *_ = env.step(np.stack([letters("crane"), letters("crane")]))
    boards, rewards, terminations, _, infos = env.step(
        np.stack([letters("slate"), letters("slate")])
    )
    np.testing.assert_array_equal(boards[0], won[0])
    assert rewards.tolist() == [0.0, -1.0]
    assert terminations.tolist() == [True, False]
    assert infos["played"].tolist() == [False, True]
    assert infos["won"].tolist() == [True, False]
    assert infos["answer"].tolist() == [0, -1]
    assert infos["valid"].tolist() == [False, True]

    boards, _ = env.reset(options={"reset_mask": np.array([True, False])})
    assert (boards[0] == -1).all()
    assert (boards[1, :2] >= 0).all()


def test_a_lost_game_costs_six_however_long_it_is_stepped() -> None:
    env = WordleVectorEnv(2, WORDS)
    env.reset(seed=0)
    rewards = [env.step(np.tile(letters("zzzzz"), (2, 1)))[1] for _ in range(8)]
    assert np.sum(rewards, axis=0).tolist() == [-6.0, -6.0]


def test_returned_boards_are_not_changed_later() -> None:
    env = WordleVectorEnv(1, WORDS)
    empty, _ = env.reset(seed=0)
    env.step(letters("zzzzz")[None])
    assert (empty == -1).all()


def test_wrong_use_is_refused(env: WordleEnv) -> None:
    with pytest.raises(UserError, match=r"'moost' is not an answer .* did you mean 'moist'"):
        env.reset(options={"answer": "moost"})
    with pytest.raises(UserError, match="'trace' is not an answer"):
        env.reset(options={"answer": "trace"})
    with pytest.raises(ValueError, match="8"):
        env.reset(options={"answer": 8})
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"letters 0\.\.25"):
        env.step(np.array([0, 1, 2, 3, 26]))
    with pytest.raises(ValueError, match=r"letters 0\.\.25"):
        env.step(np.array([0, 1, 2, 3]))


def test_the_board_is_drawn_with_colours_and_marks(env: WordleEnv) -> None:
    env.reset(options={"answer": "crate"})
    env.step(letters("cleat"))
    picture = env.render()
    assert picture is not None
    plain = re.sub(r"\033\[[0-9;]*m", "", picture).splitlines()
    assert plain == ["[C] L (E)(A)(T)", *[" _  _  _  _  _ "] * 5]
    assert "\033[30;42m[C]" in picture
    assert "\033[30;43m(E)" in picture


def test_a_word_is_guessed_as_its_letters_are(env: WordleEnv) -> None:
    through_wrappers = gymnasium.make("textrl/Wordle-v0", words=WORDS)
    for other in ("slate", "SLATE", " Slate "):
        env.reset(options={"answer": "crate"})
        expected = env.step(letters("slate"))
        through_wrappers.reset(options={"answer": "Crate"})
        board, *rest = through_wrappers.step(other)
        np.testing.assert_array_equal(board, expected[0])
        assert tuple(rest) == expected[1:]


def test_a_word_that_is_none_is_refused_and_costs_no_turn(env: WordleEnv) -> None:
    env.reset(options={"answer": "crate"})
    with pytest.raises(UserError, match=r"'moust' is not one of the 10 words .* mean 'moist'\?"):
        env.step("moust")
    with pytest.raises(UserError, match=r"'' is not one of .*: guess one of env\.words\.guesses"):
        env.step("")
    board, *_ = env.step("moist")
    assert (board[0] >= 0).all() and (board[1:] == -1).all()


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_gymnasium_finds_no_fault_in_pictures(mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("textrl/Wordle-v0", words="full", render_mode=mode)
        check_env(env.unwrapped)
    many = gymnasium.make_vec("textrl/Wordle-v0", num_envs=2, render_mode=mode)
    many.reset(seed=0)
    assert len(many.render()) == 2


def test_the_picture_has_a_tile_for_each_letter_in_its_colour() -> None:
    env = WordleEnv(WORDS, render_mode="rgb_array")
    env.reset(options={"answer": "crate"})
    env.step("trace")
    picture = env.render()
    assert picture.dtype == np.uint8 and picture.shape == (378, 316, 3)
    corner = rendering.GAP + np.arange(6) * (rendering.TILE + rendering.GAP)
    tiles = picture[np.ix_(corner, corner[:5])]
    yellow, green = rendering.COLOURS[1], rendering.COLOURS[2]
    assert [tuple(tile) for tile in tiles[0].tolist()] == [yellow, green, green, yellow, green]
    assert (tiles[1:] == rendering.EMPTY).all()

    def ink(row: int, column: int) -> np.ndarray:
        y, x = corner[row], corner[column]
        return (picture[y : y + rendering.TILE, x : x + rendering.TILE] == 255).all(axis=-1)

    assert ink(0, 0).sum() == 11 * rendering.PIXEL**2  # T: a bar of five dots and a stem of six
    assert not ink(1, 0).any()


def test_letters_can_be_read_on_every_colour() -> None:
    def luminance(colour: tuple[int, ...]) -> float:
        part = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return float(np.dot(part, [0.2126, 0.7152, 0.0722]))

    for colour_of_tile in rendering.COLOURS.values():
        assert (luminance(rendering.INK) + 0.05) / (luminance(colour_of_tile) + 0.05) >= 4.5
