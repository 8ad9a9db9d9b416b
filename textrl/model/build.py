"""The network of a training run, from its tasks' tokens, its settings and its algorithms' heads."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from textrl.algorithms.algorithm import Algorithm
from textrl.config.options import flag
from textrl.config.registry import ALGORITHMS, find
from textrl.config.train import NEW_BACKBONES, MemberConfig, TrainConfig
from textrl.errors import UserError
from textrl.model.action_policy import ActionPolicy
from textrl.model.config import TextRLConfig
from textrl.model.language_model import (
    digest_of,
    embedding_norm,
    lm_folder,
    load_lm,
    output_weight,
    own_config,
    revision_of,
)
from textrl.model.layout import MemberLayout, ValueUnits
from textrl.model.lora import lora_settings
from textrl.model.network import TextRLModel
from textrl.model.patches import chosen_precision
from textrl.tasks.members import Members
from textrl.tasks.task import AnyTask

OF_THE_WORLD = ("world", "inverse", "hindsight")
"""The heads that no algorithm trains, and that no task is played with."""


def new_model(
    members: Members, run: TrainConfig, units: Mapping[str, ValueUnits] = MappingProxyType({})
) -> TextRLModel:
    """The network with which a training run begins; units: of each member's values."""
    if run.backbone in NEW_BACKBONES:
        model = TextRLModel(config_for(members, run, units=units))
        policy = getattr(model, "policy", None)
        if isinstance(policy, ActionPolicy):
            policy.spell(torch.from_numpy(spellings_of(members)))
        return model
    lm = load_lm(run.backbone, keep_dtype=run.lora_rank > 0)
    shape = config_for(members, run, lm, units)
    if run.lora_rank:
        folder = lm_folder(run.backbone)
        shape.base_digest, shape.base_revision = digest_of(lm), revision_of(folder)
        if shape.base_revision is None:  # wherever the adapter is used, not only from here
            shape.backbone = str(folder.resolve())
        lora = (run.lora_rank, run.lora_alpha, run.lora_targets)
        shape.lora = lora_settings(lm.base_model, *lora)
    return TextRLModel(shape, lm)


def spellings_of(members: Members) -> NDArray[np.int64]:
    """Every whole action of a run's only task."""
    grammar = members.language.grammar
    if grammar is None:
        raise UserError(f"--policy-head actions: {members.name} has no list of actions")
    try:
        return grammar.spellings()
    except ValueError as error:
        raise UserError(f"--policy-head actions: {error}; use --policy-head tokens") from None


ACT_BY = {"policy": ("policy",), "values": ("q",), "both": ("policy", "q")}


def acts_by_of(member: MemberConfig) -> tuple[str, ...]:
    """Which heads choose a member's actions; none named = all that there are."""
    algorithm: Algorithm = find(ALGORITHMS, member.algo)
    if member.act_by == "auto":
        return algorithm.acts_by
    for head in ACT_BY[member.act_by]:
        if head not in algorithm.heads:
            lacks = "values of actions" if head == "q" else "policy"
            raise UserError(f"--act-by {member.act_by}: {member.algo} has no {lacks}")
    return ACT_BY[member.act_by]


def check_fit(name: str, task: AnyTask, member: MemberConfig) -> None:
    """Refuse what a task is not made for.

    Values of the time to a goal need one; and a model has to see the actions that it is spelling.
    """
    if getattr(member.algo_options, "value", "") == "time-to-goal" and not task.ends_at_goal:
        raise UserError(
            f"--value time-to-goal is for tasks that end at their goal alone, and {name} does not:"
            " use --value return"
        )
    if not member.hide_actions:
        return
    grammar = task.language.grammar
    if grammar is None or len(grammar.legal) > 1:
        raise UserError(
            f"--hide-actions is for tasks whose actions are one token each, which {name}'s are not"
        )


def lm_as_agent(name: str, context: int) -> TextRLModel:
    """A language model as it is, as an agent with nothing but its policy."""
    lm = load_lm(name)
    rows, width = output_weight(lm).shape
    shape = TextRLConfig(
        vocabulary=rows,
        first_action=0,
        action_tokens=rows,
        backbone=name,
        lm=own_config(lm),
        layers=lm.config.num_hidden_layers,
        width=width,
        attention_heads=lm.config.num_attention_heads,
        context=context,
        heads=("policy",),
        embedding_norm=embedding_norm(lm),
    )
    model = TextRLModel(shape, lm)
    model.train(False)
    return model


def algorithms_of(run: TrainConfig) -> list[Algorithm]:
    """Each member's."""
    return [find(ALGORITHMS, member.algo) for member in run.members.values()]


def config_for(
    members: Members,
    run: TrainConfig,
    lm: PreTrainedModel | None = None,
    units: Mapping[str, ValueUnits] = MappingProxyType({}),
) -> TextRLConfig:
    """The network's shape: the tasks' tokens, the run's size, the algorithms' heads.

    lm: the language model under it, if there is one. A slow copy of that is held only where the
    bisimulation loss is trained, not to measure it.
    """
    algorithms = algorithms_of(run)
    heads = tuple(dict.fromkeys(head for each in algorithms for head in each.heads))
    with_q = [each.q_heads for each in algorithms if "q" in each.heads]
    layouts = lay_out(members, run, units)
    first = layouts[0]
    compares = lm is None or run.bisimulation.is_trained
    shape = {
        "vocabulary": len(members.language.tokens),
        "layers": run.layers,
        "width": run.width,
        "attention_heads": run.attention_heads,
        "q_head": "mlp" if run.q_head == "auto" else run.q_head,
    }
    return TextRLConfig(
        **(shape if lm is None else lm_shape(members, run, lm)),
        first_action=members.language.first_action,
        action_tokens=len(members.language.actions),
        observation_classes=members.observation_classes,
        backbone=run.backbone,
        cell=run.cell,
        context=max(member.context for member in run.members.values()),
        window=first.window,
        frame_shape=members.frame_shape,
        **frame_shape_of(members, run),
        representation_hidden=run.representation.hidden,
        representation_bound=run.representation.bound,
        heads=(
            *heads,
            *(["world"] if compares else []),
            *(["inverse"] if run.bisimulation.inverse else []),
            *(["hindsight"] if run.asks else []),
        ),
        **policy_shape_of(members, run),
        q_heads=max(with_q, default=2),
        q_rank=run.q_rank,
        value_gradient=run.value_gradient,
        world_gradient=run.bisimulation.fit if run.bisimulation.is_trained else 0.0,
        beta=first.beta,
        candidates=first.candidates,
        plausible=first.plausible,
        acts_by=first.acts_by,
        temperature=first.temperature,
        hides_actions=first.hides_actions,
        value_center=first.units.center if len(layouts) == 1 else 0.0,
        value_scale=first.units.scale if len(layouts) == 1 else 1.0,
        members=[each.to_json() for each in layouts] if len(layouts) > 1 else None,
    )


def policy_shape_of(members: Members, run: TrainConfig) -> dict[str, Any]:
    """What a policy over whole actions has to know of them."""
    if run.policy_head == "tokens":
        return {}
    kinds = getattr(members.language, "kinds", None) or range(len(members.language.actions))
    return {"whole_actions": spellings_of(members).shape, "token_kinds": list(kinds)}


def frame_shape_of(members: Members, run: TrainConfig) -> dict[str, Any]:
    """How frames are read; one model has one encoder."""
    with_frames = [run.members[name] for name, task in members.tasks.items() if task.frame_shape]
    if not with_frames:
        return {}
    first = with_frames[0]
    for name in ("patches", "filters", "frame_precision"):
        found = {getattr(member, name) for member in with_frames}
        if len(found) > 1:
            raise UserError(
                f"tasks with frames must have the same {flag(name)}, not {sorted(found)}"
            )
    return {
        "patches": first.patches,
        "filters": first.filter_sizes,
        "frame_precision": chosen_precision(first.frame_precision),
    }


def lm_shape(members: Members, run: TrainConfig, lm: PreTrainedModel) -> dict[str, Any]:
    """What of the network's shape a language model decides."""
    rows, width = output_weight(lm).shape
    if members.language.first_action or len(members.language.actions) != rows:
        raise UserError(
            f"{members.name} has tokens of its own, which {run.backbone!r} does not have:"
            f" choose --backbone {' or '.join(NEW_BACKBONES)}"
        )
    context = max(member.context for member in run.members.values())
    longest = getattr(lm.config, "max_position_embeddings", context)
    if context > longest:
        raise UserError(
            f"--context {context} is longer than {run.backbone!r} can read: at most {longest}"
        )
    return {
        "vocabulary": rows,
        "lm": own_config(lm),
        "generation": lm.generation_config.to_diff_dict() if lm.generation_config else None,
        "layers": lm.config.num_hidden_layers,
        "width": width,
        "attention_heads": lm.config.num_attention_heads,
        "q_head": "shared" if run.q_head == "auto" else run.q_head,
        "embedding_norm": embedding_norm(lm),
    }


def lay_out(
    members: Members, run: TrainConfig, units: Mapping[str, ValueUnits] = MappingProxyType({})
) -> list[MemberLayout]:
    """Where each task's tokens are in the model, and how its run wants it to be played."""
    layouts: list[MemberLayout] = []
    several = len(members.tasks) > 1
    seen, said = 1 + len(members.tasks), 0
    for number, (name, task) in enumerate(members.tasks.items()):
        config, actions = run.members[name], len(task.language.actions)
        check_fit(name, task, config)
        algorithm: Algorithm = find(ALGORITHMS, config.algo)
        tokens = len(task.language.tokens)
        layouts.append(
            MemberLayout(
                name=name,
                tokens=tokens,
                actions=actions,
                observation_classes=task.observation_classes,
                has_frames=task.frame_shape is not None,
                window=config.window,
                heads=algorithm.heads,
                acts_by=acts_by_of(config),
                beta=config.beta,
                candidates=config.candidates,
                plausible=config.plausible,
                temperature=config.temperature,
                hides_actions=config.hide_actions,
                action_offset=said,
                begin=1 + number if several else None,
                first_observation=seen,
                first_action=members.language.first_action + said,
                units=units.get(name, ValueUnits()),
            )
        )
        seen, said = seen + tokens - actions - 2, said + actions
    return layouts


def model_of_member(model: TextRLModel, number: int) -> TextRLModel:
    """A model of one task alone, in its own numbers: the same weights, less the others'."""
    if model.config.members is None:
        return model
    shape, layout = model.config, model.config.layouts[number]
    alone = TextRLConfig(
        **{
            **{name: getattr(shape, name) for name in COMMON},
            "vocabulary": layout.tokens,
            "first_action": layout.tokens - layout.actions,
            "action_tokens": layout.actions,
            "observation_classes": layout.observation_classes,
            "window": layout.window,
            "heads": (*layout.heads, *(head for head in shape.heads if head in OF_THE_WORLD)),
            "frame_shape": shape.frame_shape if layout.has_frames else None,
            "patches": shape.patches if layout.has_frames else 0,
            "filters": shape.filters,
            "frame_precision": shape.frame_precision,
            "acts_by": layout.acts_by,
            "temperature": layout.temperature,
            "hides_actions": layout.hides_actions,
            "beta": layout.beta,
            "candidates": layout.candidates,
            "plausible": layout.plausible,
            "value_center": layout.units.center,
            "value_scale": layout.units.scale,
        }
    )
    device: Any = model.device
    weights, found = model.state_dict(), {}
    rows: dict[int, Any] = {
        shape.vocabulary: layout.ids(device),
        shape.action_tokens: layout.action_numbers,
    }
    taken: TextRLModel = TextRLModel(alone).to(device)
    for name, weight in taken.state_dict().items():
        of_member = re.sub(r"^(world|hindsight)\.0\.", rf"\g<1>.{number}.", name)
        whole = weights[of_member]
        # Embeddings have a row for each token, the heads' last layers one for each action.
        found[name] = whole if whole.shape == weight.shape else whole[rows[len(whole)]]
    taken.load_state_dict(found)
    taken.train(model.training)
    return taken


COMMON = (
    *("backbone", "cell", "layers", "width", "attention_heads", "context", "steps"),
    *("representation_hidden", "representation_bound", "q_heads", "q_head", "q_rank"),
    *("value_gradient", "world_gradient"),
)
"""What a model of several tasks and a model of one of them have in common."""
