"""One sentence a guess: what people play, what the values prefer, in guesses to go."""

from textrl.acting.policy import Thought
from textrl.envs.wordle.play.duel import Guess, Option
from textrl.envs.wordle.play.explain import about_its_guess, about_your_guess, guesses_to_go

STARE, CLOUT = Option("stare", 0.62, -1.6), Option("clout", 0.2, -1.3)


def test_values_that_disagree_with_people() -> None:
    assert about_its_guess(Guess("clout", options=(STARE, CLOUT))) == (
        "Most people play STARE here (62 %); its values prefer CLOUT: 2.3 instead of 2.6 guesses"
        " to go."
    )


def test_a_small_difference_is_told_with_more_digits() -> None:
    near = Option("stare", 0.3, -1.32)
    assert about_its_guess(Guess("clout", options=(near, CLOUT))) == (
        "People most often play STARE here (30 %); its values prefer CLOUT: 2.30 instead of 2.32"
        " guesses to go."
    )


def test_values_that_agree_and_values_that_are_overruled() -> None:
    worse = Option("clout", 0.2, -2.0)
    assert about_its_guess(Guess("stare", options=(STARE, worse))).endswith(
        "(62 %), and its values agree: 2.6 guesses to go."
    )
    assert about_its_guess(Guess("stare", options=(STARE, CLOUT))).endswith(
        "and so does it, though its values like CLOUT better: 2.3 instead of 2.6 guesses to go."
    )


def test_agents_without_values_without_a_policy_and_without_comparison() -> None:
    imitated = (Option("stare", 0.005, None), Option("clout", 0.002, None))
    assert about_its_guess(Guess("stare", options=imitated)) == (
        "People most often play STARE here (less than 1 %), and so does it."
    )
    by_q = Guess("stare", options=(Option("stare", None, -1.6),))
    assert about_its_guess(by_q) == "It plays STARE: its values expect 2.6 guesses to go."
    drawn = Guess("clout", options=(STARE, CLOUT), is_drawn=True)
    assert about_its_guess(drawn) == (
        "It drew CLOUT: people play it 20 % of the time here, and its values expect 2.3 guesses"
        " to go."
    )
    thought = Thought(0, (0,), (1.0,), (1.0,), None, -2.0)
    by_v = Guess("stare", (thought,), (Option("stare", 0.5, None),))
    assert "its values expect 3.0 guesses to go" in about_its_guess(by_v)
    assert about_its_guess(Guess("stare")) == ""


def test_your_guess_beside_its_own() -> None:
    its = Guess("clout", options=(STARE, CLOUT))
    assert about_your_guess("audio", -1.9, its) == (
        "Most people play STARE here (62 %); it would play CLOUT: 2.3 instead of 2.9 guesses to go."
    )
    assert about_your_guess("clout", -1.3, its).endswith(
        "; it would play CLOUT too: 2.3 guesses to go."
    )
    assert about_your_guess("stare", -1.6, its) == (
        "It would play CLOUT: 2.3 instead of 2.6 guesses to go."
    )
    assert "its values like your AUDIO better: 2.0 instead of 2.3" in (
        about_your_guess("audio", -1.0, its)
    )
    # A word that it does not know has no value.
    assert about_your_guess("audio", None, its).endswith(
        "it would play CLOUT: 2.3 guesses to go. It does not know AUDIO."
    )


def test_no_value_promises_more_than_the_last_guess() -> None:
    assert guesses_to_go(0.4) == 1.0 and guesses_to_go(-0.5) == 1.5
    sure = Guess("clout", options=(Option("clout", 0.9, 0.07), Option("stare", 0.1, -1.0)))
    assert about_its_guess(sure).endswith("its values agree: 1.0 guesses to go.")
