"""Lays tokens along the texts a grammar allows, likeliest first, and grafts them onto the round's tree.

Origins, by what is known of a node's token when its parent was accepted:

    grammar.forced    it is the only one possible
    grammar.text      the text is certain, and so, nearly, are the tokens the model writes it in
    grammar.spelling  the text is certain, the tokens are not: one of several ways to begin it
    grammar.edge      likewise, but something free follows, with which the token could run together
    grammar.branch    one of a few ways on: a value of an enum, the next key, the end of a value, white space
"""

from __future__ import annotations

from functools import lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

from sgl_spec.drafting.text_codec import TAIL_TOKENS, TextCodec, continuation, text_of
from sgl_spec.drafting.text_trie import TextPath, TextPlace, advance, paths
from sgl_spec.drafting.token_habits import KEY_BYTES, RequestHabits, Stretch, TokenHabits
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.drafting.vocabulary import Spelled, Vocabulary

ORIGIN = "grammar"
FORCED, TEXT, SPELLING, EDGE, BRANCH = (
    f"{ORIGIN}.{kind}" for kind in ("forced", "text", "spelling", "edge", "branch")
)
# From here on a way to write a certain text counts as text.
Q_SURE = 0.95
# P(a token stays as it is though what follows could run together with it).
Q_EDGE = 0.85
# Bytes looked ahead for the next token, and how many of the texts that begin at a place.
_AHEAD, _MOST_PATHS = 24, 6
_CACHED = 16_384


class Pen(NamedTuple):
    """Where the next token goes. A heap of these yields the likeliest place first.

    Attributes:
        cost: minus P(the place is reached).
        number: orders equal ones.
        node: of the tree.
        tail: the last tokens up to there.
        place: in the text.
        left: what other drafters' guesses leave to the first choice.
    """

    cost: float
    number: int
    node: int
    tail: tuple[int, ...]
    place: TextPlace
    left: float


class Limit(NamedTuple):
    """Most tokens to graft, and P(accepted) that each must have."""

    tokens: int
    min_a: float


class _Next(NamedTuple):
    """A token that may come next. chosen: the output could have gone another way within it."""

    token: int
    q: float
    origin: str
    place: TextPlace
    chosen: bool


class Speller:
    """Knows the tokenizer and the model's habits with it."""

    def __init__(self, codec: TextCodec, vocabulary: Vocabulary) -> None:
        self._codec = codec
        self._vocabulary = vocabulary
        self.habits = TokenHabits()
        self.own_token = lru_cache(_CACHED)(self._own_token)

    def write(self, tree: DraftTree, start: Pen, habits: RequestHabits, endings: frozenset[int], limit: Limit) -> None:
        """Graft the likeliest tokens of the texts from `start` on."""
        heap, number = [start], 0
        while heap and number < limit.tokens:
            pen = heappop(heap)
            for step in self._next(pen, habits):
                q = step.q * pen.left if step.chosen else step.q
                if -pen.cost * q < limit.min_a or step.token in endings:
                    continue
                number += 1
                node = tree.graft(Chain((step.token,), (q,), step.origin), under=pen.node)
                tail = (*pen.tail, step.token)[-TAIL_TOKENS:]
                heappush(heap, Pen(pen.cost * q, number, node, tail, step.place, 1.0 if step.chosen else pen.left))

    def note(self, habits: RequestHabits, tail: tuple[int, ...], certain: bytes, chosen: int) -> None:
        """After `tail` the text went on with `certain`, and the model chose `chosen` to begin it."""
        own = self.own_token(tail, certain[:_AHEAD])
        within = len(self._codec.token_bytes(chosen)) <= len(certain)
        if own is not None and within and not self._vocabulary.only_one_token(certain):
            self.habits.note(habits, Stretch(tail[-1], certain[:KEY_BYTES]), own.token, chosen)
        habits.read.add(chosen)

    def _own_token(self, tail: tuple[int, ...], text: bytes) -> Spelled | None:
        """The tokenizer's first token of `text` after `tail`; None where it would change the text."""
        whole = text.decode(errors="ignore")
        tokens = continuation(self._codec, tail, whole)
        if not tokens or text_of(self._codec, tokens) != whole.encode():
            return None
        return Spelled(tokens[0], len(self._codec.token_bytes(tokens[0])))

    def _next(self, pen: Pen, habits: RequestHabits) -> list[_Next]:
        """The tokens that may come next, each once."""
        found: dict[int, _Next] = {}
        certain_done = False
        for path in paths(pen.place, _AHEAD, _MOST_PATHS):
            own = self.own_token(pen.tail, path.text[:_AHEAD])
            if own is None:
                continue
            if own.length > path.sure:
                known = found.get(own.token)
                step = self._branching(pen.place, path, own, habits)
                found[own.token] = step if known is None else step._replace(q=min(1.0, step.q + known.q))
            elif not certain_done:  # what is certain is so on every path
                certain_done = True
                found.update((step.token, step) for step in self._certain(pen, path, own, habits))
        return list(found.values())

    def _branching(self, place: TextPlace, path: TextPath, own: Spelled, habits: RequestHabits) -> _Next:
        q = self.habits.own_way(habits, own.token) * _chance(place, path, own.length)
        return _Next(own.token, q, BRANCH, advance(place, path, own.length), True)

    def _certain(self, pen: Pen, path: TextPath, own: Spelled, habits: RequestHabits) -> list[_Next]:
        text = path.text[: path.sure]
        open_end = path.sure == len(path.text) and path.nodes[-1].open_end
        if self._vocabulary.only_one_token(text):
            return [_Next(own.token, 1.0, FORCED, advance(pen.place, path, own.length), False)]
        spelled = self._vocabulary.beginnings(text)
        ways = self.habits.ways(habits, Stretch(pen.tail[-1], text[:KEY_BYTES]), own.token, spelled)
        lengths = {one.token: one.length for one in spelled}
        beyond = open_end and self._vocabulary.goes_beyond
        steps = []
        for way in ways:
            length = lengths.get(way.token)
            if length is None:
                continue  # a habit of the same beginning with another end
            edge = beyond and length == len(text) and beyond(text)
            origin = EDGE if edge else TEXT if way.q >= Q_SURE else SPELLING
            q = way.q * Q_EDGE if edge else way.q
            steps.append(_Next(way.token, q, origin, advance(pen.place, path, length), False))
        return steps


def _chance(place: TextPlace, path: TextPath, length: int) -> float:
    """P(the output goes on with the first `length` bytes of `path`)."""
    q, end = 1.0, len(place.node.text) - place.offset
    for node in path.nodes[1:]:
        if end >= length:
            break
        q *= node.q
        end += len(node.text)
    return q
