"""Given summaries: encoders trained on what is known of the hidden states, as controls.

textrl train --represent FOLDER then takes such an encoder as it is, and trains the heads on it.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from accelerate.utils import set_seed
from numpy.typing import NDArray
from torch import Tensor, nn

from textrl.config.train import TrainConfig
from textrl.data.batches import Batch
from textrl.data.language import Language
from textrl.model.build import new_model
from textrl.model.network import TextRLModel
from textrl.model.packing import History
from textrl.recipes.reproducing.exact import (
    Hidden,
    every_action_metric,
    hidden_of,
    one_step_metric,
    optimal_values,
)
from textrl.sharing.checkpoint import save_checkpoint
from textrl.tasks.members import Members
from textrl.training.optimizers import make_optimizers, schedule

METRIC_SCALE = 5.0
"""Rewards are at most 1: distances of the size that representations have."""
METRIC_WEIGHT = 0.05
Teacher = Callable[[Tensor, NDArray[np.int64]], Tensor]
"""Representations (n, width) and the hidden states of their histories (n,) -> a loss."""


def metric_teacher(metric: NDArray[np.float64], hidden: Hidden, seed: int) -> Teacher:
    """Representations as far apart as a metric says: pairs with the same observation, and any."""
    table, random = torch.from_numpy(METRIC_SCALE * metric).float(), np.random.default_rng(seed)
    seen = hidden.dynamics.seen

    def teach(phi: Tensor, states: NDArray[np.int64]) -> Tensor:
        alike = partners(seen[states], random)
        anyone = partners(np.zeros_like(states), random)
        ours = torch.from_numpy(np.tile(np.arange(len(states)), 2))
        theirs = torch.from_numpy(np.concatenate([alike, anyone]))
        is_pair = ours != theirs
        ours, theirs = ours[is_pair], theirs[is_pair]
        of = torch.from_numpy(states)
        apart = (phi[ours] - phi[theirs]).norm(dim=-1)
        errors: Tensor = apart - table[of[ours], of[theirs]]
        return METRIC_WEIGHT * errors.square().mean()

    return teach


def partners(keys: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """For each key the place of another equal one, on a random circle; its own if there is none."""
    order = np.lexsort((random.random(len(keys)), keys))
    grouped = keys[order]
    begins = np.flatnonzero(np.diff(grouped, prepend=grouped[0] - 1))
    following = np.arange(1, len(keys) + 1)
    following[np.append(begins[1:], len(keys)) - 1] = begins
    found = np.empty_like(order)
    found[order] = order[following]
    return found


def head_teacher(head: nn.Module, targets: Tensor) -> Teacher:
    """A head that tells each state's class or, of floats, its value."""

    def teach(phi: Tensor, states: NDArray[np.int64]) -> Tensor:
        right, said = targets[torch.from_numpy(states)], head(phi)
        if right.is_floating_point():
            return nn.functional.mse_loss(said[:, 0], right)
        return nn.functional.cross_entropy(said, right)

    return teach


def teacher_of(name: str, hidden: Hidden, width: int, seed: int) -> tuple[Teacher, nn.Module]:
    """What a summary is taught by, and what of that is trained along with it."""
    states = np.unique(hidden.dynamics.seen + 10_000 * hidden.goal, return_inverse=True)[1]
    classes = {"classifier": hidden.goal, "state-classifier": states}
    if name in classes:
        head = nn.Linear(width, int(classes[name].max()) + 1)
        return head_teacher(head, torch.from_numpy(classes[name])), head
    if name == "optimal-value":
        head = nn.Linear(width, 1)
        values = torch.from_numpy(optimal_values(hidden.dynamics)).float()
        return head_teacher(head, values), head
    metric = {"exact-metric": every_action_metric, "exact-one-step": one_step_metric}[name]
    return metric_teacher(metric(hidden.dynamics), hidden, seed), nn.Identity()


def give_summary(name: str, run: TrainConfig, steps: int, folder: Path) -> None:
    """Train the encoder of a run by a summary for so many steps, and leave it as a checkpoint."""
    members = Members.of_run(run)
    _, task = members.one()
    hidden = hidden_of(task)
    batches, _ = members.batches(run)
    set_seed(run.seed)
    model = new_model(members, run)
    torch.set_num_threads(run.threads or 1)
    teach, head = teacher_of(name, hidden, run.width, run.seed)
    both = nn.ModuleList([model.backbone, model.representation, head])
    (optimizer,) = make_optimizers(both, run)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = run.learning_rate * schedule(step, run)
        parts = [read(model, task.language, hidden, batch) for batch in batches.step(step)]
        phi, states = torch.cat([x for x, _ in parts]), np.concatenate([x for _, x in parts])
        teach(phi, states).backward()
        nn.utils.clip_grad_norm_(both.parameters(), run.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
    folder.mkdir(parents=True, exist_ok=True)
    save_checkpoint(folder, model, members, run)


def read(
    model: TextRLModel, language: Language, hidden: Hidden, batch: Batch
) -> tuple[Tensor, NDArray[np.int64]]:
    """The representations of a batch's histories, and the hidden states that they have led to."""
    phi = model.encode(History(batch.tokens, None, batch.state_positions, batch.groups))
    actions = batch.actions.shape[1]
    # A state is read at an observation's token, or at the beginning; on padding it is any.
    tokens = batch.tokens.gather(1, batch.state_positions)[:, :actions].numpy()
    states = hidden.states_of(tokens - language.first_observation, batch.actions.numpy())
    return phi[:, :actions][batch.is_action], states[batch.is_action.numpy()]
