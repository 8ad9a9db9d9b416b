"""One step: batches -> losses -> gradients -> new weights."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from accelerate import Accelerator, DistributedType
from accelerate.utils import convert_to_fp32
from torch import Tensor, nn

from textrl.bisimulation.loss import BisimulationTerms, bisimulation_loss, weights_of
from textrl.bisimulation.pairs import Pairs, draw_pairs
from textrl.config.registry import ALGORITHMS, find
from textrl.config.train import MemberConfig, Stage, TrainConfig
from textrl.data.batches import Batch
from textrl.hindsight.loss import HindsightTerms, hindsight_loss
from textrl.hindsight.queries import CommonQueries, Queries, draw_queries
from textrl.hindsight.survey import Survey
from textrl.losses.ops import Terms
from textrl.losses.outputs import TextRLOutput
from textrl.model.layout import ValueUnits
from textrl.model.network import TextRLModel
from textrl.training.metrics import MetricsLog
from textrl.training.optimizers import make_optimizers, schedule
from textrl.training.state import (
    Tensors,
    TrainingState,
    load_memory,
    load_state,
    memory_of,
)

Loss = Callable[[TextRLOutput, Batch], Terms]


def make_loss(run: TrainConfig, units: Mapping[str, ValueUnits] = MappingProxyType({})) -> Loss:
    """The loss of a run: each batch's by its own task's algorithm and options.

    units: of each member's values, where the data decide on the scale of its rewards.
    """
    losses = [
        (find(ALGORITHMS, member.algo).loss_function(), with_scale(member, units.get(name)))
        for name, member in run.members.items()
    ]

    def loss(outputs: TextRLOutput, batch: Batch) -> Terms:
        function, options = losses[batch.member]
        terms: Terms = function(outputs, batch, options)
        return terms

    return loss


def with_scale(member: MemberConfig, units: ValueUnits | None) -> Any:
    """A member's options of its algorithm, the scale of its rewards as the data have it."""
    options = member.algo_options
    if units is None or not hasattr(options, "reward_scale"):
        return options
    return replace(options, reward_scale=units.scale)


class Learner:
    """A model with its optimizers, spread over processes as accelerate was told."""

    def __init__(
        self,
        run: TrainConfig,
        accelerator: Accelerator,
        model: TextRLModel,
        loss: Loss,
        surveys: Sequence[Survey] = (),
    ) -> None:
        """surveys: of each member's data, where the run asks queries."""
        self._run, self._accelerator, self._model, self._loss = run, accelerator, model, loss
        self._surveys = surveys
        self._weights = weights_of(run.bisimulation)
        self._metric_asks = run.bisimulation.asks
        self._compares = "world" in model.config.heads
        self._optimizers = make_optimizers(model, run)
        self.learning_rate = 0.0
        self.has_warned = False

    def restore(self, folder: Path) -> TrainingState | None:
        """Begin where the newest state in a folder ends, if there is one; to be called once."""
        state = load_state(folder, self._model)
        self._wrapped, *self._steppers = self._accelerator.prepare(self._model, *self._optimizers)
        # Afterwards: where the model is spread over processes, so is what the optimizers remember,
        # and its parameters are others than before.
        load_memory(folder, self._optimizers)
        # The world model learns beside the agent: its gradient must not eat into the agent's share.
        self._world = list(self._model.world.parameters()) if self._compares else []
        # Nor must that of the head which answers queries.
        self._answering = list(self._model.hindsight.parameters()) if self._surveys else []
        apart = {id(p) for p in (*self._world, *self._answering)}
        trained = [p for p in self._model.parameters() if p.requires_grad]
        self._agent = [p for p in trained if id(p) not in apart]
        return state

    def step(self, step: int, parts: Sequence[Batch], log: MetricsLog) -> float:
        """Learn from a step's batches; gives the norm of the gradient."""
        run, accelerator = self._run, self._accelerator
        rate = schedule(step, run)
        self.learning_rate = rate * run.learning_rate
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * optimizer.defaults["lr"]
        stage = run.representation.stage(step, run.max_steps)
        has_pairs = self._compares and step % run.bisimulation.compares_every == 0
        has_queries = stage in (Stage.ALONE, Stage.BESIDE) or (has_pairs and self._metric_asks)
        for number, batch in enumerate(parts, start=1):
            is_last = number == len(parts)
            pairs = self._draw(batch, step) if has_pairs else None
            queries = self._ask(batch, step) if has_queries else None
            batch = batch.to(accelerator.device)
            with contextlib.nullcontext() if is_last else accelerator.no_sync(self._wrapped):
                total, *terms = self._loss_of(batch, pairs, queries, stage)
                # Every part is divided by the whole step's count already. Processes average their
                # gradients, and the sum is what is wanted.
                accelerator.backward(total * batch.share * accelerator.num_processes)
            layouts = self._model.config.layouts
            prefix = f"{layouts[batch.member].name}/" if len(layouts) > 1 else ""
            for part, tokens in zip(terms, (batch.tokens.numel(), 0, 0), strict=True):
                if part is not None:
                    log.add(step, part, tokens, prefix)
        norm = accelerator.clip_grad_norm_(self._agent, run.clip_norm)
        if has_pairs:
            accelerator.clip_grad_norm_(self._world, run.clip_norm)
        if has_queries:
            accelerator.clip_grad_norm_(self._answering, run.clip_norm)
        for stepper in self._steppers:
            stepper.step()
            stepper.zero_grad()
        self._model.update_targets(run.target_rate)
        return float(norm)

    def _draw(self, batch: Batch, step: int) -> Pairs:
        seed = (self._run.seed, step, batch.member)
        from_data = self._run.bisimulation.actions == "data"
        return draw_pairs(batch, seed, from_data).to(self._accelerator.device)

    def _ask(self, batch: Batch, step: int) -> Queries:
        longest = max(member.context for member in self._run.members.values())
        seed = (self._run.seed, step, batch.member)
        survey, device = self._surveys[batch.member], self._accelerator.device
        queries = draw_queries(batch, survey, seed, longest).to(device)
        return (
            replace(queries, tests=CommonQueries.of(survey, device))
            if self._metric_asks
            else queries
        )

    def _loss_of(
        self, batch: Batch, pairs: Pairs | None, queries: Queries | None, stage: Stage
    ) -> tuple[Tensor, Terms, BisimulationTerms | None, HindsightTerms | None]:
        """What to minimize, the algorithm's terms, and those of what else is asked."""
        outputs = self._wrapped(
            batch.tokens,
            batch.state_positions,
            pairs=pairs,
            frames=batch.frames,
            member=batch.member,
            queries=queries,
            stage=stage,
            groups=batch.groups,
        )
        # Whatever precision the model computes in, sums over thousands of tokens need single.
        outputs = convert_to_fp32(outputs)
        terms = self._loss(outputs, batch)
        total, compared, answered = terms.total, None, None
        if pairs is not None:
            classes = self._model.config.layouts[batch.member].observation_classes
            added, compared = bisimulation_loss(outputs, batch, pairs, classes, self._weights)
            total = total + added
        if queries is not None:
            survey, options = self._surveys[batch.member], self._run.representation
            if stage is Stage.ALGORITHM:  # only the metric asks, nothing of what comes next
                options = replace(options, weight=1.0, next=0.0)
            added, answered = hindsight_loss(outputs, batch, queries, survey, options)
            total = total + added
        return total, terms, compared, answered

    def memory(self, keep: bool) -> Tensors:
        """What the optimizers remember; every process has to call this, keep is for who saves."""
        return memory_of(self._optimizers, keep)

    def whole_model(self) -> TextRLModel | None:
        """The model to play and to save, on the main process; None on others.

        Every process has to call this: where the model is spread over them, each sends its part.
        """
        accelerator = self._accelerator
        model: TextRLModel = accelerator.unwrap_model(self._wrapped)
        if accelerator.distributed_type == DistributedType.FSDP:
            weights = accelerator.get_state_dict(self._wrapped)
            if accelerator.is_main_process:
                model = TextRLModel(model.config)
                # Assigned, each keeps its precision: that of a frozen language model may be half.
                model.load_state_dict(weights, assign=True)
                model.to(accelerator.device)
        return model if accelerator.is_main_process else None


def parameters_to_train(model: nn.Module) -> int:
    """How many numbers training changes."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
