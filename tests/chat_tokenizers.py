"""Small tokenizers that split and write chats as the large ones of their families do."""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TEXT = [
    "hello there, how are you today? I am fine, thank you. What can I do for you?",
    "user: assistant: system: please tell me the price of one red apple and two green pears",
]

QWEN = (
    "{% if messages[0]['role'] == 'system' %}"
    "{{ '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{% else %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}"
    "{% for message in messages %}{% if not (loop.first and message['role'] == 'system') %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# As in Qwen 3: a last turn begins with an empty thought, which later turns do not repeat.
QWEN_THINKING = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' and loop.last %}{{ '<think>\\n\\n</think>\\n\\n' }}"
    "{% endif %}{{ message['content'].split('</think>')[-1].lstrip('\\n') + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LLAMA3 = (
    "{% for message in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
    "{{ message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
LLAMA2 = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] | trim + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] | trim + ' ' + eos_token }}{% endif %}{% endfor %}"
)


def byte_level(control: list[str], template: str | None, **special: str) -> PreTrainedTokenizerFast:
    """A BPE over bytes, as GPT-2, Llama 3 and Qwen have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=control,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=template, **special)


def gpt2() -> PreTrainedTokenizerFast:
    """Without a chat template."""
    end = "<|endoftext|>"
    return byte_level([end], None, bos_token=end, eos_token=end, unk_token=end)


def qwen(template: str = QWEN) -> PreTrainedTokenizerFast:
    """ChatML with a system message of its own; a newline follows each turn's end."""
    return byte_level(
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        template,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )


def llama3() -> PreTrainedTokenizerFast:
    """Trims contents; nothing between a turn's end and the next header."""
    control = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    return byte_level(control, LLAMA3, bos_token=control[0], eos_token=control[3])


def llama2() -> PreTrainedTokenizerFast:
    """As SentencePiece: spaces are part of words, and one is put before the first."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator([*TEXT, "[INST] [/INST]"], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=LLAMA2,
        unk_token="<unk>",
        bos_token=AddedToken("<s>", special=True),
        eos_token=AddedToken("</s>", special=True),
    )
