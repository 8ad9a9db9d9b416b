"""A new small language model, with a tokenizer that knows the conversations' words."""

import json
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from textrl.data.conversation import read_conversation
from textrl.envs.text.task import load_language
from textrl.errors import UserError
from textrl.recipes.measuring import new_lm


def test_one_token_a_word_and_one_where_a_turn_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [
        {"role": "user", "content": "what is it?"},
        {"role": "assistant", "content": "Is it metal?"},
    ]
    data, lm = tmp_path / "talks.jsonl", tmp_path / "lm"
    data.write_text(f"{json.dumps({'messages': messages})}\n" * 3)
    monkeypatch.setattr(
        sys, "argv", ["new_lm", str(data), "--output", str(lm), "--width", "16", "--context", "48"]
    )
    new_lm.main()
    language = load_language(lm)
    spelled = language.spell(read_conversation({"messages": messages}), 48)
    tokenizer = language.tokenizer()
    said = [tokenizer.decode([each]) for each in spelled.tokens]
    assert said[-6:] == ["<|assistant|>", "Is", " it", " metal", "?", "<|end|>"]
    assert list(spelled.is_action[-6:]) == [False, True, True, True, True, True]
    model = AutoModelForCausalLM.from_pretrained(lm)
    assert model.config.vocab_size == len(tokenizer) and model.config.n_positions == 48
    with pytest.raises(UserError, match="exists already: choose another --output"):
        new_lm.main()
