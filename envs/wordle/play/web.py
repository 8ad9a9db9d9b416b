"""The game as a page."""

import contextlib
from pathlib import Path
from typing import Annotated, Any

from fastapi import Request
from fastapi.responses import JSONResponse
from gradio import Server
from pydantic import BaseModel, Field

from textrl.envs.wordle.game import MAX_GUESSES, WORD_LENGTH
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.rooms import NoSuchGame, Rooms
from textrl.errors import UserError
from textrl.sharing import page

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": PAGE / "index.html",
    **{f"/{name}": PAGE / name for name in ("style.css", "game.js", "icon.svg")},
}
API = ("about", "new", "guess", "step", "colours", "back", "judge")
MOST_BYTES = 1024  # of a request's body; the longest of ours has a tenth of that

Word = Annotated[str, Field(max_length=WORD_LENGTH)]
Colour = Annotated[int, Field(ge=0, le=2)]


class NewGame(BaseModel):
    """Begin a game."""

    mode: Annotated[str, Field(max_length=8)]
    word: Word | None = None


class InGame(BaseModel):
    """Something in a game."""

    game: Annotated[str, Field(max_length=32)]


class InGameWord(InGame):
    """A word in a game."""

    word: Word


class InGameColours(InGame):
    """The colours of the model's guess."""

    colours: Annotated[list[Colour], Field(min_length=WORD_LENGTH, max_length=WORD_LENGTH)]


def make_app(opponent: Opponent) -> Server:
    """The page's server: files, moves, and no other door."""
    app = page.new_server("Wordle", FILES, [f"/api/{name}" for name in API], MOST_BYTES)
    rooms = Rooms(opponent)

    @app.get("/api/about")
    def about() -> dict[str, Any]:
        return {
            "name": Path(opponent.name).name,
            "words": list(opponent.task.words.guesses),
            "answers": len(opponent.task.words.answers),
            "heads": opponent.heads,
            "decoding": opponent.decoding.name,
            "beta": opponent.decoding.beta,
        }

    @app.post("/api/new")
    def new(move: NewGame) -> dict[str, Any]:
        return rooms.new(move.mode, move.word)

    @app.post("/api/guess")
    def guess(move: InGameWord) -> dict[str, Any]:
        return rooms.guess(move.game, move.word)

    @app.post("/api/step")
    def step(move: InGame) -> dict[str, Any]:
        return rooms.step(move.game)

    @app.post("/api/colours")
    def colours(move: InGameColours) -> dict[str, Any]:
        return rooms.colours(move.game, move.colours)

    @app.post("/api/back")
    def back(move: InGame) -> dict[str, Any]:
        return rooms.back(move.game)

    @app.post("/api/judge")
    def judge(move: InGameWord) -> dict[str, Any]:
        return rooms.judge(move.game, move.word)

    @app.exception_handler(UserError)
    def refuse(request: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 404 if isinstance(error, NoSuchGame) else 400)

    return app


def serve(opponent: Opponent, host: str, port: int) -> None:
    """Serve the page until Ctrl-C."""
    app = make_app(opponent)
    # The first guesses of a process take several times as long: not in front of a visitor.
    rehearsal = Rooms(opponent)
    game = rehearsal.new("watch", None)["game"]
    with contextlib.suppress(UserError):  # when it is over
        for _ in range(MAX_GUESSES):
            rehearsal.step(game)
    page.serve(app, f"Wordle against {opponent.name}", host, port)
