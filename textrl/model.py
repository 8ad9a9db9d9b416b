"""The agent's network: a backbone that reads the history, a representation, and the heads on it."""

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.utils.generic import ModelOutput

from textrl.backbones import BACKBONES, Shape, initialize_cells
from textrl.config import TrainConfig
from textrl.frames import Frames, PatchEncoder, Patches
from textrl.losses.ops import legal_only
from textrl.pairs import Pairs, throw
from textrl.task import Task
from textrl.world import WorldModel


class TextRLConfig(PreTrainedConfig):
    """The network's shape. Everything that from_pretrained needs to build it again."""

    model_type = "textrl"

    def __init__(
        self,
        vocabulary: int = 2,
        first_action: int = 1,
        action_tokens: int = 1,
        observation_classes: int = 0,
        backbone: str = "gpt2",
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
        value_gradient: float = 1.0,
        world_gradient: float = 0.0,
        beta: float = 1.0,
        **others: Any,
    ) -> None:
        """steps: how long it has been trained.

        heads: which of policy, q (and its targets), v, world and inverse the network has.

        world: the model of the environment and the slow copy of the encoder that the bisimulation
        loss needs; inverse: guesses the action between two histories.
        observation_classes: what the world model tells apart; 0 = it predicts representations.
        window: how many actions back it looks; 0 = to the episode's beginning.
        frame_shape, patches: of the frames in its histories, and how many tokens each one becomes.
        representation_hidden: a hidden layer before the representation; 0 = a linear map.
        representation_bound: the largest norm of a representation; 0 = any.
        value_gradient: the share of the Q and V heads' gradient that reaches the representation;
        world_gradient: the share of the world model's.
        beta: the weight of Q (less V) against log pi to act with unless told otherwise.
        """
        self.vocabulary = vocabulary
        self.first_action = first_action
        self.action_tokens = action_tokens
        self.observation_classes = observation_classes
        self.backbone = backbone
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
        self.value_gradient = value_gradient
        self.world_gradient = world_gradient
        self.beta = beta
        super().__init__(**others)


@dataclass
class TextRLOutput(ModelOutput):
    """What the heads say at each state: (batch, states, ...). A head that is not there is None."""

    representation: Tensor | None = None  # phi of the history, (batch, states, width)
    policy: Tensor | None = None  # logits of each action token, (batch, states, action tokens)
    q: Tensor | None = None  # (Q heads, batch, states, action tokens)
    target_q: Tensor | None = None  # their slow copies, without gradient
    v: Tensor | None = None  # (batch, states)
    past_key_values: Any = None

    # Only where pairs of n histories are given. Only the predictions and inverse have a gradient.
    target_representation: Tensor | None = None  # z, by the slow copy of the encoder, as phi
    predicted_reward: Tensor | None = None  # of phi and the data's action, (n,)
    predicted_dynamics: Tensor | None = None  # (n, classes or 2 width)
    imagined_reward: Tensor | None = None  # of z and an action of the current policy, as above
    imagined_dynamics: Tensor | None = None
    inverse: Tensor | None = None  # logits of the action between a history and the next, (n, ...)


def action_scores(output: TextRLOutput, legal: Tensor, beta: float) -> Tensor:
    """Log-scores of each action token: log pi + beta (min target Q - V), of whatever is there.

    Where the model has no Q, that is its policy alone, whatever beta is; where it has no policy
    (CQL), beta Q: beta is the softmax's inverse temperature. legal: (..., action tokens).
    """
    scores = torch.zeros_like(legal, dtype=torch.float32)
    if output.target_q is not None:
        scores = output.target_q.amin(dim=0)
        scores = beta * (scores if output.v is None else scores - output.v[..., None])
    scores = legal_only(scores, legal)
    if output.policy is not None:
        scores = scores + legal_only(output.policy, legal).log_softmax(dim=-1)
    return scores


def two_layer_head(width: int, outputs: int, inputs: int = 1) -> nn.Sequential:
    """The paper's head: two layers, the hidden one twice the transformer's width."""
    return nn.Sequential(
        nn.Linear(inputs * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, outputs)
    )


class TextRLModel(PreTrainedModel):
    """One backbone, one representation phi, and the heads that the algorithm needs on top of it."""

    config_class = TextRLConfig
    config: TextRLConfig

    def __init__(self, config: TextRLConfig) -> None:
        super().__init__(config)
        width, actions, hidden = config.width, config.action_tokens, config.representation_hidden
        self.backbone = BACKBONES[config.backbone].make(
            Shape(
                vocabulary=config.vocabulary,
                layers=config.layers,
                width=width,
                attention_heads=config.attention_heads,
                context=config.context,
                cell=config.cell,
            )
        )
        if config.frame_shape:
            self.frames = PatchEncoder(config.frame_shape, config.patches, width)
        self.representation: nn.Module = nn.Linear(width, width)
        if hidden:
            self.representation = nn.Sequential(
                nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width)
            )
        if "policy" in config.heads:
            self.policy = two_layer_head(width, actions)
        if "v" in config.heads:
            self.v = two_layer_head(width, 1)
        if "q" in config.heads:
            self.q = nn.ModuleList(two_layer_head(width, actions) for _ in range(config.q_heads))
            self.target_q = copy.deepcopy(self.q)
        if "world" in config.heads:
            self.world = WorldModel(width, actions, config.observation_classes)
            self.target_backbone = copy.deepcopy(self.backbone)
            self.target_representation = copy.deepcopy(self.representation)
            if config.frame_shape:
                self.target_frames = copy.deepcopy(self.frames)
        if "inverse" in config.heads:
            self.inverse = two_layer_head(width, actions, inputs=2)
        self.post_init()  # type: ignore[no-untyped-call]
        self.update_targets(rate=1.0)
        self._freeze_targets()

    @classmethod
    def from_pretrained(cls, *arguments: Any, **options: Any) -> Any:
        """As transformers does it, from safetensors only, and with the targets frozen again."""
        loaded = super().from_pretrained(*arguments, **{**options, "use_safetensors": True})
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model._freeze_targets()
        return loaded

    def _init_weights(self, module: nn.Module) -> None:
        # GPT-2 initializes itself; the rest starts as PyTorch's own layers do.
        if isinstance(module, nn.Linear | nn.Conv2d):
            init.kaiming_uniform_(module.weight, a=math.sqrt(5))
            if module.bias is not None:
                bound = 1 / math.sqrt(module.weight[0].numel())
                init.uniform_(module.bias, -bound, bound)
        elif isinstance(module, nn.RNNBase):
            initialize_cells(module)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight)

    def forward(
        self,
        tokens: Tensor,
        state_positions: Tensor | None = None,
        past_key_values: Any = None,
        pairs: Pairs | None = None,
        frames: Frames | Patches | None = None,
    ) -> TextRLOutput:
        """Read tokens (batch, time) and evaluate the heads at state_positions (batch, states) only.

        Without positions: at the last token, which is what acting needs, one state per episode.
        pairs: histories at which the world model is asked as well; needs the positions.
        frames: what the frame tokens show, as pixels or as self.frames has encoded them.
        """
        phi, cache = self._encode(tokens, frames, state_positions, past_key_values)
        output = TextRLOutput(representation=phi, past_key_values=cache)
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
        if pairs is not None:
            self._ask_world(output, tokens, frames, state_positions, pairs)
        return output

    def _encode(
        self,
        tokens: Tensor,
        frames: Frames | Patches | None,
        state_positions: Tensor | None,
        cache: Any = None,
        slow: bool = False,
    ) -> tuple[Tensor, Any]:
        """phi (batch, states, width) and the cache after the tokens; slow: by the slow copies."""
        backbone = self.target_backbone if slow else self.backbone
        representation = self.target_representation if slow else self.representation
        embedded = backbone.get_input_embeddings()(tokens)  # type: ignore[operator]
        if frames is not None:
            if isinstance(frames, Patches):
                patches = frames.embedded
            else:
                patches = (self.target_frames if slow else self.frames)(frames.pixels)
            places = torch.arange(self.config.patches, device=tokens.device)
            at = (frames.episode[:, None], frames.position[:, None] + places)
            embedded = embedded.index_put(at, patches, accumulate=True)
        read = backbone(inputs_embeds=embedded, past_key_values=cache, use_cache=cache is not None)
        hidden = read.last_hidden_state
        if state_positions is None:
            hidden = hidden[:, -1:]
        else:
            where = state_positions[..., None].expand(-1, -1, hidden.shape[-1])
            hidden = hidden.gather(1, where)
        phi = representation(hidden)
        bound = self.config.representation_bound
        if bound:
            phi = phi * (bound / phi.norm(dim=-1, keepdim=True).clamp_min(bound))
        return phi, read.past_key_values

    def _ask_world(
        self,
        output: TextRLOutput,
        tokens: Tensor,
        frames: Frames | Patches | None,
        state_positions: Tensor | None,
        pairs: Pairs,
    ) -> None:
        """Add what the slow encoder and the world model say of the pairs' histories."""
        at = (pairs.episode, pairs.state)
        with torch.no_grad():
            target_phi, _ = self._encode(tokens, frames, state_positions, slow=True)
            chosen = pairs.actions if pairs.from_data else self._choose(output, pairs)
            z = target_phi[at]
            output.imagined_reward, output.imagined_dynamics = self.world(z, chosen)
        output.target_representation = target_phi
        assert output.representation is not None
        # The models learn from phi as it is; how much of that phi feels is the config's choice.
        phi = output.representation[at]
        phi = phi.detach() + self.config.world_gradient * (phi - phi.detach())
        output.predicted_reward, output.predicted_dynamics = self.world(phi, pairs.actions)
        if "inverse" in self.config.heads:
            phi = output.representation
            following = (pairs.state + 1).clamp_max(phi.shape[1] - 1)
            both = torch.cat([phi[at], phi[pairs.episode, following]], dim=-1)
            output.inverse = self.inverse(both)

    def _choose(self, output: TextRLOutput, pairs: Pairs) -> Tensor:
        """A token of the current policy at each of the pairs' histories, (n,)."""
        at = (pairs.episode, pairs.state)
        here = TextRLOutput(
            policy=None if output.policy is None else output.policy[at],
            target_q=None if output.target_q is None else output.target_q[:, *at],
            v=None if output.v is None else output.v[at],
        )
        scores = action_scores(here, pairs.legal, self.config.beta)
        return throw(pairs.dice, scores.softmax(dim=-1))

    def new_cache(self) -> Any:
        """The empty cache with which episodes begin."""
        return BACKBONES[self.config.backbone].new_cache()

    def _targets(self) -> list[tuple[nn.Module, nn.Module]]:
        """Each slow copy and what it follows."""
        found: list[tuple[nn.Module, nn.Module]] = []
        if "q" in self.config.heads:
            found.append((self.target_q, self.q))
        if "world" in self.config.heads:
            found.append((self.target_backbone, self.backbone))
            found.append((self.target_representation, self.representation))
            if self.config.frame_shape:
                found.append((self.target_frames, self.frames))
        return found

    def _freeze_targets(self) -> None:
        for target, _ in self._targets():
            target.requires_grad_(False)

    @torch.no_grad()
    def update_targets(self, rate: float) -> None:
        """Move the slow copies: target += rate (online - target)."""
        for target, online in self._targets():
            torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), rate)


def config_for(
    task: Task, config: TrainConfig, heads: tuple[str, ...], q_heads: int = 2
) -> TextRLConfig:
    """The network of a training run: the task's tokens, the run's size, the algorithm's heads."""
    return TextRLConfig(
        vocabulary=len(task.language.tokens),
        first_action=task.language.first_action,
        action_tokens=len(task.language.actions),
        observation_classes=task.observation_classes,
        backbone=config.backbone,
        cell=config.cell,
        layers=config.layers,
        width=config.width,
        attention_heads=config.attention_heads,
        context=config.context,
        window=config.window,
        frame_shape=task.frame_shape,
        patches=config.patches if task.frame_shape else 0,
        representation_hidden=config.representation_hidden,
        representation_bound=config.representation_bound,
        heads=(*heads, "world", *(["inverse"] if config.bisim_inverse else [])),
        q_heads=q_heads,
        value_gradient=config.value_gradient,
        world_gradient=config.bisim_fit if config.bisim or config.bisim_inverse else 0.0,
        beta=config.beta,
    )


AutoConfig.register(TextRLConfig.model_type, TextRLConfig)
AutoModel.register(TextRLConfig, TextRLModel)
