"""Starting the game for a person: in this terminal, on a page, or as a Space to publish."""

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from textrl.envs.wordle import WordlePlay
from textrl.envs.wordle.play.opponent import Opponent, load_opponent, refuse_missing
from textrl.envs.wordle.shipped import SHIPPED_AGENT
from textrl.errors import UserError


def start(common: argparse.Namespace, options: WordlePlay) -> None:
    """Play in this terminal or on a page, or write the page down.

    common: checkpoint, beta, sample and seed, as recipes/play.py has them; no checkpoint is the
    agent that ships with textrl.
    """
    checkpoint = common.checkpoint or str(SHIPPED_AGENT)
    refuse_missing(checkpoint)
    if (options.web or options.space) and find_spec("gradio") is None:
        raise UserError("the page needs gradio: pip install 'offline-textrl[play]'")
    if options.web:
        from textrl.sharing.page import check_address

        check_address(options.host, options.port)
    elif not options.space:
        check_terminal()
    torch.set_num_threads(1)  # a guess reads one short history: threads would wait for each other
    opponent = load_opponent(checkpoint, common.beta, common.sample)
    if options.space:
        from textrl.envs.wordle.play.space import write_space

        write_space(Path(options.space), opponent)
        print(f"{options.space} is a Space: try it with python {options.space}/app.py")
    elif options.web:
        from textrl.envs.wordle.play.web import serve

        serve(opponent, options.host, options.port)
    else:
        play_here(opponent, common.seed)


def check_terminal() -> None:
    """Refuse where there is no terminal to play in, before anything is loaded."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if not is_terminal or find_spec("termios") is None:
        raise UserError("the game cannot be played in this terminal: try --web")


def play_here(opponent: Opponent, seed: int | None) -> None:
    """Play in this terminal until the person leaves; Ctrl-C is a way to leave like others."""
    # Imported here because their libraries exist on Unix only; the page works everywhere.
    from textrl.envs.wordle.play.keys import terminal
    from textrl.envs.wordle.play.record import record_file
    from textrl.envs.wordle.play.screen import look_here
    from textrl.envs.wordle.play.terminal import Table, play

    try:
        with terminal() as keys:
            play(Table(opponent, keys, look_here, record_file(), np.random.default_rng(seed)))
    except KeyboardInterrupt:
        pass
    print("Until next time.")
