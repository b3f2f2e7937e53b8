"""The likeliest continuations of a place in a template: what a template cursor drafts. Runs once a template, request
and round.

As in suffix_search, the largest path probability comes first (Sequoia, arXiv 2402.12374), but a whole run is one
step. Most results are asked for again, by the slot's next request, and are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import prod
from typing import NamedTuple

from sgl_spec.drafting.fair_chains import fair
from sgl_spec.drafting.template.slot_template import VALUE_PRIOR, Exit, Hole, Place, SlotTemplate
from sgl_spec.drafting.template.template_belief import Belief
from sgl_spec.drafting.tree import Chain, DraftError

# Values of a hole that are offered beside its end.
MAX_VALUES = 3
# How far a template is trusted, by how often it was contradicted lately. A contradiction is a run that had certainly
# begun and went on otherwise; a run that is completed takes one back.
TRUST = (1.0, 0.85, 0.6, 0.3, 0.0)
# Results kept for a template.
MAX_KEPT = 1_024
# Below this a search only takes time.
LEAST_A = 0.001


class Ahead(NamedTuple):
    """Tokens that may come next.

    Attributes:
        tokens: one or more.
        q: as in a Chain.
        then: where the output probably stands after them.
        sure: P(it stands there | these tokens came).
    """

    tokens: tuple[int, ...]
    q: tuple[float, ...]
    then: Place
    sure: float = 1.0


class TemplateSearch:
    """Drafts from one template, for all requests that follow it.

    Args:
        template: is not changed.
        origin: of the chains.
        min_a: nodes less likely to be accepted are not looked for (at least LEAST_A is taken).

    Raises:
        DraftError: min_a is no probability.
    """

    def __init__(self, template: SlotTemplate, origin: str, min_a: float) -> None:
        if not 0.0 <= min_a <= 1.0:
            raise DraftError(f"min_a is {min_a}; it is a probability, from 0 to 1")
        self.template = template
        self.origin = origin
        self.min_a = max(min_a, LEAST_A)
        self._ahead: dict[Place, list[Ahead]] = {}
        self._found: dict[tuple[Belief, int, int], list[Chain]] = {}

    def chains(self, belief: Belief, contradictions: int, max_nodes: int) -> list[Chain]:
        """The likeliest `max_nodes` nodes, as one chain for each leaf of their tree.

        Args:
            belief: weights that sum to at most 1.
            contradictions: index into TRUST.
            max_nodes: most nodes wanted.
        """
        if max_nodes < 1 or TRUST[contradictions] <= self.min_a:
            return []
        key = (belief, contradictions, max_nodes)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= MAX_KEPT:
                self._found.clear()
            found = self._found[key] = self._searched(belief, TRUST[contradictions], max_nodes)
        return found[:]

    def _searched(self, belief: Belief, trust: float, max_nodes: int) -> list[Chain]:
        search = _Search(self.origin, self.min_a, trust)
        search.offer(-1, 1.0, self._after(belief))
        while (grown := search.grow(max_nodes)) is not None:
            max_nodes -= grown.added
            if grown.then is not None and max_nodes > 0:
                search.offer(grown.number, grown.a, _scaled(self._after_place(grown.then), grown.sure))
        return search.leaves()

    def _after(self, belief: Belief) -> list[Ahead]:
        if len(belief) == 1:
            return _scaled(self._after_place(belief[0].place), belief[0].weight)
        return merged([one for place, weight in belief for one in _scaled(list(self._from(place)), weight)])

    def _after_place(self, place: Place) -> list[Ahead]:
        """What may follow a place where the output certainly stands."""
        aheads = self._ahead.get(place)
        if aheads is None:
            if len(self._ahead) >= MAX_KEPT:
                self._ahead.clear()
            aheads = self._ahead[place] = merged(list(self._from(place)))
        return aheads

    def _from(self, place: Place) -> Iterator[Ahead]:
        part, at, value = place
        if part >= 0:
            run = self.template.runs[part]
            rest = run.tokens[at:]
            yield Ahead(rest, (run.q,) * len(rest), self.template.after(part, len(run.tokens)))
            return
        hole = self.template.holes[~part]
        hazard = hole.hazard(at, value)
        for one in hole.exits:
            ends = hazard * one.share
            if ends >= self.min_a:
                yield self._end(one, ends, ends / (ends + (1.0 - hazard) * one.noise))
        if value >= 0:
            yield from _values_from(hole, place)

    def _end(self, one: Exit, ends: float, sure: float) -> Ahead:
        """A hole's end, of which there is a chance of `ends`. After the run's first token it is `sure`: inside the hole
        the token would be noise."""
        run = self.template.runs[one.run]
        then = self.template.after(one.run, len(run.tokens))
        if len(run.tokens) == 1:
            return Ahead(run.tokens, (ends,), then, sure)
        return Ahead(run.tokens, (ends, sure * run.q, *(run.q,) * (len(run.tokens) - 2)), then)


def _values_from(hole: Hole, place: Place) -> Iterator[Ahead]:
    """The values seen, where they begin as the hole does: the commonest next tokens, each with what always followed."""
    times, _, following = hole.values[place.value]
    nodes = sorted(following.items(), key=lambda item: -hole.values[item[1]].times)[:MAX_VALUES]
    for token, node in nodes:
        tokens, q = [token], [hole.values[node].times / (times + VALUE_PRIOR)]
        while not hole.values[node].ends and len(hole.values[node].next) == 1:
            before = hole.values[node].times
            token, node = next(iter(hole.values[node].next.items()))
            tokens.append(token)
            q.append(hole.values[node].times / (before + VALUE_PRIOR))
        yield Ahead(tuple(tokens), tuple(q), Place(place.part, place.at + len(tokens), node))


def _scaled(aheads: list[Ahead], weight: float) -> list[Ahead]:
    """`aheads`, if they may come with probability `weight` only."""
    if weight == 1.0:
        return aheads
    return [Ahead(tokens, (weight * q[0], *q[1:]), then, sure) for tokens, q, then, sure in aheads]


def merged(aheads: Sequence[Ahead]) -> list[Ahead]:
    """The same, with q such that those that begin alike agree on it, and siblings sum to at most 1."""
    firsts = [one.tokens[0] for one in aheads]
    if len(set(firsts)) == len(firsts):
        return list(aheads)
    return [_among(one, [other for other in aheads if other.tokens[0] == one.tokens[0]]) for one in aheads]


def _among(one: Ahead, alike: list[Ahead]) -> Ahead:
    """`one` among all that begin with the same token: a shared node is as likely as they are together."""
    weights = [other.q[0] for other in alike]
    left = sum(weights)
    q = [left]
    for at in range(1, len(one.tokens)):
        if len(alike) == 1:
            return Ahead(one.tokens, (*q, *one.q[at:]), one.then, one.sure)
        token = one.tokens[at]
        same = [n for n, other in enumerate(alike) if len(other.tokens) > at and other.tokens[at] == token]
        alike, weights = [alike[n] for n in same], [weights[n] * alike[n].q[at] for n in same]
        q.append(sum(weights) / left)
        left = sum(weights)
    return Ahead(one.tokens, tuple(q), one.then, one.sure * prod(one.q) / left)


class _Open(NamedTuple):
    """Tokens that could be drafted after the chain `before`. A heap of these yields the likeliest first token."""

    cost: float
    number: int
    before: int
    ahead: Ahead


class _Grown(NamedTuple):
    """A chain that was drafted: its number and path probability, how many nodes are new, and where the output would
    stand after it (None: cut short), how surely."""

    number: int
    a: float
    added: int
    then: Place | None
    sure: float


class _Search:
    """One round's search: takes the likeliest tokens until enough are drafted."""

    def __init__(self, origin: str, min_a: float, trust: float) -> None:
        self._origin = origin
        self._min_a = min_a
        self._trust = trust
        self._heap: list[_Open] = []
        self._chains: list[Chain] = []
        self._inner: set[int] = set()
        self._offered = 0
        self._mixed = False  # some nodes were offered from several places

    def offer(self, before: int, a: float, aheads: Sequence[Ahead]) -> None:
        """`aheads` may follow the chain `before` (-1: the root), whose path probability is `a`."""
        for ahead in aheads:
            first = a * ahead.q[0] * self._trust
            if first >= self._min_a:
                self._offered += 1
                heappush(self._heap, _Open(-first, self._offered, before, ahead))

    def grow(self, most: int) -> _Grown | None:
        """Draft the likeliest that was offered, at most `most` nodes; None when nothing is left to do."""
        if not self._heap or most < 1:
            return None
        cost, _, before, (tokens, q, then, sure) = heappop(self._heap)
        a, reached = -cost, [q[0] * self._trust]
        for one in q[1:most]:
            a *= one * self._trust
            if a < self._min_a:
                break
            reached.append(one * self._trust)
        start = self._chains[before] if before >= 0 else None
        count = len(reached)
        chain = Chain(tokens[:count], tuple(reached), self._origin)
        if start is not None:
            chain = Chain(start.tokens + chain.tokens, start.q + chain.q, self._origin)
            self._inner.add(before)
        self._chains.append(chain)
        self._mixed = self._mixed or sure < 1.0
        return _Grown(len(self._chains) - 1, a, count, then if count == len(tokens) else None, sure)

    def leaves(self) -> list[Chain]:
        """The chains that no other one prolongs."""
        chains = [chain for number, chain in enumerate(self._chains) if number not in self._inner]
        return fair(chains) if self._mixed else chains
