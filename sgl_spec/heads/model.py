"""The head: one decoder layer over the target's hidden states and the next token's embedding (EAGLE-3, arXiv
2503.01840, section 3.1), in the arithmetic and with the tensor names of SGLang's `LlamaForCausalLMEagle3`.

Used by training (`unroll`) and by the report (`draft_trees`); in rounds SGLang runs its own class with these weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

FUSED = 3  # hidden states a head is fed with: low, middle, high


class HeadShape(NamedTuple):
    """Sizes that are the head's own; everything else it shares with its target. inner: of the feed-forward layer."""

    inner: int
    draft_vocabulary: int


class KeysValues(NamedTuple):
    """Of one draft step. Each [rows, key heads, size]; keys are rotated to their positions."""

    keys: Tensor
    values: Tensor


class Draft(NamedTuple):
    """What one step gives for each row. hidden: [rows, hidden], fed to the next; logits: [rows, draft vocabulary]."""

    hidden: Tensor
    logits: Tensor


class RMSNorm(nn.Module):
    """Root mean square norm, computed in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight.float(), self._eps).to(x.dtype)


class Attention(nn.Module):
    """The projections; which keys a query sees is the caller's business."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.size = config.head_dim
        queries, keys = (n * self.size for n in (config.num_attention_heads, config.num_key_value_heads))
        self.q_proj = nn.Linear(2 * config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(2 * config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(2 * config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)


class FeedForward(nn.Module):
    """Llama's gated layer."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class MidLayer(nn.Module):
    """The decoder layer, under the names of SGLang's checkpoints."""

    def __init__(self, config: LlamaConfig, inner: int) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config)
        self.mlp = FeedForward(hidden, inner)
        self.hidden_norm = RMSNorm(hidden, eps)
        self.input_layernorm = RMSNorm(hidden, eps)
        self.post_attention_layernorm = RMSNorm(hidden, eps)


class Eagle3Head(nn.Module):
    """An EAGLE-3 head for a target of this configuration. Weights are random; see `start.start_from_target`."""

    def __init__(self, config: LlamaConfig, shape: HeadShape) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.shape = shape
        self.fc = nn.Linear(FUSED * hidden, hidden, bias=False)
        self.midlayer = MidLayer(config, shape.inner)
        self.norm = RMSNorm(hidden, config.rms_norm_eps)
        self.lm_head = nn.Linear(hidden, shape.draft_vocabulary, bias=False)
        self._rotary = LlamaRotaryEmbedding(config)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)
            assert not name.startswith("_"), "the rotary embedding has no weights to train"

    def mix(self, embeds: Tensor, hidden: Tensor) -> Tensor:
        """The layer's input [rows, 2 * hidden]: the tokens' embeddings and the states they follow."""
        layer = self.midlayer
        return torch.cat([layer.input_layernorm(embeds.to(hidden.dtype)), layer.hidden_norm(hidden)], dim=-1)

    def keys_values(self, mixed: Tensor, positions: Tensor) -> KeysValues:
        """Keys and values of rows at these positions."""
        attention = self.midlayer.self_attn
        keys, values = (p(mixed).unflatten(-1, (-1, attention.size)) for p in (attention.k_proj, attention.v_proj))
        return KeysValues(self._rotate(keys, positions), values)

    def queries(self, mixed: Tensor, positions: Tensor) -> Tensor:
        """[rows, heads, size], rotated."""
        attention = self.midlayer.self_attn
        return self._rotate(attention.q_proj(mixed).unflatten(-1, (-1, attention.size)), positions)

    def finish(self, hidden: Tensor, attended: Tensor) -> Draft:
        """The rest of the step, given what the queries found. hidden: the states the step was fed with."""
        layer = self.midlayer
        hidden = hidden + layer.self_attn.o_proj(attended.flatten(1).to(hidden.dtype))
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return Draft(hidden, self.lm_head(self.norm(hidden)))

    def _rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        cos, sin = (part[0, :, None] for part in self._rotary(x.float(), positions[None]))
        first, second = x.float().chunk(2, dim=-1)
        return (x.float() * cos + torch.cat([-second, first], dim=-1) * sin).to(x.dtype)


def attend(queries: Tensor, prefix: KeysValues, visible: Tensor, own: list[KeysValues]) -> Tensor:
    """Attention of draft steps within one sample, in float32.

    Every query sees the keys of the first `visible` rows of the prefix, made from the target's own states, and one key
    of each draft step so far: its own. That is the mask of training-time test (EAGLE-3, section 3.2): drafted states
    replace the target's on the diagonal only.

    Args:
        queries: [rows, heads, size].
        prefix: of the sample.
        visible: int64 [rows].
        own: of the draft steps that ran on these rows.

    Returns:
        [rows, heads, size].
    """
    with torch.autocast(queries.device.type, enabled=False):
        return _attend_float32(queries, prefix, visible, own)


def _attend_float32(queries: Tensor, prefix: KeysValues, visible: Tensor, own: list[KeysValues]) -> Tensor:
    rows, heads, size = queries.shape
    groups = prefix.keys.shape[1]
    q = queries.float().view(rows, groups, heads // groups, size) * size**-0.5
    scores = torch.einsum("rgqs,ngs->rgqn", q, prefix.keys.float())
    hidden = torch.arange(len(prefix.keys), device=visible.device) >= visible[:, None]
    scores = scores.masked_fill(hidden[:, None, None], float("-inf"))
    extra = [(q * step.keys.float()[:, :, None]).sum(-1, keepdim=True) for step in own]
    weights = torch.softmax(torch.cat([scores, *extra], dim=-1), dim=-1)
    out = torch.einsum("rgqn,ngs->rgqs", weights[..., : len(prefix.keys)], prefix.values.float())
    for number, step in enumerate(own, len(prefix.keys)):
        out = out + weights[..., number : number + 1] * step.values.float()[:, :, None]
    return out.reshape(rows, heads, size)
