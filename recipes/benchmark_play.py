"""Measure the page under many visitors at once, against a server of its own."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path

import psutil  # comes with accelerate

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

EXAMPLE = "python recipes/benchmark_play.py runs/wordle --visitors 200 --greedy 400"

Figures = dict[str, dict[str, float]]


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Measure how long visitors who never pause wait for the Wordle page,"
        " and whether each of them gets only their own games.",
        EXAMPLE,
    )
    parser.add_argument("checkpoint", help="folder or Hub id of the agent")
    parser.add_argument("--visitors", type=int, default=200, metavar="N", help="visitors at once")
    parser.add_argument(
        "--greedy", type=int, default=0, metavar="N", help="connections of one more, greedy visitor"
    )
    parser.add_argument("--mode", choices=("race", "watch"), default="race", help="what they play")
    parser.add_argument(
        "--sample",
        action="store_true",
        help="the agent samples, so that no guess is known in advance",
    )
    parser.add_argument("--seconds", type=float, default=20, help="seconds to measure")
    parser.add_argument("--json", metavar="FILE", help="write the results to this file too")
    options = parser.parse_args()
    if options.visitors < 1 or options.greedy < 0 or options.seconds <= 0:
        raise UserError("--visitors and --seconds must be above 0, --greedy not below")
    from textrl.evaluation.report import table, write_json
    from textrl.recipes.measuring.visitors import visit

    port = free_port()
    server = start(options.checkpoint, port, options.sample)
    process = psutil.Process(server.pid)
    try:
        before = process.cpu_times()
        whom = (options.visitors, options.greedy, options.mode, options.seconds)
        figures, memory = asyncio.run(
            watched(visit("127.0.0.1", port, *whom), process, options.seconds)
        )
        after = process.cpu_times()
    finally:
        server.terminate()
        server.wait()
    seconds = after.user + after.system - before.user - before.system
    replies = sum(seen["replies"] for seen in figures.values())
    figures["server"] = {"cpu_ms_per_reply": 1000 * seconds / max(1, replies), **memory}
    rows = [
        [f"{who}: {name}", f"{value:,.2f}"]
        for who, seen in figures.items()
        for name, value in seen.items()
    ]
    print(table(["figure", "value"], rows))
    if options.json:
        write_json(Path(options.json), figures)


async def watched(
    visits: Awaitable[Figures], process: psutil.Process, seconds: float
) -> tuple[Figures, dict[str, float]]:
    """What the visits measure, and the server's memory halfway and at their end."""

    async def halfway() -> int:
        await asyncio.sleep(seconds / 2)
        return int(process.memory_info().rss)

    figures, before = await asyncio.gather(visits, halfway())
    now = process.memory_info().rss
    return figures, {"megabytes_halfway": before / 1e6, "megabytes_at_the_end": now / 1e6}


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(checkpoint: str, port: int, sample: bool) -> "subprocess.Popen[str]":
    """`textrl play CHECKPOINT --web` in a process of its own, once it says that it is there."""
    command = [
        sys.executable,
        "-m",
        "textrl.recipes.play",
        checkpoint,
        "--web",
        "--port",
        f"{port}",
    ]
    command += ["--sample"] * sample
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    if not server.stdout.readline():
        raise UserError(f"the page did not start: see the message of {' '.join(command)}")
    return server


if __name__ == "__main__":
    run_recipe(main)
