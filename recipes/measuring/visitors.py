"""Measure the page's server under visitors who never pause: how long they wait, what goes wrong."""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HEAD_END = b"\r\n\r\n"


@dataclass
class Seen:
    """What the visitors of one kind saw."""

    waits: list[float] = field(default_factory=list)  # seconds for each reply
    refused: int = 0  # told to wait for the answers to other requests first
    wrong: list[str] = field(default_factory=list)  # anything else that must not be

    def figures(self, seconds: float) -> dict[str, float]:
        """In milliseconds and replies a second."""
        waits = 1000 * np.array(self.waits or [np.nan])
        return {
            "replies": len(self.waits),
            "replies_per_second": len(self.waits) / seconds,
            "median_ms": float(np.median(waits)),
            "p95_ms": float(np.quantile(waits, 0.95)),
            "p99_ms": float(np.quantile(waits, 0.99)),
            "worst_ms": float(waits.max()),
            "refused": self.refused,
            "wrong": len(self.wrong),
        }


class Connection:
    """One connection of a visitor, kept open: plain sockets, so that the visitors cost little."""

    def __init__(self, host: str, port: int, address: str) -> None:
        self._host, self._port, self._address = host, port, address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, what: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        """Send a request and wait for its reply: its status, and the JSON in it."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        content = b"" if body is None else json.dumps(body).encode()
        # Each visitor counts as one of their own: the server trusts a proxy on the same machine.
        head = (
            f"{'GET' if body is None else 'POST'} /api/{what} HTTP/1.1\r\n"
            f"Host: {self._host}:{self._port}\r\nX-Forwarded-For: {self._address}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        answer = (await reader.readuntil(HEAD_END)).decode().lower().split("\r\n")
        length = next(line for line in answer if line.startswith("content-length:"))
        reply = await reader.readexactly(int(length.split(":")[1]))
        return int(answer[0].split()[1]), json.loads(reply)

    def close(self) -> None:
        """Leave."""
        if self._streams is not None:
            self._streams[1].close()


async def play(
    connection: Connection, words: Sequence[str], mode: str, end: float, seen: Seen, seed: int
) -> None:
    """One visitor: game after game without a pause, checking that every reply is of their own."""
    rng = random.Random(seed)

    async def ask(what: str, body: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        status, view = await connection.ask(what, body)
        if status == 429:
            seen.refused += 1
            return {}
        seen.waits.append(time.perf_counter() - began)
        if status != 200:
            seen.wrong.append(f"{what}: {status} {view}")
            return {}
        return dict(view)

    try:
        while time.perf_counter() < end:
            view = await ask("new", {"mode": mode})
            if not view:
                continue
            game, mine = view["game"], rng.sample(list(words), 6)
            for turn in range(6):
                if time.perf_counter() > end or not view or view["over"]:
                    break
                if mode == "watch":
                    view = await ask("step", {"game": game})
                    continue
                view = await ask("guess", {"game": game, "word": mine[turn]})
                said = [row["word"] for row in view["yours"]] if view else None
                if view and (view["game"] != game or said != mine[: turn + 1]):
                    seen.wrong.append(f"another's game: {said} after {mine[: turn + 1]}")
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        seen.wrong.append(f"lost: {error!r}")
    finally:
        connection.close()


async def visit(
    host: str, port: int, visitors: int, greedy: int, mode: str, seconds: float
) -> dict[str, dict[str, float]]:
    """Let so many visitors play at once, beside one more who does so over `greedy` connections."""
    first = Connection(host, port, "10.0.0.0")
    words = (await first.ask("words", None))[1]["words"]
    first.close()
    polite, rude = Seen(), Seen()
    end = time.perf_counter() + seconds
    addresses = [f"10.1.{number // 250}.{number % 250 + 1}" for number in range(visitors)]
    everyone = [
        play(Connection(host, port, address), words, mode, end, polite, number)
        for number, address in enumerate(addresses)
    ]
    everyone += [
        play(Connection(host, port, "10.2.0.1"), words, mode, end, rude, -1 - number)
        for number in range(greedy)
    ]
    began = time.perf_counter()
    await asyncio.gather(*everyone)
    took = time.perf_counter() - began
    found = {"visitors": polite.figures(took)}
    if greedy:
        found["greedy"] = rude.figures(took)
    for problem in [*polite.wrong, *rude.wrong][:3]:
        print(f"wrong: {problem}")
    return found
