"""Tasks, algorithms, backbones and options in combinations that nobody thought of.

Hypothesis draws them, the same ones every time; TEXTRL_COMBINATIONS says how many (30). A failing
one is shown as a call of `configure`, whose paths are in the folder of `place`.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import Dataset
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from tests import chat_tokenizers
from tests.conftest import TWELVE
from tests.frame_task import FrameTask
from textrl.config import registry
from textrl.config.presets import configure, load_config, save_config
from textrl.config.train import CONFIG_FILE, TrainConfig
from textrl.data.batches import Batches
from textrl.data.dataset import FEATURES, join_shards, write_shard
from textrl.data.episode import Episode, Step
from textrl.data.frames import encode_frame
from textrl.data.language import BEGIN_ID
from textrl.data.task_file import TASK_FILE, describe_task
from textrl.envs.gridworld.task import GridworldTask
from textrl.envs.twenty.task import TwentyTask
from textrl.envs.wordle.task import WordleTask
from textrl.errors import UserError
from textrl.evaluation.judge import How, Watch, judge_run
from textrl.hindsight.survey import surveys_of
from textrl.model.build import new_model
from textrl.model.network import TextRLModel
from textrl.sharing.checkpoint import load_checkpoint, save_checkpoint
from textrl.tasks.members import Members
from textrl.training.learner import make_loss
from textrl.training.loop import Hooks, train_loop
from textrl.training.metrics import METRICS_FILE
from textrl.training.run import be_deterministic

TASKS = ("wordle", "gridworld", "twenty", "corridor", "text", "wordle,gridworld")
COUNT = int(os.environ.get("TEXTRL_COMBINATIONS", "30"))
EPISODES = 24  # of each task's data
LONGEST = {"wordle": 64, "gridworld": 104, "twenty": 124, "corridor": 64, "text": 96}
LMS = ("lms/gpt2", "lms/llama", "lms/half")
ASKED = ("how much is one red apple?", "do you have two green pears?", "hello, are you fine today?")
SAID = ("the price of one red apple is two", "I do, thank you", "what can I do for you?", "no")
# The clock's, not the run's.
CLOCKED = ("seconds", "tokens_per_second", "waiting_for_data")


def drawn(count: int) -> settings:
    """So many examples, always the same; making a failing one small would take minutes."""
    return settings(
        max_examples=max(1, count),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


class Combination:
    """What configure is given; shown as the call itself."""

    def __init__(self, task: str, given: Mapping[str, Any]) -> None:
        self.task, self.given = task, dict(given)

    def __repr__(self) -> str:
        parts = [repr(self.task), *(f"{name}={value!r}" for name, value in self.given.items())]
        return f"configure({', '.join(parts)})"

    def configure(self) -> TrainConfig:
        return configure(self.task, **self.given)


class Corridor(FrameTask):
    """The task of frames with what a whole run asks of it."""

    @classmethod
    def from_config(cls, member: Any, run: Any) -> "Corridor":
        return cls()

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path | None = None) -> "Corridor":
        return cls(**settings)

    def settings(self) -> dict[str, Any]:
        return {"spare": self.spare}

    data_settings = settings

    def summary(self) -> str:
        return "A corridor."


# What is drawn


def share() -> st.SearchStrategy[float]:
    """Of 0 to 1, the ends often."""
    return st.sampled_from([0.0, 1.0, 0.3, 0.95])


def of_algorithm(draw: st.DrawFn, algo: str, task: str) -> dict[str, Any]:
    if algo == "filtered-bc":
        return {"keep_top": draw(st.sampled_from([0.25, 0.6, 1.0]))}
    if algo == "bc":
        return {}
    found = {
        "discount": draw(st.sampled_from([0.99, 1.0, 0.5, 0.0])),
        "return_lambda": draw(share()),
        "value_weight": draw(st.sampled_from([1.0, 0.0, 10.0])),
    }
    if algo == "iql":
        kinds = ["return", "time-to-goal"] if task == "corridor" else ["return"]
        return found | {
            "value": draw(st.sampled_from(kinds)),
            "v_learns": draw(st.sampled_from(["q", "returns"])),
            "return_cut": draw(st.sampled_from([0.0, 0.1])),
            "huber": draw(st.sampled_from([0.0, 0.5])),
            "advantage_steps": draw(st.integers(1, 4)),
            "advantage_scale": draw(st.sampled_from([1.0, 0.01])),
        }
    found["conservatism"] = draw(st.sampled_from([0.001, 0.0, 1.0]))
    if algo == "ilql":
        found |= {
            "expectile": draw(st.sampled_from([0.8, 0.5, 0.0, 1.0])),
            "action_lambda": draw(share()),
            "whole_actions": draw(st.booleans()),
        }
    return found


def of_member(draw: st.DrawFn, task: str) -> dict[str, Any]:
    """What one task of a run has for itself."""
    algo = draw(st.sampled_from(["ilql", "iql", "cql", "bc", "filtered-bc"]))
    data = draw(st.sampled_from(["whole", "cut"]))
    accumulation = draw(st.integers(1, 2))
    found = {
        "algo": algo,
        **of_algorithm(draw, algo, task),
        "data": f"data/{task}-{data}" + (".jsonl" if task == "text" else ""),
        "context": LONGEST[task],
        "batch_size": accumulation * draw(st.integers(1, 4 // accumulation)),
        "accumulation": accumulation,
        "evaluate_episodes": 2,
        "beta": draw(st.sampled_from([4.0, 0.0, 64.0])),
        "candidates": draw(st.sampled_from([1, 4, 30])),
        "plausible": draw(share()),
        "temperature": draw(st.sampled_from([1.0, 0.5])),
    }
    if task != "text":
        found["window"] = draw(st.integers(1 if task == "corridor" else 0, 4))
    if task == "corridor":
        found["patches"] = draw(st.sampled_from([1, 4]))
        found["filters"] = draw(st.sampled_from(["32,64,32", "4,5,6"]))
        found["frame_precision"] = draw(st.sampled_from(["auto", "float32", "bfloat16"]))
        found["hide_actions"] = draw(st.booleans())
        found["shift_frames"] = draw(st.sampled_from([0, 3]))
    if task == "wordle":
        found |= {"words": "words.txt", "constrain": draw(st.booleans())}
    if task == "text":
        found["context"] = draw(st.sampled_from([96, 48, 24]))
        found["held_out"] = 0.1
    return found


def of_backbone(draw: st.DrawFn, is_text: bool) -> dict[str, Any]:
    heads = ["auto", "mlp", "low-rank"]
    if is_text:
        found: dict[str, Any] = {
            "backbone": draw(st.sampled_from(LMS)),
            "lora_rank": draw(st.sampled_from([0, 2])),
            "q_head": draw(st.sampled_from([*heads, "shared"])),
        }
        found["optimizer"] = "adamw" if found["lora_rank"] else draw(optimizers())
        return found
    found = {"layers": draw(st.integers(1, 2)), "q_head": draw(st.sampled_from(heads))}
    if draw(st.booleans()):
        return {**found, "backbone": "gpt2", "optimizer": draw(optimizers())}
    return {**found, "backbone": "rnn", "cell": draw(st.sampled_from(["tanh", "gru", "lstm"]))}


def optimizers() -> st.SearchStrategy[str]:
    return st.sampled_from(["adamw", "muon"])


def of_bisimulation(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "bisim": draw(st.sampled_from([0.0, 0.05])),
        "bisim_distance": draw(st.sampled_from(["l2", "squared-l2", "l1"])),
        "bisim_discount": draw(st.sampled_from([1.0, 0.0])),
        "bisim_actions": draw(st.sampled_from(["policy", "data"])),
        "bisim_inverse": draw(st.sampled_from([0.0, 0.5])),
        "bisim_fit": draw(share()),
        "bisim_stride": draw(st.integers(1, 2)),
        "bisim_every": draw(st.sampled_from([20, 1, 2])),
    }


def of_representation(draw: st.DrawFn, is_trained: bool) -> dict[str, Any]:
    """is_trained: by the bisimulation loss, which cannot train an encoder that hindsight makes."""
    if not draw(st.booleans()):
        return {}
    return {
        "represent": "hindsight",
        "represent_steps": 0 if is_trained else draw(st.integers(0, 1)),
        "represent_finetune": draw(st.integers(0, 1)),
        "represent_query": draw(st.sampled_from(["auto", "action"])),
        "represent_draw": draw(st.sampled_from(["informative", "uniform"])),
        "represent_weight": draw(st.sampled_from([5.0, 0.0])),
        "represent_next": draw(st.sampled_from([1.0, 0.0])),
    }


@st.composite
def combinations(draw: st.DrawFn, task: str) -> Combination:
    """Settings that are all right together."""
    names = task.split(",")
    own = {name: of_member(draw, name) for name in names}
    shared = {
        **of_backbone(draw, task == "text"),
        **of_bisimulation(draw),
        "q_rank": draw(st.sampled_from([4, 64])),
        "width": 16,
        "attention_heads": draw(st.sampled_from([2, 1])),
        "representation_hidden": draw(st.sampled_from([0, 8])),
        "representation_bound": draw(st.sampled_from([0.0, 1.0])),
        "value_gradient": draw(share()),
        "target_rate": draw(st.sampled_from([0.005, 1.0])),
        "schedule": draw(st.sampled_from(["cosine", "constant"])),
        "final_learning_rate": draw(share()),
        "warmup_steps": draw(st.sampled_from([0, 100])),
        "weight_decay": draw(st.sampled_from([0.01, 0.0])),
        "clip_norm": draw(st.sampled_from([1.0, 1000.0])),
        "seed": draw(st.integers(0, 3)),
        "max_steps": 2,
        "save_every": 1,
        "log_every": 1,
        "evaluate_every": 1,
    }
    if task != "text":
        is_trained = shared["bisim"] > 0 or shared["bisim_inverse"] > 0
        shared |= of_representation(draw, is_trained)
    if len(names) == 1:
        return Combination(task, {**own[task], **shared})
    shared["mix"] = draw(st.sampled_from(["", "wordle=2", "wordle=0.5,gridworld=1"]))
    return Combination(task, {**shared, **own})


# What it is drawn from


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that is worked in: words, data whole and cut short, language models."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setitem(registry._named, (registry.TASKS, "corridor"), Corridor)
        for kind in (WordleTask, GridworldTask, TwentyTask, Corridor):
            # How others play has nothing to do with it, and takes its time.
            patch.setattr(kind, "references", lambda task, seed: {})
        (folder / "words.txt").write_text("\n".join(TWELVE))
        (folder / "data").mkdir()
        for name in ("wordle", "gridworld", "twenty"):
            options = {"words": "words.txt"} if name == "wordle" else {}
            write_games(Members.of_run(configure(name, **options)).one()[1])
        write_walks()
        write_talks()
        write_lms()
        yield folder
    torch.use_deterministic_algorithms(False)


def write_games(task: Any) -> None:
    """Games of the task's own players, and the same with a third of them broken off."""
    whole = task.collect(EPISODES, 0, Path(f"data/{task.name}-whole"), workers=1)
    random = np.random.default_rng(0)
    rows = [break_off(row, random) if random.random() < 1 / 3 else row for row in whole]
    folder = Path(f"data/{task.name}-cut")
    Dataset.from_list(rows, features=FEATURES).save_to_disk(folder)
    shutil.copy(Path(f"data/{task.name}-whole") / TASK_FILE, folder)


def break_off(row: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """Within an action, right after it, or before the next."""
    at = np.flatnonzero(row["is_action"])
    length = int(random.choice([*(at + 1), *at[1:]]))
    found = {name: row[name][:length] for name in ("tokens", "is_action", "reward", "observation")}
    ends = {"terminated": False, "truncated": True, "episode_return": sum(found["reward"])}
    return {**row, **found, **ends}


def write_walks() -> None:
    """Walks through the corridor; in those that are cut, time is short."""
    for name, limit in (("whole", 99), ("cut", 7)):
        random, task, episodes = np.random.default_rng(0), Corridor(99), []
        for number in range(EPISODES):
            env = task.make_envs(1)
            seen, _ = env.reset(0, {"first": number})
            frames, steps, is_over = [encode_frame(seen[0])], [], False
            while not is_over and len(steps) < limit:
                move = int(random.random() < 0.7)
                seen, reward, arrived, _, infos = env.step(np.array([move]))
                frames.append(encode_frame(seen[0]))
                steps.append(Step((5 + move,), float(reward[0]), (2 + int(infos["bumps"][0]), 4)))
                is_over = bool(arrived[0])
            ends = (is_over, not is_over, "walker", tuple(frames))
            episodes.append(Episode((BEGIN_ID, 4), tuple(steps), *ends))
        shard = Path("data/shard.arrow")
        write_shard(shard, episodes)
        notes = {TASK_FILE: json.dumps(describe_task(Corridor()))}
        join_shards([shard], Path(f"data/corridor-{name}"), notes)


def write_talks() -> None:
    """Conversations; in `cut` some were broken off, and each counts as much as it says."""
    random = np.random.default_rng(0)
    for name in ("whole", "cut"):
        lines = []
        for number in range(EPISODES):
            messages: list[dict[str, Any]] = []
            for _ in range(random.integers(1, 4)):
                messages.append({"role": "user", "content": str(random.choice(ASKED))})
                said = {"role": "assistant", "content": str(random.choice(SAID))}
                messages.append({**said, "reward": float(random.integers(-2, 3))})
            row: dict[str, Any] = {"messages": messages}
            if name == "cut":
                row |= {"truncated": number % 3 == 0, "weight": float(random.choice([0.25, 1, 3]))}
            lines.append(json.dumps(row) + "\n")
        Path(f"data/text-{name}.jsonl").write_text("".join(lines))


def write_lms() -> None:
    """A GPT-2 whose output embeddings are tied, Llamas whose are not, one in half precision."""
    gpt2, llama = chat_tokenizers.gpt2(), chat_tokenizers.llama3()
    shape = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": LONGEST["text"]}
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    of_gpt2 = GPT2Config(vocab_size=len(gpt2) + 3, **shape, **ids)
    of_llama = LlamaConfig(
        vocab_size=len(llama),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=LONGEST["text"],
        bos_token_id=0,
        eos_token_id=3,
    )
    kinds = ((of_gpt2, gpt2, torch.float), (of_llama, llama, torch.float))
    kinds += ((of_llama, llama, torch.bfloat16),)
    for name, (config, tokenizer, precision) in zip(LMS, kinds, strict=True):
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).to(precision).save_pretrained(name)
        tokenizer.save_pretrained(name)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Two, unlike other tests: what they do must not depend on which is first."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


# How it is trained


class Killed(Exception):
    """What ends a run between two steps."""


def die() -> None:
    raise Killed


def prepare(run: TrainConfig) -> tuple[Members, Batches, TextRLModel]:
    """All that comes before training, as textrl.training.run does it."""
    members = Members.of_run(run)
    batches, _ = members.batches(run)
    for task in members.tasks.values():
        task.before_training()
    set_seed(run.seed)
    return members, batches, new_model(members, run)


def train(
    run: TrainConfig,
    output: Path,
    evaluate: Callable[[TextRLModel], dict[str, float]] | None = None,
    publish: Callable[[], None] = lambda: None,
) -> TextRLModel:
    """Train, or go on; evaluate: None = as a run does."""
    accelerator = Accelerator(cpu=True)
    be_deterministic(True, accelerator.device)
    members, batches, model = prepare(run)
    output.mkdir(exist_ok=True)
    save_config(run, output / CONFIG_FILE)
    hooks = Hooks(
        evaluate=evaluate or Watch(members, run),
        export=lambda model, folder: save_checkpoint(folder, model, members, run),
        publish=publish,
    )
    surveys = surveys_of(members, run) if run.asks else []
    train_loop(run, accelerator, model, make_loss(run), batches, hooks, output, surveys)
    return model


def lines_of(output: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (output / METRICS_FILE).read_text().splitlines()]


def losses_of(output: Path) -> list[dict[str, float]]:
    """What was logged of each step, but for how long it took."""
    steps = [line for line in lines_of(output) if "gradient_norm" in line]
    return [{name: x for name, x in line.items() if name not in CLOCKED} for line in steps]


def numbers_in(found: Any) -> Iterator[float]:
    if isinstance(found, Mapping):
        found = list(found.values())
    if isinstance(found, list):
        for each in found:
            yield from numbers_in(each)
    elif isinstance(found, int | float):
        yield found


def check_equal(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("task", TASKS)
def test_whatever_is_combined_learns_resumes_and_plays(
    task: str, place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @drawn(COUNT // len(TASKS))
    @given(combination=combinations(task))
    def check(combination: Combination) -> None:
        folder = tmp_path_factory.mktemp("run")
        check_run(combination.configure(), folder)
        shutil.rmtree(folder)

    check()


def check_run(run: TrainConfig, folder: Path) -> None:
    whole, broken = folder / "whole", folder / "broken"
    trained = train(run, whole, lambda model: {"greedy": float(model.config.steps)})
    weights = trained.saved_state()
    assert all(map(math.isfinite, numbers_in(lines_of(whole))))
    assert all(tensor.isfinite().all() for tensor in weights.values())
    assert [line["step"] for line in losses_of(whole)] == [1, 2]

    with pytest.raises(Killed):
        train(run, broken, publish=die)
    assert [state.name for state in (broken / "state").iterdir()] == ["step-00000001"]
    check_equal(train(run, broken).saved_state(), weights)
    memory = "state/step-00000002/optimizer.safetensors"
    assert (whole / memory).read_bytes() == (broken / memory).read_bytes()
    assert losses_of(whole) == losses_of(broken)
    assert all(map(math.isfinite, numbers_in(lines_of(broken))))

    assert load_config(whole / CONFIG_FILE) == run
    loaded, members = load_checkpoint(str(whole))
    check_equal(loaded.saved_state(), weights)
    judgement = judge_run(members, loaded, How(episodes=2))
    assert all(map(math.isfinite, numbers_in(judgement.to_json())))
    assert judgement.describe(members)


# What is refused: change -> what tells it, and which tasks it is of


NEW, GAMES = TASKS[:4] + TASKS[5:], TASKS[:3]
REFUSED_BY_CONFIG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "muon is made for gpt2": ({"backbone": "rnn", "optimizer": "muon"}, NEW),
    "is for pretrained language models": ({"lora_rank": 2, "optimizer": "adamw"}, NEW),
    "muon is made for whole": ({"lora_rank": 2, "optimizer": "muon"}, ("text",)),
    "needs a language model's embeddings": ({"q_head": "shared"}, NEW),
    "does not divide into accumulation": ({"batch_size": 3, "accumulation": 2}, TASKS[:5]),
    "does not divide into attention_heads": ({"attention_heads": 3}, TASKS),
    "is for several tasks": ({"mix": "wordle=2"}, TASKS[:5]),
    "several tasks have tokens of their own": (
        {"backbone": LMS[0], "q_head": "auto", "optimizer": "adamw", "represent": ""},
        TASKS[5:],
    ),
    "unknown task 'twenty'": ({"mix": "twenty=2"}, TASKS[5:]),
}
REFUSED_BY_TASK: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "give --window": ({"window": 0}, ("corridor",)),
    "--patches must be a square number": ({"patches": 3}, ("corridor",)),
    "more than the context": ({"window": 2, "context": 3}, TASKS[:4]),
    "longer than the model's context": ({"window": 0, "context": 3}, GAMES),
    "leave --window out": ({"window": 2}, ("text",)),
    "needs a language model with its tokenizer": (
        {"backbone": "gpt2", "lora_rank": 0, "q_head": "auto"},
        ("text",),
    ),
    "has no data of its own": ({"data": ""}, ("text",)),
    "is longer than .* can read": ({"context": LONGEST["text"] + 1}, ("text",)),
    "which .* does not have": (
        {"backbone": LMS[0], "q_head": "auto", "optimizer": "adamw", "represent": ""},
        TASKS[:4],
    ),
    "fewer than one batch": ({"batch_size": 32, "accumulation": 1, "window": 0}, GAMES),
}


@pytest.mark.parametrize("told", [*REFUSED_BY_CONFIG, *REFUSED_BY_TASK])
def test_what_cannot_be_combined_is_refused_before_it_is_trained(told: str, place: Path) -> None:
    is_config = told in REFUSED_BY_CONFIG
    change, tasks = (REFUSED_BY_CONFIG if is_config else REFUSED_BY_TASK)[told]

    @drawn(COUNT // 3)
    @given(st.sampled_from(tasks).flatmap(combinations))
    def check(combination: Combination) -> None:
        wrong = Combination(combination.task, {**combination.given, **change})
        note(f"taken: {wrong}")
        if is_config:
            with pytest.raises(UserError, match=told):
                wrong.configure()
        else:
            run = wrong.configure()
            with pytest.raises(UserError, match=told):
                prepare(run)

    check()
