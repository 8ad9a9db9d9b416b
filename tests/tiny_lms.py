"""Tiny causal language models with random weights, agents on them, and batches of their tokens."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, PreTrainedModel, Qwen2Config

from tests.chat_tokenizers import llama3
from textrl.data.batches import Batch
from textrl.model.language_model import embedding_norm, load_lm, own_config
from textrl.model.network import TextRLConfig, TextRLModel

TOKENS, WIDTH, CONTEXT = 61, 16, 96
_SHAPE: dict[str, Any] = {
    "vocab_size": TOKENS,
    "hidden_size": WIDTH,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CONFIGS: dict[str, Any] = {
    "llama": lambda **changes: LlamaConfig(**{**_SHAPE, **changes}),
    "qwen2": lambda: Qwen2Config(**_SHAPE, tie_word_embeddings=True),
    "gpt2": lambda: GPT2Config(
        vocab_size=TOKENS,
        n_embd=WIDTH,
        n_layer=2,
        n_head=4,
        n_positions=CONTEXT,
        bos_token_id=1,
        eos_token_id=2,
    ),
}


def save_lm(kind: str, folder: Path, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """Write a random model of this kind that minds its history; give it as transformers has it."""
    torch.manual_seed(seed)
    lm = AutoModelForCausalLM.from_config(CONFIGS[kind](**changes)).eval()
    with torch.no_grad():
        for parameter in lm.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)  # as new, it hardly tells one token from another
    lm.save_pretrained(folder)
    return lm


def save_chat_lm(folder: Path, context: int = 160) -> None:
    """Write a random Llama with a tokenizer and a chat template; it has some tokens to spare."""
    tokenizer = llama3()
    shape = {**_SHAPE, "vocab_size": len(tokenizer) + 3, "max_position_embeddings": context}
    shape |= {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(LlamaConfig(**shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def agent_on(folder: Path, seed: int = 0, moved: bool = False, **changes: Any) -> TextRLModel:
    """An agent on the language model in the folder.

    moved: with every weight but the language model's off where it starts.
    """
    lm = load_lm(str(folder))
    torch.manual_seed(seed)
    shape = {
        "vocabulary": TOKENS,
        "first_action": 0,
        "action_tokens": TOKENS,
        "backbone": str(folder),
        "lm": own_config(lm),
        "generation": lm.generation_config.to_diff_dict(),
        "width": WIDTH,
        "context": CONTEXT,
        "heads": ("policy", "q", "v"),
        "q_head": "shared",
        "embedding_norm": embedding_norm(lm),
        **changes,
    }
    model = TextRLModel(TextRLConfig(**shape), lm)
    if moved:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if not name.startswith(("backbone", "output")):
                    parameter.add_(0.3 * torch.randn_like(parameter))
    return model.train(False)


def random_tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    """Ids of tokens that are not special."""
    return torch.randint(3, TOKENS, shape, generator=torch.Generator().manual_seed(seed))


def random_batch(episodes: int = 4, turns: int = 3, words: int = 4, seed: int = 0) -> Batch:
    """Conversations: `words` tokens of the other, then `words` of the agent, `turns` times.

    The reward comes with each turn's last token. Every token is legal.
    """
    random = torch.Generator().manual_seed(seed)
    tokens = random_tokens(episodes, 2 * turns * words, seed=seed)
    is_said = (torch.arange(2 * turns * words) // words) % 2 == 1
    positions = is_said.nonzero()[:, 0].expand(episodes, -1)
    ends = ((torch.arange(turns * words) + 1) % words == 0).expand(episodes, -1)
    rewards = torch.where(ends, torch.randn(ends.shape, generator=random), 0.0)
    is_followed = (torch.arange(turns * words) < turns * words - 1).expand(episodes, -1)
    return Batch(
        tokens=tokens,
        state_positions=positions - 1,
        legal=None,
        actions=tokens.gather(1, positions),
        rewards=rewards,
        observations=torch.full(ends.shape, -1),
        ends_action=ends,
        is_action=torch.ones_like(ends),
        has_next=is_followed,
        is_followed=is_followed,
        return_after=torch.zeros_like(rewards),
        left=torch.zeros(len(rewards), 1, dtype=torch.int64),
        action_count=episodes * turns * words,
        completed_count=episodes * turns,
    )


def task_of(tokens: int) -> Any:
    """As much of a task as a network needs to know."""
    language = SimpleNamespace(first_action=0, actions=range(tokens), tokens=range(tokens))
    return SimpleNamespace(language=language, observation_classes=0, frame_shape=None)
