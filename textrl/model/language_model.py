"""A pretrained causal language model as backbone: found, loaded, checked."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from textrl.data.download import fetch
from textrl.errors import UserError, first_line
from textrl.model.config import TextRLConfig
from textrl.model.header import built_on_paper, header_of
from textrl.model.limits import check_nested

LM_FILES = ("*.json", "model*.safetensors", "*.model", "*.txt", "*.jinja")
"""What of a language model on the Hub is downloaded: weights, tokenizer and their settings."""
ADAPTER_FILE = "adapter_config.json"
OWN_ATTENTION = (None, "eager", "sdpa")
PACKED = 16
"""Numbers that one number of a quantized model's files may stand for."""


def lm_folder(name: str, revision: str | None = None) -> Path:
    """The folder of a language model; one on the Hub is downloaded first."""
    return fetch(name, "model", LM_FILES, revision)


def load_lm(name: str, revision: str | None = None, keep_dtype: bool = False) -> PreTrainedModel:
    """The causal language model in a folder or on the Hub, without dropout.

    Dropout would make a run depend on how its batches are split. keep_dtype: leave the weights in
    the precision they come in, for a model that is not trained itself; else single precision.
    """
    folder = lm_folder(name, revision)
    refuse_adapter(folder)
    try:
        config = read_lm_config(folder)
        check_size(folder, config)
        dtype: Any = "auto" if keep_dtype else torch.float32
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:  # a stranger's files can break transformers in any way
        raise UserError(
            f"cannot load a causal language model from {name!r}: {first_line(error)}"
        ) from error
    lm: PreTrainedModel = loaded[0]
    info: dict[str, Any] = loaded[1]
    if info["missing_keys"]:
        first = min(map(str, info["missing_keys"]))
        raise UserError(f"the language model in {name!r} lacks weights, first {first}")
    check_output_head(lm, name)
    return lm


def read_lm_config(folder: Path) -> Any:
    """A language model's config, without dropout and without kernels from elsewhere."""
    check_nested("the config", json.loads((folder / CONFIG_NAME).read_text()))
    config: Any = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    for key, value in config.to_dict().items():
        if ("dropout" in key or key.endswith("_pdrop")) and isinstance(value, float):
            setattr(config, key, 0.0)
    if config._attn_implementation not in OWN_ATTENTION:
        config._attn_implementation = None
    config._experts_implementation = None
    return config


def check_size(folder: Path, config: Any) -> None:
    """Refuse a config that asks for more memory than the weights beside it can fill."""
    saved = {n: shape for file in weight_files(folder) for n, shape in header_of(file).items()}
    lm = built_on_paper(
        lambda: AutoModelForCausalLM.from_config(config, trust_remote_code=False), saved
    )
    needed = sum(each.numel() for each in lm.parameters())
    there = sum(math.prod(shape) for shape in saved.values())
    packed = PACKED if getattr(config, "quantization_config", None) else 1
    if needed > 2 * packed * there:  # tied weights may be there once and count twice
        raise ValueError(f"its config needs {needed:,} numbers, its weights are {there:,}")


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model; ValueError where an index names one outside its folder."""
    if (folder / SAFE_WEIGHTS_NAME).is_file() or not (folder / SAFE_WEIGHTS_INDEX_NAME).is_file():
        return [folder / SAFE_WEIGHTS_NAME]
    index = json.loads((folder / SAFE_WEIGHTS_INDEX_NAME).read_text())
    names = sorted(set(index["weight_map"].values()))
    for name in names:
        if Path(name).name != name:
            raise ValueError(f"{SAFE_WEIGHTS_INDEX_NAME} names {name!r}, which is not beside it")
    return [folder / name for name in names]


def refuse_adapter(folder: Path) -> None:
    """transformers would load the model that such a folder names, whatever that is."""
    if (folder / ADAPTER_FILE).exists():
        raise UserError(
            f"{str(folder)!r} holds an adapter of peft ({ADAPTER_FILE}): merge it into its language"
            " model first"
        )


def base_lm(config: TextRLConfig, place: str | None) -> PreTrainedModel:
    """The language model that an adapter was trained on; place: where it is now, if it moved."""
    name = place or config.backbone
    try:
        lm = load_lm(name, None if place else config.base_revision, keep_dtype=True)
    except UserError as error:
        raise UserError(
            f"the adapter's language model is not available: {error}; say where it is with base"
        ) from error
    if digest_of(lm) != config.base_digest:
        raise UserError(f"{name!r} is not the language model that the adapter was trained on")
    return lm


def revision_of(folder: Path) -> str | None:
    """The commit that a folder of huggingface_hub's cache holds; None for any other folder."""
    return folder.name if folder.parent.name == "snapshots" else None


def digest_of(lm: PreTrainedModel) -> str:
    """By which a language model is known again: a digest of the first numbers of every weight."""
    digest = hashlib.sha256()
    for parameter in lm.parameters():
        first = parameter.detach().flatten()[:64].float().cpu()
        digest.update(first.numpy().tobytes())
    return digest.hexdigest()


@torch.no_grad()
def check_output_head(lm: PreTrainedModel, name: str) -> None:
    """Refuse a model that does more to its last hidden state than to apply its output head.

    Some cap or scale their logits; the policy would not start as theirs.
    """
    tokens = torch.arange(8, device=lm.device)[None] % output_weight(lm).shape[0]
    embedded = lm.get_input_embeddings()(tokens)
    hidden = lm.base_model(inputs_embeds=embedded, use_cache=False).last_hidden_state
    ours, theirs = lm.get_output_embeddings()(hidden), lm(tokens, use_cache=False).logits
    if not torch.allclose(ours.float(), theirs.float(), rtol=1e-2, atol=1e-2):
        raise UserError(
            f"the language model {name!r} caps or scales the logits of its output head,"
            " which is not supported: choose another --backbone"
        )


def own_config(lm: PreTrainedModel) -> dict[str, Any]:
    """The model's config, from which it can be made again without its name."""
    own = {key: value for key, value in lm.config.to_dict().items() if key != "_name_or_path"}
    # As the weights are: a checkpoint may have an output head of its own that its config denies.
    own["tie_word_embeddings"] = output_weight(lm) is lm.get_input_embeddings().weight
    return own


def output_weight(lm: PreTrainedModel) -> Tensor:
    """The output embeddings, (tokens, width)."""
    head = lm.get_output_embeddings()
    assert isinstance(head, nn.Linear)
    return head.weight


def embedding_norm(lm: PreTrainedModel) -> float:
    """The mean length of the output embeddings."""
    return float(output_weight(lm).detach().norm(dim=1, dtype=torch.float32).mean())
