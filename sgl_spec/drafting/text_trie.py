"""The texts a grammar allows from some place on, as far as they were asked for, with what they begin with in common held
once. Kept from round to round; the constraint drafter lays tokens along it.

    {"name": "   ── 0.5 ── calc_ ── 0.5 ── area", "arguments": {
                                └─ 0.5 ── volume", "arguments": {
              └── 0.5 ── zip", "arguments": {
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class TextNode:
    """A stretch of text without a choice in it.

    Attributes:
        text: the stretch; what is not known yet may be added at its end.
        q: P(the output goes on with its first byte | it came here); the rest of the stretch is then certain.
        parent: the node before it; None at a top.
        children: what may follow; distinct texts.
        asked: whether `children` says what follows. Until then nothing is known of it.
        free: a value of the model's own begins or goes on after the text; `children` is only how it might end.
        lone: what follows the text hardly changes the token it is written in (a digit).
    """

    __slots__ = ("asked", "children", "free", "lone", "parent", "q", "text")

    def __init__(self, text: bytes, q: float, parent: TextNode | None = None, lone: bool = False) -> None:
        self.text, self.q, self.parent, self.lone = text, q, parent, lone
        self.children: tuple[TextNode, ...] = ()
        self.asked = self.free = False


class TextPlace(NamedTuple):
    """A place in the texts: `offset` bytes into a node's text."""

    node: TextNode
    offset: int


class Top(NamedTuple):
    """Where a trie begins, and the text from the end of what is committed up to there."""

    before: bytes
    place: TextPlace


class TextPath(NamedTuple):
    """Text from some place on.

    Attributes:
        text: what is read.
        q: P(the output goes on with it).
        nodes: the nodes it runs through, the place's own first.
    """

    text: bytes
    q: float
    nodes: tuple[TextNode, ...]


def find(place: TextPlace, text: bytes) -> TextPlace | None:
    """The place after `text`, or None where that is not among what is known."""
    node, offset = place
    known = node.text[offset : offset + len(text)]
    if len(known) == len(text):
        return TextPlace(node, offset + len(text)) if known == text else None
    if not text.startswith(known):
        return None
    rest = text[len(known) :]
    for child in node.children:
        found = find(TextPlace(child, 0), rest)
        if found is not None:
            return found
    return None


def advance(place: TextPlace, path: TextPath, length: int) -> TextPlace:
    """The place `length` bytes along `path`, which begins at `place`."""
    left = place.offset + length
    for node in path.nodes:
        if left <= len(node.text):
            return TextPlace(node, left)
        left -= len(node.text)
    raise AssertionError("a token is no longer than the text it was read from")


def chance(place: TextPlace, path: TextPath, length: int) -> float:
    """P(the output goes on with the first `length` bytes of `path`, which begins at `place`)."""
    q, end = 1.0, len(place.node.text) - place.offset
    for node in path.nodes[1:]:
        if end >= length:
            break
        q *= node.q
        end += len(node.text)
    return q


def text_before(node: TextNode, top: Top) -> bytes:
    """The text from the end of what is committed up to the end of `node`, which is below `top`."""
    start, offset = top.place
    parts: list[bytes] = []
    while node is not start and node.parent is not None:
        parts.append(node.text)
        node = node.parent
    return top.before + node.text[offset:] + b"".join(reversed(parts))


class KnownTexts:
    """What is known of one output's further course: the texts from a few places on, named by the text up to there."""

    def __init__(self) -> None:
        self._tops: dict[bytes, TextPlace] = {}

    def __iter__(self) -> Iterator[Top]:
        return (Top(before, place) for before, place in self._tops.items())

    def clear(self) -> None:
        self._tops.clear()

    def top(self, before: bytes) -> Top:
        """The trie that holds the place after `before`: a new one, of which nothing is known, where none does."""
        for top in self:
            if before.startswith(top.before) and find(top.place, before[len(top.before) :]) is not None:
                return top
        place = self._tops[before] = TextPlace(TextNode(b"", 1.0), 0)
        return Top(before, place)

    def commit(self, text: bytes) -> None:
        """`text` was committed: what is known of other courses is forgotten."""
        tops = list(self)
        self._tops.clear()
        for top in tops:
            if top.before.startswith(text):
                self._put(top.before[len(text) :], top.place)
            elif text.startswith(top.before):
                place = find(top.place, text[len(top.before) :])
                if place is not None:
                    self._put(b"", place)

    def _put(self, before: bytes, place: TextPlace) -> None:
        if before not in self._tops:
            self._tops[before] = place
            place.node.parent = None
