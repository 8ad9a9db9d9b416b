"""Settings of a run over several tasks: whose they are, where they come from, what is refused."""

from pathlib import Path

import pytest
import yaml

from textrl.config.command_line import parse_config
from textrl.config.presets import (
    PRESETS,
    SHARED,
    flat_settings,
    load_config,
    own_options,
    save_config,
)
from textrl.config.train import TrainConfig
from textrl.errors import UserError

BOTH = ("--task", "wordle,gridworld")


@pytest.fixture
def presets(tmp_path: Path) -> Path:
    """Presets of two tasks and of both together."""
    texts = {
        "wordle/quick": "beta: 8.0\nlayers: 9\nbatch_size: 64\n",
        "gridworld/quick": "beta: 100.0\ndiscount: 0.9\nbatch_size: 32\naccumulation: 2\n",
        "combined/quick": "layers: 3\nmax_steps: 7\ngridworld:\n  beta: 20\n  expectile: 0.9\n",
        "accelerate/gpus": "num_processes: 2\n",
    }
    for name, text in texts.items():
        path = tmp_path / "presets" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "presets"


def parse(presets: Path, *argv: str) -> TrainConfig:
    return parse_config(argv, "Train.", "textrl train", presets)


def combined(presets: Path, *argv: str) -> TrainConfig:
    return parse(presets, *BOTH, *argv)


def test_command_line_over_section_over_the_task_s_preset(presets: Path) -> None:
    config = combined(presets, "--gridworld.expectile", "0.7", "--width", "64")
    wordle, gridworld = config.members.values()
    assert (config.task, config.layers, config.max_steps, config.width) == (
        *("wordle,gridworld", 3, 7),
        64,
    )
    assert not hasattr(wordle, "layers")  # what is shared is the run's, whatever a preset says
    assert (wordle.task, wordle.beta, wordle.batch_size) == ("wordle", 8.0, 64)
    assert (gridworld.task, gridworld.beta, gridworld.discount) == ("gridworld", 20.0, 0.9)
    assert gridworld.algo_options.expectile == 0.7


def test_one_task_is_as_ever(presets: Path) -> None:
    config = parse(presets, "--task", "wordle", "--beta", "3")
    assert config.layers == 9 and config.members["wordle"].beta == 3.0


def test_the_mix_scales_episodes_and_weights(presets: Path) -> None:
    config = combined(presets, "--mix", "gridworld=0.5")
    assert config.proportions == {"wordle": 1.0, "gridworld": 0.5}
    assert {name: each.batch_size for name, each in config.sized_members.items()} == {
        "wordle": 64,
        "gridworld": 16,
    }
    # Never less than one for each part of a step.
    tiny = combined(presets, "--mix", "gridworld=0.001").sized_members
    assert tiny["gridworld"].batch_size == 2


def test_it_comes_back_from_disk(presets: Path, tmp_path: Path) -> None:
    config = combined(
        presets, "--mix", "wordle=2", "--wordle.data", "games", "--no-wordle.constrain"
    )
    save_config(config, tmp_path / "training.yaml")
    assert load_config(tmp_path / "training.yaml") == config
    content = yaml.safe_load((tmp_path / "training.yaml").read_text())
    assert set(content) == {*SHARED, "wordle", "gridworld"}
    assert set(content["wordle"]) == {*own_options("wordle", "ilql")}
    assert content["wordle"]["constrain"] is False


def test_trackers_get_plain_values(presets: Path) -> None:
    found = flat_settings(combined(presets))
    assert (found["layers"], found["wordle.beta"], found["gridworld.beta"]) == (3, 8.0, 20.0)
    assert all(isinstance(value, str | int | float) for value in found.values())


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--task", "wordle,wordel"), "unknown task 'wordel': did you mean 'wordle'?"),
        (("--task", "wordle,wordle"), "--task wordle,wordle names 'wordle' twice"),
        (("--task", "wordle,"), "unknown task ''"),
        (("--task", "wordle,combined"), "unknown task 'combined' (tasks: gridworld, text,"),
        (("--task", "combined"), "unknown task 'combined' (tasks: gridworld, text,"),
        (("--task", "accelerate"), "unknown task 'accelerate'"),
        (
            (*BOTH, "--data", "x"),
            "--data is set per task in a run of several: use --wordle.data",
        ),
        ((*BOTH, "--beta=3"), "use --wordle.beta or --gridworld.beta"),
        (
            (*BOTH, "--no-constrain"),
            "--no-constrain is set per task in a run of several",
        ),
        ((*BOTH, "--gridworld.words", "x"), "--gridworld.words is for wordle, not for gridworld"),
        (
            ("--task", "wordle,text"),
            "text uses the tokens of its language model and can only be trained alone",
        ),
        ((*BOTH, "--wordle.batchsize", "3"), "did you mean '--wordle.batch-size'?"),
        ((*BOTH, "--wordle.beta", "x"), "--wordle.beta must be a number, not 'x'"),
        ((*BOTH, "--mix", "wordel=2"), "unknown task 'wordel': did you mean 'wordle'?"),
        ((*BOTH, "--mix", "wordle=0"), "wordle must be a number above 0, not '0'"),
        ((*BOTH, "--mix", "wordle"), "wordle must be a number above 0, not ''"),
        (("--task", "wordle", "--mix", "wordle=2"), "--mix wordle=2 is for several tasks"),
        ((*BOTH, "--backbone", "some/model"), "which no language model speaks: choose gpt2 or rnn"),
        ((*BOTH, "--lora-rank", "4"), "is for pretrained language models"),
        ((*BOTH, "--held-out", "0.1"), "--held-out is for text, not for wordle"),
        ((*BOTH, "--preset", "quik"), "unknown preset 'quik': did you mean 'quick'?"),
    ],
)
def test_mistakes(presets: Path, argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError) as error:
        parse(presets, *argv)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beta: 3\n", "beta is set per task: move it into the section"),
        ("wordle:\n  layers: 3\n", "wordle: layers applies to all tasks: move it out"),
        ("wordle:\n  betta: 3\n", "unknown key 'betta': did you mean 'beta'?"),
        ("wordle: 3\n", "wordle must hold lines of 'key: value', not 3"),
        ("wordel:\n  beta: 3\n", "unknown key 'wordel'"),
        ("preset: full\n", "preset belongs on the command line"),
        ("on_bad_rows: skip\n", "on_bad_rows is for text, which is not in this run"),
        ("wordle:\n  held_out: 0.1\n", "held_out is for text, not for wordle"),
    ],
)
def test_mistakes_in_a_preset(presets: Path, text: str, message: str) -> None:
    (presets / "combined" / "quick.yaml").write_text(text)
    with pytest.raises(UserError) as error:
        combined(presets)
    assert message in str(error.value)


def test_a_resumed_run_keeps_its_settings(presets: Path, tmp_path: Path) -> None:
    output = ("--output", str(tmp_path / "run"), "--resume")
    (tmp_path / "run").mkdir()
    config = combined(presets, *output[:2], "--gridworld.beta", "5")
    save_config(config, tmp_path / "run" / "training.yaml")
    assert combined(presets, *output).members["gridworld"].beta == 5.0
    with pytest.raises(UserError, match=r"cannot resume with --gridworld\.beta 6"):
        combined(presets, *output, "--gridworld.beta", "6")
    with pytest.raises(UserError, match="cannot resume with --width 64"):
        combined(presets, *output, "--width", "64")
    with pytest.raises(UserError, match="cannot resume with --task gridworld,wordle"):
        parse(presets, "--task", "gridworld,wordle", *output)


def test_help_shows_each_task_s_own(presets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(presets, *BOTH, "--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "gridworld's own" in text and "--gridworld.beta X" in text
    assert "(default: 20.0)" in text and "(default: 8.0)" in text


def test_the_shipped_preset_parses() -> None:
    config = parse(PRESETS, "--task", "wordle,gridworld,vizdoom,twenty")
    assert len(config.members) == 4
    algorithms = [member.algo for member in config.members.values()]
    assert algorithms == ["ilql", "cql", "cql", "ilql"]
    assert config.algorithms == "wordle ilql, gridworld cql, vizdoom cql, twenty ilql"
    assert parse(PRESETS, "--task", "vizdoom").algorithms == "iql"


def test_the_shipped_mix_is_of_the_tasks_that_are_there() -> None:
    every = parse(PRESETS, "--task", "wordle,gridworld,vizdoom")
    two = parse(PRESETS, "--task", "wordle,gridworld")
    assert every.proportions == {"wordle": 1.0, "gridworld": 0.5, "vizdoom": 1.5}
    assert two.proportions == {"wordle": 1.0, "gridworld": 0.5}
    assert [each.batch_size for each in every.sized_members.values()] == [64, 16, 12]
