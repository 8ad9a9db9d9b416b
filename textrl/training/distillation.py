"""An agent on a language model -> a plain causal language model that acts as the agent does.

The agent acts by pi exp(beta (Q - V)), which needs its values at every token. A language model can
learn that distribution itself. It is the policy of advantage-weighted regression (Peng et al.
2019), and here all of it is known at every logged history, not one sample. Or it imitates whole
turns that the agent chose by Q at their end.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, PreTrainedModel

from textrl.data.batches import Batch, Batches
from textrl.data.progress import progress_bar
from textrl.errors import UserError
from textrl.losses.ops import masked_mean, of_actions
from textrl.losses.outputs import action_scores
from textrl.model.backbones import at_places
from textrl.model.generation import whole_turns
from textrl.model.lora import need_peft
from textrl.model.network import TextRLModel

MAX_NORM = 1.0
SMOOTH = 20  # steps that the progress bar averages over


@dataclass(frozen=True)
class Distillation:
    """How to distil."""

    method: Literal["advantage", "turns"] = "advantage"
    beta: float = 1.0
    candidates: int = 8
    """Whole turns compared, with the method turns."""
    longest: int = 64
    """Tokens of such a turn."""
    steps: int = 300
    learning_rate: float = 1e-4
    warmup: float = 0.05
    """Share of the steps."""
    lora_rank: int = 0
    """0 = every weight is trained; else an adapter, which is merged at the end."""

    def rate(self, step: int) -> float:
        """Share of the peak learning rate: linear warm-up, then half a cosine down."""
        warm_up = min(1.0, (step + 1) / max(1.0, self.warmup * self.steps))
        return warm_up * 0.5 * (1 + math.cos(math.pi * step / self.steps))


def plain_lm(agent: TextRLModel) -> PreTrainedModel:
    """The language model under an agent, as training has left it, with a merged adapter."""
    if agent.config.lm is None:
        raise UserError("only an agent on a language model can become one")
    agent = copy.deepcopy(agent)
    if agent.config.lora:
        agent.merge_adapter()
    lm: Any = AutoModelForCausalLM.from_config(agent.config.lm_config(), dtype=torch.float32)
    lm.base_model.load_state_dict(agent.backbone.state_dict())
    if hasattr(agent, "output"):
        lm.get_output_embeddings().load_state_dict(agent.output.state_dict())
    plain: PreTrainedModel = lm.to(agent.device)
    return plain


def distil(
    agent: TextRLModel, batches: Batches, how: Distillation, turn_end: Sequence[int]
) -> tuple[PreTrainedModel, list[float]]:
    """The plain language model, and the loss at each step.

    batches: of the histories to learn from. turn_end: the tokens that end a turn.
    """
    if how.method == "turns" and not turn_end:
        raise UserError("the template has no end of a turn: choose --method advantage")
    agent.train(False)
    student: Any = plain_lm(agent)
    if how.lora_rank:
        need_peft()
        from peft import LoraConfig, get_peft_model

        lora = LoraConfig(
            r=how.lora_rank, lora_alpha=2 * how.lora_rank, target_modules="all-linear"
        )
        student = get_peft_model(student, lora)
    trained = [parameter for parameter in student.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=how.learning_rate, weight_decay=0.0)
    losses: list[float] = []
    student.train()
    with progress_bar(total=how.steps, unit="step") as bar:
        for step in range(how.steps):
            for group in optimizer.param_groups:
                group["lr"] = how.learning_rate * how.rate(step)
            optimizer.zero_grad()
            loss = 0.0
            for part in batches.step(step):
                batch = part.to(agent.device)
                term = loss_of(agent, student, batch, how, turn_end)
                term.backward()
                loss += float(term.detach())
            torch.nn.utils.clip_grad_norm_(trained, MAX_NORM)
            optimizer.step()
            losses.append(loss)
            bar.set_postfix(
                loss=f"{sum(losses[-SMOOTH:]) / len(losses[-SMOOTH:]):.4f}", refresh=False
            )
            bar.update()
    plain: PreTrainedModel = student.merge_and_unload() if how.lora_rank else student
    plain.train(False)
    return plain, losses


def loss_of(
    agent: TextRLModel, student: Any, batch: Batch, how: Distillation, turn_end: Sequence[int]
) -> Tensor:
    """What the student minimizes on a batch."""
    if how.method == "advantage":
        return advantage_loss(agent, student, batch, how.beta)
    return turns_loss(agent, student, batch, how, turn_end)


def advantage_loss(agent: TextRLModel, student: Any, batch: Batch, beta: float) -> Tensor:
    """Cross-entropy of the student to pi exp(beta (Q - V)), at the history before each action."""
    actions = batch.actions.shape[1]
    with torch.no_grad():
        said = agent(batch.tokens, batch.state_positions)
        scores = action_scores(said, None, beta, agent.config.acts_by)[:, :actions]
        target = scores.softmax(dim=-1)
    log_pi = student_log_pi(student, batch)
    return masked_mean(-(target * log_pi).sum(dim=-1), batch.counts, batch.action_count)


def student_log_pi(student: Any, batch: Batch) -> Tensor:
    """(batch, actions, tokens) at the history before each action."""
    logits = student(input_ids=batch.tokens, use_cache=False).logits
    places = batch.state_positions[:, : batch.actions.shape[1]]
    return at_places(logits, places).log_softmax(dim=-1)


def turns_loss(
    agent: TextRLModel, student: Any, batch: Batch, how: Distillation, turn_end: Sequence[int]
) -> Tensor:
    """Cross-entropy of turns that the agent chooses by Q, after one history of each episode."""
    begins = torch.nn.functional.pad(batch.ends_action, (1, 0), value=True)[:, :-1]
    chances = (begins & batch.is_action).float()
    turn = torch.multinomial(chances, 1)
    lengths = batch.state_positions.gather(1, turn)[:, 0] + 1
    width = int(lengths.max())
    mask = (torch.arange(width, device=batch.tokens.device) < lengths[:, None]).long()
    turns = whole_turns(
        agent,
        batch.tokens[:, :width],
        candidates=how.candidates,
        attention_mask=mask,
        max_new_tokens=how.longest,
        eos_token_id=turn_end[-1],
        pad_token_id=0,
        top_k=0,
    )
    said = turns.chosen_tokens
    row = torch.arange(len(said), device=said.device)
    length = turns.lengths[row, turns.chosen]
    read = torch.cat([turns.prompts, said], dim=1)
    whole = torch.cat([mask.flip(1), torch.ones_like(said)], dim=1)  # padded on the left
    places = (whole.cumsum(dim=1) - 1).clamp_min(0)
    logits = student(input_ids=read, attention_mask=whole, position_ids=places, use_cache=False)
    of_turn = logits.logits[:, width - 1 : -1].transpose(1, 2)
    is_said = torch.arange(said.shape[1], device=said.device) < length[:, None]
    losses = cross_entropy(of_turn, said, reduction="none")
    return (losses * is_said).sum() / is_said.sum()


@torch.inference_mode()
def agreement(
    agent: TextRLModel, lm: Any, batches: Sequence[Batch], beta: float
) -> dict[str, float]:
    """How far a language model is from how the agent acts, token by token, on logged histories."""
    divergence, hits, count = 0.0, 0.0, 0
    for part in batches:
        batch = part.to(agent.device)
        said = agent(batch.tokens, batch.state_positions)
        scores = action_scores(said, None, beta, agent.config.acts_by)[:, : batch.actions.shape[1]]
        target, ours = scores.log_softmax(dim=-1), student_log_pi(lm, batch)
        gap = (target.exp() * (target - ours)).sum(dim=-1)
        likeliest = target.argmax(dim=-1)
        same = of_actions(ours, likeliest) >= ours.amax(dim=-1)
        divergence += float(gap[batch.is_action].sum())
        hits += float(same[batch.is_action].sum())
        count += int(batch.is_action.sum())
    return {"divergence": divergence / count, "same_choice": hits / count}
