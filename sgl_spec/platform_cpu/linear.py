"""Linear layers whose rows do not depend on how many rows are computed together.

Where it stands in a round: inside the forward. A matrix library picks its kernel by the number of rows, so a token
computed alone and the same token in a tree can differ in the last bit, and a greedy choice with it. When it does
depends on the CPU, the data type and the shape. Seen with AVX512-BF16 and bfloat16: one row differs from two and more
when there are 1536 inputs, never with 576; in float32 most row counts differ. So each shape is probed once, and rows
are padded by the cheapest rule that was found to be safe.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

logger = logging.getLogger(__name__)


class PadRule(NamedTuple):
    """How many rows are computed for `rows` wanted: at least `least`, and a multiple of `multiple`; all of them in one
    product, or `at_once` by `at_once` where that is not 0."""

    least: int
    multiple: int
    at_once: int = 0

    def padded(self, rows: int) -> int:
        return max(self.least, -(-rows // self.multiple) * self.multiple)


RULES = (PadRule(1, 1), PadRule(2, 1), PadRule(4, 1), PadRule(8, 1), PadRule(4, 4), PadRule(16, 1), PadRule(8, 8),
         PadRule(16, 16), PadRule(32, 32), PadRule(16, 16, at_once=16))  # fmt: skip
# When no rule is safe. Slow, and exact by construction. A product of always 16 rows is not: with one output, a
# row's place among the 16 can decide its last bit.
ONE_BY_ONE = PadRule(1, 1, at_once=1)

_PROBE_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 19, 23, 24, 31, 32, 33, 47, 48, 64, 65, 96, 128, 161)
_MOST_ROWS = 512
_MOST_ROWS_WIDE = 192  # for a vocabulary: as many outputs in fewer rows
_WIDE = 8192
_ALIGNMENT = 64  # bytes; what torch's CPU allocator gives every tensor
# Where kernels differed, about one output in 7,000 did: a probe must look at many times that.
_OUTPUTS_COMPARED = 200_000


class Shape(NamedTuple):
    """What the choice of a kernel depends on, besides the number of rows."""

    dtype: torch.dtype
    outputs: int
    inputs: int
    threads: int


_rules: dict[Shape, PadRule] = {}


def _pad(x: torch.Tensor, rule: PadRule) -> torch.Tensor:
    """The rows and the zero rows the rule asks for, at an address of torch's own alignment.

    A matrix library may choose by the address too: seen with single float32 rows that do not start on a cache line.
    """
    missing = rule.padded(x.shape[0]) - x.shape[0]
    if missing:
        return F.pad(x, (0, 0, 0, missing))
    as_it_is = x.is_contiguous() and x.data_ptr() % _ALIGNMENT == 0
    return x if as_it_is else x.clone(memory_format=torch.contiguous_format)


def _multiplied(x: torch.Tensor, multiply: Callable[[torch.Tensor], torch.Tensor], rule: PadRule) -> torch.Tensor:
    parts = x.split(rule.at_once) if rule.at_once else (x,)
    return torch.cat([multiply(_pad(part, rule))[: len(part)] for part in parts])


def _is_safe(x: torch.Tensor, weight: torch.Tensor, rule: PadRule) -> bool:
    def multiplied(rows: torch.Tensor) -> torch.Tensor:
        return _multiplied(rows, lambda padded: F.linear(padded, weight), rule)

    whole = multiplied(x)
    compared = max(4, min(len(x), _OUTPUTS_COMPARED // weight.shape[0]))
    for rows in _PROBE_ROWS:
        for start in range(0, min(compared, len(x) - rows), rows):
            if not torch.equal(multiplied(x[start : start + rows]), whole[start : start + rows]):
                return False
    return True


def probe(weight: torch.Tensor) -> PadRule:
    """The cheapest rule that gives every row the same bits whatever rows are computed with it.

    weight: [outputs, inputs]. The rows probed are random, of a trained layer's scale.
    """
    generator = torch.Generator().manual_seed(0)
    rows = _MOST_ROWS_WIDE if weight.shape[0] > _WIDE else _MOST_ROWS
    x = torch.randn(rows, weight.shape[1], generator=generator).to(weight.dtype)
    return next((rule for rule in RULES if _is_safe(x, weight, rule)), ONE_BY_ONE)


def pad_rule(weight: torch.Tensor) -> PadRule:
    """`probe`, once per weight shape and data type."""
    shape = Shape(weight.dtype, weight.shape[0], weight.shape[1], torch.get_num_threads())
    if shape not in _rules:
        rule = _rules[shape] = probe(weight)
        if rule.at_once:
            logger.warning("no row count is bitwise safe for %s; computing %d rows at a time", shape, rule.at_once)
    return _rules[shape]


def row_invariant(
    x: torch.Tensor, weight: torch.Tensor, multiply: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """`multiply(x)` for x [rows, inputs], padded as the weight's rule says. Each row's bits are its own."""
    if len(x) == 0:
        return multiply(x)
    rule = pad_rule(weight)
    return _multiplied(x, multiply, rule) if rule.at_once else multiply(_pad(x, rule))[: len(x)]


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x @ weight.T + bias, [..., inputs] -> [..., outputs], each row's bits independent of the others'."""
    flat = x.reshape(-1, x.shape[-1])
    out = row_invariant(flat, weight, lambda rows: F.linear(rows, weight, bias))
    return out.view(*x.shape[:-1], weight.shape[0])


def apply_hook(
    original: Callable[..., torch.Tensor], method: Any, layer: Any, x: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Around SGLang's `UnquantizedLinearMethod.apply`: CPU tensors go through `linear`."""
    if x.device.type != "cpu" or getattr(layer, "use_intel_amx_backend", False):
        return original(method, layer, x, bias)
    return linear(x, layer.weight, bias)


def lm_head_hook(
    original: Callable[..., torch.Tensor], processor: Any, hidden: torch.Tensor, lm_head: Any, *args: Any, **kwargs: Any
) -> torch.Tensor:
    """Around SGLang's `LogitsProcessor._compute_lm_head`: pads the rows it multiplies."""
    weight = getattr(lm_head, "weight", None)
    if hidden.device.type != "cpu" or weight is None:
        return original(processor, hidden, lm_head, *args, **kwargs)
    kwargs.pop("out", None)  # a buffer for exactly these rows; the padded product does not fit it
    return row_invariant(hidden, weight, lambda rows: original(processor, rows, lm_head, *args, **kwargs))
