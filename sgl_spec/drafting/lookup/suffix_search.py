"""The search for the likeliest continuations of a context in a suffix automaton: what the lookup drafter drafts
from the request's own text and the memory drafter from past outputs. Runs once a drafter, request and round.

Here every match length has a say, and the likeliest nodes are drafted wherever they are: going from the longest
context to shorter ones, each context offers the tokens that followed it, and what it leaves over goes to the
next. That is the blending of PPM (Cleary and Witten 1984) with exclusion, so the q of siblings sum to less than
1. Contexts grow along an accepted chain, and q with them. The search takes the largest path probability first,
as Sequoia (arXiv 2402.12374) has it, until the nodes asked for are found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sgl_spec.drafting.chain_block import ChainBlock
from sgl_spec.drafting.lookup import suffix_kernel as kernel
from sgl_spec.drafting.lookup.suffix_layout import ROOT, Automaton
from sgl_spec.drafting.tree import Chain, DraftError


class Trust(NamedTuple):
    """P(the next token is among those that followed a context), by what followed it.

    Attributes:
        longest: the row is for contexts of at most so many tokens.
        once: the context occurred once before.
        agreed: it occurred several times, always followed by the same token.
        split: different tokens followed.
    """

    longest: int
    once: float
    agreed: float
    split: float


# Priors, rounded from the shares observed in six kinds of text: agent traces, customer service with tools,
# code completion, code edits, function calls, worked arithmetic. The kinds differ widely (after a match of 9
# to 12 tokens that was seen once: 0.67 on agent traces, 0.93 when code is edited). Short matches get less
# than the mean of the kinds, since drafting too much in prose costs more than drafting too little of a copy,
# whose matches grow anyway.
PRIORS = (
    Trust(1, 0.35, 0.55, 0.45),
    Trust(2, 0.45, 0.68, 0.47),
    Trust(3, 0.52, 0.78, 0.45),
    Trust(4, 0.60, 0.85, 0.50),
    Trust(6, 0.63, 0.90, 0.50),
    Trust(8, 0.70, 0.91, 0.52),
    Trust(12, 0.75, 0.92, 0.52),
    Trust(16, 0.78, 0.93, 0.52),
    Trust(24, 0.86, 0.95, 0.55),
)
LONG_MATCH = Trust(1 << 30, 0.96, 0.98, 0.60)
_ROWS = [next(row for row in PRIORS if n <= row.longest) for n in range(PRIORS[-1].longest + 1)]
_TRUST = np.array([(row.once, row.agreed, row.split) for row in [*_ROWS, LONG_MATCH]])
# Below this a search only takes time.
_LEAST_A = 0.001
_NO_NUMBERS, _NO_Q = np.empty(0, np.int64), np.empty(0, np.float64)


def search_chains(
    automaton: Automaton, state: int, length: int, max_nodes: int, min_a: float, origin: str
) -> list[Chain]:
    """What `search_block` finds, as a list."""
    return list(search_block(automaton, state, length, max_nodes, min_a, origin))


def search_block(
    automaton: Automaton, state: int, length: int, max_nodes: int, min_a: float, origin: str
) -> ChainBlock:
    """The likeliest `max_nodes` nodes that may follow a context, as one chain for each leaf of their tree.

    Markers (tokens below 0) are never proposed: their share of the probability goes to nobody, and no chain
    reaches across one.

    Args:
        automaton: of a SuffixIndex.
        state: of the context, such as `SuffixIndex.longest_match` or `SuffixCursor.state`; state 0 proposes nothing.
        length: tokens of the context, from the shortest to the longest of the state.
        max_nodes: most nodes wanted.
        min_a: nodes less likely to be accepted are not looked for (at least 0.001 is taken).
        origin: of the chains.

    Raises:
        DraftError: the automaton has no such state.
    """
    if state == ROOT or max_nodes < 1:
        return ChainBlock(_NO_NUMBERS, _NO_Q, origin)
    if not 0 < state < len(automaton.states):
        raise DraftError(f"state is {state}; this automaton has room for {len(automaton.states)} states")
    numbers, q = kernel.search(*automaton, _TRUST, state, length, max_nodes, max(min_a, _LEAST_A))
    return ChainBlock(numbers, q, origin)
