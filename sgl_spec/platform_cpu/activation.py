"""Activations whose rows do not depend on how many rows are computed together.

Where it stands in a round: inside the forward. torch divides a large tensor among its threads without regard to rows,
and computes what is left over at the end of each thread's share with other instructions, whose exp or tanh can differ
in the last bit. Seen with SiLU in float32, from 5 threads on with 1536 columns and from 2 on with 1000. A tensor small
enough to stay with one thread has no such borders: so rows are computed in parts of that size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# torch gives up to this many elements to one thread (at::internal::GRAIN_SIZE).
_ONE_THREAD = 32768


def row_parts(x: torch.Tensor, activate: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """`activate(x)` for x [..., columns], row by row as far as bits go. A row too long for a part is one by itself, and
    then divided as it is when computed alone."""
    rows = x.reshape(-1, x.shape[-1])
    parts = rows.split(max(1, (_ONE_THREAD - 1) // rows.shape[1]))
    if len(parts) == 1:
        return activate(x)
    out = torch.cat([activate(part) for part in parts])
    return out.view(*x.shape[:-1], out.shape[-1])


def native_hook(original: Callable[..., torch.Tensor], module: Any, x: torch.Tensor) -> torch.Tensor:
    """Around `forward_native` of SGLang's SiluAndMul and GeluAndMul, which is what they run on a CPU without AMX."""
    return row_parts(x, lambda part: original(module, part)) if x.device.type == "cpu" else original(module, x)
