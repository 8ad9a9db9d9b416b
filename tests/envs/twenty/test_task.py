"""Twenty Questions as a task: episodes as words, settings, data, how play is summed up."""

import json
from pathlib import Path

import numpy as np
import pytest

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.acting.rollout import play
from textrl.config.presets import configure
from textrl.data.dataset import load_episodes, returns_by_behaviour
from textrl.data.episode import Episode
from textrl.data.task_file import describe_task
from textrl.data.validate import check_episodes
from textrl.envs.twenty.crowd import Games, simulate_chunk
from textrl.envs.twenty.env import TwentyQuestionsEnv
from textrl.envs.twenty.task import TwentyTask
from textrl.envs.twenty.things import World
from textrl.model.build import config_for
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members

CONTEXT = 1 + 20 * 6  # <begin>, twenty times five words and an answer


def replay(task: TwentyTask, episode: Episode) -> None:
    """Ask the episode's questions again in the environment, which knows nothing of tokens."""
    words = task.language.tokens
    asked = [" ".join(words[token] for token in step.action) for step in episode.steps]
    # The thing is the one named at last, or any that agrees with all answers.
    facts = dict(zip(task.world.questions, task.world.table, strict=True))
    said = [words[step.observation[0]] for step in episode.steps]
    agrees = np.ones(len(task.world.things), dtype=bool)
    for question, answer in zip(asked, said, strict=True):
        agrees &= facts[question] == (answer == "yes")
    env = TwentyQuestionsEnv(task.world)
    env.reset(options={"thing": int(np.flatnonzero(agrees)[0])})
    for number, step in enumerate(episode.steps):
        _, reward, terminated, _, info = env.step(task.world.questions.index(asked[number]))
        assert reward == step.reward
        assert (said[number] == "yes") == info["answer"] == step.observation_class
        assert terminated == (number == len(episode.steps) - 1)
    assert (episode.terminated, episode.truncated) == (True, False)


def test_a_game_reads_as_text(zoo: World) -> None:
    task = TwentyTask(zoo)
    asked = np.full((1, 20), -1)
    asked[0, :3] = [0, 3, 4]
    (episode,) = task.episodes(Games(np.array([1]), asked, np.array([2])))
    tokens = [*episode.prompt]
    for step in episode.steps:
        tokens += [*step.action, *step.observation]
    assert task.language.tokenizer().decode(tokens) == (
        "<begin> is it an animal ? yes is it an ant ? no is it a bat ? yes"
    )
    assert [step.reward for step in episode.steps] == [-1.0, -1.0, 0.0]
    assert [step.observation_class for step in episode.steps] == [1, 0, 1]
    assert episode.behaviour == "careful"


def test_the_crowds_episodes_replay(twenty: TwentyTask) -> None:
    games = simulate_chunk(twenty.world, 0, 200, seed=0)
    episodes = list(twenty.episodes(games))
    for episode, score in zip(episodes, games.scores(twenty.world), strict=True):
        replay(twenty, episode)
        assert episode.episode_return == score


def test_collected_rows_are_fit_for_training(twenty: TwentyTask, tmp_path: Path) -> None:
    twenty.collect(2100, seed=3, folder=tmp_path / "games", workers=1)
    rows = load_episodes(str(tmp_path / "games"))
    assert len(rows) == 2100
    check_episodes(rows, twenty.language, CONTEXT, twenty.observation_classes)
    assert max(len(tokens) for tokens in rows["tokens"]) == CONTEXT
    returns = returns_by_behaviour(rows)
    described = twenty.describe_data(returns)
    assert described.startswith(
        f"questions wasted  novice: {-returns['novice'].mean():.2f}  casual"
    )


def test_exactly_the_questions_can_be_spelled(twenty: TwentyTask) -> None:
    grammar, spelled = twenty.language.grammar, {}
    ways = {(): 0}
    for _ in range(5):
        ways = {
            (*words, int(token)): int(grammar.next_state[state, token])
            for words, state in ways.items()
            for token in np.flatnonzero(grammar.legal[state])
        }
    spelled = {" ".join(twenty.language.actions[token] for token in words) for words in ways}
    assert spelled == set(twenty.world.questions)
    assert set(ways.values()) == {0}


@pytest.mark.parametrize("preset", ["quick", "full", "paper"])
def test_presets_have_room_for_the_longest_game_and_play_every_thing(preset: str) -> None:
    (member,) = configure("twenty", preset=preset).members.values()
    assert member.context >= CONTEXT
    assert member.evaluate_episodes == 80


def test_a_new_model_plays_by_the_rules(twenty: TwentyTask) -> None:
    run = configure("twenty", preset="quick", algo="bc")
    model = TextRLModel(config_for(Members({"twenty": twenty}), run)).eval()
    policy = Policy(model, twenty.language, Decoding(0.0, sample=True), seed=0)
    played = play(twenty, policy, episodes=80, seed=0)
    for episode in played.episodes:
        replay(twenty, episode)
    lost = [i for i, info in enumerate(played.infos) if not info["won"][-1]]
    metrics = twenty.metrics(played.scores, played.infos)
    assert metrics["win_rate"] == 1 - len(lost) / 80
    assert (played.scores[lost] == -20).all()


def test_an_evaluation_looks_for_all_things_alike(twenty: TwentyTask) -> None:
    whole = twenty.reset_options(40, 160, of=240)["things"]
    assert np.bincount(whole).tolist() == [2] * 80
    part = np.concatenate([twenty.reset_options(i, 10, of=30)["things"] for i in (0, 10, 20)])
    assert len(set(part.tolist())) == 30 and part.max() > 30


def test_actions_are_questions(twenty: TwentyTask) -> None:
    np.testing.assert_array_equal(twenty.to_env_actions(twenty.spellings), np.arange(120))
    with pytest.raises(ValueError, match="spell no question"):
        twenty.to_env_actions(twenty.spellings[:2, ::-1])


def test_settings_make_the_same_task_again(zoo: World) -> None:
    task = TwentyTask(zoo)
    settings = json.loads(json.dumps(describe_task(task)))["settings"]
    again = TwentyTask.from_settings(settings)
    assert again.language.tokens == task.language.tokens
    assert again.settings() == task.settings() and again.world.digest == zoo.digest
    np.testing.assert_array_equal(again.world.facts, zoo.facts)
    yes = {**settings["yes"], "does it have wheels ?": ["car", "kite"]}
    for change in ({"yes": yes}, {"things": None}, {"yes": ["is it an animal ?"]}):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            TwentyTask.from_settings({**settings, **change})


def test_metrics_by_hand(twenty: TwentyTask) -> None:
    def game(won: list[bool], known: list[bool], repeated: list[bool]) -> dict[str, np.ndarray]:
        return {"won": np.array(won), "known": np.array(known), "repeated": np.array(repeated)}

    infos = [
        game([False, True], [False, False], [False, False]),
        game([False] * 6, [True, True, True, False, False, False], [False, True] + [False] * 4),
    ]
    metrics = twenty.metrics(np.array([-1.0, -6.0]), infos)
    assert metrics == {"win_rate": 0.5, "turns": 4.0, "known_rate": 3 / 8, "repeated_rate": 1 / 8}
    assert twenty.describe(metrics) == (
        "won 50.0%; 4.0 questions a game, 37.5% of them with an answer that was known already,"
        " 12.5% asked before"
    )


def test_the_references_are_in_order(twenty: TwentyTask) -> None:
    found = twenty.references(seed=0)
    assert list(found) == ["random", "crowd", "halving", "optimal"]
    means = [reference.mean for reference in found.values()]
    assert means == sorted(means)
    assert found["optimal"].mean == -496 / 80
    assert [reference.stderr > 0 for reference in found.values()] == [False, True, False, False]
