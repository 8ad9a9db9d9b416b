"""Play Wordle against a trained agent: load -> terminal, web page, or a folder for a Space."""

import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import transformers

from envs.wordle.play.opponent import Opponent, load_opponent
from textrl.config import make_parser
from textrl.errors import UserError, run_recipe

EXAMPLE = "python recipes/play.py runs/wordle --web"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Play Wordle against a trained agent: in this terminal, or --web.", EXAMPLE
    )
    parser.add_argument("checkpoint", nargs="?", default="runs/wordle", help="folder or Hub id")
    parser.add_argument(
        "--beta", type=float, help="weight of Q - V against log pi (default: as trained)"
    )
    parser.add_argument("--sample", action="store_true", help="it draws letters by their chances")
    parser.add_argument("--seed", type=int, help="the same hidden words again (terminal)")
    parser.add_argument("--web", action="store_true", help="a page for the browser instead")
    parser.add_argument("--host", default="127.0.0.1", help="web: who may connect; 0.0.0.0: anyone")
    parser.add_argument("--port", type=int, default=7860, help="web: where to listen")
    parser.add_argument(
        "--space", metavar="DIR", help="write a folder that is a Hugging Face Space"
    )
    options = parser.parse_args()
    if (options.web or options.space) and find_spec("gradio") is None:
        raise UserError("the page needs gradio: pip install 'textrl[play]'")
    if options.web:
        check_address(options.host, options.port)
    elif not options.space:
        check_terminal()

    transformers.utils.logging.disable_progress_bar()
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
