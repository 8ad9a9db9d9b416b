"""The environments: gymnasium's checks, the rules by hand, and one game against many."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import textrl.envs.registration  # noqa: F401 (registers the environments)
from textrl.envs.twenty.env import TwentyQuestionsEnv, TwentyQuestionsVectorEnv
from textrl.envs.twenty.things import World
from textrl.errors import UserError

ANIMAL, FLY, WHEELS, ANT, BAT, CAR, KITE = range(7)


@pytest.mark.parametrize("render_mode", [None, "ansi"])
def test_gymnasium_finds_no_fault(render_mode: str | None) -> None:
    name = "textrl/TwentyQuestions-v0"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name, render_mode=render_mode).unwrapped)
        vector = gymnasium.make_vec(name, num_envs=3, render_mode=render_mode)
    dialogues, _ = vector.reset(seed=0)
    assert dialogues in vector.observation_space
    assert vector.step(vector.action_space.sample())[0] in vector.observation_space
    views = vector.render()
    assert views is None if render_mode is None else len(views) == 3


def test_a_game_by_hand(zoo: World) -> None:
    env = TwentyQuestionsEnv(zoo, render_mode="ansi")
    start, _ = env.reset(options={"thing": "kite"})
    assert (start == -1).all()
    told = []
    for question in (ANIMAL, ANIMAL, ANT, WHEELS, CAR, KITE):
        dialogue, reward, terminated, truncated, info = env.step(question)
        told.append(
            [reward, terminated, *(info[n] for n in ("answer", "repeated", "known", "possible"))]
        )
        assert not truncated
    assert told == [
        [-1.0, False, 0, False, False, 2],  # not an animal: car or kite
        [-1.0, False, 0, True, True, 2],
        [-1.0, False, 0, False, True, 2],  # an ant is an animal
        [-1.0, False, 0, False, False, 1],
        [-1.0, False, 0, False, True, 1],
        [0.0, True, 1, False, False, 1],  # a guess that wins is never in vain
    ]
    assert info["won"] and info["thing"] == 3
    assert dialogue[:7].tolist() == [[0, 0], [0, 0], [3, 0], [2, 0], [5, 0], [6, 1], [-1, -1]]
    assert env.render() == (
        " 1. Is it an animal? no\n"
        " 2. Is it an animal? no\n"
        " 3. Is it an ant? no\n"
        " 4. Does it have wheels? no\n"
        " 5. Is it a car? no\n"
        " 6. Is it a kite? yes"
    )


def test_after_twenty_questions_the_game_is_lost_and_the_thing_is_told(zoo: World) -> None:
    env = TwentyQuestionsEnv(zoo, render_mode="ansi")
    env.reset(options={"thing": 0})
    steps = [env.step(FLY) for _ in range(20)]
    assert sum(reward for _, reward, *_ in steps) == -20
    assert [terminated for _, _, terminated, *_ in steps] == [False] * 19 + [True]
    assert not any(truncated for _, _, _, truncated, _ in steps)
    assert [info["thing"] for *_, info in steps] == [-1] * 19 + [0]
    assert not steps[-1][4]["won"]
    assert env.render().splitlines()[-2:] == [
        "20. Can it actually fly? no",
        "    lost: it was an ant",
    ]


def test_the_last_question_can_still_win(zoo: World) -> None:
    env = TwentyQuestionsEnv(zoo)
    env.reset(options={"thing": "bat"})
    for _ in range(19):
        env.step(FLY)
    _, reward, terminated, _, info = env.step(BAT)
    assert (reward, terminated, info["won"]) == (0.0, True, True)


def test_one_game_goes_as_in_a_batch(world: World) -> None:
    games = 40
    rng = np.random.default_rng(0)
    things = rng.integers(80, size=games)
    batch = TwentyQuestionsVectorEnv(games, world)
    batch.reset(options={"things": things})
    actions = rng.integers(120, size=(20, games))
    actions[7, ::2] = 40 + things[::2]  # half of them win in the eighth turn
    steps = [batch.step(action) for action in actions]
    single = TwentyQuestionsEnv(world)
    for game in range(games):
        single.reset(options={"thing": int(things[game])})
        for turn in range(20):
            dialogues, rewards, ended, _, infos = steps[turn]
            dialogue, reward, terminated, _, info = single.step(int(actions[turn, game]))
            assert (dialogue == dialogues[game]).all()
            assert (reward, terminated) == (rewards[game], ended[game])
            assert info == {name: infos[name][game] for name in info}
            if terminated:
                break
        assert turn == (7 if game % 2 == 0 else 19) or info["won"]


def test_finished_games_wait_while_others_go_on(zoo: World) -> None:
    env = TwentyQuestionsVectorEnv(2, zoo)
    env.reset(options={"things": [0, 0]})
    first, *_ = env.step(np.array([ANT, FLY]))
    dialogues, rewards, terminated, _, infos = env.step(np.array([FLY, FLY]))
    assert dialogues[0].tolist() == first[0].tolist()
    assert rewards.tolist() == [0.0, -1.0]
    assert terminated.tolist() == [True, False]
    assert infos["played"].tolist() == [False, True]
    assert infos["won"].tolist() == [True, False]
    dialogues, _ = env.reset(
        options={"things": [2, 2], "reset_mask": np.array([True, False])},
    )
    assert (dialogues[0] == -1).all() and dialogues[1, 1].tolist() == [FLY, 0]
    _, _, _, _, infos = env.step(np.array([CAR, ANT]))
    assert infos["won"].tolist() == [True, True]  # the second game still hides the ant


def test_the_seed_decides_the_thing(world: World) -> None:
    def things(seed: int) -> list[int]:
        env = TwentyQuestionsVectorEnv(30, world)
        env.reset(seed=seed)
        for _ in range(20):
            infos = env.step(np.zeros(30, dtype=np.int64))[4]
        return infos["thing"].tolist()

    assert things(1) == things(1) != things(2)


def test_wrong_use_is_refused(zoo: World) -> None:
    env = TwentyQuestionsVectorEnv(2, zoo)
    for things in ([0], [0, 4], [-1, 0]):
        with pytest.raises(ValueError, match="2 indices below 4"):
            env.reset(options={"things": things})
    env.reset(seed=0)
    for actions in ([0, 7], [0, -1], [0]):
        with pytest.raises(ValueError, match=r"2 numbers 0\.\.6"):
            env.step(np.array(actions))
    with pytest.raises(UserError, match="did you mean 'kite'"):
        TwentyQuestionsEnv(zoo).reset(options={"thing": "kit"})
