"""The files for accelerate: all are understood, and those that can run without a GPU train."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from accelerate import DistributedType
from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
FILES = ROOT / "recipes" / "configs" / "accelerate"
ALL = sorted(FILES.glob("*.yaml"))
RECIPE = ROOT / "recipes" / "train.py"
SETTINGS = "--task gridworld --episodes 64 --layers 2 --width 16 --attention-heads 2 --batch-size 8"
SETTINGS += " --evaluate-every 2 --evaluate-episodes 4 --save-every 2 --log-every 1 --threads 1"
SETTINGS += " --schedule constant --no-final-evaluation"


@pytest.mark.parametrize("file", ALL, ids=lambda file: file.stem)
def test_accelerate_knows_every_key(file: Path) -> None:
    config = load_config_from_file(str(file))  # refuses unknown keys, but not within fsdp_config
    assert isinstance(config, ClusterConfig)
    parser = launch_command_parser()
    command = ["--config_file", str(file), str(RECIPE)]
    known = vars(parser.parse_args(command))
    assert set(config.fsdp_config) <= known.keys()
    arguments, _, _ = _validate_launch_command(parser.parse_args(command))
    content = yaml.safe_load(file.read_text())
    assert arguments.num_processes == content["num_processes"]
    assert arguments.multi_gpu == (content["distributed_type"] == "MULTI_GPU")
    assert arguments.use_fsdp == (content["distributed_type"] == "FSDP")


def test_the_files_cover_what_there_is() -> None:
    configs = {file.stem: load_config_from_file(str(file)) for file in ALL}
    assert set(configs) == {"one-cpu", "two-cpus", "one-gpu", "gpus", "fsdp", "machines"}
    assert configs["fsdp"].distributed_type == DistributedType.FSDP
    assert configs["fsdp"].fsdp_config["fsdp_version"] == 2
    assert configs["machines"].num_machines == 2
    assert {name for name, config in configs.items() if config.use_cpu} == {"one-cpu", "two-cpus"}


def train(start: list[str], output: Path, steps: int, *others: str) -> None:
    """Train a tiny gridworld by a command that begins so."""
    command = [sys.executable, *start, *SETTINGS.split(), "--output", str(output)]
    command += ["--max-steps", str(steps), *others]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def launched(file: str, script: Path) -> list[str]:
    """The beginning of a command that runs a script as one of the files says."""
    options = ["--config_file", str(FILES / file), "--mixed_precision", "no"]
    options += ["--main_process_port", "0"]  # any free port
    return ["-m", "accelerate.commands.launch", *options, str(script)]


def losses(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["total"] for line in lines if "total" in line]


def test_a_model_in_pieces_learns_as_a_whole_one(tmp_path: Path) -> None:
    """Two steps in one process and two more by FSDP are four in one process."""
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    train(launched("one-cpu.yaml", RECIPE), whole, 4)
    train([str(RECIPE)], pieces, 2, "--accumulation", "2")
    longer = (pieces / "training.yaml").read_text().replace("max_steps: 2", "max_steps: 4")
    (pieces / "training.yaml").write_text(longer)
    on_cpu = launched("fsdp.yaml", ROOT / "tests" / "fsdp_on_cpu.py")
    train(on_cpu, pieces, 4, "--accumulation", "2", "--resume")

    assert len(losses(whole)) == 4
    assert losses(pieces) == pytest.approx(losses(whole), abs=1e-6)
    for name in ("model.safetensors", "state/step-00000004/optimizer.safetensors"):
        ours, theirs = load_file(pieces / name), load_file(whole / name)
        assert ours.keys() == theirs.keys()
        for key, tensor in ours.items():
            assert tensor.shape == theirs[key].shape
            assert (tensor - theirs[key]).abs().max() < 1e-5, key
    assert json.loads((pieces / "config.json").read_text())["steps"] == 4
    assert (pieces / "best" / "model.safetensors").is_file()
