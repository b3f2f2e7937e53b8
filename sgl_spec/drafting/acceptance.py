"""The rule that turns the target's logits at a tree's nodes into committed tokens: the end of a round.

At every node the target's own token is chosen from the target's own distribution, and only then compared with
the drafts below the node. So the committed text is exactly what the target would have written alone; there is
no acceptance threshold and nothing here knows a drafter. This is the plain, slow form, the oracle for fast
ones.

Sampling is Gumbel-max: argmax(log p + g) is a draw from p when g is standard Gumbel noise. The noise depends
on nothing but (seed, absolute position, token id), so the token at a position is the same with and without
drafts. Hash and noise follow SGLang's seeded sampler (`multinomial_with_seed`), except that the noise always
belongs to the token id, never to a rank after sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sgl_spec.drafting.flat_tree import FlatTree
from sgl_spec.drafting.tree import NO_NODE, ROOT, DraftError

_UINT32 = np.uint64(0xFFFFFFFF)
_HASHED_BYTES = 16  # seed (8), position (4), token id (4)


class Acceptance(NamedTuple):
    """What a round commits.

    Attributes:
        nodes: accepted nodes in order, beginning with the root (node 0).
        tokens: committed tokens: those of nodes[1:], then the bonus token. As many as nodes.
    """

    nodes: tuple[int, ...]
    tokens: tuple[int, ...]


def accept_greedy(flat: FlatTree, target_tokens: Sequence[int] | NDArray[np.integer]) -> Acceptance:
    """Accept at temperature 0. `target_tokens` (length size or more): the target's own token at each node.

    Raises:
        DraftError: target_tokens is shorter than the tree.
    """
    _need_rows("target_tokens", len(target_tokens), flat)
    return _walk(flat, lambda node: int(target_tokens[node]))


def accept_sampled(
    flat: FlatTree,
    logits: NDArray[np.floating],
    seed: int,
    position: int,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
) -> Acceptance:
    """Accept when sampling.

    Args:
        flat: the verified tree.
        logits: float[w, V], the target's processed logits at each node, before temperature.
        seed: the request's seed; its low 64 bits count.
        position: absolute index in the sequence of the token sampled at the root; a node at depth d samples
            for position + d.
        temperature, top_k, top_p, min_p: see `filtered_logprobs`.

    Raises:
        DraftError: fewer rows than nodes, or a sampling parameter out of range.
    """
    _need_rows("logits", len(logits), flat)

    def own_token(node: int) -> int:
        at = position + int(flat.depths[node])
        return sample_token(logits[node], seed, at, temperature, top_k, top_p, min_p)

    return _walk(flat, own_token)


def _need_rows(name: str, rows: int, flat: FlatTree) -> None:
    if rows < flat.size:
        raise DraftError(f"{name} has {rows} rows; the tree has {flat.size} nodes and each needs one")


def _walk(flat: FlatTree, own_token: Callable[[int], int]) -> Acceptance:
    """Go down while the target's own token is among the drafts; the first that is not is the bonus."""
    nodes, tokens = [ROOT], [own_token(ROOT)]
    while (child := _child_with(flat, nodes[-1], tokens[-1])) != NO_NODE:
        nodes.append(child)
        tokens.append(own_token(child))
    return Acceptance(tuple(nodes), tuple(tokens))


def _child_with(flat: FlatTree, node: int, token: int) -> int:
    child = int(flat.next_child[node])
    while child != NO_NODE and flat.tokens[child] != token:
        child = int(flat.next_sibling[child])
    return child


def sample_token(
    logits_row: ArrayLike,
    seed: int,
    position: int,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
) -> int:
    """The target's own token at `position`: argmax of log-probabilities and noise, lowest id on ties.

    At temperature 0 it is the argmax of the logits, whatever the seed.

    Raises:
        DraftError: a sampling parameter is out of range.
    """
    kept = filtered_logprobs(logits_row, temperature, top_k, top_p, min_p)
    return int(np.argmax(kept + gumbel_noise(seed, position, len(kept))))


def filtered_logprobs(
    logits_row: ArrayLike, temperature: float, top_k: int, top_p: float, min_p: float
) -> NDArray[np.float64]:
    """Log-probabilities float64[V] after temperature, top_k, top_p and min_p; -inf for dropped tokens.

    Like SGLang: softmax(logits / temperature), sorted descending (ties: lower token id first); kept are ranks
    below `top_k`, tokens before which at most `top_p` has accumulated, and tokens with at least `min_p` times
    the largest probability. Not normalised again: an argmax does not need it.

    Args:
        logits_row: float[V]; -inf is a token the target cannot emit.
        temperature: 0 or more; at 0 only the argmax is kept.
        top_k: 1 or more, or -1 for no limit.
        top_p: in (0, 1].
        min_p: in [0, 1].

    Raises:
        DraftError: a parameter is out of range.
    """
    _check_sampling(temperature, top_k, top_p, min_p)
    logits = np.asarray(logits_row, dtype=np.float64)
    if temperature == 0.0:
        alone = np.full(logits.shape, -np.inf)
        alone[np.argmax(logits)] = 0.0
        return alone
    scaled = logits / temperature
    weights = np.exp(scaled - scaled.max())
    probs = weights / weights.sum()
    kept = _kept_tokens(probs, top_k, top_p, min_p)
    with np.errstate(divide="ignore"):
        return np.where(kept, np.log(probs), -np.inf)


def _kept_tokens(probs: NDArray[np.float64], top_k: int, top_p: float, min_p: float) -> NDArray[np.bool_]:
    order = np.argsort(-probs, kind="stable")
    ranked = probs[order]
    before = np.cumsum(ranked) - ranked
    in_rank: NDArray[np.bool_] = (before <= top_p) & (ranked >= min_p * ranked[0])
    if top_k != -1:
        in_rank[top_k:] = False
    kept: NDArray[np.bool_] = np.empty_like(in_rank)
    kept[order] = in_rank
    return kept


def _check_sampling(temperature: float, top_k: int, top_p: float, min_p: float) -> None:
    if not temperature >= 0.0:
        raise DraftError(f"temperature is {temperature}; it must be 0 or more")
    if top_k != -1 and top_k < 1:
        raise DraftError(f"top_k is {top_k}; it must be at least 1, or -1 for no limit")
    if not 0.0 < top_p <= 1.0:
        raise DraftError(f"top_p is {top_p}; it must be above 0 and at most 1")
    if not 0.0 <= min_p <= 1.0:
        raise DraftError(f"min_p is {min_p}; it must be from 0 to 1")


def gumbel_noise(seed: int, position: int, num_tokens: int) -> NDArray[np.float64]:
    """Standard Gumbel noise float64[num_tokens] for each token id at `position`.

    The 32-bit murmur3 hash (A. Appleby) of seed, position and token id, scaled to [0, 1], gives u, and the
    noise is -log(-log(u)). Both ends are clamped as SGLang does, so the noise is always finite.
    """
    blocks = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, position & 0xFFFFFFFF)
    state = np.zeros(num_tokens, dtype=np.uint64)
    for block in blocks:
        state = _mix(state, np.uint64(block))
    hashed = _finish(_mix(state, np.arange(num_tokens, dtype=np.uint64)))
    with np.errstate(divide="ignore"):
        log_u = np.log(hashed.astype(np.float64) / float(_UINT32))
    # u = 1 would give infinite noise: it is moved to where its neighbour is, one step of the hash away.
    exponential = -np.clip(log_u, np.finfo(np.float64).min, -(2.0**-32))
    noise: NDArray[np.float64] = -np.log(exponential)
    return noise


def _rotated(x: NDArray[np.uint64] | np.uint64, bits: int) -> NDArray[np.uint64]:
    left, right = np.uint64(bits), np.uint64(32 - bits)
    return np.asarray(((x << left) | (x >> right)) & _UINT32, dtype=np.uint64)


def _mix(state: NDArray[np.uint64], block: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """One 32-bit block into a murmur3 state; products of 32-bit numbers fit in 64 bits."""
    block = (block * np.uint64(0xCC9E2D51)) & _UINT32
    block = (_rotated(block, 15) * np.uint64(0x1B873593)) & _UINT32
    return (_rotated(state ^ block, 13) * np.uint64(5) + np.uint64(0xE6546B64)) & _UINT32


def _finish(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state ^ np.uint64(_HASHED_BYTES)
    state = ((state ^ (state >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & _UINT32
    state = ((state ^ (state >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & _UINT32
    return state ^ (state >> np.uint64(16))
