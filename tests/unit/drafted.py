"""What tests of drafters ask about chains, and replays of outputs through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sgl_spec.drafting.tree import Chain


class Cursor(Protocol):
    def propose(self, max_tokens: int) -> list[Chain]: ...

    def extend(self, tokens: Sequence[int]) -> None: ...


class Replay(NamedTuple):
    """tokens: of the output; rounds: it took, each with one token that was not drafted; drafted: nodes of them all."""

    tokens: int
    rounds: int
    drafted: int

    @property
    def per_round(self) -> float:
        return self.tokens / self.rounds


def nodes(chains: Sequence[Chain]) -> dict[tuple[int, ...], float]:
    """q of every node by its path; where chains share a node, the larger, as the tree has it."""
    found: dict[tuple[int, ...], float] = {}
    for chain in chains:
        for depth, q in enumerate(chain.q, 1):
            path = chain.tokens[:depth]
            found[path] = max(q, found.get(path, 0.0))
    return found


def check(chains: Sequence[Chain]) -> None:
    """Chains are valid, and siblings share at most 1."""
    sums: dict[tuple[int, ...], float] = {}
    for chain in chains:
        assert chain.tokens
        assert len(chain.tokens) == len(chain.q)
        assert min(chain.tokens) >= 0
        assert all(type(q) is float and 0.0 < q <= 1.0 for q in chain.q)
    for path, q in nodes(chains).items():
        sums[path[:-1]] = sums.get(path[:-1], 0.0) + q
    assert max(sums.values(), default=0.0) <= 1.0 + 1e-9


def accepted(chains: Sequence[Chain], coming: Sequence[int]) -> int:
    """How many of the tokens that are coming were drafted, from the front."""
    paths = nodes(chains)
    depth = 0
    while depth < len(coming) and tuple(coming[: depth + 1]) in paths:
        depth += 1
    return depth


def replay(cursor: Cursor, output: Sequence[int], max_tokens: int = 15) -> Replay:
    """Decode `output` in rounds."""
    done = rounds = drafted = 0
    while done < len(output):
        chains = cursor.propose(max_tokens)
        drafted += len(nodes(chains))
        step = accepted(chains, output[done:]) + 1
        cursor.extend(output[done : done + step])
        done += step
        rounds += 1
    return Replay(len(output), rounds, drafted)
