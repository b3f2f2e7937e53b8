"""A random KV pool with requests whose slots lie scattered over it, and calls of the two attention ops on it.

`ops` is the module whose ops are called: `platform_cpu.attention` or its twin `platform_cpu.reference`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import torch

HEAD_SIZES = (16, 64, 80, 128, 256)
GROUPS = (1, 3, 8)
DTYPES = (torch.bfloat16, torch.float32)


class Shape(NamedTuple):
    """kv_heads * group query heads of `dim`; values of `value_dim`."""

    dtype: torch.dtype
    dim: int
    group: int
    kv_heads: int = 2
    value_dim: int | None = None


class Limits(NamedTuple):
    """window counts keys, the row's own included; 0 = none. cap 0 = none."""

    cap: float = 0.0
    window: int = 0


NO_LIMITS = Limits()


class Span(NamedTuple):
    """The last `extend` of the first `length` positions of a request (a row of the slot table)."""

    request: int
    length: int
    extend: int = 1


class World:
    """slots: size of the pool. A request gets the next row of the table, the first again after the last."""

    def __init__(self, shape: Shape, seed: int, slots: int = 2000, longest: int = 400) -> None:
        self.shape, self.rng = shape, random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed)
        value_dim = shape.value_dim or shape.dim
        self.keys = self.normal(slots, shape.kv_heads, shape.dim)
        self.values = self.normal(slots, shape.kv_heads, value_dim)
        self.table = torch.zeros(64, longest, dtype=torch.int32)
        self._free = self.rng.sample(range(slots), slots)
        self._requests = 0

    def normal(self, *size: int) -> torch.Tensor:
        return torch.randn(*size, generator=self._generator).to(self.shape.dtype)

    def queries(self, rows: int) -> torch.Tensor:
        # Three standard deviations: scores spread over many powers of e, as a trained model's do.
        return 3 * self.normal(rows, self.shape.kv_heads * self.shape.group, self.shape.dim)

    def take(self, count: int) -> list[int]:
        taken, self._free = self._free[:count], self._free[count:]
        assert len(taken) == count
        return taken

    def request(self, slots: Sequence[int]) -> int:
        """A new request with these slots."""
        self._requests = self._requests % (len(self.table) - 1) + 1
        self.table[self._requests, : len(slots)] = torch.tensor(slots, dtype=torch.int32)
        return self._requests

    def _out(self, rows: int) -> torch.Tensor:
        heads = self.shape.kv_heads * self.shape.group
        return torch.full((rows, heads, self.values.shape[2]), float("nan"), dtype=self.shape.dtype)

    def decode(
        self,
        ops: ModuleType,
        query: torch.Tensor,
        spans: Sequence[Span],
        limits: Limits = NO_LIMITS,
        new: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """new: key [rows, kv_heads, dim], value and slot of each row's token, for the op to store."""
        out = self._out(len(spans))
        key, value, loc = new if new is not None else (None, None, None)
        ops.decode_attention_cpu(
            query, self.keys, self.values, 1.0, 1.0, out, key, value, loc, torch.empty(0), self.table,
            torch.tensor([s.request for s in spans]), torch.tensor([s.length for s in spans]),
            self.shape.dim**-0.5, limits.cap, False, limits.window, None, None,
        )  # fmt: skip
        return out

    def extend(
        self,
        ops: ModuleType,
        query: torch.Tensor,
        spans: Sequence[Span],
        limits: Limits = NO_LIMITS,
        masks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """masks: bool [requests, width, width] for trees, or None for causal rows."""
        extends = torch.tensor([s.extend for s in spans], dtype=torch.int32)
        starts = (torch.cumsum(extends, 0) - extends).to(torch.int32)
        out = self._out(int(extends.sum()))
        ops.extend_attention_cpu(
            query, None, None, out, self.keys, self.values, 1.0, 1.0, self.table,
            torch.tensor([s.request for s in spans]), torch.tensor([s.length for s in spans]), extends, starts,
            int(extends.max()), self.shape.dim**-0.5, limits.cap, False, limits.window, None, None,
            None if masks is None else masks.flatten(), True,
        )  # fmt: skip
        return out


def random_parents(rng: random.Random, width: int, nodes: int) -> list[int]:
    """Parents of a random tree of `nodes` nodes, -1 for the root and for the padding after them."""
    straightness = rng.random()
    parents = [-1]
    for node in range(1, nodes):
        parents.append(node - 1 if rng.random() < straightness else rng.randrange(node))
    return parents + [-1] * (width - nodes)


def path_to(node: int, parents: Sequence[int]) -> list[int]:
    """Root first, the node last."""
    return [*path_to(parents[node], parents), node] if parents[node] >= 0 else [node]


def mask_of(parents: Sequence[int]) -> torch.Tensor:
    """bool [width, width]: a node sees its ancestors and itself."""
    mask = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    for node in range(len(parents)):
        mask[node, path_to(node, parents)] = True
    return mask
