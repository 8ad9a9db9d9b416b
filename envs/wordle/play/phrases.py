"""What is said of a game, in the terminal as on the page."""

from textrl.envs.wordle.game import MAX_GUESSES, colours_of, encode_words, score
from textrl.envs.wordle.play.duel import Duel, Rows, is_over, is_won, other_words, wrong_rows
from textrl.envs.wordle.task import COLOURS
from textrl.errors import UserError


def after_guess(duel: Duel) -> str:
    """Between guesses of a race: what may be told of the model."""
    if is_over(duel.yours) or not is_over(duel.models):
        return ""
    return "The model has finished. Take your time."


def race_result(duel: Duel) -> str:
    """Who won the race."""
    answer = str(duel.answer).upper()
    you, model = (_needed(rows) for rows in (duel.yours, duel.models))
    verdict = {"you": "You win!", "model": "The model wins.", "nobody": "A draw."}[duel.winner]
    return f"{verdict} The word was {answer}: you needed {you} guesses, the model {model}."


def _needed(rows: Rows) -> str:
    return str(len(rows)) if is_won(rows) else f"more than {MAX_GUESSES}"


def alone_result(duel: Duel) -> str:
    """How the model did alone."""
    if is_won(duel.models):
        return f"It found {duel.models[-1].word.upper()} in {len(duel.models)}."
    stumped = " You have stumped it!" if duel.mode == "stump" else ""
    hidden = "your word" if duel.answer is None else duel.answer.upper()
    return f"It did not find {hidden} in {MAX_GUESSES} guesses.{stumped}"


def stuck(duel: Duel) -> str:
    """Why no word fits."""
    others = other_words(duel)
    if others:
        examples = ", ".join(word.upper() for word in others[:3])
        return f"None of its words fits these colours ({examples} would, but it does not know it)."
    return "No word at all fits these colours: one of them must be wrong."


def judge_word(duel: Duel, word: str) -> str:
    """Whether the colours were right for the word that the person had in mind."""
    try:
        wrong = wrong_rows(duel.models, word)
    except UserError as error:
        return str(error)
    if wrong:
        guess = duel.models[wrong[0]].word
        right = colours_of(score(encode_words([guess])[0], encode_words([word])[0]))
        spelled = ", ".join(COLOURS[colour] for colour in right)
        return (
            f"For {word.upper()} the colours of guess {wrong[0] + 1}, {guess.upper()}, should have"
            f" been {spelled}."
        )
    if word not in duel.words.guesses:
        return f"Your colours were right, but {word.upper()} is none of the words that it knows."
    return f"Your colours were right: {word.upper()} was too hard for it. Well done!"
