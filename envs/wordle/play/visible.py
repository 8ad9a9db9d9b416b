"""What a visitor may see of a game, as JSON."""

from dataclasses import asdict
from typing import Any

from textrl.envs.wordle.play import phrases
from textrl.envs.wordle.play.analysis import Analysis, how_it_was_judged, summary
from textrl.envs.wordle.play.duel import Duel, Guess, Row, fitting, is_won
from textrl.envs.wordle.play.explain import about_its_guess
from textrl.envs.wordle.play.opponent import letter_of
from textrl.envs.wordle.play.share import share_text

View = dict[str, Any]


def view_of(name: str, duel: Duel, milliseconds: float = 0.0) -> View:
    """A game: in a race nothing of the model's board before the end."""
    is_hidden = duel.mode == "race" and not duel.is_over
    return {
        "game": name,
        "mode": duel.mode,
        "day": duel.day,
        "total": len(fitting(duel, ())),
        "yours": [row_view(row) for row in duel.yours],
        "models": [] if is_hidden else [row_view(row) for row in duel.models],
        "hidden": len(duel.models) if is_hidden else 0,
        "said": None if duel.said is None else guess_view(duel.said),
        "typed_colours": duel.answer is None,
        "over": duel.is_over,
        "stuck": duel.is_stuck,
        "won": is_won(duel.models),
        "winner": duel.winner if duel.is_over else None,
        "answer": None if is_hidden else duel.answer,
        "message": message_of(duel),
        "judged": False,
        "share": share_text(duel) if duel.is_over else None,
        "milliseconds": round(milliseconds, 1),
    }


def message_of(duel: Duel) -> str:
    """What is said of the game as it stands."""
    if duel.mode == "race":
        return phrases.race_result(duel) if duel.is_over else phrases.after_guess(duel)
    if duel.is_stuck:
        return phrases.stuck(duel)
    return phrases.alone_result(duel) if duel.is_over else ""


def row_view(row: Row) -> View:
    """A guess with its colours."""
    return {**guess_view(row.guess), "colours": row.colours, "left": row.left}


def guess_view(guess: Guess) -> View:
    """A guess with what the model thought."""
    return {
        "word": guess.word,
        "sentence": about_its_guess(guess),
        "thoughts": [
            {
                "v": thought.v,
                "letters": [
                    {
                        "letter": letter_of(token),
                        "chosen": token == thought.chosen,
                        "chance": thought.chance[i],
                        "policy": None if thought.policy is None else thought.policy[i],
                        "q": None if thought.q is None else thought.q[i],
                    }
                    for i, token in enumerate(thought.tokens)
                ],
            }
            for thought in guess.thoughts
        ],
    }


def analysis_view(analysis: Analysis) -> View:
    """A finished game, guess by guess."""
    return {
        "yours": [asdict(judged) for judged in analysis.yours],
        "models": [asdict(judged) for judged in analysis.models],
        "summary": [
            text
            for who, judged in (("You", analysis.yours), ("It", analysis.models))
            if judged and (text := summary(analysis, who, judged))
        ],
        "method": how_it_was_judged(analysis.method),
    }
