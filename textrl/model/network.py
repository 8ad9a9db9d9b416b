"""The agent's network: a backbone that reads the history, a representation, and the heads on it."""

import contextlib
import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PreTrainedModel
from transformers import initialization as init
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_NAME

from textrl.bisimulation.ask import ask_world
from textrl.bisimulation.dynamics import WorldModel
from textrl.bisimulation.pairs import Pairs
from textrl.config.train import PACKING_BACKBONES, Stage
from textrl.data.download import fetch
from textrl.data.frames import Frames
from textrl.errors import UserError
from textrl.hindsight.head import HindsightHead
from textrl.hindsight.queries import Queries
from textrl.losses.outputs import TextRLOutput
from textrl.model.action_policy import ActionPolicy, Begun, policy_head
from textrl.model.backbones import BACKBONES, Shape, at_places, initialize_cells
from textrl.model.config import TextRLConfig
from textrl.model.header import built_on_paper, difference, header_of
from textrl.model.heads import (
    SharedHead,
    ZeroLinear,
    felt,
    quiet_head,
    representation_of,
    token_head,
    two_layer_head,
)
from textrl.model.hiding import without_actions
from textrl.model.language_model import base_lm, refuse_adapter
from textrl.model.layout import MemberLayout
from textrl.model.lora import adapter_pairs, add_adapters, is_adapter, merge_adapter, slow_adapter
from textrl.model.packing import History, Packing
from textrl.model.patches import PatchEncoder, Patches

LOADING_INFO = ("missing_keys", "unexpected_keys", "mismatched_keys")
"""What of a checkpoint did not fit, as transformers tells it."""


class TextRLModel(PreTrainedModel):
    """One backbone, one representation phi, and the heads that the algorithm needs on top of it."""

    config_class = TextRLConfig
    config: TextRLConfig

    def __init__(self, config: TextRLConfig, lm: PreTrainedModel | None = None) -> None:
        """lm: the pretrained language model to begin with, where config.lm describes one."""
        super().__init__(config)
        width = config.width
        is_lm = config.lm is not None
        if is_lm:
            # from_pretrained sets the default to what it was asked for.
            kind = {"dtype": torch.get_default_dtype()}
            self._take(lm or AutoModelForCausalLM.from_config(config.lm_config(), **kind))
        else:
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
            self.frames = PatchEncoder(
                config.frame_shape, config.patches, width, config.filters, config.frame_precision
            )
        self.representation = representation_of(config)
        if "policy" in config.heads and not is_lm:  # a language model has its own
            self.policy = policy_head(config)
        if "v" in config.heads:
            self.v = quiet_head(width, 1) if is_lm else two_layer_head(width, 1)
        if "slow_v" in config.heads:
            self.slow_v = copy.deepcopy(self.v)
        if "q" in config.heads:
            self.q = nn.ModuleList(token_head(config) for _ in range(config.q_heads))
            self.target_q = copy.deepcopy(self.q)
        if "world" in config.heads:
            sizes = [config.width if is_lm else each.actions for each in config.layouts]
            self.world = nn.ModuleList(
                WorldModel(width, size, each.observation_classes)
                for size, each in zip(sizes, config.layouts, strict=True)
            )
            if not config.lora:  # then an adapter is enough
                self.target_backbone = copy.deepcopy(self.backbone)
            self.target_representation = copy.deepcopy(self.representation)
            if config.frame_shape:
                self.target_frames = copy.deepcopy(self.frames)
        if "inverse" in config.heads:
            self.inverse = token_head(config, inputs=2)
        if "hindsight" in config.heads:
            self.hindsight = nn.ModuleList(
                HindsightHead(width, each.actions, each.observation_classes)
                for each in config.layouts
            )
        self.post_init()  # type: ignore[no-untyped-call]
        if config.lora:  # adapters are not to be initialized as the language model's own layers are
            add_adapters(self.backbone, config.lora, slow="world" in config.heads)
        self.update_targets(rate=1.0)
        self._freeze()

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: Any, *arguments: Any, **options: Any
    ) -> Any:
        """As transformers does it, from safetensors only, and with what is frozen frozen again.

        A stranger's files take no memory before they are known to fit each other. base: where the
        language model under an adapter is, if not where it was in training.
        """
        base, revision = options.pop("base", None), options.pop("revision", None)
        name = str(pretrained_model_name_or_path)
        folder = fetch(name, "model", (CONFIG_NAME, SAFE_WEIGHTS_NAME), revision)
        config: Any = options.pop("config", None) or TextRLConfig.from_pretrained(folder)
        saved = header_of(folder / SAFE_WEIGHTS_NAME)
        expected = built_on_paper(lambda: cls(config), saved).saved_state()
        shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
        if differs := difference(shapes, saved):
            raise UserError(f"the weights in {name!r} are another model's: {differs}")
        if config.lora:
            for option in ("dtype", "device_map", "quantization_config"):
                if options.get(option) is not None:
                    raise UserError(f"{option} is not for an adapter: merge it first")
            model = cls(config, base_lm(config, base))
            model.load_saved_state(load_file(folder / SAFE_WEIGHTS_NAME))
            model.train(False)
            # Whole or not at all: there is nothing to tell of what was missing.
            nothing: dict[str, Any] = dict.fromkeys(LOADING_INFO, ())
            return (model, nothing) if options.get("output_loading_info") else model
        refuse_adapter(folder)
        options |= {"config": config, "use_safetensors": True}
        loaded = super().from_pretrained(folder, *arguments, **options)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model._freeze()
        return loaded

    def _take(self, lm: PreTrainedModel) -> None:
        """Make the language model's layers the backbone and its output head the policy."""
        self.backbone = lm.base_model
        # Tied to the input embeddings it is no module of its own: one weight has one name.
        if not self.config.is_tied:
            self.output: Any = lm.get_output_embeddings()

    def get_input_embeddings(self) -> nn.Module:
        """The backbone's, as accelerate asks for them to shard the model."""
        embeddings: nn.Module = self.backbone.get_input_embeddings()  # type: ignore[operator]
        return embeddings

    def _init_weights(self, module: nn.Module) -> None:
        # GPT-2 and other language models initialize themselves; the rest starts as PyTorch's own
        # layers do.
        if isinstance(module, ZeroLinear):
            init.zeros_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear | nn.Conv2d):
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
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        member: int = 0,
        queries: Queries | None = None,
        stage: Stage = Stage.ALGORITHM,
        groups: tuple[int, ...] = (),
        only: tuple[str, ...] = (),
        spoken: Tensor | None = None,
    ) -> TextRLOutput:
        """Read tokens (batch, time) and evaluate the heads at state_positions (batch, states) only.

        Without positions: at the last token, which is what acting needs, one state per episode.
        pairs: histories at which the world model is asked as well; needs the positions.
        frames: what the frame tokens show, as pixels or as self.frames has encoded them.
        attention_mask, position_ids: for padding on the left, which only a language model takes.
        member: which of its tasks: tokens, actions and pairs are in that one's own numbers.
        queries: about later steps, which are answered as well; need the positions too.
        stage: whether gradients of the heads reach the encoder (ALGORITHM, BESIDE), only those of
        the queries (ALONE) or none (FROZEN).
        groups: episodes of similar length, as a batch has them: how many are in each; () = one
        group. Backbones that pack histories then compute little padding.
        only: the heads that are asked; () = all.
        spoken: (batch, tokens) the action numbers of an action's first tokens, where the cache has
        read them.
        """
        layout = self.config.layouts[member]
        ids = layout.ids(tokens.device)
        if layout.hides_actions:
            first_action = layout.tokens - layout.actions
            tokens, frames, state_positions = without_actions(
                tokens, frames, state_positions, first_action
            )
            groups = ()  # some of these histories have become shorter than others
        if ids is not None:
            tokens = ids[tokens]
        padding = {"attention_mask": attention_mask, "position_ids": position_ids}
        history = History(tokens, frames, state_positions, groups)
        packing = self._packing(history)
        with torch.set_grad_enabled(torch.is_grad_enabled() and stage is not Stage.FROZEN):
            phi, cache = self._read(history, packing, past_key_values, padding)
        output = TextRLOutput(past_key_values=cache)
        read = phi.detach() if stage is Stage.ALONE else phi
        begun = self._begun(tokens, state_positions, spoken, packing)
        heads = tuple(head for head in layout.heads if not only or head in only)
        is_acting = past_key_values is not None  # then the slow copies are enough
        self._add_heads(output, read, layout, heads, begun, is_acting, packing)
        output.representation = phi if packing is None else packing.unpack(phi)[0]
        if pairs is not None:
            of_all = queries is not None and not layout.observation_classes
            ask_world(self, output, history, pairs, member, of_all)
        if queries is not None:
            self._answer(output, history, queries, pairs, member, stage)
        return output

    def _begun(
        self,
        tokens: Tensor,
        positions: Tensor | None,
        spoken: Tensor | None,
        packing: Packing | None,
    ) -> Begun | None:
        """What has been said of an action at each state, where the policy scores whole ones."""
        if not self.config.whole_actions:
            return None
        assert isinstance(self.policy, ActionPolicy)
        if spoken is not None:
            return self.policy.begun(spoken)
        if positions is None:
            positions = torch.full_like(tokens[:, :1], tokens.shape[1] - 1)
        begun = self.policy.begun_at(tokens, positions, self.config.first_action)
        if packing is None:
            return begun
        return Begun(begun.said[packing.place], begun.code[packing.place])

    def _add_heads(
        self,
        output: TextRLOutput,
        phi: Tensor,
        layout: MemberLayout,
        heads: tuple[str, ...],
        begun: Begun | None,
        is_acting: bool,
        packing: Packing | None,
    ) -> None:
        """Add what the policy, Q and V say of the representation."""
        actions, units = layout.action_numbers, layout.units

        def padded(*said: Tensor) -> Tensor:
            return torch.stack(said) if packing is None else packing.unpack(*said)

        if "policy" in heads:
            if begun is not None:
                policy = self.policy(phi, begun)
            else:
                policy = self._logits(phi) if self.config.lm else self.policy(phi)
            output.policy = padded(policy[..., actions])[0]
        phi = felt(phi, self.config.value_gradient)
        if "v" in heads:
            output.v = padded(units.of(self.v(phi).squeeze(-1)))[0]
        if "slow_v" in heads and not is_acting:
            with torch.no_grad():
                output.slow_v = padded(units.of(self.slow_v(phi).squeeze(-1)))[0]
        if "q" in heads:
            if not is_acting:
                fast = [self.of_tokens(head, phi)[..., actions] for head in self.q]
                output.q = padded(*map(units.of, fast))
            with torch.no_grad():
                slow = [self.of_tokens(head, phi)[..., actions] for head in self.target_q]
                output.target_q = padded(*map(units.of, slow))

    def _answer(
        self,
        output: TextRLOutput,
        history: History,
        queries: Queries,
        pairs: Pairs | None,
        member: int,
        stage: Stage,
    ) -> None:
        """Add what the histories say to the queries, and of what comes next.

        pairs: of histories that are compared by what they say to the same queries.
        """
        assert output.representation is not None
        phi = output.representation[:, : queries.step.shape[1]]
        if stage is Stage.ALGORITHM:  # only the metric asks: as with the models of the world
            phi = felt(phi, self.config.world_gradient)
        head = self.hindsight[member]
        assert isinstance(head, HindsightHead)
        said = head(phi, queries)
        output.answers, output.next_reward, output.next_dynamics = said
        has_classes = self.config.layouts[member].observation_classes > 0
        if not has_classes and output.target_representation is None:
            with torch.no_grad():
                output.target_representation = self.encode(history, slow=True)
        if pairs is not None and queries.tests is not None:
            assert output.target_representation is not None
            with torch.no_grad():
                z = output.target_representation[pairs.episode, pairs.state]
                output.imagined_reward = head.expect(z, queries.tests)

    @property
    def output_embeddings(self) -> Tensor:
        """A language model's, (tokens, width)."""
        module: Any = self.output if hasattr(self, "output") else self.get_input_embeddings()
        weight: Tensor = module.weight
        return weight

    def _logits(self, phi: Tensor) -> Tensor:
        """What the language model's output head says of each token."""
        weight, bias = self.output_embeddings, None
        if hasattr(self, "output"):
            bias = self.output.bias
        return nn.functional.linear(phi.to(weight.dtype), weight, bias).to(phi.dtype)

    def of_tokens(self, head: nn.Module, phi: Tensor) -> Tensor:
        """What a head says of each action token, (..., action tokens)."""
        shares = isinstance(head, SharedHead)
        said: Tensor = head(phi, self.output_embeddings) if shares else head(phi)
        return said

    def _packing(self, history: History, is_read: Tensor | None = None) -> Packing | None:
        """How histories are packed, if they are."""
        is_new = self.config.lm is None and self.config.backbone in PACKING_BACKBONES
        if history.state_positions is None or not is_new:
            return None
        time = history.tokens.shape[1]
        return Packing.of(history.state_positions, time, history.groups, is_read)

    def encode(self, history: History, slow: bool = False, is_read: Tensor | None = None) -> Tensor:
        """The representations (batch, states, width), without any head.

        slow: by the slow copies of the encoder. is_read: (batch, states), True where one is needed;
        elsewhere it may be any.
        """
        packing = self._packing(history, is_read)
        phi, _ = self._read(history, packing, slow=slow)
        return phi if packing is None else packing.unpack(phi)[0]

    def _read(
        self,
        history: History,
        packing: Packing | None,
        cache: Any = None,
        padding: Mapping[str, Tensor | None] | None = None,
        slow: bool = False,
    ) -> tuple[Tensor, Any]:
        """phi (batch, states, width), or (states, width) if packed, and the cache after the tokens.

        slow: by the slow copies.
        """
        tokens, frames, state_positions, _ = history
        backbone = self.target_backbone if slow and not self.config.lora else self.backbone
        representation = self.target_representation if slow else self.representation
        of_token = backbone.get_input_embeddings()  # type: ignore[operator]
        embedded = of_token(tokens if packing is None else packing.pack(tokens))
        if frames is not None:
            if isinstance(frames, Patches):
                patches = frames.embedded
            else:
                patches = (self.target_frames if slow else self.frames)(frames.pixels)
            places = torch.arange(self.config.patches, device=tokens.device)
            at: tuple[Tensor, ...] = (frames.episode[:, None], frames.position[:, None] + places)
            if packing is not None:
                at = (packing.rows_at(*at),)
            embedded = embedded.index_put(at, patches, accumulate=True)
        extra: Mapping[str, Any] = {"read_at": state_positions}
        if self.config.lm:  # transformers' own, which computes every place
            extra = padding or {}
        elif self.config.backbone in PACKING_BACKBONES:
            extra = {"packing": packing}
        with slow_adapter(backbone) if slow and self.config.lora else contextlib.nullcontext():
            read = backbone(
                inputs_embeds=embedded,
                past_key_values=cache,
                use_cache=cache is not None,
                **extra,
            )
        hidden = read.last_hidden_state
        if state_positions is None:
            hidden = hidden[:, -1:]
        elif self.config.lm:
            hidden = at_places(hidden, state_positions)
        # A frozen language model may be in half precision; what is trained is not.
        phi = representation(hidden.to(next(representation.parameters()).dtype))
        bound = self.config.representation_bound
        if bound:
            phi = phi * (bound / phi.norm(dim=-1, keepdim=True).clamp_min(bound))
        return phi, read.past_key_values

    def generate(
        self,
        input_ids: Tensor,
        beta: float | None = None,
        attention_mask: Tensor | None = None,
        candidates: int | None = None,
        **options: Any,
    ) -> Any:
        """Go on after the prompts (batch, time), on a language model; gives prompts and answers.

        beta: the weight of min target Q - V against log pi; None = as trained, 0 = log pi alone.
        candidates: 1 chooses token by token; more sample that many whole turns from the policy and
        choose one by Q at its end (see generation.whole_turns); None = as trained.
        attention_mask: 1 where a token is, 0 on padding, be it left or right; in what is returned
        it is on the left. options: as transformers' generate takes them: do_sample, num_beams,
        max_new_tokens, stopping_criteria, streamer and so on, which see log pi + beta (Q - V).
        """
        from textrl.model.generation import generate  # which needs this class

        if self.config.lm is None:
            raise UserError(
                "only an agent on a language model generates text: use textrl.acting.policy"
            )
        return generate(self, input_ids, beta, attention_mask, candidates, **options)

    def read_frames_in(self, precision: str) -> None:
        """Have the convolutions compute in float32 or bfloat16; weights stay as they are."""
        self.config.frame_precision = precision
        for module in self.modules():
            if isinstance(module, PatchEncoder):
                module.dtype = getattr(torch, precision)

    def new_cache(self) -> Any:
        """The empty cache with which episodes begin."""
        return BACKBONES[self.config.backbone].new_cache()

    def _targets(self) -> tuple[list[Tensor], list[Tensor]]:
        """The parameters of the slow copies and, in the same order, those that they follow."""
        found: list[tuple[nn.Module, nn.Module]] = []
        if "q" in self.config.heads:
            found.append((self.target_q, self.q))
        if "slow_v" in self.config.heads:
            found.append((self.slow_v, self.v))
        if "world" in self.config.heads:
            if not self.config.lora:
                found.append((self.target_backbone, self.backbone))
            found.append((self.target_representation, self.representation))
            if self.config.frame_shape:
                found.append((self.target_frames, self.frames))
        slow: list[Tensor] = [p for target, _ in found for p in target.parameters()]
        followed: list[Tensor] = [p for _, online in found for p in online.parameters()]
        if "world" in self.config.heads and self.config.lora:
            of_slow, of_online = adapter_pairs(self.backbone)
            slow += of_slow
            followed += of_online
        return slow, followed

    def _freeze(self) -> None:
        """Let no gradient reach the slow copies, nor an output head that no policy uses."""
        for parameter in self._targets()[0]:
            parameter.requires_grad_(False)
        if hasattr(self, "output"):
            self.output.requires_grad_("policy" in self.config.heads and not self.config.lora)

    @torch.no_grad()
    def update_targets(self, rate: float) -> None:
        """Move the slow copies: target += rate (online - target)."""
        slow, followed = self._targets()
        if slow:
            torch._foreach_lerp_(slow, followed, rate)

    def merge_adapter(self) -> None:
        """Make the adapter part of the backbone's own weights, for good, in single precision.

        What only training needs, the world model and its slow copies, is gone then.
        """
        if not self.config.lora:
            raise UserError("the checkpoint has no adapter: there is nothing to merge")
        # Half precision would round the adapter away where it is small.
        nn.Module.to(self, torch.float32)
        merge_adapter(self.backbone)
        for name in ("world", "target_representation", "inverse"):
            if hasattr(self, name):
                delattr(self, name)
        self.config.heads = tuple(h for h in self.config.heads if h not in ("world", "inverse"))
        self.config.lora = None

    def saved_state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: all but a language model that an adapter stands beside."""
        state = self.state_dict()
        frozen = ("backbone.", "output.") if self.config.lora else ()
        return {n: each for n, each in state.items() if is_adapter(n) or not n.startswith(frozen)}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what saved_state gave, whole or not at all."""
        expected = self.saved_state().keys()
        if expected != state.keys():
            raise ValueError(f"the weights are another model's, see {min(expected ^ state.keys())}")
        self.load_state_dict(state, strict=False)

    def save_pretrained(self, *arguments: Any, **options: Any) -> None:
        """As transformers does it, of what a checkpoint holds."""
        super().save_pretrained(*arguments, **{"state_dict": self.saved_state(), **options})


AutoConfig.register(TextRLConfig.model_type, TextRLConfig)
AutoModel.register(TextRLConfig, TextRLModel)
