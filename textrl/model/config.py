"""The network's shape: everything that from_pretrained needs to build it again."""

from dataclasses import fields
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from textrl.model.layout import MemberLayout, ValueUnits
from textrl.model.limits import check_settings, plain

DTYPES = ("float32", "float16", "bfloat16", "float64")


class TextRLConfig(PreTrainedConfig):
    """The shape of the backbone and of the heads on it, and how to act with them."""

    model_type = "textrl"

    vocabulary: int = 2
    first_action: int = 1
    action_tokens: int = 1
    observation_classes: int = 0  # what the world model tells apart; 0: it predicts representations
    backbone: str = "gpt2"  # or rnn, or the name of the language model whose own config is `lm`
    lm: dict[str, Any] | None = None
    generation: dict[str, Any] | None = None  # the language model's own settings of `generate`
    # Rank, alpha and targets of the adapter, where the language model itself is not trained and not
    # part of the checkpoint; its commit, if it is on the Hub; by which it is known again.
    lora: dict[str, Any] | None = None
    base_revision: str | None = None
    base_digest: str | None = None
    cell: str = "gru"
    layers: int = 2
    width: int = 128
    attention_heads: int = 4
    context: int = 64
    window: int = 0  # how many actions back it looks; 0: to the episode's beginning
    frame_shape: Any = None  # of the frames in its histories
    patches: int = 0  # how many tokens each frame becomes
    filters: Any = (32, 64, 32)  # of the convolutions that read them
    frame_precision: str = "float32"  # what these compute in
    hides_actions: bool = False  # it sees what was observed, not what was done
    representation_hidden: int = 0  # a hidden layer before the representation; 0: a linear map
    representation_bound: float = 0.0  # the largest norm of a representation; 0: any
    steps: int = 0  # how long it has been trained
    # Which of policy, q (and its targets), v, slow_v (a slow copy of that), world and inverse the
    # network has. world: the model of the environment and the slow copy of the encoder that the
    # bisimulation loss needs; inverse: guesses the action between two histories; hindsight: answers
    # queries about later steps.
    heads: Any = ("policy", "q", "v", "world")
    # What a policy over whole actions scores: how many there are and of how many tokens, and the
    # kind of each token. Without it, the policy scores tokens.
    whole_actions: Any = None
    token_kinds: Any = None
    q_heads: int = 2
    # mlp, low-rank (through q_rank numbers) or shared (a language model's output embeddings, of
    # which embedding_norm is the mean length)
    q_head: str = "mlp"
    q_rank: int = 64
    embedding_norm: float = 1.0
    value_gradient: float = 1.0  # the share of the Q and V heads' gradient that phi feels
    world_gradient: float = 0.0  # the share of the world model's
    # How it acts unless told otherwise, see textrl.acting.decoding.
    beta: float = 1.0
    candidates: int = 1
    plausible: float = 0.0
    acts_by: Any = ()  # which heads decide when it acts; none named: all
    temperature: float = 1.0  # of sampled actions
    # What the value heads count in, see ValueUnits.
    value_center: float = 0.0
    value_scale: float = 1.0
    # Of a model of several tasks, each one's tokens and what else they differ in.
    members: list[dict[str, Any]] | None = None

    def __post_init__(self, **others: Any) -> None:
        # JSON has lists only.
        self.frame_shape = self.frame_shape and tuple(self.frame_shape)
        self.heads, self.acts_by = tuple(self.heads), tuple(self.acts_by)
        self.filters = tuple(self.filters)
        super().__post_init__(**others)  # type: ignore[no-untyped-call]

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **others: Any) -> Any:
        """As transformers does it, of what a network's shape is made of and nothing else.

        transformers' own keys can name code, kernels and files; ValueError tells of a value that no
        network has.
        """
        defaults = {each.name: each.default for each in fields(cls) if each.name in OWN}
        ours = {name: value for name, value in config_dict.items() if name in defaults}
        check_settings(ours, defaults)
        if config_dict.get("dtype") in DTYPES:
            ours["dtype"] = config_dict["dtype"]
        if ours.get("lm"):
            ours["lm"] = plain(ours["lm"])
        return super().from_dict(ours, **others)

    @property
    def is_tied(self) -> bool:
        """Whether the language model's output embeddings are its input embeddings."""
        assert self.lm is not None
        return bool(self.lm["tie_word_embeddings"])

    @property
    def layouts(self) -> list[MemberLayout]:
        """Of each task that it plays, most often one."""
        if self.members is not None:
            return [MemberLayout.from_json(each) for each in self.members]
        return [
            MemberLayout(
                name="",
                tokens=self.vocabulary,
                actions=self.action_tokens,
                observation_classes=self.observation_classes,
                has_frames=self.frame_shape is not None,
                window=self.window,
                heads=self.heads,
                acts_by=self.acts_by,
                beta=self.beta,
                candidates=self.candidates,
                plausible=self.plausible,
                temperature=self.temperature,
                hides_actions=self.hides_actions,
                units=ValueUnits(self.value_center, self.value_scale),
            )
        ]

    def lm_config(self) -> PreTrainedConfig:
        """The language model's own config, where there is one."""
        assert self.lm is not None
        return AutoConfig.for_model(**self.lm)


OWN = frozenset(TextRLConfig.__annotations__) - {"model_type"}
"""What of a config is ours."""
