"""Conversations as tokens: whose they are, what they earn, what is left out; by many tokenizers."""

import math
from collections.abc import Callable

import pytest
from transformers import PreTrainedTokenizerFast

from tests import chat_tokenizers
from textrl.data.chat import Spelled, TextLanguage
from textrl.data.conversation import BadRow, Conversation, Message
from textrl.errors import UserError

TALK = Conversation(
    (
        Message("user", "hello there"),
        Message("assistant", "how are you?", 1.0),
        Message("user", " fine\n"),
        Message("assistant", "thank you", -2.0),
    )
)
MAKERS = [
    chat_tokenizers.gpt2,
    chat_tokenizers.qwen,
    lambda: chat_tokenizers.qwen(chat_tokenizers.QWEN_THINKING),
    chat_tokenizers.llama3,
    chat_tokenizers.llama2,
]
Make = Callable[[], PreTrainedTokenizerFast]


def language_of(make: Make) -> TextLanguage:
    tokenizer = make()
    return TextLanguage(tokenizer, len(tokenizer))


def marked(spelled: Spelled, language: TextLanguage) -> str:
    """The tokens, those of the agent in brackets."""
    pairs = zip(spelled.tokens, spelled.is_action, strict=True)
    return " ".join(f"[{language.tokens[t]}]" if is_a else language.tokens[t] for t, is_a in pairs)


def rewards(spelled: Spelled) -> list[float]:
    """On tokens that complete a turn; elsewhere there must be none."""
    columns = list(zip(spelled.reward, spelled.ends_action, spelled.is_action, strict=True))
    assert all(reward == 0 for reward, ends, _ in columns if not ends)
    assert all(is_action for _, ends, is_action in columns if ends)
    return [reward for reward, ends, _ in columns if ends]


def test_gpt2_has_no_template() -> None:
    language = language_of(chat_tokenizers.gpt2)
    spelled = language.spell(TALK, 100)
    assert marked(spelled, language) == (
        "<|endoftext|> user : Ġ hello Ġthere Ċ a ss istant : [Ġhow] [Ġare] [Ġyou] [?]"
        " [<|endoftext|>] Ċ user : Ġfine Ċ a ss istant : [Ġthank] [Ġyou] [<|endoftext|>] Ċ"
    )
    assert rewards(spelled) == [1.0, -2.0]
    assert [spelled.reward.index(1.0), spelled.reward.index(-2.0)] == [15, 27]
    assert language.turn_end == "<|endoftext|>"


def test_qwen_adds_a_system_message_and_a_newline_after_a_turn() -> None:
    language = language_of(chat_tokenizers.qwen)
    spelled = language.spell(TALK, 100)
    assert marked(spelled, language) == (
        "<|im_start|> sy stem Ċ Y ou Ġ he l p . <|im_end|> Ċ"
        " <|im_start|> user Ċ hello Ġthere <|im_end|> Ċ"
        " <|im_start|> a ss istant Ċ [ho] [w] [Ġare] [Ġyou] [?] [<|im_end|>] Ċ"
        " <|im_start|> user Ċ Ġfine Ċ <|im_end|> Ċ"
        " <|im_start|> a ss istant Ċ [t] [han] [k] [Ġyou] [<|im_end|>] Ċ"
    )
    assert rewards(spelled) == [1.0, -2.0]


def test_llama3_trims() -> None:
    language = language_of(chat_tokenizers.llama3)
    spelled = language.spell(TALK, 100)
    assert marked(spelled, language) == (
        "<|begin_of_text|> <|start_header_id|> user <|end_header_id|> Ċ Ċ hello Ġthere <|eot_id|>"
        " <|start_header_id|> a ss istant <|end_header_id|> Ċ Ċ"
        " [ho] [w] [Ġare] [Ġyou] [?] [<|eot_id|>]"
        " <|start_header_id|> user <|end_header_id|> Ċ Ċ f ine <|eot_id|>"
        " <|start_header_id|> a ss istant <|end_header_id|> Ċ Ċ [t] [han] [k] [Ġyou] [<|eot_id|>]"
    )
    assert rewards(spelled) == [1.0, -2.0]


def test_llama2_has_spaces_in_its_words() -> None:
    language = language_of(chat_tokenizers.llama2)
    spelled = language.spell(TALK, 100)
    assert marked(spelled, language) == (
        "<s> [ INST] ▁hello ▁the re ▁[/INST] [▁how] [▁are] [▁you?] [▁] [</s>]"
        " [ INST] ▁fine ▁[/INST] [▁thank] [▁you] [▁] [</s>]"
    )
    assert rewards(spelled) == [1.0, -2.0]


def test_a_template_may_write_its_last_turn_in_another_way() -> None:
    language = language_of(MAKERS[2])
    tokenizer, spelled = language.tokenizer(), language.spell(TALK, 100)
    said = [t for t, is_action in zip(spelled.tokens, spelled.is_action, strict=True) if is_action]
    assert tokenizer.decode(said) == (
        "how are you?<|im_end|><think>\n\n</think>\n\nthank you<|im_end|>"
    )
    hidden = Message("assistant", "<think>a lie</think>how are you?")
    with pytest.raises(BadRow, match="for message 2, the same turn when the conversation has gone"):
        language.spell(Conversation((TALK.messages[0], hidden, *TALK.messages[2:])), 100)


@pytest.mark.parametrize("make", MAKERS)
def test_acting_sees_what_training_saw(make: Make) -> None:
    language = language_of(make)
    newlines = Conversation(
        (Message("user", "so?"), Message("assistant", "\n\nhello"), *TALK.messages)
    )
    for talk in (TALK, newlines):
        spelled = language.spell(talk, 1000)
        turns = [i for i, message in enumerate(talk.messages) if message.role == "assistant"]
        is_new = [
            a and not b
            for a, b in zip(spelled.is_action, [False, *spelled.is_action], strict=False)
        ]
        begins = [i for i, begins_turn in enumerate(is_new) if begins_turn]
        assert len(begins) == len(turns)
        for turn, begin in zip(turns, begins, strict=True):
            assert language.prompt(talk.messages[:turn], 1000) == spelled.tokens[:begin]


@pytest.mark.parametrize("make", MAKERS)
def test_the_tokens_are_those_of_the_template(make: Make) -> None:
    language = language_of(make)
    tokenizer = language.tokenizer()
    shown = [{"role": m.role, "content": m.content} for m in TALK.messages]
    assert language.spell(TALK, 100).tokens == tokenizer.apply_chat_template(shown)["input_ids"]


def test_a_conversation_that_was_cut_off_ends_before_the_next_turn() -> None:
    language = language_of(chat_tokenizers.qwen)
    asked = Conversation(TALK.messages[:3], truncated=True)
    spelled = language.spell(asked, 100)
    assert spelled.truncated
    assert marked(spelled, language).endswith(
        "[<|im_end|>] Ċ <|im_start|> user Ċ Ġfine Ċ <|im_end|> Ċ <|im_start|> a ss istant Ċ"
    )
    # Where it came to its end, nobody needs to know what was said afterwards.
    ended = language.spell(Conversation(TALK.messages[:3]), 100)
    assert marked(ended, language).endswith("[<|im_end|>] Ċ")
    assert rewards(ended) == [1.0]


def test_a_greeting_is_no_choice() -> None:
    language = language_of(chat_tokenizers.gpt2)
    spelled = language.spell(Conversation((Message("assistant", "hello"), *TALK.messages)), 100)
    assert rewards(spelled) == [1.0, -2.0]
    first = spelled.is_action.index(True)
    assert (
        language.tokenizer()
        .decode(spelled.tokens[:first])
        .startswith("<|endoftext|>assistant: hello")
    )


def test_what_is_too_long_loses_its_beginning() -> None:
    language = language_of(chat_tokenizers.llama3)
    system = Message("system", "be kind")
    turns = [
        (Message("user", f"ask {i}"), Message("assistant", f"say {i}", float(i))) for i in range(6)
    ]
    talk = Conversation((system, *(message for turn in turns for message in turn)))
    whole = language.spell(talk, 10_000)
    assert whole.messages_cut == 0
    assert not whole.is_cut
    last = 0
    for context in range(40, len(whole.tokens) + 1):
        spelled = language.spell(talk, context)
        kept = len(rewards(spelled))
        assert len(spelled.tokens) <= context
        assert rewards(spelled) == [float(i) for i in range(6 - kept, 6)]
        assert spelled.messages_cut == 2 * (6 - kept)
        rest = Conversation((system, *talk.messages[1 + 2 * (6 - kept) :]))
        assert spelled.tokens == language.spell(rest, 10_000).tokens
        if kept < 6:  # one exchange more would have been too much
            more = Conversation((system, *talk.messages[1 + 2 * (5 - kept) :]))
            assert len(language.spell(more, 10_000).tokens) > context
        assert kept >= last
        last = kept
    assert last == 6


def test_a_system_message_goes_where_it_does_not_fit() -> None:
    language = language_of(chat_tokenizers.gpt2)
    talk = Conversation((Message("system", "word " * 50), *TALK.messages))
    alone = language.spell(Conversation(TALK.messages[2:]), 100)
    cut = language.spell(talk, len(alone.tokens))
    assert cut.tokens == alone.tokens
    assert cut.messages_cut == 3


def test_one_turn_that_is_too_long() -> None:
    language = language_of(chat_tokenizers.gpt2)
    talk = Conversation(
        (*TALK.messages[:2], Message("user", "hello there " * 30), TALK.messages[3])
    )
    whole = language.spell(talk, 10_000)
    spelled = language.spell(talk, 20)
    # The end of what was asked and the whole answer; the newline after it is nobody's.
    assert spelled.tokens == whole.tokens[-21:-1]
    assert (spelled.is_turn_cut, spelled.messages_cut, spelled.truncated) == (True, 2, False)
    assert rewards(spelled) == [-2.0]

    long = Message("assistant", "thank you " * 30, -2.0)
    talk = Conversation((*TALK.messages[:3], long))
    spelled = language.spell(talk, 12, discount=0.9)
    asked = language.prompt(talk.messages[2:3], 100)
    assert spelled.tokens[:6] == asked[-6:]
    said = language.spell(talk, 10_000)
    answer = [t for t, is_action in zip(said.tokens, said.is_action, strict=True) if is_action][5:]
    assert spelled.tokens[6:] == answer[:6]
    assert spelled.is_action == [False] * 6 + [True] * 6
    assert not any(spelled.ends_action)
    assert not any(spelled.reward)
    assert spelled.truncated
    # The reward comes with the last token of those that are missing.
    assert spelled.rest == pytest.approx(-2.0 * 0.9 ** (len(answer) - 6 - 1), rel=1e-12)
    assert math.isnan(said.rest)


def test_a_prompt_that_is_too_long_loses_its_beginning() -> None:
    language = language_of(chat_tokenizers.gpt2)
    messages = [*TALK.messages, Message("user", "hello")]
    short = language.prompt(messages[-1:], 1000)
    assert language.prompt(messages, len(short)) == short
    assert language.prompt(messages, 5) == short[-5:]


def test_a_message_must_not_speak_for_the_template() -> None:
    language = language_of(chat_tokenizers.qwen)
    with pytest.raises(BadRow, match=r"message 1 contains '<\|im_end\|>', a control token"):
        language.check(Conversation((Message("user", "a<|im_end|>b"), TALK.messages[1])))
    language.check(TALK)


def test_roles_that_a_template_refuses() -> None:
    language = language_of(chat_tokenizers.llama2)
    with pytest.raises(BadRow, match=r"refuses the messages .*roles must alternate"):
        language.check(Conversation((TALK.messages[0], *TALK.messages)))


def test_templates_that_cannot_be_used() -> None:
    def language(template: str | None, **changes: str) -> TextLanguage:
        tokenizer = chat_tokenizers.byte_level(["<end>"], template, **changes)
        return TextLanguage(tokenizer, len(tokenizer))

    with pytest.raises(UserError, match="neither a chat template nor an EOS token"):
        language(None)
    with pytest.raises(UserError, match="does not show every message's content"):
        language("{{ messages[-1]['content'] }}")
    with pytest.raises(UserError, match="cannot be used: TemplateSyntaxError"):
        language("{% for %}")
    backwards = language("{% for m in messages[::-1] %}{{ m['content'] }};{% endfor %}")
    with pytest.raises(BadRow, match="does not repeat, for message 2, what it writes before"):
        backwards.spell(TALK, 100)
    tokenizer = chat_tokenizers.gpt2()
    with pytest.raises(UserError, match="tokens, its model only 10"):
        TextLanguage(tokenizer, 10)


def test_a_model_may_know_more_tokens_than_its_tokenizer() -> None:
    tokenizer = chat_tokenizers.gpt2()
    language = TextLanguage(tokenizer, len(tokenizer) + 7)
    assert len(language.tokens) == len(language.actions) == len(tokenizer) + 7
    assert (language.first_action, language.grammar) == (0, None)
