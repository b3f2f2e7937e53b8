"""Lays tokens along the texts a grammar allows, likeliest first, and grafts them onto the round's tree.

The order is that of Sequoia (arXiv 2402.12374): the node most likely to be accepted is the next to be expanded, until
the tree holds as many likelier ones as may be verified.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

from sgl_spec.drafting.grammar.spelling import AHEAD, FORCED, TAIL, At, Speller, Step
from sgl_spec.drafting.grammar.text_search import Q_NUMBER_ENDS, TextSearch
from sgl_spec.drafting.grammar.text_trie import Spot, find
from sgl_spec.drafting.grammar.token_habits import RequestHabits
from sgl_spec.drafting.tree import ROOT, Chain, DraftTree


class Pen(NamedTuple):
    """Where the next token goes.

    Attributes:
        at: the place in the text.
        node: of the tree.
        left: what other drafters' guesses leave to the first choice.
        settled: whether the grammar has said which tokens it forces up to here, and none from here on.
    """

    at: At
    node: int
    left: float
    settled: bool = False


class Best:
    """The probabilities of the likeliest nodes of a tree, as many as may be kept: what is less likely than all of them
    need not be drafted.

    Args:
        known: probabilities of nodes that are there already.
        most: how many nodes may be kept, 1 or more.
        least: the least that one must have.
    """

    def __init__(self, known: Iterable[float], most: int, least: float) -> None:
        self._known = sorted(sorted(known, reverse=True)[:most])
        self._most, self._floor = most, least

    @property
    def least(self) -> float:
        """A node less likely than this would not be kept."""
        return max(self._known[0], self._floor) if len(self._known) >= self._most else self._floor

    def keeps(self, a: float) -> bool:
        """Whether one more node, which is accepted with probability `a`, would be kept."""
        return a >= self._floor and (len(self._known) < self._most or a > self._known[0])

    def add(self, a: float) -> None:
        """A node was added."""
        if len(self._known) < self._most:
            heappush(self._known, a)
        elif a > self._known[0]:
            heapreplace(self._known, a)


class TextWriter:
    """Writes into one tree.

    Args:
        speller: knows how texts are written.
        search: asks the grammar.
        habits: of the request.
        endings: tokens that are not drafted.
        tree: to be grafted onto.
        best: of its nodes.
    """

    def __init__(
        self,
        speller: Speller,
        search: TextSearch,
        habits: RequestHabits,
        endings: frozenset[int],
        tree: DraftTree,
        best: Best,
    ) -> None:
        self._speller, self._search, self._habits = speller, search, habits
        self._endings, self._tree, self._best = endings, tree, best
        self._known = tree.a
        self._heap: list[tuple[float, int, Pen]] = []  # the likeliest pen first, of equal ones the older
        self._number = 0
        self._begun: set[int] = set()

    def write(self, starts: Iterable[Pen]) -> None:
        """Graft the likeliest tokens of the texts from `starts` on."""
        for start in starts:
            self._push(start)
            self._begun.add(start.node)
        settles = self._search.cursor.settles_tokens
        while self._heap:
            pen = heappop(self._heap)[2]
            if not self._best.keeps(pen.at.reached):
                return
            if settles and not pen.settled:
                self._write_forced(pen)
            elif not pen.at.spot.place.node.lone or self._best.keeps(pen.at.reached * Q_NUMBER_ENDS):
                self._write_steps(pen)

    def _push(self, pen: Pen) -> None:
        self._number += 1
        heappush(self._heap, (-pen.at.reached, self._number, pen))

    def _write_steps(self, pen: Pen) -> None:
        """Graft what may follow and is worth a node."""
        least = self._best.least
        for step in self._speller.steps(pen.at, self._search, self._habits, least):
            q = step.q * pen.left if step.chosen else step.q
            if pen.at.reached * q >= least and step.token not in self._endings:
                after = self._after(pen, step, q)
                if after.node not in self._begun:
                    self._push(after)

    def _after(self, pen: Pen, step: Step, q: float) -> Pen:
        """The pen after a step, which is grafted."""
        node = self._tree.graft(Chain((step.token,), (q,), step.origin), under=pen.node)
        spot, a, tail, _ = pen.at
        a *= q
        if node < len(self._known):
            a = max(a, self._known[node])
        else:
            self._best.add(a)
        at = At(Spot(spot.top, step.place), a, (*tail, step.token)[-TAIL:], step.plan)
        return Pen(at, node, 1.0 if step.chosen else pen.left)

    def _write_forced(self, pen: Pen) -> None:
        """Graft the tokens the grammar forces from `pen` on, and go on after them."""
        certain = self._search.certain(pen.at.spot, AHEAD)
        for token in self._search.forced_tokens(path_to(self._tree, pen.node)) if certain else ():
            if token in self._endings or not self._speller.is_text(token) or not self._best.keeps(pen.at.reached):
                return  # what the grammar forces here is not drafted, nor, then, anything else
            text = self._speller.vocabulary.text(token)
            spot = pen.at.spot
            self._search.certain(spot, len(text))
            place = find(spot.place, text)
            pen = self._after(pen, Step(token, 1.0, FORCED, place or spot.place, False), 1.0)
            if place is None:
                return
        self._push(pen._replace(settled=True))


def path_to(tree: DraftTree, node: int) -> list[int]:
    """Tokens from below the root down to `node`."""
    path: list[int] = []
    while node != ROOT:
        path.append(tree.tokens[node])
        node = tree.parents[node]
    return path[::-1]
