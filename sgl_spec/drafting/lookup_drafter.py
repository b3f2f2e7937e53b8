"""Prompt lookup over the whole prompt and output (origin "lookup"): drafts what followed where the text ended
like this before. Asked by the planner at the start of a round.

Prompt lookup (A. Saxena, prompt-lookup-decoding) copies one span after the longest match. Here every match
length has a say, and the likeliest nodes are drafted wherever they are: going from the longest context to
shorter ones, each context offers the tokens that followed it, and what it leaves over goes to the next. That
is the blending of PPM (Cleary and Witten 1984) with exclusion, so the q of siblings sum to less than 1.
Contexts grow along an accepted chain, and q with them. The search takes the largest path probability first,
as Sequoia (arXiv 2402.12374) has it, until the nodes asked for are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.suffix_index import ROOT, Automaton, SuffixIndex
from sgl_spec.drafting.tree import Chain, DraftError

ORIGIN = "lookup"


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
_NUM_ROWS = len(_ROWS)
# The newest of several continuations counts as if it had been seen once more.
NEWEST_BONUS = 1
# Below this a search only takes time.
_LEAST_A = 0.001


class _Candidate(NamedTuple):
    """A node that could be drafted next. A heap of these yields the largest a first; `cost` is -a."""

    cost: float
    parent: int
    token: int
    q: float
    state: int
    length: int


class _Search:
    """One round's search: expands the likeliest node until enough are drafted."""

    def __init__(self, automaton: Automaton, min_a: float) -> None:
        self._columns = automaton
        self._min_a = min_a
        self._heap: list[_Candidate] = []

    def run(self, state: int, max_nodes: int) -> list[_Candidate]:
        """The likeliest nodes below the context `state`, parents first."""
        drafted: list[_Candidate] = []
        heap = self._heap
        self._expand(-1, state, self._columns.length[state], 1.0)
        while heap:
            best = heappop(heap)
            drafted.append(best)
            if len(drafted) >= max_nodes:
                break
            self._expand(len(drafted) - 1, best.state, best.length, -best.cost)
        return drafted

    def _expand(self, parent: int, state: int, length: int, a: float) -> None:
        """Offer what may follow the context of `length` tokens in `state`, reached with probability a."""
        all_length, link, _, times, only_token, target, more = self._columns
        min_q = self._min_a / a
        left = 1.0  # P that no token offered so far is the one
        seen: set[int] = set()
        while state > ROOT:
            trust = _ROWS[length] if length < _NUM_ROWS else LONG_MATCH
            if state in more:
                q = left * trust.split
                # No way on is likelier than if each of the others had been seen just once. This spares the
                # look at them all where many tokens followed, as after a line's end.
                most = times[state] + NEWEST_BONUS
                if q * (most - len(more[state]) + len(seen)) >= min_q * most:
                    q = self._offer_several(parent, state, length, a, q, seen)
                left -= q
                if left < min_q:
                    return
                seen.update(more[state])
                seen.add(only_token[state])
            elif (following := target[state]) >= 0 and (token := only_token[state]) not in seen:
                seen.add(token)
                q = left * (trust.once if times[following] == 1 else trust.agreed)
                if q >= min_q:
                    heappush(self._heap, _Candidate(-a * q, parent, token, q, following, length + 1))
                left -= q
                if left < min_q:
                    return
            state = link[state]
            length = all_length[state]

    def _offer_several(self, parent: int, state: int, length: int, a: float, share: float, seen: set[int]) -> float:
        """Offer the tokens that followed a context, together worth `share`; returns what was given away."""
        _, _, end, times, first_token, target, more = self._columns
        ways = {first_token[state]: target[state], **more[state]}
        for token in seen.intersection(ways):
            del ways[token]
        if not ways:
            return 0.0
        ends = [end[following] for following in ways.values()]
        weights = [times[following] for following in ways.values()]
        weights[ends.index(max(ends))] += NEWEST_BONUS
        each = share / sum(weights)
        min_weight = self._min_a / (a * each)
        for weight, (token, following) in zip(weights, ways.items(), strict=True):
            if weight >= min_weight:
                q = each * weight
                heappush(self._heap, _Candidate(-a * q, parent, token, q, following, length + 1))
        return share


class LookupDrafter:
    """Drafts from each request's own prompt and output.

    Args:
        max_index_tokens: most tokens of one request that are indexed, see SuffixIndex.
        min_a: nodes less likely to be accepted are not looked for. At most the budget's min_gain: more would
            drop nodes that pay, less costs time for nodes the budget drops.
    """

    origin = ORIGIN

    def __init__(self, max_index_tokens: int = 1 << 16, min_a: float = 0.04) -> None:
        if not 0.0 <= min_a <= 1.0:
            raise DraftError(f"min_a is {min_a}; it is a probability, from 0 to 1")
        SuffixIndex(max_index_tokens)  # refuses a bad size now, not at the first request
        self._max_index_tokens = max_index_tokens
        self._min_a = max(min_a, _LEAST_A)
        self._indexes: dict[str, SuffixIndex] = {}

    def start(self, request: DraftRequest) -> None:
        """Index the prompt: about 2 microseconds a token."""
        index = SuffixIndex(self._max_index_tokens)
        index.extend(request.prompt)
        self._indexes[request.rid] = index

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """The likeliest `max_tokens` nodes, as one chain for each leaf of their tree.

        Raises:
            DraftError: the request never started.
        """
        index = self._index(rid)
        state = index.longest_match
        if state == ROOT:
            return []
        return _chains(_Search(index.automaton, self._min_a).run(state, max_tokens))

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Index committed tokens.

        Raises:
            DraftError: the request never started, or a token is no token id.
        """
        self._index(rid).extend(tokens)

    def stop(self, rid: str) -> None:
        """Forget the request's index."""
        self._indexes.pop(rid, None)

    def _index(self, rid: str) -> SuffixIndex:
        try:
            return self._indexes[rid]
        except KeyError:
            raise DraftError(f"rid {rid!r} is not among the {len(self._indexes)} started requests") from None


def _chains(nodes: list[_Candidate]) -> list[Chain]:
    inner = {node.parent for node in nodes}
    return [_chain(nodes, leaf) for leaf in range(len(nodes)) if leaf not in inner]


def _chain(nodes: list[_Candidate], leaf: int) -> Chain:
    tokens: list[int] = []
    q: list[float] = []
    while leaf >= 0:
        node = nodes[leaf]
        tokens.append(node.token)
        q.append(node.q)
        leaf = node.parent
    return Chain(tuple(reversed(tokens)), tuple(reversed(q)), ORIGIN)
