"""Writes a head as a folder that SGLang loads as a draft model, and reads such a folder back.

After training. The folder has `config.json` and `model.safetensors` with the names SGLang's `LlamaForCausalLMEagle3`
knows: `fc`, `midlayer.*`, `norm`, `lm_head`, and the tables `d2t` and `t2d`. The embedding is the target's and is not
stored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from sgl_spec.errors import ConfigError
from sgl_spec.heads.draft_vocabulary import DraftVocabulary
from sgl_spec.heads.model import Eagle3Head, HeadShape
from sgl_spec.heads.target import captured_layers

WEIGHTS_FILE, CONFIG_FILE = "model.safetensors", "config.json"
ARCHITECTURE = "LlamaForCausalLMEagle3"
# Copied from the target: what SGLang's class reads and the head shares.
_SHARED = (
    "model_type", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps",
    "max_position_embeddings", "vocab_size", "bos_token_id", "eos_token_id", "pad_token_id", "rope_parameters",
    "rope_theta", "rope_scaling",
)  # fmt: skip


class LoadedHead(NamedTuple):
    """A head read from a folder, with float32 weights, and what its rows stand for."""

    head: Eagle3Head
    vocabulary: DraftVocabulary


def export_head(folder: Path, head: Eagle3Head, vocabulary: DraftVocabulary, target_config: Any) -> int:
    """Writes the folder and returns the bytes of its weights file.

    Raises:
        ConfigError: it cannot be written.
    """
    weights = {name: weight.detach().to("cpu", torch.bfloat16).contiguous() for name, weight in head.named_parameters()}
    weights["d2t"], weights["t2d"] = torch.from_numpy(vocabulary.d2t), torch.from_numpy(vocabulary.t2d)
    config = head_config_json(head.shape, target_config)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(weights, folder / WEIGHTS_FILE)
        (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n")
        return (folder / WEIGHTS_FILE).stat().st_size
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{folder}: the head cannot be written there: {error}") from error


def head_config_json(shape: HeadShape, target_config: Any) -> dict[str, Any]:
    """The content of `config.json`.

    SGLang adds one to each of `eagle_aux_hidden_state_layer_ids`; they are written out although they are its defaults,
    so that the head still gets what it was trained with should those change.
    """
    target = target_config.to_dict()
    layers = [layer - 1 for layer in captured_layers(int(target["num_hidden_layers"]))]
    return {
        "architectures": [ARCHITECTURE],
        **{name: target[name] for name in _SHARED if target.get(name) is not None},
        "intermediate_size": shape.inner,
        "num_hidden_layers": 1,
        "draft_vocab_size": shape.draft_vocabulary,
        "target_hidden_size": target["hidden_size"],
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": layers},
    }


def load_head(folder: Path, target_config: Any) -> LoadedHead:
    """Reads a folder that `export_head` wrote for a target of this configuration.

    Raises:
        ConfigError: it is not such a folder, or its head is for another target.
    """
    try:
        config = json.loads((folder / CONFIG_FILE).read_text())
        weights = load_file(folder / WEIGHTS_FILE)
        shape = HeadShape(int(config["intermediate_size"]), int(config["draft_vocab_size"]))
        tables = {name: weights.pop(name) for name in ("d2t", "t2d")}
        head = Eagle3Head(target_config, shape)
        head.load_state_dict({name: weight.float() for name, weight in weights.items()})
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"{folder}: holds no head for this target: {type(error).__name__}: {error}") from error
    tokens = tables["d2t"].numpy() + np.arange(shape.draft_vocabulary)
    return LoadedHead(head, DraftVocabulary(tokens, len(tables["t2d"])))
