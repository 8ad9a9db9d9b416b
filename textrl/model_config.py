"""The network's shape: everything that from_pretrained needs to build it again."""

from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from textrl.games import Game


class TextRLConfig(PreTrainedConfig):
    """The shape of the backbone and of the heads on it, and how to act with them."""

    model_type = "textrl"

    def __init__(
        self,
        vocabulary: int = 2,
        first_action: int = 1,
        action_tokens: int = 1,
        observation_classes: int = 0,
        backbone: str = "gpt2",
        lm: dict[str, Any] | None = None,
        generation: dict[str, Any] | None = None,
        lora: dict[str, Any] | None = None,
        base_revision: str | None = None,
        base_digest: str | None = None,
        cell: str = "gru",
        layers: int = 2,
        width: int = 128,
        attention_heads: int = 4,
        context: int = 64,
        window: int = 0,
        frame_shape: tuple[int, ...] | None = None,
        patches: int = 0,
        representation_hidden: int = 0,
        representation_bound: float = 0.0,
        steps: int = 0,
        heads: tuple[str, ...] = ("policy", "q", "v", "world"),
        q_heads: int = 2,
        q_head: str = "mlp",
        q_rank: int = 64,
        embedding_norm: float = 1.0,
        value_gradient: float = 1.0,
        world_gradient: float = 0.0,
        beta: float = 1.0,
        candidates: int = 1,
        plausible: float = 0.0,
        games: list[dict[str, Any]] | None = None,
        **others: Any,
    ) -> None:
        """steps: how long it has been trained.

        backbone: gpt2 or rnn, or the name of the language model whose own config is `lm`.
        generation: the language model's own settings of `generate`.
        lora: rank, alpha and targets of the adapter, where the language model itself is not trained
        and not part of the checkpoint; base_revision: its commit, if it is on the Hub; base_digest:
        by which it is known again.
        heads: which of policy, q (and its targets), v, world and inverse the network has.

        world: the model of the environment and the slow copy of the encoder that the bisimulation
        loss needs; inverse: guesses the action between two histories.
        q_heads: how many; q_head: mlp, low-rank (through q_rank numbers) or shared (a language
        model's output embeddings, of which embedding_norm is the mean length).
        observation_classes: what the world model tells apart; 0 = it predicts representations.
        window: how many actions back it looks; 0 = to the episode's beginning.
        frame_shape, patches: of the frames in its histories, and how many tokens each one becomes.
        representation_hidden: a hidden layer before the representation; 0 = a linear map.
        representation_bound: the largest norm of a representation; 0 = any.
        value_gradient: the share of the Q and V heads' gradient that reaches the representation;
        world_gradient: the share of the world model's.
        beta, candidates, plausible: how it acts unless told otherwise, see textrl.decoding.
        games: of a model of several, each one's tokens and its own of what else they differ in.
        """
        self.vocabulary = vocabulary
        self.first_action = first_action
        self.action_tokens = action_tokens
        self.observation_classes = observation_classes
        self.backbone = backbone
        self.lm = lm
        self.generation = generation
        self.lora = lora
        self.base_revision = base_revision
        self.base_digest = base_digest
        self.cell = cell
        self.layers = layers
        self.width = width
        self.attention_heads = attention_heads
        self.context = context
        self.window = window
        self.frame_shape = frame_shape and tuple(frame_shape)
        self.patches = patches
        self.representation_hidden = representation_hidden
        self.representation_bound = representation_bound
        self.steps = steps
        self.heads = tuple(heads)
        self.q_heads = q_heads
        self.q_head = q_head
        self.q_rank = q_rank
        self.embedding_norm = embedding_norm
        self.value_gradient = value_gradient
        self.world_gradient = world_gradient
        self.beta = beta
        self.candidates = candidates
        self.plausible = plausible
        self.games = games
        super().__init__(**others)

    @property
    def is_tied(self) -> bool:
        """Whether the language model's output embeddings are its input embeddings."""
        assert self.lm is not None
        return bool(self.lm["tie_word_embeddings"])

    def game(self, number: int) -> Game:
        """One of the games of a model of several."""
        assert self.games is not None
        return Game(**self.games[number])

    def lm_config(self) -> PreTrainedConfig:
        """The language model's own config, where there is one."""
        assert self.lm is not None
        return AutoConfig.for_model(**self.lm)
