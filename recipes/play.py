"""Meet a trained agent: play Wordle against it, or talk with it, here or on a web page."""

import argparse
import json
import os
import socket
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import transformers

from envs.tasks import load_agent
from envs.text.chat import Chat, answer_all, read_prompts
from envs.text.talk import Saying, Speaker
from envs.text.task import TextTask
from envs.wordle.play.opponent import Opponent, load_opponent, refuse_missing
from textrl.checkpoint import TASK_FILE, checkpoint_folder
from textrl.errors import UserError, run_recipe
from textrl.parser import make_parser

EXAMPLE = """python recipes/play.py runs/wordle --web
  python recipes/play.py runs/text --values
  python recipes/play.py runs/text --prompts prompts.txt --batch-size 16 > answers.jsonl"""
LONGEST_ANSWER = 256  # tokens, where the context has room for twice as many
WORDLE_ONLY = ("web", "host", "port", "space")
TEXT_ONLY = (
    *("base", "values", "system", "max_new_tokens", "temperature", "prompts", "batch_size"),
    "answers",
)


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Meet a trained agent: play Wordle against it, or talk with one that learned from"
        " conversations.",
        EXAMPLE,
    )
    parser.add_argument("checkpoint", nargs="?", default="runs/wordle", help="folder or Hub id")
    parser.add_argument(
        "--beta", type=float, help="weight of Q - V against log pi (default: as trained)"
    )
    parser.add_argument("--sample", action="store_true", help="it draws tokens by their chances")
    parser.add_argument("--seed", type=int, help="the same hidden words or samples again")
    game = parser.add_argument_group("wordle")
    game.add_argument("--web", action="store_true", help="a page for the browser instead")
    game.add_argument("--host", default="127.0.0.1", help="web: who may connect; 0.0.0.0: anyone")
    game.add_argument("--port", type=int, default=7860, help="web: where to listen")
    game.add_argument("--space", metavar="DIR", help="write a folder that is a Hugging Face Space")
    talk = parser.add_argument_group("text")
    talk.add_argument("--values", action="store_true", help="show pi, Q and V of each token")
    talk.add_argument("--system", metavar="TEXT", default="", help="a system message to begin with")
    talk.add_argument(
        "--max-new-tokens",
        type=int,
        help=f"of an answer (default: {LONGEST_ANSWER}, or half of what the agent can read)",
    )
    talk.add_argument("--temperature", type=float, default=1.0, help="of --sample")
    talk.add_argument(
        "--prompts",
        metavar="FILE",
        help="answer these instead, a message or a JSON object with messages a line; - reads them"
        " from standard input",
    )
    talk.add_argument("--batch-size", type=int, default=8, help="prompts answered at once")
    talk.add_argument(
        "--answers", metavar="FILE", help="where to write them, as JSONL (default: standard output)"
    )
    talk.add_argument(
        "--base", help="where an adapter's language model is, if not where it was in training"
    )
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    task = task_name(options.checkpoint)
    if task == TextTask.name:
        refuse_foreign(parser, options, WORDLE_ONLY, task)
        talk_here(options)
    else:
        if task:
            refuse_foreign(parser, options, TEXT_ONLY, task)
        play_wordle(options)


def task_name(checkpoint: str) -> str:
    """What the checkpoint says that it has learned, before anything large is loaded.

    Nothing where there is no checkpoint: whoever loads it will say so.
    """
    try:
        folder = checkpoint_folder(checkpoint)
    except UserError:
        return ""
    try:
        return str(json.loads((folder / TASK_FILE).read_text())["task"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{checkpoint!r} does not say in {TASK_FILE} what it plays") from error


def refuse_foreign(
    parser: argparse.ArgumentParser, options: argparse.Namespace, names: tuple[str, ...], task: str
) -> None:
    """Refuse options that an agent of this task knows nothing of."""
    for name in names:
        if getattr(options, name) != parser.get_default(name):
            flag = f"--{name.replace('_', '-')}"
            raise UserError(f"{flag} is not for agents of the task {task!r}: leave it out")


def talk_here(options: argparse.Namespace) -> None:
    """Talk in this terminal, or answer the prompts of a file."""
    for name in ("max_new_tokens", "batch_size"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1")
    if options.temperature <= 0:
        raise UserError(f"--temperature must be above 0, not {options.temperature:g}")
    if options.answers and not options.prompts:
        raise UserError("--answers needs --prompts")
    if options.seed is not None:
        torch.manual_seed(options.seed)
    prompts = []
    if options.prompts:
        with sys.stdin if options.prompts == "-" else open(options.prompts) as file:
            prompts = list(read_prompts(file, options.system))
    model, task = load_agent(options.checkpoint, base=options.base)
    if torch.accelerator.is_available():
        model = model.to(torch.accelerator.current_accelerator())
    how = Saying(
        beta=model.config.beta if options.beta is None else options.beta,
        sample=options.sample,
        temperature=options.temperature,
        longest=options.max_new_tokens or min(LONGEST_ANSWER, model.config.context // 2),
    )
    speaker = Speaker(model, task)
    if not options.prompts:
        Chat(speaker, how, options.values, options.system).run()
        return
    with open(options.answers, "w") if options.answers else nullcontext(sys.stdout) as output:
        answer_all(speaker, how, prompts, output, options.batch_size, options.values)


def play_wordle(options: argparse.Namespace) -> None:
    """Play in this terminal or on a page, or write the page down."""
    refuse_missing(options.checkpoint)
    if (options.web or options.space) and find_spec("gradio") is None:
        raise UserError("the page needs gradio: pip install 'textrl[play]'")
    if options.web:
        check_address(options.host, options.port)
    elif not options.space:
        check_terminal()
    torch.set_num_threads(1)  # a guess reads one short history: threads would wait for each other
    opponent = load_opponent(options.checkpoint, options.beta, options.sample)
    if options.space:
        from envs.wordle.play.space import write_space

        write_space(Path(options.space), opponent)
        print(f"{options.space} is a Space: try it with python {options.space}/app.py")
    elif options.web:
        from envs.wordle.play.web import serve

        serve(opponent, options.host, options.port)
    else:
        play_here(opponent, options.seed)


def check_address(host: str, port: int) -> None:
    """Refuse a port that is taken and a host that is not ours, before anything is loaded."""
    if not 1 <= port <= 65535:
        raise UserError(f"--port must be from 1 to 65535, not {port}")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            why = error.strerror or error
            raise UserError(
                f"cannot listen on {host}:{port} ({why}): choose another --port or --host"
            ) from error


def check_terminal() -> None:
    """Refuse where there is no terminal to play in, before anything is loaded."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if not is_terminal or find_spec("termios") is None:
        raise UserError("this is no terminal that the game can be played in: try --web")


def play_here(opponent: Opponent, seed: int | None) -> None:
    """Play in this terminal until the person leaves; Ctrl-C is a way to leave like others."""
    # Imported here because their libraries exist on Unix only; the page works everywhere.
    from envs.wordle.play.keys import terminal
    from envs.wordle.play.record import record_file
    from envs.wordle.play.screen import look_here
    from envs.wordle.play.terminal import Table, play

    try:
        with terminal() as keys:
            play(Table(opponent, keys, look_here, record_file(), np.random.default_rng(seed)))
    except KeyboardInterrupt:
        pass
    print("Until next time.")


if __name__ == "__main__":
    run_recipe(main)
