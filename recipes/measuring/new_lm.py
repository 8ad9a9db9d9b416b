"""A small GPT-2 with random weights, whose tokenizer is trained on the conversations of a file.

textrl collect --task twenty --output games --conversations talks.jsonl
python -m textrl.recipes.measuring.new_lm talks.jsonl --output lm
textrl train --task text --data talks.jsonl --backbone lm
"""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

END, ROLES = "<|end|>", ("system", "user", "assistant", "tool")
CONTROL = [END, *(f"<|{role}|>" for role in ROLES)]
# One token says who speaks and one that the turn is over: short turns stay short.
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def new_tokenizer(data: Path, tokens: int) -> PreTrainedTokenizerFast:
    """A BPE over bytes of so many tokens, with a chat template."""

    def contents() -> Iterator[str]:
        with data.open(encoding="utf-8") as file:
            for line in file:
                yield from (message["content"] for message in json.loads(line)["messages"])

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=tokens, special_tokens=CONTROL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(contents(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=TEMPLATE, eos_token=END, pad_token=END
    )


def main() -> None:
    """Make it and write it."""
    parser = make_parser(
        "Make a small language model with random weights and a tokenizer of its own.",
        "python -m textrl.recipes.measuring.new_lm talks.jsonl --output lm",
    )
    parser.add_argument("data", help="JSONL file of conversations to train the tokenizer on")
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the model")
    for name, default in (("tokens", 600), ("layers", 2), ("width", 128), ("context", 224)):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N")
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    options = parser.parse_args()
    data, output = Path(options.data), Path(options.output)
    if not data.is_file():
        raise UserError(f"{options.data!r} is not a file")
    if output.exists():
        raise UserError(f"{options.output!r} exists already: choose another --output")
    tokenizer = new_tokenizer(data, options.tokens)
    torch.manual_seed(options.seed)
    shape = {"n_layer": options.layers, "n_head": 4, "n_embd": options.width}
    end = tokenizer.get_vocab()[END]
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=options.context,
        bos_token_id=end,
        eos_token_id=end,
        **shape,
    )
    GPT2LMHeadModel(config).save_pretrained(output)
    tokenizer.save_pretrained(output)
    print(f"{len(tokenizer)} tokens, {options.layers} layers x {options.width} -> {output}")


if __name__ == "__main__":
    run_recipe(main)
