"""How a person's games went, opponent by opponent, kept in a file of the user's."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from textrl.envs.wordle.game import MAX_GUESSES
from textrl.envs.wordle.play.duel import Duel, result_of
from textrl.errors import UserError

Counts = tuple[int, ...]
"""Games by the number of guesses that they took, 1..6, then the lost ones."""
NO_GAMES: Counts = (0,) * (MAX_GUESSES + 1)


@dataclass(frozen=True)
class Record:
    """Finished games against one opponent."""

    won: int = 0
    drawn: int = 0
    lost: int = 0
    yours: Counts = NO_GAMES  # races
    models: Counts = NO_GAMES  # the same races
    stump: Counts = NO_GAMES

    def __post_init__(self) -> None:
        for counts in (self.yours, self.models, self.stump):
            if len(counts) != len(NO_GAMES):
                raise ValueError(f"{len(NO_GAMES)} counts are needed, not {len(counts)}")
        if any(type(count) is not int or count < 0 for count in self._all()):
            raise ValueError("a count of games is a whole number that is not negative")

    def _all(self) -> list[int]:
        return [self.won, self.drawn, self.lost, *self.yours, *self.models, *self.stump]

    def with_game(self, duel: Duel) -> "Record":
        """With one more finished game; a game that was only watched is nobody's."""
        if duel.mode == "stump":
            return replace(self, stump=_one_more(self.stump, result_of(duel.models)))
        if duel.mode == "watch":
            return self
        return replace(
            self,
            won=self.won + (duel.winner == "you"),
            drawn=self.drawn + (duel.winner == "nobody"),
            lost=self.lost + (duel.winner == "model"),
            yours=_one_more(self.yours, result_of(duel.yours)),
            models=_one_more(self.models, result_of(duel.models)),
        )


def _one_more(counts: Counts, result: int) -> Counts:
    return (*counts[: result - 1], counts[result - 1] + 1, *counts[result:])


def record_file() -> Path:
    """Where the records are: XDG_DATA_HOME, or ~/.local/share, then textrl/wordle-games.json."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "textrl" / "wordle-games.json"


def load_record(path: Path, opponent: str) -> Record:
    """The games against this opponent so far."""
    return _load_all(path).get(opponent, Record())


def add_game(path: Path, opponent: str, duel: Duel) -> Record:
    """Count a finished game and write the file anew, at once; another window's games are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        records = _load_all(path)
        records[opponent] = records.get(opponent, Record()).with_game(duel)
        scratch = path.with_suffix(".partial")
        content = {name: asdict(record) for name, record in records.items()}
        scratch.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(scratch, path)
    return records[opponent]


def _load_all(path: Path) -> dict[str, Record]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: Record(**{key: _frozen(value) for key, value in games.items()})
            for name, games in content.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"the record of your games {path} is damaged: move it away and begin a new one"
        ) from error


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
