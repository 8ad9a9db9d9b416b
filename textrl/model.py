"""The agent's network: a backbone that reads the history, a representation, and the heads on it."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.utils.generic import ModelOutput

from textrl.backbones import BACKBONES
from textrl.config import TrainConfig
from textrl.task import Task


class TextRLConfig(PreTrainedConfig):
    """The network's shape. Everything that from_pretrained needs to build it again."""

    model_type = "textrl"

    def __init__(
        self,
        vocabulary: int = 2,
        first_action: int = 1,
        action_tokens: int = 1,
        backbone: str = "gpt2",
        layers: int = 2,
        width: int = 128,
        attention_heads: int = 4,
        context: int = 64,
        steps: int = 0,
        heads: tuple[str, ...] = ("policy", "q", "v"),
        value_gradient: float = 1.0,
        beta: float = 1.0,
        **others: Any,
    ) -> None:
        """steps: how long it has been trained.

        heads: which of policy, q (twins and their targets) and v the network has.

        value_gradient: the share of the Q and V heads' gradient that reaches the representation.
        beta: the weight of Q - V against log pi to act with unless told otherwise.
        """
        self.vocabulary = vocabulary
        self.first_action = first_action
        self.action_tokens = action_tokens
        self.backbone = backbone
        self.layers = layers
        self.width = width
        self.attention_heads = attention_heads
        self.context = context
        self.steps = steps
        self.heads = tuple(heads)
        self.value_gradient = value_gradient
        self.beta = beta
        super().__init__(**others)


@dataclass
class TextRLOutput(ModelOutput):
    """What the heads say at each state: (batch, states, ...). A head that is not there is None."""

    representation: Tensor | None = None  # phi of the history, (batch, states, width)
    policy: Tensor | None = None  # logits of each action token, (batch, states, action tokens)
    q: Tensor | None = None  # both twins, (2, batch, states, action tokens)
    target_q: Tensor | None = None  # their slow copies, without gradient
    v: Tensor | None = None  # (batch, states)
    past_key_values: Cache | None = None


def two_layer_head(width: int, outputs: int) -> nn.Sequential:
    """The paper's head: two layers, the hidden one twice the transformer's width."""
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, outputs))


class TextRLModel(PreTrainedModel):
    """One backbone, one representation phi, and the heads that the algorithm needs on top of it."""

    config_class = TextRLConfig
    config: TextRLConfig

    def __init__(self, config: TextRLConfig) -> None:
        super().__init__(config)
        width, actions = config.width, config.action_tokens
        self.backbone = BACKBONES[config.backbone](
            config.vocabulary, config.layers, width, config.attention_heads, config.context
        )
        self.representation = nn.Linear(width, width)
        if "policy" in config.heads:
            self.policy = two_layer_head(width, actions)
        if "v" in config.heads:
            self.v = two_layer_head(width, 1)
        if "q" in config.heads:
            self.q = nn.ModuleList(two_layer_head(width, actions) for _ in range(2))
            self.target_q = nn.ModuleList(two_layer_head(width, actions) for _ in range(2))
        self.post_init()  # type: ignore[no-untyped-call]
        if "q" in config.heads:
            self.update_targets(rate=1.0)
            self.target_q.requires_grad_(False)

    @classmethod
    def from_pretrained(cls, *arguments: Any, **options: Any) -> Any:
        """As transformers does it, from safetensors only, and with the targets frozen again."""
        loaded = super().from_pretrained(*arguments, **{**options, "use_safetensors": True})
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if "q" in model.config.heads:
            model.target_q.requires_grad_(False)
        return loaded

    def _init_weights(self, module: nn.Module) -> None:
        # The backbone initializes itself; the heads start as PyTorch's linear layers do.
        if isinstance(module, nn.Linear):
            init.kaiming_uniform_(module.weight, a=math.sqrt(5))
            bound = 1 / math.sqrt(module.in_features)
            init.uniform_(module.bias, -bound, bound)

    def forward(
        self,
        tokens: Tensor,
        state_positions: Tensor | None = None,
        past_key_values: Cache | None = None,
    ) -> TextRLOutput:
        """Read tokens (batch, time) and evaluate the heads at state_positions (batch, states) only.

        Without positions: at the last token, which is what acting needs, one state per episode.
        """
        read = self.backbone(
            input_ids=tokens, past_key_values=past_key_values, use_cache=past_key_values is not None
        )
        hidden = read.last_hidden_state
        if state_positions is None:
            hidden = hidden[:, -1:]
        else:
            where = state_positions[..., None].expand(-1, -1, hidden.shape[-1])
            hidden = hidden.gather(1, where)
        phi = self.representation(hidden)
        output = TextRLOutput(representation=phi, past_key_values=read.past_key_values)
        if "policy" in self.config.heads:
            output.policy = self.policy(phi)
        # The same numbers; only the gradient on its way back is scaled.
        phi = phi.detach() + self.config.value_gradient * (phi - phi.detach())
        if "v" in self.config.heads:
            output.v = self.v(phi).squeeze(-1)
        if "q" in self.config.heads:
            if past_key_values is None:  # to act, the targets are enough
                output.q = torch.stack([head(phi) for head in self.q])
            with torch.no_grad():
                output.target_q = torch.stack([head(phi) for head in self.target_q])
        return output

    @torch.no_grad()
    def update_targets(self, rate: float) -> None:
        """Move the target heads towards the online ones: target += rate (online - target)."""
        if "q" in self.config.heads:
            for target, online in zip(self.target_q.parameters(), self.q.parameters(), strict=True):
                target.lerp_(online, rate)


def config_for(task: Task, config: TrainConfig, heads: tuple[str, ...]) -> TextRLConfig:
    """The network of a training run: the task's tokens, the run's size, the algorithm's heads."""
    return TextRLConfig(
        vocabulary=len(task.language.tokens),
        first_action=task.language.first_action,
        action_tokens=len(task.language.actions),
        backbone=config.backbone,
        layers=config.layers,
        width=config.width,
        attention_heads=config.attention_heads,
        context=config.context,
        heads=heads,
        value_gradient=config.value_gradient,
        beta=config.beta,
    )


AutoConfig.register(TextRLConfig.model_type, TextRLConfig)
AutoModel.register(TextRLConfig, TextRLModel)
