"""Twenty Questions in words: how agents and plain language models that learned from its
conversations play it.

    textrl collect --task twenty --output games --conversations talks.jsonl
    python -m textrl.recipes.measuring.new_lm talks.jsonl --output lm
    textrl train --task text --data talks.jsonl --backbone lm --output runs/ilql
    python -m textrl.recipes.measuring.talked_games runs/ilql --beta 0 4 --candidates 8
    python -m textrl.recipes.measuring.talked_games distilled
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from textrl.config.parser import make_parser
from textrl.data.conversation import AGENT, Message
from textrl.data.task_file import TASK_FILE
from textrl.envs.text.talk import Saying, Speaker
from textrl.envs.twenty.conversations import FIRST_MESSAGE
from textrl.envs.twenty.env import as_written
from textrl.envs.twenty.game import ANSWERS, MAX_TURNS
from textrl.envs.twenty.things import World, load_world
from textrl.errors import run_recipe
from textrl.evaluation.report import Estimate, table, write_json

LONGEST_QUESTION = 16  # tokens
Talk = list[Message]
Say = Callable[[Sequence[Talk]], list[str]]
"""Conversations -> the next turn in each."""


def play_in_words(world: World, say: Say, things: NDArray[np.int64]) -> NDArray[np.int64]:
    """The score of a game for each of the hidden things.

    What is no question of the world is answered with no, and counts as a question.
    """
    number = {as_written(question): i for i, question in enumerate(world.questions)}
    talks: list[Talk] = [[Message("user", FIRST_MESSAGE)] for _ in things]
    scores = np.zeros(len(things), dtype=np.int64)
    playing = np.arange(len(things))
    for _ in range(MAX_TURNS):
        asked = say([talks[game] for game in playing])
        going_on = []
        for game, text in zip(playing.tolist(), asked, strict=True):
            question = number.get(text, -1)
            if question == world.guess_of(int(things[game])):
                continue
            scores[game] -= 1
            going_on.append(game)
            is_yes = question >= 0 and bool(world.table[question, things[game]])
            answer = ANSWERS[is_yes].capitalize()
            talks[game] += [Message(AGENT, text or "?"), Message("user", answer)]
        playing = np.array(going_on, dtype=np.int64)
        if not len(playing):
            break
    return scores


def agents_say(speaker: Speaker, how: Saying) -> Say:
    """As an agent does."""
    return lambda talks: [answer.text for answer in speaker.answer(talks, how)]


def plain_say(folder: str, sample: bool) -> Say:
    """As a language model does that transformers loads, and nothing of ours."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # Of a game that has become too long, the beginning is cut, as a server would.
    sides = {"padding_side": "left", "truncation_side": "left"}
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, **sides)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    room = model.config.max_position_embeddings - LONGEST_QUESTION
    how: dict[str, Any] = {"do_sample": sample, "max_new_tokens": LONGEST_QUESTION}
    how |= {"top_k": 0, "top_p": 1.0} if sample else {}

    @torch.inference_mode()
    def say(talks: Sequence[Talk]) -> list[str]:
        shown = [[{"role": m.role, "content": m.content} for m in talk] for talk in talks]
        prompts = tokenizer.apply_chat_template(
            shown,
            add_generation_prompt=True,
            padding=True,
            truncation=True,
            max_length=room,
            return_tensors="pt",
            return_dict=True,
        )
        prompts.pop("token_type_ids", None)
        said = model.generate(**prompts, **how)[:, prompts["input_ids"].shape[1] :]
        return [text.strip() for text in tokenizer.batch_decode(said, skip_special_tokens=True)]

    return say


def players(name: str, betas: Sequence[float], candidates: Sequence[int]) -> dict[str, Say]:
    """Ways to play, by what they are called."""
    if not (Path(name) / TASK_FILE).is_file():
        return {"greedy": plain_say(name, False), "sampled": plain_say(name, True)}
    from textrl.sharing.checkpoint import load_agent

    speaker = Speaker(*load_agent(name))
    found = {}
    for beta in betas:
        for sample in (False, True):
            way = f"beta {beta:g}, {'sampled' if sample else 'greedy'}"
            found[way] = agents_say(speaker, Saying(beta, 1, sample, 1.0, LONGEST_QUESTION))
    for count in candidates:
        how = Saying(0.0, count, False, 1.0, LONGEST_QUESTION)
        found[f"{count} whole turns"] = agents_say(speaker, how)
    return found


def main() -> None:
    """Play and print."""
    parser = make_parser(
        "Play Twenty Questions in words.", "python -m textrl.recipes.measuring.talked_games runs/x"
    )
    parser.add_argument("names", nargs="+", help="agents, or folders of plain language models")
    parser.add_argument("--beta", type=float, nargs="*", default=[0.0, 4.0], help="of agents")
    parser.add_argument("--candidates", type=int, nargs="*", default=[8], help="of agents")
    parser.add_argument("--rounds", type=int, default=4, help="games for each thing")
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    parser.add_argument("--json", metavar="FILE", help="write the scores to this file too")
    options = parser.parse_args()
    world = load_world()
    things = np.tile(np.arange(len(world.things)), options.rounds)
    rows, found = [], []
    for name in options.names:
        for way, say in players(name, options.beta, options.candidates).items():
            torch.manual_seed(options.seed)
            is_greedy = "greedy" in way  # the same game each time
            hidden = things[: len(world.things)] if is_greedy else things
            scores = play_in_words(world, say, hidden)
            # Games for one thing are averaged first: they are not independent of each other.
            estimate = Estimate.of(scores.reshape(-1, len(world.things)).mean(axis=0))
            rows.append([name, way, f"{estimate.mean:.3f}", f"{estimate.stderr:.3f}"])
            found.append({"name": name, "way": way, "games": len(hidden), "mean": estimate.mean})
            print(json.dumps(found[-1]), flush=True)
    print(table(["player", "way", "score", "standard error"], rows))
    if options.json:
        write_json(Path(options.json), {"seed": options.seed, "players": found})


if __name__ == "__main__":
    run_recipe(main)
