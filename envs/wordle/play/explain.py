"""A guess of the model's or of yours in one plain sentence, from its policy, its Q and its V.

Of people it says what the policy says: it has learned to play like those whose games it read.
"""

from textrl.envs.wordle.play.duel import Guess, Option

CLEAR = 0.05  # of a guess: less than that is no preference worth a word


def guesses_to_go(value: float) -> float:
    """A score to come as the guesses it takes; values are estimates, and none may be above 0."""
    return 1 - min(0.0, value)


def about_its_guess(guess: Guess) -> str:
    """Why the model guessed that."""
    if not guess.options:
        return ""
    mine = next(option for option in guess.options if option.word == guess.word)
    favourite = _favourite(guess)
    word = mine.word.upper()
    if guess.is_drawn or len(guess.options) == 1 or favourite is None:
        return _alone(mine, guess)
    if favourite is not mine and mine.q is not None and favourite.q is not None:
        compared = _compared(mine.q, favourite.q)
        return f"{_people(favourite)}; its values prefer {word}: {compared} guesses to go."
    if favourite is not mine:
        return f"{_people(favourite)}; it prefers {word}."
    if mine.q is None:
        return f"{_people(favourite)}, and so does it."
    best = max(guess.options, key=lambda option: option.q or 0.0)
    if best.q is not None and best.q - mine.q > CLEAR:
        compared = _compared(best.q, mine.q)
        return (
            f"{_people(favourite)}, and so does it, though its values like {best.word.upper()}"
            f" better: {compared} guesses to go."
        )
    return f"{_people(favourite)}, and its values agree: {_go(mine.q)} guesses to go."


def about_your_guess(word: str, q: float | None, its: Guess) -> str:
    """What the model would have guessed in your place, and what its values say of yours.

    q: of your word; None where the model cannot tell.
    """
    mine = next((option for option in its.options if option.word == its.word), None)
    if mine is None:
        return ""
    favourite = _favourite(its)
    crowd = ""
    if favourite is not None and favourite.word not in (its.word, word) and len(its.options) > 1:
        crowd = f"{_people(favourite)}; "
    its_go = "" if mine.q is None else f": {_go(mine.q)} guesses to go"
    if word == its.word:
        return _sentence(f"{crowd}it would play {word.upper()} too{its_go}.")
    if q is None or mine.q is None:
        unknown = f" It does not know {word.upper()}." if mine.q is not None else ""
        return _sentence(f"{crowd}it would play {its.word.upper()}{its_go}.{unknown}")
    if q > mine.q + CLEAR:
        return _sentence(
            f"{crowd}it would play {its.word.upper()}, but its values like your {word.upper()}"
            f" better: {_compared(q, mine.q)} guesses to go."
        )
    return _sentence(
        f"{crowd}it would play {its.word.upper()}: {_compared(mine.q, q)} guesses to go."
    )


def _alone(mine: Option, guess: Guess) -> str:
    """Of a guess that was not compared with the likeliest words."""
    said = f"It {'drew' if guess.is_drawn else 'plays'} {mine.word.upper()}"
    told = []
    if mine.chance is not None:
        told.append(f"people play it {_percent(mine.chance)} of the time here")
    value = mine.q if mine.q is not None else guess.thoughts[0].v if guess.thoughts else None
    if value is not None:
        told.append(f"its values expect {_go(value)} guesses to go")
    return f"{said}: {', and '.join(told)}." if told else f"{said}."


def _favourite(guess: Guess) -> Option | None:
    """What people most often play here."""
    named = [option for option in guess.options if option.chance is not None]
    return max(named, key=lambda option: option.chance or 0.0) if named else None


def _people(favourite: Option) -> str:
    """How many of them."""
    chance = favourite.chance or 0.0
    who = "Most people play" if chance > 0.5 else "People most often play"
    return f"{who} {favourite.word.upper()} here ({_percent(chance)})"


def _compared(better: float, worse: float) -> str:
    """Two values as guesses to go, with as many digits as it takes to see the difference."""
    for digits in (1, 2):
        first, second = (f"{guesses_to_go(value):.{digits}f}" for value in (better, worse))
        if first != second:
            return f"{first} instead of {second}"
    return f"{first}, like it,"


def _go(value: float) -> str:
    return f"{guesses_to_go(value):.1f}"


def _percent(chance: float) -> str:
    return "less than 1 %" if chance < 0.01 else f"{100 * chance:.0f} %"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
