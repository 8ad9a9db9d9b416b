"""Tiny language models with tokenizers, and conversations in every format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from tests import chat_tokenizers

ASKED = ("how much is one red apple?", "do you have two green pears?", "hello, are you fine today?")
SAID = ("the price of one red apple is two", "I do, thank you", "what can I do for you?", "no")


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny GPT-2 without a chat template."""
    folder = tmp_path_factory.mktemp("lms") / "gpt2"
    tokenizer = chat_tokenizers.gpt2()
    torch.manual_seed(0)
    shape = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 256}
    # More tokens than the tokenizer knows, as many models have.
    config = GPT2Config(vocab_size=len(tokenizer) + 3, bos_token_id=0, eos_token_id=0, **shape)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Llama."""
    folder = tmp_path_factory.mktemp("lms") / "llama"
    tokenizer = chat_tokenizers.llama3()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=3,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def talks() -> Callable[..., list[dict[str, Any]]]:
    """Rows of conversations; the last reward of each is its number."""

    def make(count: int, seed: int = 0) -> list[dict[str, Any]]:
        random = np.random.default_rng(seed)
        rows = []
        for number in range(count):
            messages: list[dict[str, Any]] = []
            if random.random() < 0.3:
                messages.append({"role": "system", "content": "You sell fruit."})
            for _ in range(random.integers(1, 4)):
                messages.append({"role": "user", "content": str(random.choice(ASKED))})
                said = {"role": "assistant", "content": str(random.choice(SAID))}
                messages.append({**said, "reward": float(random.integers(-2, 3))})
            messages[-1]["reward"] = float(number)
            row: dict[str, Any] = {"messages": messages, "truncated": bool(random.random() < 0.3)}
            row["behaviour"] = "day" if number % 2 else "night"
            rows.append(row)
        return rows

    return make


@pytest.fixture
def write_lines(tmp_path: Path) -> Callable[[list[dict[str, Any]]], Path]:
    """Rows as a JSONL file."""

    def write(rows: list[dict[str, Any]]) -> Path:
        path = tmp_path / "talks.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write
