"""The sets of origins of a tree's nodes: many nodes share a few sets, so each is made once. Part of every tree."""

from __future__ import annotations

from functools import lru_cache


class OriginSets(dict[int, frozenset[str]]):
    """The sets of some origins by their bits (bit i stands for origins[i]), made as they are asked for."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        super().__init__()
        self._origins = origins

    def __missing__(self, bits: int) -> frozenset[str]:
        self[bits] = frozenset(origin for i, origin in enumerate(self._origins) if bits >> i & 1)
        return self[bits]


origin_sets = lru_cache(maxsize=256)(OriginSets)
