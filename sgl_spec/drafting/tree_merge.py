"""The chains of all drafters to one pruned tree: the fast path of DraftTree.graft and DraftTree.pruned, which give the
same tree bit for bit (tests/unit/test_tree_merge.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting import tree_kernel as kernel
from sgl_spec.drafting.chain_block import ChainBlock
from sgl_spec.drafting.tree import Chain, DraftError, DraftTree, Merged, check_chain

_ANY_TOKEN = 1 << 31
_MIXED = -1  # in the place of a number of an origin: the chains have their own
_NO_TOKENS, _NO_Q = np.empty(0, np.int64), np.empty(0, np.float64)


class ProposalError(DraftError):
    """A proposal holds what is no chain, or a chain that may not be; `number` says which proposal, from 0."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Limits(NamedTuple):
    """What may be drafted for a request at all.

    Attributes:
        endings: int64[any]; tokens that end the request. A chain is cut before the first of them.
        vocab_size: a chain with a token id from here on (before the cut) is refused.
    """

    endings: NDArray[np.int64] = np.empty(0, np.int64)
    vocab_size: int = _ANY_TOKEN

    @staticmethod
    def of(endings: Iterable[int], vocab_size: int | None = None) -> Limits:
        """For these endings; no vocabulary allows ids below 2**31."""
        return Limits(np.array(sorted(endings), np.int64), _ANY_TOKEN if vocab_size is None else vocab_size)


NO_LIMITS = Limits()


class _Columns(NamedTuple):
    """A proposal as tree_kernel.graft takes it."""

    numbers: NDArray[np.int64]
    q: NDArray[np.float64]
    origin: int


def merged(
    proposals: Sequence[Sequence[Chain]],
    root_token: int,
    max_drafts: int,
    min_gain: float,
    limits: Limits = NO_LIMITS,
) -> DraftTree:
    """What grafting all chains of `proposals` below `root_token` and pruning to `max_drafts` and `min_gain` gives.

    Chains are cut to max_drafts tokens, as no deeper node could be kept, and by `limits`.

    Raises:
        ProposalError: a chain is malformed, or a token of it is beyond the vocabulary.
    """
    names: dict[str, int] = {}
    columns = [_columns(number, proposal, names) for number, proposal in enumerate(proposals)]
    room = 1 + sum([len(column.q) for column in columns])
    if room == 1 or max_drafts < 1:
        return DraftTree(root_token)
    nodes, opinions = np.empty((room, 5), np.int64), np.zeros((room, len(names)))
    endings, vocab_size = limits
    size = 0
    for number, (numbers, q, origin) in enumerate(columns):
        size = kernel.graft(nodes, opinions, size, root_token, numbers, q, origin, endings, vocab_size, max_drafts)
        if size == kernel.WRONG:
            raise ProposalError(number, _what_is_wrong(proposals[number], max_drafts, limits))
    kept, weights, by_origin = kernel.keep(nodes, opinions, size, max_drafts, min_gain)
    return DraftTree.from_merged(root_token, Merged(kept, weights, by_origin, tuple(names)))


def _columns(number: int, proposal: Sequence[Chain], names: dict[str, int]) -> _Columns:
    """`names` numbers the origins of all proposals so far and takes up new ones."""
    try:
        if type(proposal) is ChainBlock:
            columns = _Columns(proposal.numbers, proposal.q, names.setdefault(proposal.origin, len(names)))
        else:
            columns = _gathered(proposal, names)
        if len(names) > kernel.MOST_ORIGINS:
            raise DraftError(f"{len(names)} different origins in a round; there may be {kernel.MOST_ORIGINS}")
    except DraftError as error:
        raise ProposalError(number, str(error)) from None
    return columns


def _gathered(chains: Sequence[Chain], names: dict[str, int]) -> _Columns:
    tokens: list[int] = []
    q: list[float] = []
    stops: list[int] = []
    origins: list[int] = []
    for chain in chains:
        if not isinstance(chain, Chain):
            raise DraftError(f"proposed a {type(chain).__name__}; it must be a Chain")
        if (
            not chain.tokens
            or type(chain.origin) is not str
            or not isinstance(chain.tokens, tuple)
            or not isinstance(chain.q, tuple)
        ):
            check_chain(chain)
        tokens += chain.tokens
        q += chain.q
        stops.append(len(tokens))
        if len(tokens) != len(q):
            check_chain(chain)
        origins.append(names.setdefault(chain.origin, len(names)))
    if not chains:
        return _Columns(_NO_TOKENS, _NO_Q, _MIXED)
    try:
        columns = _Columns(np.array(tokens + stops + origins), np.array(q), _MIXED)
    except (ValueError, TypeError, OverflowError):
        raise DraftError(_what_is_wrong(chains, len(tokens), NO_LIMITS)) from None
    if columns.numbers.dtype != np.int64 or columns.q.dtype != np.float64 or columns.q.ndim != 1:
        raise DraftError(_what_is_wrong(chains, len(tokens), NO_LIMITS))
    return columns


def _what_is_wrong(chains: Sequence[Chain], max_depth: int, limits: Limits) -> str:
    """Of the first wrong chain, looking at no more of it than the fast path does."""
    endings = set(limits.endings.tolist())
    for chain in chains:
        tokens = chain.tokens[:max_depth]
        length = next((i for i, token in enumerate(tokens) if type(token) is int and token in endings), max_depth)
        if length == 0:
            continue
        cut = Chain(chain.tokens[:length], chain.q[:length], chain.origin)
        try:
            check_chain(cut)
        except DraftError as error:
            return str(error)
        if max(cut.tokens) >= limits.vocab_size:
            return f"proposed token {max(cut.tokens)}; the vocabulary has {limits.vocab_size}"
    return "chains hold numbers that are no token ids or no probabilities"
