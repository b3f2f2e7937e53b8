"""Makes the chains of one drafter agree with each other, before they are proposed."""

from __future__ import annotations

from sgl_spec.drafting.tree import Chain


def fair(chains: list[Chain]) -> list[Chain]:
    """`chains`, with one q for each node, the largest, and siblings that sum to at most 1.

    Chains that lead by the same tokens to different places may disagree, as each place only knows its own
    continuations.
    """
    if len(chains) < 2:
        return chains
    q: dict[tuple[int, ...], float] = {}
    for chain in chains:
        for end, one in enumerate(chain.q, 1):
            path = chain.tokens[:end]
            q[path] = max(one, q.get(path, 0.0))
    sums: dict[tuple[int, ...], float] = {}
    for path, one in q.items():
        sums[path[:-1]] = sums.get(path[:-1], 0.0) + one
    return [Chain(tokens, _shares(tokens, q, sums), origin) for tokens, _, origin in chains]


def _shares(
    tokens: tuple[int, ...], q: dict[tuple[int, ...], float], sums: dict[tuple[int, ...], float]
) -> tuple[float, ...]:
    return tuple(q[tokens[: end + 1]] / max(1.0, sums[tokens[:end]]) for end in range(len(tokens)))
