"""The network of a training run, from the task's tokens, the run's settings and the algorithm."""

from typing import Any

from transformers import PreTrainedModel

from textrl.config import NEW_BACKBONES, TrainConfig
from textrl.errors import UserError
from textrl.language_model import (
    digest_of,
    embedding_norm,
    lm_folder,
    load_lm,
    output_weight,
    own_config,
    revision_of,
)
from textrl.lora import lora_settings
from textrl.model import TextRLModel
from textrl.model_config import TextRLConfig
from textrl.task import AnyTask


def new_model(
    task: AnyTask, config: TrainConfig, heads: tuple[str, ...], q_heads: int = 2
) -> TextRLModel:
    """The network with which a training run begins."""
    if config.backbone in NEW_BACKBONES:
        return TextRLModel(config_for(task, config, heads, q_heads))
    lm = load_lm(config.backbone, keep_dtype=config.lora_rank > 0)
    shape = config_for(task, config, heads, q_heads, lm)
    if config.lora_rank:
        folder = lm_folder(config.backbone)
        shape.base_digest, shape.base_revision = digest_of(lm), revision_of(folder)
        if shape.base_revision is None:  # wherever the adapter is used, not only from here
            shape.backbone = str(folder.resolve())
        lora = (config.lora_rank, config.lora_alpha, config.lora_targets)
        shape.lora = lora_settings(lm.base_model, *lora)
    return TextRLModel(shape, lm)


def lm_shape(task: AnyTask, config: TrainConfig, lm: PreTrainedModel) -> dict[str, Any]:
    """What of the network's shape a language model decides."""
    rows, width = output_weight(lm).shape
    if task.language.first_action or len(task.language.actions) != rows:
        raise UserError(
            f"{config.task} has tokens of its own, which {config.backbone!r} does not speak:"
            f" choose --backbone {' or '.join(NEW_BACKBONES)}"
        )
    longest = getattr(lm.config, "max_position_embeddings", config.context)
    if config.context > longest:
        raise UserError(
            f"--context {config.context} is longer than {config.backbone!r} can read: at most"
            f" {longest}"
        )
    return {
        "vocabulary": rows,
        "lm": own_config(lm),
        "generation": lm.generation_config.to_diff_dict() if lm.generation_config else None,
        "layers": lm.config.num_hidden_layers,
        "width": width,
        "attention_heads": lm.config.num_attention_heads,
        "q_head": "shared" if config.q_head == "auto" else config.q_head,
        "embedding_norm": embedding_norm(lm),
    }


def config_for(
    task: AnyTask,
    config: TrainConfig,
    heads: tuple[str, ...],
    q_heads: int = 2,
    lm: PreTrainedModel | None = None,
) -> TextRLConfig:
    """The network of a training run: the task's tokens, the run's size, the algorithm's heads.

    lm: the language model under it, if there is one. A slow copy of that is held only where the
    bisimulation loss is trained, not to measure it.
    """
    shape = {
        "vocabulary": len(task.language.tokens),
        "layers": config.layers,
        "width": config.width,
        "attention_heads": config.attention_heads,
        "q_head": "mlp" if config.q_head == "auto" else config.q_head,
    }
    return TextRLConfig(
        **(shape if lm is None else lm_shape(task, config, lm)),
        first_action=task.language.first_action,
        action_tokens=len(task.language.actions),
        observation_classes=task.observation_classes,
        backbone=config.backbone,
        cell=config.cell,
        context=config.context,
        window=config.window,
        frame_shape=task.frame_shape,
        patches=config.patches if task.frame_shape else 0,
        representation_hidden=config.representation_hidden,
        representation_bound=config.representation_bound,
        heads=(
            *heads,
            *(["world"] if lm is None or config.trains_bisimulation else []),
            *(["inverse"] if config.bisim_inverse else []),
        ),
        q_heads=q_heads,
        q_rank=config.q_rank,
        value_gradient=config.value_gradient,
        world_gradient=config.bisim_fit if config.trains_bisimulation else 0.0,
        beta=config.beta,
        candidates=config.candidates,
        plausible=config.plausible,
    )
