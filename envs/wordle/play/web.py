"""The game as a page."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import Request
from fastapi.responses import JSONResponse
from gradio import Server
from pydantic import BaseModel, Field

from textrl.envs.wordle.game import WORD_LENGTH
from textrl.envs.wordle.play.daily import number_of_day
from textrl.envs.wordle.play.duel import begin_watch
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.rooms import NoSuchGame, Rooms
from textrl.errors import UserError
from textrl.sharing import page

PAGE = Path(__file__).parent / "page"
PAGE_FILES = (
    *("style.css", "icon.svg"),
    *("game.js", "board.js", "dialogs.js", "dom.js", "thinking.js"),
)
FILES = {
    "/": PAGE / "index.html",
    **{f"/{name}": PAGE / name for name in PAGE_FILES},
}
API = ("about", "words", "new", "look", "guess", "step", "colours", "back", "judge", "analysis")
MOST_BYTES = 1024  # of a request's body; the longest of ours has a tenth of that
MOST_AT_ONCE = 4  # requests of one visitor, whose others wait; the page sends one at a time

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
    doors = [f"/api/{name}" for name in API]
    app = page.new_server("Wordle", FILES, doors, MOST_BYTES, MOST_AT_ONCE)
    rooms, words = Rooms(opponent), opponent.task.words

    @app.get("/api/about")
    async def about() -> dict[str, Any]:
        return {
            "name": Path(opponent.name).name,
            "words": len(words.guesses),
            "answers": len(words.answers),
            "heads": opponent.heads,
            "decoding": opponent.decoding.name,
            "beta": opponent.decoding.beta,
            "day": number_of_day(),
        }

    @app.get("/api/words")
    async def list_words() -> JSONResponse:
        return JSONResponse({"words": words.guesses, "answers": len(words.answers)})

    # Answered as they are: FastAPI would look at every number of a view again.
    @app.post("/api/new")
    async def new(move: NewGame, request: Request) -> JSONResponse:
        return JSONResponse(await rooms.new(move.mode, move.word, page.visitor(request)))

    @app.post("/api/look")
    async def look(move: InGame) -> JSONResponse:
        return JSONResponse(await rooms.look(move.game))

    @app.post("/api/guess")
    async def guess(move: InGameWord) -> JSONResponse:
        return JSONResponse(await rooms.guess(move.game, move.word))

    @app.post("/api/step")
    async def step(move: InGame) -> JSONResponse:
        return JSONResponse(await rooms.step(move.game))

    @app.post("/api/colours")
    async def colours(move: InGameColours) -> JSONResponse:
        return JSONResponse(await rooms.colours(move.game, move.colours))

    @app.post("/api/back")
    async def back(move: InGame) -> JSONResponse:
        return JSONResponse(await rooms.back(move.game))

    @app.post("/api/judge")
    async def judge(move: InGameWord) -> JSONResponse:
        return JSONResponse(await rooms.judge(move.game, move.word))

    @app.post("/api/analysis")
    async def analysis(move: InGame) -> JSONResponse:
        return JSONResponse(await rooms.analysis(move.game))

    @app.exception_handler(UserError)
    def refuse(request: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 404 if isinstance(error, NoSuchGame) else 400)

    return app


def serve(opponent: Opponent, host: str, port: int) -> None:
    """Serve the page until Ctrl-C."""
    app = make_app(opponent)
    # The first guesses of a process take several times as long: not in front of a visitor.
    opponent.move(begin_watch(opponent.task.words, np.random.default_rng(0)))
    page.serve(app, f"Wordle against {opponent.name}", host, port)
