"""An agent on a language model that really learns: what earns the most, not what is said most."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tests.tiny_lms import CONTEXT, TOKENS, save_lm, task_of
from textrl.config.presets import configure
from textrl.data.batches import Batch
from textrl.model.build import new_model
from textrl.tasks.members import Members
from textrl.training.learner import make_loss
from textrl.training.optimizers import make_optimizers

BEGIN, END = 1, 2
ASKED, SAID, KINDS = 30, 10, 10
"""Questions are tokens 30 to 39, answers 10 to 19; the answer 10 + n earns 1 after 30 + n."""


def conversations(count: int, random: torch.Generator) -> Batch:
    """One question, one answer at random, the end of the turn."""
    asked = torch.randint(KINDS, (count, 1), generator=random)
    said = torch.randint(KINDS, (count, 1), generator=random)
    begin, end = torch.full_like(asked, BEGIN), torch.full_like(asked, END)
    tokens = torch.cat([begin, ASKED + asked, SAID + said, end], dim=1)
    earned = torch.cat([torch.zeros(count, 1), (asked == said).float()], dim=1)
    ends = torch.tensor([[False, True]]).expand(count, -1)
    return Batch(
        tokens=tokens,
        state_positions=torch.tensor([[1, 2]]).expand(count, -1),
        legal=None,
        actions=tokens[:, 2:],
        rewards=earned,
        observations=torch.full((count, 2), -1),
        ends_action=ends,
        is_action=torch.ones_like(ends),
        has_next=~ends,
        is_followed=~ends,
        return_after=torch.zeros(count, 2),
        left=torch.zeros(count, 1, dtype=torch.int64),
        action_count=2 * count,
        completed_count=count,
    )


def right_answers(model: Any, beta: float) -> Tensor:
    asked = torch.arange(KINDS)[:, None]
    prompts = torch.cat([torch.full_like(asked, BEGIN), ASKED + asked], dim=1)
    how = {"max_new_tokens": 1, "do_sample": False, "pad_token_id": 0}
    said = model.generate(prompts, beta=beta, **how)[:, 2:]
    return (said - SAID == asked).float().mean()


def test_values_find_the_answer_that_imitation_cannot(tmp_path: Path) -> None:
    save_lm("llama", tmp_path, hidden_size=64)
    config = configure(
        "text",
        algo="ilql",
        backbone=str(tmp_path),
        context=CONTEXT,
        lora_rank=4,
        learning_rate=2e-3,
        discount=1.0,
        action_lambda=0.95,
        target_rate=0.02,
    )
    torch.manual_seed(0)
    model = new_model(Members({"text": task_of(TOKENS)}), config)
    assert model.config.q_head == "shared"
    loss, (optimizer,) = make_loss(config), make_optimizers(model, config)
    random = torch.Generator().manual_seed(0)
    for _ in range(300):
        batch = conversations(32, random)
        loss(model(batch.tokens, batch.state_positions), batch).total.backward()
        nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        model.update_targets(config.target_rate)
    model.train(False)
    assert right_answers(model, beta=0.0) <= 0.4  # the data say all ten alike
    assert right_answers(model, beta=8.0) >= 0.9
