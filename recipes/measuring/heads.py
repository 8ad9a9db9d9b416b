"""What the Q heads and LoRA cost on a language model: parameters, memory, time of a step."""

import multiprocessing
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, GPT2Config

from textrl.config.presets import configure
from textrl.data.batches import Batch
from textrl.model.build import new_model
from textrl.model.config import TextRLConfig
from textrl.model.heads import token_head
from textrl.tasks.members import Members
from textrl.training.learner import make_loss
from textrl.training.optimizers import make_optimizers

HEADS = ("mlp", "low-rank", "shared")
SHAPES = {
    "GPT-2 small": (768, 50_257),
    "Llama 3 8B": (4096, 128_256),
    "Qwen 2.5 7B": (3584, 152_064),
}
"""Width and vocabulary."""
STEPS = 2  # measured, after one that is not
BYTES_TRAINED, BYTES_SLOW = 16, 4
"""Of a parameter in single precision, its gradient and AdamW's two moments; of a slow copy's."""


def count_and_measure(episodes: int, tokens: int) -> None:
    """Print two tables: what the heads of known models hold, and what a step costs."""
    print("| model | Q head | parameters of one | twins and targets in training |")
    print("| --- | --- | ---: | ---: |")
    for model in SHAPES:
        for head in HEADS:
            parameters = count(model, head)
            size = 2 * parameters * (BYTES_TRAINED + BYTES_SLOW)
            print(f"| {model} | {head} | {parameters / 1e6:.1f} M | {size / 1e9:.2f} GB |")

    print("\n| Q head | LoRA rank | trained parameters | CPU seconds per step | peak memory |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(GPT2Config()).save_pretrained(folder)
        for rank in (8, 0):
            for head in HEADS:
                # A process of its own: what it has used at most is asked of the system.
                spawn = multiprocessing.get_context("spawn")
                with ProcessPoolExecutor(1, mp_context=spawn) as apart:
                    task = apart.submit(measure, folder, head, rank, episodes, tokens)
                    trained, seconds, memory = task.result()
                print(
                    f"| {head} | {rank or 'none'} | {trained / 1e6:.1f} M | {seconds:.2f} |"
                    f" {memory / 1e9:.2f} GB |",
                    flush=True,
                )


def count(model: str, head: str) -> int:
    """Parameters of one Q head."""
    width, tokens = SHAPES[model]
    shape = TextRLConfig(width=width, action_tokens=tokens, q_head=head, lm={"any": "model"})
    with torch.device("meta"):  # nothing is allocated
        return sum(p.numel() for p in token_head(shape).parameters())


def measure(
    folder: str, head: str, rank: int, episodes: int, tokens: int
) -> tuple[int, float, float]:
    """Parameters trained, CPU seconds per step of ILQL, the process's peak memory in bytes."""
    transformers.utils.logging.disable_progress_bar()
    vocabulary = GPT2Config().vocab_size
    language = SimpleNamespace(first_action=0, actions=range(vocabulary), tokens=range(vocabulary))
    task: Any = SimpleNamespace(language=language, observation_classes=0, frame_shape=None)
    config = configure(
        "text", backbone=str(Path(folder)), q_head=head, lora_rank=rank, context=tokens
    )
    model = new_model(Members({"text": task}), config)
    loss, (optimizer,) = make_loss(config), make_optimizers(model, config)
    batch = random_batch(episodes, tokens, vocabulary)
    for step in range(1 + STEPS):
        if step == 1:
            began = time.process_time()
        loss(model(batch.tokens, batch.state_positions), batch).total.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.update_targets(config.target_rate)
    seconds = (time.process_time() - began) / STEPS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return trained, seconds, peak * (1 if sys.platform == "darwin" else 1024)


def random_batch(episodes: int, length: int, vocabulary: int) -> Batch:
    """Conversations of one turn each: the second half is the agent's."""
    tokens = torch.randint(vocabulary, (episodes, length))
    positions = torch.arange(length // 2, length).expand(episodes, -1)
    is_action = torch.ones(positions.shape, dtype=torch.bool)
    is_last = positions == length - 1
    return Batch(
        tokens=tokens,
        state_positions=positions - 1,
        legal=None,
        actions=tokens.gather(1, positions),
        rewards=is_last.float(),
        observations=torch.full(positions.shape, -1),
        ends_action=is_last,
        is_action=is_action,
        has_next=~is_last,
        is_followed=~is_last,
        return_after=torch.zeros(positions.shape),
        left=torch.zeros(len(positions), 1, dtype=torch.int64),
        action_count=positions.numel(),
        completed_count=episodes,
    )
