"""Distil an agent into a plain language model: load -> imitate how it acts -> save."""

import argparse
from pathlib import Path
from typing import Any

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

EXAMPLE = """textrl distill runs/text --output plain
  transformers chat plain"""
CARD = """---
library_name: transformers
pipeline_tag: text-generation
---

# A plain language model that acts as an agent does

Distilled with `textrl distill` from `{run}` ({algo}, {steps:,} steps of training): {how}.
It is an ordinary causal language model with a chat template: `AutoModelForCausalLM`,
`transformers chat` and other servers load it without textrl. It has no values of its own.

On {count:,} logged action tokens: KL divergence from the agent {divergence:.4f} nats a token
(before distilling {before:.4f}); the likeliest token is the agent's in {same:.1%}.
"""


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Distill an agent on a language model into a plain causal language"
        " model, which transformers and other servers load without textrl and"
        " which acts as the agent does.",
        EXAMPLE,
    )
    parser.add_argument("run", help="folder or Hub id of an agent on a language model")
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the model")
    parser.add_argument(
        "--method",
        default="advantage",
        choices=("advantage", "turns"),
        help="imitate pi exp(beta (Q - V)) token by token, or whole turns chosen by Q",
    )
    parser.add_argument(
        "--beta", type=float, help="advantage: weight of Q - V against log pi (default: as trained)"
    )
    parser.add_argument(
        "--candidates", type=int, default=8, metavar="N", help="turns: whole turns compared"
    )
    parser.add_argument("--steps", type=int, default=300, metavar="N", help="training steps")
    parser.add_argument(
        "--learning-rate",
        type=float,
        metavar="X",
        help="peak learning rate (default: as the agent was trained)",
    )
    parser.add_argument(
        "--lora-rank",
        type=int,
        metavar="N",
        help="train an adapter of this rank, merged at the end; 0: every weight"
        " (default: as the agent)",
    )
    parser.add_argument("--data", help="conversations to learn from (default: the agent's)")
    parser.add_argument(
        "--base", help="where an adapter's language model is, if not where it was in training"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    options = parser.parse_args()
    for name, least in (("candidates", 2), ("steps", 1), ("lora_rank", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise UserError(f"--{name.replace('_', '-')} must be at least {least}, not {value}")
    if Path(options.output).exists():
        raise UserError(f"{options.output!r} exists already: choose another --output")
    distill(options)


def distill(options: argparse.Namespace) -> None:
    """Train the plain model, say how near it is to the agent, and write it."""
    from dataclasses import replace

    import torch
    import transformers

    from textrl.config.presets import load_config
    from textrl.config.train import CONFIG_FILE
    from textrl.data.download import fetch
    from textrl.envs.text.task import TextTask
    from textrl.sharing.checkpoint import load_agent
    from textrl.tasks.members import expect
    from textrl.training.distillation import Distillation, agreement, distil, plain_lm

    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(options.seed)
    agent, found = load_agent(options.run, base=options.base)
    task = expect(found, TextTask, "distilling")
    run = load_config(fetch(options.run, "model", [CONFIG_FILE]) / CONFIG_FILE)
    run = replace(run, seed=options.seed)
    (member,) = run.members.values()
    if options.data:
        task = task.learning_from(options.data)
    batches, episodes = task.batches(member, run)
    rank = run.lora_rank if options.lora_rank is None else options.lora_rank
    how = Distillation(
        method=options.method,
        beta=agent.config.beta if options.beta is None else options.beta,
        candidates=options.candidates,
        steps=options.steps,
        learning_rate=options.learning_rate or run.learning_rate,
        lora_rank=rank,
    )
    told = f"--method {how.method}, " + (
        f"beta {how.beta:g}" if how.method == "advantage" else f"{how.candidates} candidates"
    )
    print(f"{options.run}: {told}, {how.steps:,} steps on {episodes:,} conversations")
    checked = task.held_out_batches()
    before = agreement(agent, plain_lm(agent), checked, how.beta)
    lm, _ = distil(agent, batches, how, task.language.turn_end_ids)
    after = agreement(agent, lm, checked, how.beta)
    card = CARD.format(
        run=options.run,
        algo=member.algo,
        steps=agent.config.steps,
        how=f"{told}, {how.steps:,} steps of {member.batch_size} conversations",
        count=sum(int(batch.is_action.sum()) for batch in checked),
        divergence=after["divergence"],
        before=before["divergence"],
        same=after["same_choice"],
    )
    save(lm, task.language, card, Path(options.output))
    print(
        f"held out: KL divergence from the agent {after['divergence']:.4f} nats a token (before"
        f" {before['divergence']:.4f}), the same likeliest token in {after['same_choice']:.1%}"
        f"\n{options.output}: transformers chat {options.output}"
    )


def save(lm: Any, language: Any, card: str, output: Path) -> None:
    """Write the model with its tokenizer, whole or not at all."""
    from transformers import GenerationConfig

    from textrl.data.files import scratch_folder

    tokenizer = language.tokenizer()
    ends = {tokenizer.eos_token_id, *language.turn_end_ids[-1:]} - {None}
    # Temperature 1 is how it learned to act; servers end an answer where a turn ends.
    lm.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=sorted(ends) or None,
        pad_token_id=tokenizer.pad_token_id or min(ends, default=None),
        bos_token_id=tokenizer.bos_token_id,
    )
    with scratch_folder(output) as scratch:
        lm.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        (scratch / "README.md").write_text(card, encoding="utf-8")
        mode = (scratch / "README.md").stat().st_mode
        for path in scratch.iterdir():
            path.chmod(mode)  # safetensors lets nobody but the owner read its file
        scratch.rename(output)


if __name__ == "__main__":
    run_recipe(main)
