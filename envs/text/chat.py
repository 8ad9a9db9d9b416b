"""A conversation with an agent in the terminal, and answers to many prompts of a file."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import IO, Any

import torch

from textrl.data.conversation import AGENT, BadRow, Message, read_message
from textrl.data.progress import progress_bar
from textrl.envs.text import TextPlay
from textrl.envs.text.talk import (
    Answer,
    Saying,
    Speaker,
    candidates_json,
    describe_candidates,
    describe_values,
    values_json,
)
from textrl.errors import UserError, unknown
from textrl.sharing.checkpoint import load_agent

HELP = """\
Write a message and press Enter. Besides:
  /values        show, or no longer, what the heads say of each token of the answers
  /beta X        weight of Q - V against log pi: 0 is the policy alone
  /candidates N  whole answers compared by Q at their end: 1 is token by token
  /system TEXT   a new conversation with this system message
  /new           a new conversation
  /help          this
  /quit          or Ctrl-D, or Ctrl-C: leave"""


LONGEST_ANSWER = 256  # tokens, where the context has room for twice as many
COMMANDS = ("/values", "/beta", "/candidates", "/system", "/new", "/help", "/quit")


class Leave(Exception):
    """The person has said goodbye."""


class Chat:
    """One conversation after the other."""

    def __init__(self, speaker: Speaker, how: Saying, show_values: bool, system: str) -> None:
        self._speaker, self._how, self._shows_values = speaker, how, show_values
        self._begin(system)

    def _begin(self, system: str) -> None:
        self._messages = [Message("system", system)] if system else []

    def run(self) -> None:
        """Until the person leaves."""
        print("Talk with the agent; /help lists the commands.")
        try:
            while True:
                line = input("\nyou: ").strip()
                try:
                    if line.startswith("/"):
                        self._obey(line)
                    elif line:
                        self._reply(line)
                except (UserError, BadRow) as error:
                    print(f"({error})")
        except (EOFError, KeyboardInterrupt, Leave):
            print("\nUntil next time.")

    def _reply(self, text: str) -> None:
        asked = [*self._messages, Message("user", text)]
        longest = self._how.longest
        self._speaker.prompt(asked, longest)  # refuses before anything is printed
        print("agent: ", end="", flush=True)
        (answer,) = self._speaker.answer([asked], self._how, self._speaker.streamer())
        if not answer.is_finished:
            print(f"(cut off after {longest} tokens)")
        if answer.candidates and self._shows_values:
            print(describe_candidates(answer))
        if self._shows_values:
            print(describe_values(self._speaker.values(asked, answer, longest)))
        self._messages = [*asked, Message(AGENT, answer.text)]

    def _obey(self, line: str) -> None:
        command, _, rest = line.partition(" ")
        if command not in COMMANDS:
            raise unknown("command", command, COMMANDS)
        if command == "/quit":
            raise Leave
        if command == "/values":
            self._shows_values = not self._shows_values
            print(f"(values {'on' if self._shows_values else 'off'})")
        elif command == "/beta":
            try:
                self._how = replace(self._how, beta=float(rest))
            except ValueError:
                raise UserError(f"/beta takes a number, not {rest!r}") from None
            print(f"(beta {self._how.beta:g})")
        elif command == "/candidates":
            if not rest.strip().isdigit() or int(rest) < 1:
                raise UserError(f"/candidates takes a number from 1 on, not {rest!r}")
            self._how = replace(self._how, candidates=int(rest))
            print(f"(candidates {self._how.candidates})")
        elif command in ("/new", "/system"):
            self._begin(rest.strip())
            print("(a new conversation)")
        else:
            print(HELP)


def start(common: argparse.Namespace, options: TextPlay) -> None:
    """Talk in this terminal, or answer the prompts of a file.

    common: checkpoint, beta, sample and seed, as recipes/play.py has them.
    """
    if options.answers and not options.prompts:
        raise UserError("--answers needs --prompts")
    if common.seed is not None:
        torch.manual_seed(common.seed)
    prompts = []
    if options.prompts:
        with sys.stdin if options.prompts == "-" else open(options.prompts) as file:
            prompts = list(read_prompts(file, options.system))
    model, task = load_agent(common.checkpoint, base=options.base or None)
    if torch.accelerator.is_available():
        # Any, since transformers wraps `to` in a way that hides its parameters from type checkers.
        device: Any = torch.accelerator.current_accelerator()
        model = model.to(device)
    how = Saying(
        beta=model.config.beta if common.beta is None else common.beta,
        candidates=options.candidates or model.config.candidates,
        sample=common.sample,
        temperature=options.temperature,
        longest=options.max_new_tokens or min(LONGEST_ANSWER, model.config.context // 2),
    )
    speaker = Speaker(model, task)
    if not options.prompts:
        Chat(speaker, how, options.values, options.system).run()
        return
    with open(options.answers, "w") if options.answers else nullcontext(sys.stdout) as output:
        answer_all(speaker, how, prompts, output, options.batch_size, options.values)


def read_prompts(file: IO[str], system: str) -> Iterator[list[Message]]:
    """The conversations to answer: a line is a message's text, or JSON with messages."""
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        first = [Message("system", system)] if system else []
        if not line.lstrip().startswith("{"):
            yield [*first, Message("user", line.strip())]
            continue
        try:
            found: Any = json.loads(line).get("messages")
            if not isinstance(found, list) or not found:
                raise UserError("it has no list of messages")
            messages = [read_message(i, each) for i, each in enumerate(found, start=1)]
        except (ValueError, UserError, BadRow) as error:
            raise UserError(
                f"line {number} of the prompts is not a conversation: {error}"
            ) from None
        if messages[-1].role == AGENT:
            raise UserError(
                f"line {number} of the prompts ends with the assistant's turn: there is nothing to"
                " answer"
            )
        yield [*(first if messages[0].role != "system" else []), *messages]


def answer_all(
    speaker: Speaker,
    how: Saying,
    prompts: list[list[Message]],
    output: IO[str],
    batch_size: int,
    with_values: bool,
) -> None:
    """Write a line of JSON for each prompt, in their order, batch after batch."""
    with progress_bar(total=len(prompts), unit="prompt") as progress:
        for first in range(0, len(prompts), batch_size):
            asked = prompts[first : first + batch_size]
            for messages, answer in zip(asked, speaker.answer(asked, how), strict=True):
                line = answer_json(messages, answer)
                if with_values and answer.candidates:
                    line |= candidates_json(answer)
                if with_values:
                    line["tokens"] = values_json(speaker.values(messages, answer, how.longest))
                print(json.dumps(line, ensure_ascii=False), file=output, flush=True)
            progress.update(len(asked))


def answer_json(messages: list[Message], answer: Answer) -> dict[str, Any]:
    """The conversation with its answer, in the format that training reads."""
    said = [*messages, Message(AGENT, answer.text)]
    shown = [{"role": each.role, "content": each.content} for each in said]
    return {"messages": shown, "finished": answer.is_finished}
