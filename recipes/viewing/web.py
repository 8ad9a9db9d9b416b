"""The page's server: what is browsed, whose opinions are asked, and the curves of runs."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import Request
from fastapi.responses import JSONResponse
from gradio import Server
from pydantic import BaseModel, Field

from textrl.data.conversation import BadRow, Message
from textrl.errors import UserError
from textrl.recipes.viewing.agents import Agent, Ask, Talker
from textrl.recipes.viewing.shelf import Shelf
from textrl.sharing import page
from textrl.training.metrics import Curves

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": PAGE / "index.html",
    **{f"/{name}": PAGE / name for name in ("style.css", "view.js", "icon.svg")},
}
API = ("about", "list", "episode", "values", "curves", "act", "answer")
MOST_BYTES = 20_000  # of a request's body: a prompt that somebody types
ROWS_AT_ONCE = 50
BINS = 32  # of the histogram of returns, at most
MOST_POINTS = 1_000  # of a curve

Number = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Exhibition:
    """All that the page shows."""

    shelf: Shelf | None
    agents: Sequence[Agent] = ()
    curves: Mapping[str, Curves] = field(default_factory=dict)

    def shelf_of(self, row: int) -> Shelf:
        """Where the row is."""
        if self.shelf is None or not 0 <= row < len(self.shelf.returns):
            raise Nothing(f"there is no row {row}")
        return self.shelf

    def agent_of(self, number: int) -> Agent:
        """By its place."""
        if not 0 <= number < len(self.agents):
            raise Nothing(f"there is no agent {number}")
        return self.agents[number]


class How(BaseModel):
    """Which agent is asked, and how it acts."""

    agent: Number
    beta: Annotated[float, Field(ge=-1000, le=1000)] | None = None
    candidates: Annotated[int, Field(ge=1, le=64)] | None = None
    sample: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    def ask(self) -> Ask:
        """For the agent."""
        return Ask(self.beta, self.candidates, self.sample, self.seed)


class InTurn(How):
    """What it would do in a turn of a row."""

    row: Number
    turn: Number


class ToPrompt(How):
    """What it would answer to a message."""

    system: Annotated[str, Field(max_length=4_000)] = ""
    prompt: Annotated[str, Field(min_length=1, max_length=8_000)]


class Nothing(UserError):
    """There is no such row, turn or agent."""


def make_app(shown: Exhibition) -> Server:
    """The page's server: files, questions about what is shown, and no other door."""
    app = page.new_server("textrl view", FILES, [f"/api/{name}" for name in API], MOST_BYTES)
    add_browsing(app, shown)
    add_asking(app, shown)

    @app.exception_handler(UserError)
    def refuse(request: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 404 if isinstance(error, Nothing) else 400)

    @app.exception_handler(BadRow)
    def refuse_row(request: Request, error: BadRow) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 400)

    return app


def add_browsing(app: Server, shown: Exhibition) -> None:
    """What there is, and each of it."""

    @app.get("/api/about")
    def about() -> dict[str, Any]:
        return describe(shown)

    @app.get("/api/list")
    def rows(
        low: float = -math.inf, high: float = math.inf, sort: str = "row", first: int = 0
    ) -> dict[str, Any]:
        return listed(shown.shelf_of(0), low, high, sort, max(0, first))

    @app.get("/api/episode")
    def episode(row: int) -> dict[str, Any]:
        return shown.shelf_of(row).show(row).to_json()

    @app.get("/api/curves")
    def curves() -> dict[str, Any]:
        return {name: thinned(each) for name, each in shown.curves.items()}


def add_asking(app: Server, shown: Exhibition) -> None:
    """What agents say and do."""
    asking = threading.Lock()  # samples come from one source of random numbers

    @app.get("/api/values")
    def values(row: int, agent: int) -> dict[str, Any]:
        with asking:
            turns = shown.agent_of(agent).values(shown.shelf_of(row), row)
        parts = shown.shelf_of(row).show(row).parts
        # Of a history that is too long for the agent, the first turns are missing.
        return {"first": sum(part.turn is not None for part in parts) - len(turns), "turns": turns}

    @app.post("/api/act")
    def act(move: InTurn) -> dict[str, Any]:
        shelf, agent = shown.shelf_of(move.row), shown.agent_of(move.agent)
        if not any(part.turn == move.turn for part in shelf.show(move.row).parts):
            raise Nothing(f"row {move.row} has no turn {move.turn} of the agent")
        with asking:
            return agent.act(shelf, move.row, move.turn, move.ask())

    @app.post("/api/answer")
    def answer(move: ToPrompt) -> dict[str, Any]:
        agent = shown.agent_of(move.agent)
        if not isinstance(agent, Talker):
            raise Nothing(f"{agent.name} does not talk")
        system = [Message("system", move.system)] if move.system.strip() else []
        with asking:
            return agent.answer([*system, Message("user", move.prompt)], move.ask())


def describe(shown: Exhibition) -> dict[str, Any]:
    """What there is to see."""
    data = None
    if shown.shelf is not None:
        returns = shown.shelf.returns.astype(np.float64)
        # Where returns are few whole numbers, each has a bar of its own.
        counts, edges = np.histogram(returns, min(BINS, len(np.unique(returns))))
        data = {
            "name": shown.shelf.name,
            "unit": shown.shelf.unit,
            "count": len(returns),
            "mean": float(returns.mean()),
            "histogram": {"counts": counts.tolist(), "edges": edges.tolist()},
        }
    agents = [
        {
            "name": agent.name,
            "heads": [h for h in ("policy", "q", "v") if h in agent.model.config.heads],
            "beta": agent.model.config.beta,
            "candidates": agent.model.config.candidates,
            "talks": isinstance(agent, Talker),
        }
        for agent in shown.agents
    ]
    return {"data": data, "agents": agents, "curves": list(shown.curves)}


def listed(shelf: Shelf, low: float, high: float, sort: str, first: int) -> dict[str, Any]:
    """Some of the rows that earned from low to high."""
    returns = shelf.returns
    with np.errstate(over="ignore"):  # beyond single precision a bound is infinite, as it should be
        rows = np.flatnonzero((returns >= low) & (returns <= high))
    if sort in ("best", "worst"):
        rows = rows[np.argsort(-returns[rows] if sort == "best" else returns[rows], kind="stable")]
    some = rows[first : first + ROWS_AT_ONCE].tolist()
    shown = [{"row": n, "earned": float(returns[n]), "title": shelf.title(n)} for n in some]
    return {"total": len(rows), "first": first, "rows": shown}


def thinned(curves: Curves) -> dict[str, Any]:
    """The curves with no more points than can be seen; JSON has no word for nan."""
    found = {}
    for name, (steps, values) in curves.items():
        every = -(-len(steps) // MOST_POINTS)
        kept = [value if math.isfinite(value) else None for value in values[::every]]
        found[name] = {"steps": steps[::every], "values": kept}
    return found
