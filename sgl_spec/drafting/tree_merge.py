"""The chains of all drafters to the candidates of a round, and the best of these to a pruned tree: the fast path of
DraftTree.graft and DraftTree.pruned, which give the same tree bit for bit (tests/unit/test_tree_merge.py).

In between the candidates are weighed, by the drafters' own q (`weighed` here) or by a calibration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting import tree_kernel as kernel
from sgl_spec.drafting import weigh_kernel
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


class Candidates(NamedTuple):
    """All nodes that a request's drafters propose in a round, before any is chosen.

    Attributes:
        nodes: int64[room, 5], `size` rows in use, the root first and parents before children: token, parent, depth,
            first child, next sibling.
        opinions: float64[room, columns]: q by origin, 0 for none.
        size: nodes, the root included.
        origins: the columns' names.
        joined: whether chains came later in the round (a draft head's): then it is evidence against a node that they
            do not have it, and otherwise it is none.
    """

    nodes: NDArray[np.int64]
    opinions: NDArray[np.float64]
    size: int
    origins: tuple[str, ...]
    joined: bool = False


class Weighed(NamedTuple):
    """A request's candidates with what they are worth.

    Attributes:
        candidates: all of them.
        weights: float64[2 or 3, nodes]: q, a, and with a calibration the prior that q was made from.
        best: int64[kept]: the root and the nodes that may be verified, in descending a.
        keys: int64[nodes, 3]: what the calibration knows the nodes by; None without one.
    """

    candidates: Candidates
    weights: NDArray[np.float64]
    best: NDArray[np.int64]
    keys: NDArray[np.int64] | None = None

    @property
    def chances(self) -> NDArray[np.float64]:
        """float64[kept - 1]: a of the best nodes but the root, descending."""
        chances: NDArray[np.float64] = self.weights[1, self.best[1:]]
        return chances

    def tree(self, width: int) -> DraftTree:
        """Of the best `width` nodes, the root included, or of all that are kept."""
        nodes, opinions, _, origins, _ = self.candidates
        count = min(width, len(self.best))
        root = int(nodes[kernel.ROOT, 0])
        if count <= 1:
            return DraftTree(root)
        kept, weights, by_origin = kernel.only(nodes, opinions, self.weights, self.best, count)
        return DraftTree.from_merged(root, Merged(kept, weights, by_origin, origins))


def gather(
    proposals: Sequence[Sequence[Chain]],
    root_token: int,
    max_depth: int,
    limits: Limits = NO_LIMITS,
    onto: Candidates | None = None,
) -> Candidates:
    """All chains of `proposals` grafted below `root_token`, cut to `max_depth` tokens and by `limits`.

    Args:
        onto: candidates below the same root that they join; they stay as they are.

    Raises:
        ProposalError: a chain is malformed, or a token of it is beyond the vocabulary.
    """
    names = {} if onto is None else {name: column for column, name in enumerate(onto.origins)}
    columns = [_columns(number, proposal, names) for number, proposal in enumerate(proposals)]
    room = (1 if onto is None else onto.size) + sum([len(column.q) for column in columns])
    nodes, opinions = np.empty((room, 5), np.int64), np.zeros((room, len(names)))
    size = 0
    if onto is not None:
        size = onto.size
        nodes[:size], opinions[:size, : len(onto.origins)] = onto.nodes[:size], onto.opinions[:size]
    endings, vocab_size = limits
    for number, (numbers, q, origin) in enumerate(columns):
        if not len(numbers):
            continue
        size = kernel.graft(nodes, opinions, size, root_token, numbers, q, origin, endings, vocab_size, max_depth)
        if size == kernel.WRONG:
            raise ProposalError(number, _what_is_wrong(proposals[number], max_depth, limits))
    if size == 0:
        nodes[kernel.ROOT] = (root_token, kernel.NO_NODE, 0, kernel.NO_NODE, kernel.NO_NODE)
        size = 1
    return Candidates(nodes, opinions, size, tuple(names), onto is not None)


def weighed(candidates: Candidates, max_drafts: int, min_gain: float) -> Weighed:
    """The candidates as their drafters weigh them, and the best `max_drafts` with a of `min_gain` or more."""
    nodes, opinions, size = candidates[:3]
    weights, best = weigh_kernel.weigh(nodes, opinions, size, max_drafts, min_gain)
    return Weighed(candidates, weights, best)


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
    if max_drafts < 1:
        return DraftTree(root_token)
    return weighed(gather(proposals, root_token, max_drafts, limits), max_drafts, min_gain).tree(max_drafts + 1)


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
