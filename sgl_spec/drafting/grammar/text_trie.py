"""The texts a grammar allows from some place on, as far as they were asked for; what they begin with in common is held
once. Kept from round to round; the constraint drafter lays tokens along it.

    {"name": "   ── 0.5 ── calc_ ── 0.5 ── area", "arguments": {
                                └─ 0.5 ── volume", "arguments": {
              └── 0.5 ── zip", "arguments": {
"""

from __future__ import annotations

from typing import NamedTuple

from sgl_spec.drafting.grammar.space_style import StylePlace

# So many tries are kept of one output.
MOST_TOPS = 16
# P(guessed white space that has begun goes on as guessed).
Q_GOES_ON = 0.9


class TextNode:
    """A stretch of text without a choice in it.

    Attributes:
        text: the stretch; what is not known yet may be added at its end.
        q: P(the output goes on with its first bytes, `guessed` of them | it came here); the rest is then certain.
        guessed: 0 at a top, 1 for one of several ways on, all of the white space for one that is guessed.
        parent: the node before it; None at a top.
        children: what may follow; distinct texts.
        asked: whether `children` says what follows. Until then nothing is known of it.
        free: a value of the model's own begins or goes on after the text; `children` is only how it might end.
        lone: what follows the text hardly changes the token it is written in (a digit).
        style: where the white space style stands after the text, if that was asked.
    """

    __slots__ = ("asked", "children", "free", "guessed", "lone", "parent", "q", "style", "text")

    def __init__(self, text: bytes, q: float, parent: TextNode | None = None, lone: bool = False) -> None:
        self.text, self.q, self.parent, self.lone = text, q, parent, lone
        self.guessed = len(text)
        self.children: tuple[TextNode, ...] = ()
        self.asked = self.free = False
        self.style: StylePlace | None = None


class TextPlace(NamedTuple):
    """A place in the texts: `offset` bytes into a node's text."""

    node: TextNode
    offset: int

    @property
    def certain(self) -> bool:
        """Whether the text of the node from here on is certain."""
        return self.offset >= self.node.guessed


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


def text_before(node: TextNode, top: Top) -> bytes:
    """The text from the end of what is committed up to the end of `node`, which is below `top`."""
    start, offset = top.place
    parts: list[bytes] = []
    while node is not start and node.parent is not None:
        parts.append(node.text)
        node = node.parent
    return top.before + node.text[offset:] + b"".join(reversed(parts))


class Spot(NamedTuple):
    """A place and the trie it is in."""

    top: Top
    place: TextPlace


class KnownTexts:
    """What is known of one output's further course: the texts from a few places on, named by the text up to there."""

    def __init__(self) -> None:
        self._tops: dict[bytes, TextPlace] = {}

    def __len__(self) -> int:
        return len(self._tops)

    def clear(self) -> None:
        self._tops.clear()

    def spot(self, before: bytes) -> Spot:
        """The place after `before`; in a new trie, of which nothing is known, where none holds it."""
        for known, place in self._tops.items():
            found = find(place, before[len(known) :]) if before.startswith(known) else None
            if found is not None:
                return Spot(Top(known, place), found)
        if len(self._tops) >= MOST_TOPS:
            self._tops.pop(next(iter(self._tops)))
        place = self._tops[before] = TextPlace(TextNode(b"", 1.0), 0)
        return Spot(Top(before, place), place)

    def certain(self, before: bytes) -> bytes | None:
        """The text that must come right after `before`, empty where it splits there; None where that is not known."""
        place = self._tops.get(before)
        if place is None or not place.certain:
            return None
        certain = place.node.text[place.offset :]
        return certain if certain or place.node.asked else None

    def commit(self, text: bytes) -> None:
        """`text` was committed: what is known of other courses is forgotten."""
        tops = self._tops
        self._tops = {}
        for before, place in tops.items():
            if before.startswith(text):
                self._put(before[len(text) :], place)
            elif text.startswith(before):
                found = find(place, text[len(before) :])
                if found is not None:
                    self._put(b"", found)

    def _put(self, before: bytes, place: TextPlace) -> None:
        if before not in self._tops:
            self._tops[before] = place
            place.node.parent = None
