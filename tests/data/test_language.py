"""Token languages: how actions are spelled, and text as ids and back."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from textrl.data.language import BEGIN_ID, PAD_ID, ActionGrammar, Language


def spelled_by(grammar: ActionGrammar, length: int) -> set[tuple[int, ...]]:
    """Every sequence of this many tokens that is one whole action."""
    found = set()
    for tokens in itertools.product(range(grammar.next_state.shape[1]), repeat=length):
        state = 0
        for position, token in enumerate(tokens):
            state = int(grammar.next_state[state, token])
            if state < 0 or (state == 0) != (position == length - 1):
                break
        else:
            found.add(tokens)
    return found


def test_spellings_are_all_that_can_be_spelled() -> None:
    spellings = [(0, 1, 2), (0, 1, 1), (2, 1, 2), (0, 0, 0), (2, 2, 1)]
    grammar = ActionGrammar.from_spellings(np.array(spellings), actions=3)
    assert spelled_by(grammar, 3) == set(spellings)
    assert spelled_by(grammar, 1) == spelled_by(grammar, 2) == set()


def test_spellings_of_one_token() -> None:
    grammar = ActionGrammar.from_spellings(np.array([[0], [2]]), actions=3)
    assert grammar.next_state.tolist() == [[0, -1, 0]]
    assert grammar.legal.tolist() == [[True, False, True]]


def test_a_spelling_twice_is_one() -> None:
    once = ActionGrammar.from_spellings(np.array([[0, 1]]), actions=2)
    twice = ActionGrammar.from_spellings(np.array([[0, 1], [0, 1]]), actions=2)
    np.testing.assert_array_equal(once.next_state, twice.next_state)


def test_slots_take_any_of_their_tokens() -> None:
    grammar = ActionGrammar.from_slots([[0, 1], [2], [1, 2]], actions=3)
    assert spelled_by(grammar, 3) == {(0, 2, 1), (0, 2, 2), (1, 2, 1), (1, 2, 2)}
    single = ActionGrammar.from_slots([[0, 2]], actions=3)
    assert single.next_state.tolist() == [[0, -1, 0]]


def test_states_along_each_token(language: Language) -> None:
    a, b, x, y = range(4)
    grammar = language.grammar
    after_a, after_b = grammar.next_state[0, a], grammar.next_state[0, b]
    assert 0 < after_a != after_b > 0
    tokens = np.array([[a, x, b, y], [b, y, a, a], [b, x, b, y], [a, a, a, a]])
    real = np.ones(tokens.shape, dtype=bool)
    real[1, 3] = False
    real[3, 1:] = False
    assert grammar.states_along(tokens, real).tolist() == [
        [0, after_a, 0, after_b, 0],
        [0, after_b, 0, after_a, after_a],  # padding changes nothing
        [0, after_b, -1, -1, -1],  # bx is no action, and nothing after it counts
        [0, after_a, after_a, after_a, after_a],
    ]


def test_states_where_every_token_is_an_action() -> None:
    grammar = ActionGrammar.from_slots([[0, 2]], 3)
    tokens = np.array([[0, 2, 0, 2], [0, 1, 0, 2], [2, 1, 1, 0]])
    real = np.ones(tokens.shape, dtype=bool)
    real[2, 1] = False
    assert grammar.states_along(tokens, real).tolist() == [
        [0, 0, 0, 0, 0],
        [0, 0, -1, -1, -1],
        [0, 0, 0, -1, -1],  # padding changes nothing
    ]


def test_ids_are_padding_begin_observations_actions(language: Language) -> None:
    assert language.tokens == ("<pad>", "<begin>", "hot", "cold", "wet", "a", "b", "x", "y")
    assert (PAD_ID, BEGIN_ID) == (0, 1)
    assert language.tokens[language.first_observation] == "hot"
    assert language.tokens[language.first_action] == "a"


@pytest.mark.parametrize(
    ("observations", "actions", "fault"),
    [
        (("hot",), ("a", "hot"), "twice"),
        (("<pad>",), ("a", "b"), "twice"),
        (("hot",), ("a", "b", "c"), "width"),
    ],
)
def test_a_faulty_language_is_refused(
    observations: tuple[str, ...], actions: tuple[str, ...], fault: str
) -> None:
    grammar = ActionGrammar.from_slots([[0, 1]], actions=2)
    with pytest.raises(ValueError, match=fault):
        Language(observations, actions, grammar)


def test_text_and_ids_are_one(language: Language, tmp_path: Path) -> None:
    tokenizer = language.tokenizer()
    text = "<begin> a x hot b y wet cold"
    ids = [1, 5, 7, 2, 6, 8, 4, 3]
    tokenizer.save_pretrained(tmp_path)
    for each in (
        tokenizer,
        PreTrainedTokenizerFast.from_pretrained(tmp_path),
        AutoTokenizer.from_pretrained(tmp_path),
    ):
        assert each(text)["input_ids"] == ids
        assert each.decode(ids) == text
        assert len(each) == len(language.tokens)
        assert (each.pad_token_id, each.bos_token_id) == (PAD_ID, BEGIN_ID)
        assert each.decode([*ids, PAD_ID], skip_special_tokens=True) == text.removeprefix(
            "<begin> "
        )
