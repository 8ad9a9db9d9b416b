"""Several tasks, one model: their tokens side by side, their batches in every step, each judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.algorithms import heads_of
from textrl.batches import Batch, Batches
from textrl.build import config_for
from textrl.combined_config import CombinedConfig
from textrl.errors import UserError, unknown
from textrl.evaluation import Judgement, judge, quick_scores
from textrl.games import language_of, lay_out, to_json
from textrl.model import TextRLModel
from textrl.model_config import TextRLConfig
from textrl.task import AnyTask, LoggedTask, Task


class CombinedTask(AnyTask):
    """Several tasks as one, for models and checkpoints; each is played on its own."""

    observation_classes = 0  # each has its own

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self.tasks = dict(tasks)
        self.name = ",".join(tasks)
        self.language = language_of(tasks)
        shapes = {task.frame_shape for task in tasks.values() if task.frame_shape}
        if len(shapes) > 1:
            raise UserError(
                f"the frames of {self.name} have different shapes, and one model has one encoder:"
                " leave one of the tasks out"
            )
        self.frame_shape = shapes.pop() if shapes else None

    def summary(self) -> str:
        """For cards."""
        return "\n".join(f"- {name}: {task.summary()}" for name, task in self.tasks.items())

    def settings(self) -> dict[str, Any]:
        """Of each task."""
        return {name: task.settings() for name, task in self.tasks.items()}


RunTask = Task | LoggedTask | CombinedTask
"""What one training run learns and one checkpoint is of."""


def new_combined_model(task: CombinedTask, config: CombinedConfig) -> TextRLModel:
    """The network with which a run over several tasks begins."""
    members = config.members
    with_frames = [members[name] for name, each in task.tasks.items() if each.frame_shape]
    longest = max(member.context for member in members.values())
    patches = {member.patches for member in with_frames}
    if len(patches) > 1:
        raise UserError(f"tasks with frames must have the same --patches, not {sorted(patches)}")
    shared = replace(config, context=longest, patches=max(patches, default=1))
    shape = config_for(task, shared, *heads_of(config))
    heads = {name: heads_of(member)[0] for name, member in members.items()}
    shape.games = to_json(lay_out(task.tasks, members, heads))
    return TextRLModel(shape)


class CombinedBatches:
    """In every step a batch of each game, in that game's own numbers."""

    def __init__(self, batches: Sequence[Batches], proportions: Sequence[float]) -> None:
        """Both in the order of the model's games."""
        self._batches = batches
        self._shares = [each / sum(proportions) for each in proportions]
        self.ahead = max(each.ahead for each in batches)

    def step(self, step: int) -> list[Batch]:
        """This process's micro-batches of step 0, 1, 2, ..."""
        return [
            replace(batch, game=number, share=share)
            for number, (of_game, share) in enumerate(zip(self._batches, self._shares, strict=True))
            for batch in of_game.step(step)
        ]


def model_of_game(model: TextRLModel, number: int) -> TextRLModel:
    """A model of one game alone, in that game's own numbers: the same weights, less the others'."""
    shape, game = model.config, model.config.game(number)
    alone = TextRLConfig(
        **{
            **{name: getattr(shape, name) for name in COMMON},
            "vocabulary": game.tokens,
            "first_action": game.tokens - game.actions,
            "action_tokens": game.actions,
            "observation_classes": game.observation_classes,
            "window": game.window,
            "heads": (*game.heads, *(head for head in shape.heads if head in OF_THE_WORLD)),
            "frame_shape": shape.frame_shape if game.has_frames else None,
            "patches": shape.patches if game.has_frames else 0,
            "beta": game.beta,
            "candidates": game.candidates,
            "plausible": game.plausible,
        }
    )
    device: Any = model.device
    weights, found = model.state_dict(), {}
    rows = {shape.vocabulary: game.ids(device), shape.action_tokens: game.action_numbers}
    taken: TextRLModel = TextRLModel(alone).to(device)
    for name, weight in taken.state_dict().items():
        whole = weights[name.replace("world.", f"world.{number}.", 1)]
        # Embeddings have a row for each token, the heads' last layers one for each action.
        found[name] = whole if whole.shape == weight.shape else whole[rows[len(whole)]]
    taken.load_state_dict(found)
    taken.train(model.training)
    return taken


OF_THE_WORLD = ("world", "inverse")
"""The heads that no algorithm trains, and that no game is played with."""
COMMON = (
    *("backbone", "cell", "layers", "width", "attention_heads", "context", "steps"),
    *("representation_hidden", "representation_bound", "q_heads", "q_head", "q_rank"),
    *("value_gradient", "world_gradient"),
)
"""What a model of several games and a model of one of them have in common."""


def one_of(model: TextRLModel, task: CombinedTask, name: str) -> tuple[TextRLModel, Task]:
    """One of the tasks, and the model of it alone."""
    if name not in task.tasks:
        raise unknown("task", name, task.tasks)
    return model_of_game(model, list(task.tasks).index(name)), task.tasks[name]


@dataclass(frozen=True)
class CombinedJudgement:
    """How a model plays each of its games, and how others do."""

    games: dict[str, Judgement]

    def describe(self, task: CombinedTask) -> str:
        """For people."""
        told = [
            f"{name}, beta {each.results[0].decoding.beta:g}\n{each.describe(task.tasks[name])}"
            for name, each in self.games.items()
        ]
        return "\n\n".join(told)

    def to_json(self) -> dict[str, Any]:
        """For programs: under each task's name what a report of that task alone has."""
        return {"tasks": {name: each.to_json() for name, each in self.games.items()}}


def judge_games(
    task: CombinedTask, model: TextRLModel, episodes: int | None = None, seed: int = 0
) -> CombinedJudgement:
    """Judge each game at its own beta; episodes: None = as many as each one's evaluation takes."""
    judged = {}
    for number, (name, each) in enumerate(task.tasks.items()):
        count = episodes or each.full_evaluation()
        judged[name] = judge(each, model_of_game(model, number), count, seed=seed)
    return CombinedJudgement(judged)


def quick_scores_of_games(
    task: CombinedTask,
    config: CombinedConfig,
    returns: Mapping[str, NDArray[np.float32]],
    model: TextRLModel,
) -> dict[str, float]:
    """The mean scores that training watches, after one that sums them up and decides what is best.

    Scores of different games cannot be added. So the sum is over how many standard deviations of
    its data's returns the model's score lies above their mean, a mean over the games.
    """
    found: dict[str, float] = {}
    above: list[float] = []
    for number, (name, each) in enumerate(task.tasks.items()):
        scores = quick_scores(each, config.members[name], model_of_game(model, number))
        found |= {f"{name}/{decoding}": score for decoding, score in scores.items()}
        spread = float(returns[name].std()) or 1.0
        above.append((next(iter(scores.values())) - float(returns[name].mean())) / spread)
    return {"above the data": float(np.mean(above)), **found}
