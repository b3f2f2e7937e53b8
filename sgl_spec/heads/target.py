"""The frozen target: what a head is trained on and fed with.

In a round the server's own target produces these; in training this module does, with transformers, over packed
batches. Which hidden states a head gets follows SGLang (`models/llama.py`, `set_eagle3_layers_to_capture`): what goes
into layers 2, n // 2 and n - 3 of n, that is `hidden_states[2]` and so on in transformers' count.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from sgl_spec.errors import ConfigError
from sgl_spec.heads.packing import Packed

_PACKED_ATTENTION = "sgl_spec_packed"
LEAST_LAYERS = 7  # with fewer, the three layers are not three


class Features(NamedTuple):
    """What the target makes of a packed batch.

    fused: [rows, 3 * hidden], low, middle and high hidden states side by side.
    final: [trained, hidden], normed last hidden states of the rows after the trained ones: what a head's first draft
        step should predict is the target's output there.
    """

    fused: Tensor
    final: Tensor


class FrozenTarget:
    """A Llama that is never changed.

    Args:
        folder: the model, as transformers and SGLang load it.
        dtype: to compute in.
        device: to compute on.

    Raises:
        ConfigError: the folder has no model, or one that a head cannot be trained for.
    """

    def __init__(self, folder: Path, dtype: torch.dtype = torch.bfloat16, device: str = "cpu") -> None:
        AttentionInterface.register(_PACKED_ATTENTION, packed_attention)
        try:
            transformers_logging.disable_progress_bar()
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=_PACKED_ATTENTION)
        except (OSError, ValueError) as error:
            raise ConfigError(f"model_path: {folder} cannot be loaded as a model: {error}") from error
        check_architecture(model.config, folder)
        self._model = model.eval().requires_grad_(False).to(device)
        self.config = model.config
        self.device = device
        self.identity = str(folder.absolute())
        self.layers = captured_layers(int(model.config.num_hidden_layers))

    @property
    def embeddings(self) -> Tensor:
        """[vocabulary, hidden]; the head uses them too, as SGLang has it do."""
        return self._model.get_input_embeddings().weight

    @property
    def output_rows(self) -> Tensor:
        """[vocabulary, hidden], the weights of the output layer."""
        return self._model.get_output_embeddings().weight

    @property
    def last_layer(self) -> Any:
        """The last decoder layer, and with `final_norm` what a head starts from."""
        return self._model.model.layers[-1]

    @property
    def final_norm(self) -> Tensor:
        """[hidden], the weights of the norm before the output layer."""
        return self._model.model.norm.weight

    @torch.no_grad()
    def features(self, batch: Packed) -> Features:
        """One pass over the batch."""
        ids, positions = (torch.from_numpy(array).to(self.device)[None] for array in (batch.ids, batch.positions))
        out = self._model.model(
            ids, position_ids=positions, use_cache=False, output_hidden_states=True, cuts=batch.cuts.tolist()
        )
        fused = torch.cat([out.hidden_states[layer][0] for layer in self.layers], dim=-1)
        rows = torch.from_numpy(batch.active + 1).to(self.device)
        return Features(fused, out.last_hidden_state[0, rows])


def captured_layers(layers: int) -> tuple[int, int, int]:
    """The layers whose inputs a head gets, by SGLang's default for a model of so many layers.

    Raises:
        ConfigError: there are too few to be three different ones.
    """
    if layers < LEAST_LAYERS:
        raise ConfigError(f"num_hidden_layers = {layers}: an EAGLE-3 head needs a target of at least {LEAST_LAYERS}")
    return (2, layers // 2, layers - 3)


def check_architecture(config: Any, folder: Path) -> None:
    """Raises ConfigError for what the trainer and SGLang's head class do not both know."""
    if config.model_type != "llama":
        raise ConfigError(
            f"model_path: {folder} is a {config.model_type!r} model; heads are trained for 'llama' models"
        )
    if config.hidden_act != "silu":
        raise ConfigError(
            f"model_path: {folder} has hidden_act {config.hidden_act!r}; SGLang's head knows 'silu' alone"
        )


def packed_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float, *, cuts: list[int], **_: Any
) -> tuple[Tensor, None]:
    """transformers' attention interface, causal within each sample of a packed batch; `mask` is not needed.

    query: [1, heads, rows, size]; key and value with fewer heads; the result is [1, rows, heads, size].
    """
    parts = [
        F.scaled_dot_product_attention(
            query[:, :, start:end], key[:, :, start:end], value[:, :, start:end],
            is_causal=True, scale=scaling, enable_gqa=True,
        )
        for start, end in pairwise(cuts)
    ]  # fmt: skip
    return torch.cat(parts, dim=2).transpose(1, 2), None
