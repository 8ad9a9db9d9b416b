"""Settings: who overrides whom, what is refused and how, and that nothing is lost on disk."""

from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from textrl.config.command_line import parse_config
from textrl.config.options import flag, options_of
from textrl.config.parser import make_parser
from textrl.config.presets import (
    PRESETS,
    SHARED,
    configure,
    load_config,
    own_options,
    save_config,
)
from textrl.config.registry import ALGORITHMS, TASKS, find, known
from textrl.config.train import BisimulationConfig, MemberConfig, TrainConfig
from textrl.errors import UserError

NO_TASKS = ("accelerate", "combined")  # folders of other settings
PRESET_FILES = sorted(f for f in PRESETS.glob("*/*.yaml") if f.parent.name not in NO_TASKS)
EXAMPLE = "textrl train --task wordle"
EVERY = {**SHARED, **own_options("wordle", "ilql")}
"""The options of the default run."""


@pytest.fixture
def presets(tmp_path: Path) -> Path:
    """Two tasks; one of them with two presets."""
    for name, text in {
        "wordle/quick": "learning_rate: 1e-3\nlayers: 3\n",
        "wordle/paper": "learning_rate: 1e-4\n",
        "gridworld/quick": "# only comments\n",
    }.items():
        file = tmp_path / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return tmp_path


def parse(presets: Path, *argv: str) -> TrainConfig:
    return parse_config(argv, "Train an agent.", EXAMPLE, presets, task="wordle")


def only(config: TrainConfig) -> MemberConfig:
    (member,) = config.members.values()
    return member


def write_quick(presets: Path, text: str) -> Path:
    file = presets / "wordle" / "quick.yaml"
    file.write_text(text)
    return file


def test_command_line_over_preset_over_defaults(presets: Path) -> None:
    config = parse(presets, "--layers", "5")
    assert config == configure("wordle", layers=5, learning_rate=1e-3)


def test_task_and_preset_choose_the_file(presets: Path) -> None:
    assert parse(presets, "--preset", "paper") == configure(
        "wordle", preset="paper", presets=presets, learning_rate=1e-4
    )
    assert parse(presets, "--task=gridworld") == configure("gridworld")


def test_flags_may_name_every_option(presets: Path) -> None:
    argv = []
    for name, option in EVERY.items():
        if option.kind is bool:
            argv.append(flag(name) if option.default else flag(f"no-{name}"))
        else:
            argv.append(f"{flag(name)}={option.default if name != 'task' else 'wordle'}")
    assert parse(presets, *argv) == configure("wordle")


def test_a_run_has_few_fields_and_names_no_task() -> None:
    assert len(fields(TrainConfig)) <= 41
    own = {name for task in known(TASKS) for name in options_of(find(TASKS, task).options)}
    own |= {
        name for algo in known(ALGORITHMS) for name in options_of(find(ALGORITHMS, algo).options)
    }
    assert own and not own & {*SHARED, *options_of(MemberConfig)}


def test_bool_flags_go_both_ways(presets: Path) -> None:
    config = parse(presets, "--resume", "--no-constrain", "--output", str(presets / "run"))
    assert (config.resume, only(config).task_options.constrain) == (True, False)


def test_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        configure("wordle").seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--task", "wordel"],
            "unknown task 'wordel': did you mean 'wordle'? (tasks: gridworld, text, tmaze, ",
        ),
        (
            ["--preset", "papr"],
            "unknown preset 'papr': did you mean 'paper'? (presets: paper, quick)",
        ),
        (
            ["--task", "gridworld", "--preset", "paper"],
            "unknown preset 'paper' (presets: quick)",
        ),
        (["--preset", "../gridworld/quick"], "unknown preset '../gridworld/quick'"),
        (
            ["--learning-rte", "1"],
            "unknown option '--learning-rte': did you mean '--learning-rate'",
        ),
        (["--learning_rate=1"], "unknown option '--learning_rate': did you mean '--learning-rate'"),
        (["--learn", "1"], "unknown option '--learn'"),
        (["--no-resum"], "unknown option '--no-resum': did you mean '--no-resume'?"),
        (["wordle"], "unexpected argument 'wordle' (see --help)"),
        (["--seed"], "argument --seed: expected one argument (see --help)"),
        (["--task"], "argument --task: expected one argument (see --help)"),
        (["--algo", "ilqq"], "unknown algorithm 'ilqq': did you mean 'ilql'?"),
        (["--seed", "abc"], "--seed must be a whole number, not 'abc'"),
        (["--max-steps", "1.5"], "--max-steps must be a whole number, not '1.5'"),
        (["--max-steps", "0"], "--max-steps must be at least 1, not 0"),
        (["--seed", "-1"], "--seed must be at least 0, not -1"),
        (["--learning-rate", "fast"], "--learning-rate must be a number, not 'fast'"),
        (["--learning-rate", ""], "--learning-rate must be a number, not ''"),
        (["--learning-rate", "nan"], "--learning-rate must be a number, not 'nan'"),
        (["--beta", "inf"], "--beta must be a number, not 'inf'"),
        (["--beta", "1e999"], "--beta must be a number, not '1e999'"),
        (["--discount", "1.01"], "--discount must be at most 1, not 1.01"),
        (["--algo", "filtered-bc", "--keep-top", "0"], "--keep-top must be above 0, not 0"),
        (["--keep-top", "0.5"], "--keep-top is for filtered-bc, not for wordle with ilql: leave"),
        (
            ["--algo", "bc", "--expectile=0.9"],
            "--expectile is for ilql and iql, not for wordle",
        ),
        (["--layout", "x"], "--layout is for gridworld, not for wordle with ilql: leave it out"),
        (["--no-whole-actions", "--algo", "cql"], "--no-whole-actions is for ilql, not for"),
        (["--algo", "nowhere:ALGO"], "--algo nowhere:ALGO cannot be imported: No module named"),
        (["--task", "json:JSONDecoder"], "--task json:JSONDecoder is none: it needs a name"),
        (["--width", "130"], "width 130 does not divide into attention_heads 4 equal parts"),
        (["--backbone", "rrn"], "unknown backbone 'rrn': did you mean 'rnn'?"),
        (["--backbone", "./lama"], "unknown backbone './lama' (backbones: gpt2, rnn), nor is"),
        (["--q-head", "shard"], "unknown q_head 'shard': did you mean 'shared'?"),
        (["--q-head", "shared"], "--q-head shared needs a language model's embeddings"),
        (["--q-rank", "0"], "--q-rank must be at least 1, not 0"),
        (["--cell", "lst"], "unknown cell 'lst': did you mean 'lstm'?"),
        (["--representation-hidden", "-1"], "--representation-hidden must be at least 0, not -1"),
        (["--representation-bound", "-1"], "--representation-bound must be at least 0, not -1"),
        (["--bisim", "-0.1"], "--bisim must be at least 0, not -0.1"),
        (["--bisim-distance", "l3"], "unknown bisim_distance 'l3'"),
        (["--bisim-discount", "much"], "--bisim-discount must be a number, not 'much'"),
        (["--bisim-actions", "dat"], "unknown bisim_actions 'dat': did you mean 'data'?"),
        (["--bisim-inverse", "-1"], "--bisim-inverse must be at least 0, not -1"),
        (["--bisim-fit", "-1"], "--bisim-fit must be at least 0, not -1"),
        (["--bisim-every", "0"], "--bisim-every must be at least 1, not 0"),
        (["--accumulation", "3"], "batch_size 64 does not divide into accumulation 3 equal parts"),
    ],
)
def test_mistakes_on_the_command_line(presets: Path, argv: list[str], message: str) -> None:
    with pytest.raises(UserError) as error:
        parse(presets, *argv)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rte: 1", "unknown key 'learning_rte': did you mean 'learning_rate'?"),
        ("learning-rate: 1", "unknown key 'learning-rate': did you mean 'learning_rate'?"),
        ("1: 2", "unknown key '1'"),
        ("layers: two", "layers must be a whole number, not 'two'"),
        ("layers: 2.0", "layers must be a whole number, not 2.0"),
        ("layers: true", "layers must be a whole number, not True"),
        ("layers: [2]", "layers must be a whole number, not [2]"),
        ("layers:", "layers must be a whole number, not None"),
        ("learning_rate: yes", "learning_rate must be a number, not True"),
        ("learning_rate: .nan", "learning_rate must be a number, not nan"),
        ("learning_rate: -.inf", "learning_rate must be a number, not -inf"),
        ("learning_rate: -1e-3", "learning_rate must be at least 0, not -1e-3"),
        (f"learning_rate: {10**400}", "learning_rate must be a number, not 1000"),
        (f"layers: {10**400}", "layers must be a whole number, not 1000"),
        ("resume: 1", "resume must be true or false, not 1"),
        ("resume: 'true'", "resume must be true or false, not 'true'"),
        ("data: 2024", "data must be text, not 2024"),
        ("data: [a, b]", "data must be text, not ['a', 'b']"),
        ("algo: ilqq", "algo: unknown algorithm 'ilqq': did you mean 'ilql'?"),
        ("algo: [bc]", "algo must be text, not ['bc']"),
        ("algo: os:system", "algo: the algorithm 'os:system' is code: name it with --algo"),
        ("layout: default", "layout is for gridworld, not for wordle"),
        ("keep_top: 0", "keep_top must be above 0, not 0"),
        ("task: gridworld", "task belongs on the command line: remove it"),
        ("preset: paper", "preset belongs on the command line: remove it"),
    ],
)
def test_mistakes_in_a_preset_name_the_file(presets: Path, text: str, message: str) -> None:
    file = write_quick(presets, text)
    with pytest.raises(UserError) as error:
        parse(presets)
    assert str(error.value).startswith(f"{file}: {message}")


@pytest.mark.parametrize("text", ["- layers\nwidth: 1", "\x00", "a: {", "{[1]: 2}"])
def test_broken_yaml_names_the_file(presets: Path, text: str) -> None:
    file = write_quick(presets, text)
    with pytest.raises(UserError) as error:
        parse(presets)
    assert str(error.value).startswith(f"{file} is not valid YAML: ")


def test_bytes_that_are_no_text_name_the_file(presets: Path) -> None:
    file = presets / "wordle" / "quick.yaml"
    file.write_bytes(b"data: \xff\xfe\xfa")
    with pytest.raises(UserError) as error:
        parse(presets)
    assert str(error.value).startswith(f"{file} is not valid YAML: ")


@pytest.mark.parametrize("text", ["- layers", "layers"])
def test_yaml_without_keys_is_refused(presets: Path, text: str) -> None:
    file = write_quick(presets, text)
    with pytest.raises(UserError) as error:
        parse(presets)
    assert str(error.value).startswith(f"{file} must hold lines of 'key: value'")


def test_numbers_have_the_type_of_their_field(presets: Path) -> None:
    write_quick(presets, "learning_rate: 1e-4\nbeta: 2\nepisodes: 1_000\nclip_norm: 5.0e-1")
    config = parse(presets, "--discount", "1", "--width", "64")
    member = only(config)
    assert (config.learning_rate, member.beta, member.episodes) == (1e-4, 2.0, 1000)
    assert (config.clip_norm, member.algo_options.discount, config.width) == (0.5, 1.0, 64)
    for value in (config.learning_rate, member.beta, config.clip_norm, member.discount):
        assert type(value) is float
    assert type(member.episodes) is type(config.width) is int


def test_resume_takes_the_settings_of_the_run_over_the_preset(presets: Path) -> None:
    run = presets / "run"
    run.mkdir()
    begun = configure("wordle", output=str(run), learning_rate=5e-3, layers=7, max_steps=10)
    save_config(begun, run / "training.yaml")
    assert parse(presets, "--resume", "--output", str(run)) == replace(begun, resume=True)
    with pytest.raises(UserError, match=r"^cannot resume with --layers 2: the run in .* has 7; "):
        parse(presets, "--resume", "--output", str(run), "--layers", "2")


def test_a_resumed_run_may_go_on_for_longer_but_not_end_sooner(presets: Path) -> None:
    run = presets / "run"
    run.mkdir()
    save_config(configure("wordle", output=str(run), max_steps=10), run / "training.yaml")
    more = parse(presets, "--resume", "--output", str(run), "--max-steps", "20")
    assert more.max_steps == 20
    with pytest.raises(UserError, match=r"^cannot resume with --max-steps 5: the run in .* has 10"):
        parse(presets, "--resume", "--output", str(run), "--max-steps", "5")


MANY: dict[str, Any] = {
    "algo": "cql",
    "backbone": "rnn",
    "cell": "lstm",
    "bisim": 0.05,
    "bisim_distance": "squared-l2",
    "bisim_actions": "data",
    "output": "runs/ä: b #1",
    "data": "1e-4",
    "words": "yes",
    "resume": True,
    "seed": 2**32 - 1,
    "learning_rate": 1e-5 / 3,
    "weight_decay": 1e-300,
    "discount": 1.0,
    "tracker": "wandb",
}


@pytest.mark.parametrize("settings", [{}, MANY], ids=["defaults", "many"])
def test_saved_config_reads_back_equal(settings: dict[str, Any], tmp_path: Path) -> None:
    config = configure("wordle", **settings)
    file = tmp_path / "training.yaml"
    save_config(config, file)
    assert load_config(file) == config


def test_saved_config_holds_every_setting(tmp_path: Path) -> None:
    file = tmp_path / "training.yaml"
    save_config(configure("wordle"), file)
    assert list(yaml.safe_load(file.read_text())) == list(EVERY)


def test_absent_keys_of_a_saved_config_take_their_defaults(tmp_path: Path) -> None:
    file = tmp_path / "training.yaml"
    file.write_text("task: gridworld\n")
    assert load_config(file) == configure("gridworld")


def test_a_preset_s_values_for_another_algorithm_wait_for_it(presets: Path) -> None:
    write_quick(presets, "expectile: 0.7\nkeep_top: 0.1\nconservatism: 0.5\n")
    assert only(parse(presets)).algo_options.expectile == 0.7
    assert only(parse(presets, "--algo", "filtered-bc")).algo_options.keep_top == 0.1
    assert only(parse(presets, "--algo", "cql")).algo_options.conservatism == 0.5
    assert only(parse(presets, "--algo", "bc")).discount == 1.0


def test_configure_checks_as_the_command_line_does() -> None:
    for settings, message in (
        ({"layers": "two"}, "configure: layers must be a whole number, not 'two'"),
        ({"betta": 1.0}, "configure: unknown key 'betta': did you mean 'beta'?"),
        ({"width": 130}, "width 130 does not divide into attention_heads 4 equal parts"),
    ):
        with pytest.raises(UserError) as error:
            configure("wordle", **settings)
        assert str(error.value).startswith(message)


def help_of(presets: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as exit:
        parse(presets, *argv, "--help")
    assert exit.value.code == 0
    return capsys.readouterr().out


def test_help_shows_sections_defaults_and_example(
    presets: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = help_of(presets, capsys)
    titles = ["what to run", "data", "wordle", "model", "algorithm", "ilql", "bisimulation"]
    titles += ["optimization", "evaluation and output"]
    positions = [text.index(f"\n{title}:\n") for title in titles]
    assert positions == sorted(positions)
    assert "Train an agent." in text
    assert text.endswith(f"example:\n  {EXAMPLE}\n")
    for name, option in EVERY.items():
        described = text.split(f"\n  {flag(name)}", 1)[1].split("\n  --", 1)[0]
        assert option.default == "" or "(default: " in described, name
    for what in (*known(TASKS), *known(ALGORITHMS), "paper", "quick"):
        assert what in text


def test_help_shows_what_the_chosen_preset_sets(
    presets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "peak learning rate (default: 0.001)" in help_of(presets, capsys)
    assert "peak learning rate (default: 0.0001)" in help_of(presets, capsys, "--preset", "paper")


def test_every_option_has_help() -> None:
    assert all(option.help for option in EVERY.values())


@pytest.mark.parametrize("file", PRESET_FILES, ids=lambda file: file.stem)
def test_shipped_presets_parse(file: Path) -> None:
    config = parse(PRESETS, "--task", file.parent.name, "--preset", file.stem)
    assert (config.task, config.preset) == (file.parent.name, file.stem)


def test_every_shipped_task_has_the_three_presets() -> None:
    for task in {file.parent for file in PRESET_FILES}:
        assert {"quick", "full", "paper"} <= {file.stem for file in task.glob("*.yaml")}


def test_paper_preset_is_appendix_b() -> None:
    config = parse(PRESETS, "--preset", "paper")
    assert (config.layers, config.width, config.attention_heads) == (12, 768, 12)
    options = only(config).algo_options
    assert (options.expectile, options.conservatism, options.discount) == (0.8, 0.001, 0.99)
    assert (only(config).batch_size, config.target_rate, config.max_steps) == (1024, 0.005, 3600)
    assert (config.optimizer, config.learning_rate, config.schedule) == ("adamw", 1e-4, "constant")


def test_parser_of_other_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    parser = make_parser("Evaluate a checkpoint.", "python recipes/evaluate.py runs/wordle")
    parser.add_argument("checkpoint", help="folder of a run")
    parser.add_argument("--episodes", type=int, default=236, help="games to play")
    parser.add_argument("--json", help="file for the report")
    parser.add_argument("--decoding", choices=["greedy", "sample"], default="greedy", help="how")
    assert vars(parser.parse_args(["runs/wordle", "--episodes", "5"])) == {
        "checkpoint": "runs/wordle",
        "episodes": 5,
        "json": None,
        "decoding": "greedy",
    }
    for argv, message in [
        ([], "the following arguments are required: checkpoint (see --help)"),
        (["a", "--episodes", "x"], "argument --episodes: invalid int value: 'x' (see --help)"),
        (["a", "--decoding", "gredy"], "unknown decoding 'gredy': did you mean 'greedy'?"),
        (["a", "--episode", "3"], "unknown option '--episode': did you mean '--episodes'?"),
        (["a", "b"], "unexpected argument 'b' (see --help)"),
    ]:
        with pytest.raises(UserError) as error:
            parser.parse_args(argv)
        assert str(error.value).startswith(message)
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    text = capsys.readouterr().out
    assert "games to play (default: 236)" in text
    assert "None" not in text
    assert text.endswith("example:\n  python recipes/evaluate.py runs/wordle\n")


def test_histories_are_compared_at_every_step_only_where_that_is_trained() -> None:
    assert BisimulationConfig(every=7).compares_every == 7
    assert BisimulationConfig(weight=0.1).compares_every == 1
    assert BisimulationConfig(weight=0.1, stride=4).compares_every == 4
    assert BisimulationConfig(stride=4, every=7).compares_every == 7
    assert BisimulationConfig(inverse=0.1).compares_every == 1
