"""What a grammar lets the output be next, as texts: forced runs, alternatives, the ends of free values. Asked while
tokens are laid along the texts (`spelling`), no further than those are worth drafting.

The search goes by bytes, not tokens: at a byte the grammar has a handful of ways on where at a token it has thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from sgl_spec.drafting.constraint import ConstraintCursor, Ways
from sgl_spec.drafting.grammar.space_style import CLOSING, SPACES, SpaceStyle, StylePlace
from sgl_spec.drafting.grammar.text_trie import Q_GOES_ON, Spot, TextNode, TextPath, Top, text_before

# With more ways on than this (spaces aside) the model writes a value of its own.
FEW_WAYS = 16
# In a free value these bytes may end it, likelier ones first.
ENDS = (b'"', b"\n", b",", b"}", b"]", b")", b".", b";", b":", b"|", b"/", b"<")
# Where all of these may come next, the text is the model's own.
OF_FREE_TEXT = (b"e", b"Q", b"7", b"z")
DIGITS = b"0123456789"
# Priors. P(a free value ends here, with the first of ENDS that is followed by something forced).
Q_END = 0.22
Q_NUMBER_ENDS = 0.45
# A fraction, an exponent, a sign: allowed wherever a number is, and rare.
_RARE_IN_NUMBERS = b".eE+-"
_RARE = 0.04
# P(an output that may end or go on ends).
Q_OUTPUT_ENDS = 0.4
# P(no white space stands where the style expects some, or none after some that it did not expect).
Q_UNEXPECTED = 0.03
# What is at least as likely is looked at together with what comes before it.
Q_RUN_ON = 0.25
# So many kinds of white space at one place mean that any may stand there.
ANY_SPACE = 3
# Beyond what is less likely than this the grammar is not asked.
LEAST_ASKED = 0.1
# What one round may ask: how often the grammar is looked at, and at how many texts from one place.
MOST_ASKED, MOST_PATHS = 32, 6
# Of a forced text no more is kept at once.
_LONGEST = 512


class TextSearch:
    """Asks one grammar in one round.

    Args:
        cursor: at the end of what is committed, and there again after every call.
        style: of white space, having read everything up to there.
        min_q: what is less likely is not put down.
    """

    def __init__(self, cursor: ConstraintCursor, style: SpaceStyle, min_q: float) -> None:
        self.cursor = cursor
        self._style = style
        self._min_q = min_q
        self._left = MOST_ASKED

    def certain(self, spot: Spot, most_bytes: int) -> bytes:
        """The text that must come at a place: `most_bytes` of it or, where so much is known, more."""
        if not spot.place.certain:
            return b""
        self._known(spot, most_bytes)
        return _known_text(spot, _LONGEST)

    def _known(self, spot: Spot, most_bytes: int) -> bytes:
        """What is known of the text at a place before it splits."""
        node, offset = spot.place
        while len(node.text) - offset < most_bytes and not node.asked and self._left:
            self._ask(node, spot.top, offset + most_bytes)
        return _known_text(spot, most_bytes)

    def paths(self, spot: Spot, most_bytes: int, reached: float, least: float) -> list[TextPath]:
        """The likeliest texts from a place on.

        Args:
            spot: the place.
            most_bytes: of each; fewer where no more is known.
            reached: P(the output comes to the place).
            least: texts that are less likely than this, coming to the place included, are left out.
        """
        known = self._known(spot, most_bytes) if reached >= LEAST_ASKED else _known_text(spot, most_bytes)
        first = TextPath(known, 1.0 if spot.place.certain else Q_GOES_ON, (spot.place.node,))
        if len(known) >= most_bytes:
            return [first]
        pending = [(-first.q, 0, first)]
        found: list[TextPath] = []
        pushed = 0
        while pending and len(found) < MOST_PATHS:
            path = heappop(pending)[2]
            text, q, nodes = path
            ended = True
            if len(text) < most_bytes:
                for child in nodes[-1].children:
                    a = reached * q * child.q
                    if a >= least:
                        if a >= LEAST_ASKED:
                            self._look_beyond(child, spot.top, most_bytes - len(text))
                        pushed += 1
                        longer = TextPath(text + child.text, q * child.q, (*nodes, child))
                        heappush(pending, (-longer.q, pushed, longer))
                        ended = False
            if ended and text:
                found.append(path)
        return found

    def _look_beyond(self, node: TextNode, top: Top, short: int) -> None:
        """See that `short` bytes are known from the beginning of `node`, or what comes after it."""
        while len(node.text) < short and not node.asked and not node.lone and self._left:
            self._ask(node, top, short)

    def forced_tokens(self, path: Sequence[int]) -> Sequence[int]:
        """The tokens the grammar forces after `path`, which follows what is committed and was drafted."""
        if not self.cursor.settles_tokens or not self._left:
            return ()
        self._left -= 1
        return self.cursor.forced_tokens(path)

    def _ask(self, node: TextNode, top: Top, short: int) -> None:
        """Learn what follows `node`: more of its own text, until that has `short` bytes, or its children."""
        self._left -= 1
        before = text_before(node, top)
        cursor, steps = self.cursor, 0
        try:
            if before:
                if not cursor.accept_bytes(before):  # the trie is of another course: nothing can follow
                    node.asked = True
                    return
                steps = 1
            while forced := cursor.forced()[:_LONGEST]:
                node.text += forced
                if len(node.text) >= short:
                    return
                before += forced
                if not cursor.accept_bytes(forced):
                    return
                steps += 1
            self._branch(node, before)
        finally:
            cursor.rollback(steps)

    def _branch(self, node: TextNode, before: bytes) -> None:
        """What follows is not forced: put down the ways on."""
        node.asked = True
        if not _free(self.cursor):
            ways = self.cursor.ways()
            solid = _without_optional_space(ways.bytes)
            if len(solid) <= FEW_WAYS:
                self._put_ways(node, before, ways, solid)
                return
        node.free = True
        for end in ENDS:
            if self._leads_on(end):
                self._put(node, end, Q_END)
                return

    def _leads_on(self, text: bytes) -> bool:
        cursor = self.cursor
        if not cursor.accept_bytes(text):
            return False
        try:
            if cursor.forced():
                return True
            return not _free(cursor) and len(_without_optional_space(cursor.ways().bytes)) <= FEW_WAYS
        finally:
            cursor.rollback(1)

    def _put_ways(self, node: TextNode, before: bytes, ways: Ways, solid: bytes) -> None:
        """A few ways on. Where white space is optional, it depends on whether a closing bracket comes after it."""
        weights = _weights(solid)
        spaced: dict[bytes, _Then] = {}
        if len(solid) < len(ways.bytes):
            place = self._place(node, before)
            others = solid.translate(None, CLOSING)
            for group in (others, solid.translate(None, others)):
                if group:
                    self._take_spaces(place, group, weights, spaced)
        total = sum(weights.values()) + sum([then.weight for then in spaced.values()])
        share = (1.0 - Q_OUTPUT_ENDS if ways.end else 1.0) / max(total, 1e-9)
        lone = DIGITS if len(solid) >= len(DIGITS) else b""
        for byte, weight in weights.items():
            self._put(node, bytes((byte,)), weight * share, byte in lone)
        for text, then in spaced.items():
            self._put_space(node, text, then, share)

    def _place(self, node: TextNode, before: bytes) -> StylePlace:
        """Where the white space style stands after `node`."""
        before_it = None if node.parent is None else node.parent.style
        place = self._style.after(before) if before_it is None else before_it.after(node.text)
        node.style = place
        return place

    def _take_spaces(
        self, place: StylePlace, group: bytes, weights: dict[int, float], spaced: dict[bytes, _Then]
    ) -> None:
        """Add to `spaced` the white space the style expects before one of `group`, with its part of their weights, from
        which it is taken."""
        weight, none = sum([weights[byte] for byte in group]), Q_UNEXPECTED
        for text, q in self._style.spaces(place, group[0] in CLOSING):
            if text:
                before = spaced.get(text, _NOTHING)
                spaced[text] = _Then(before.weight + weight * q, before.bytes + group)
            else:
                none = q
        for byte in group:
            weights[byte] *= none

    def _put_space(self, node: TextNode, text: bytes, then: _Then, share: float) -> None:
        """Optional white space, and what may come after it where that is one thing."""
        space = self._put(node, text, then.weight * share)
        if space is None or len(then.bytes) > 1 or len(space.text) > len(text):
            return
        if self.cursor.accept_bytes(text):
            try:
                space.asked = _allows(self.cursor, then.bytes)
                if space.asked:
                    self._put(space, then.bytes, 1.0)
            finally:
                self.cursor.rollback(1)

    def _put(self, parent: TextNode, text: bytes, q: float, lone: bool = False) -> TextNode | None:
        """Put down a child that is likely enough and allowed (a single byte is), with what is certain after it where it
        is likely; the cursor is before it."""
        if q < self._min_q:
            return None
        node = TextNode(text, q, parent, lone)
        likely = q >= Q_RUN_ON and not lone
        if likely or len(text) > 1:
            cursor = self.cursor
            if not cursor.accept_bytes(text):
                return None
            try:
                if likely:
                    node.text += cursor.forced()[:_LONGEST]
            finally:
                cursor.rollback(1)
        parent.children += (node,)
        return node


def _known_text(spot: Spot, most_bytes: int) -> bytes:
    node, offset = spot.place
    return node.text[offset : offset + most_bytes]


class _Then(NamedTuple):
    """How likely some optional white space is, and what may come after it."""

    weight: float
    bytes: bytes


_NOTHING = _Then(0.0, b"")


def _free(cursor: ConstraintCursor) -> bool:
    """Whether a value of the model's own begins or goes on here. Asked by trying a few bytes: a mask over the whole
    vocabulary can take milliseconds inside a large character class."""
    return all(_allows(cursor, byte) for byte in OF_FREE_TEXT)


def _allows(cursor: ConstraintCursor, text: bytes) -> bool:
    allowed = cursor.accept_bytes(text)
    cursor.rollback(int(allowed))
    return allowed


def _without_optional_space(ways: bytes) -> bytes:
    """The ways without white space, where any kind of it may stand, as between JSON's tokens; else all of them."""
    solid = ways.translate(None, SPACES)
    return solid if len(ways) - len(solid) >= ANY_SPACE else ways


def _weights(ways: bytes) -> dict[int, float]:
    """How likely each of a few bytes is. The ten digits together count as one way."""
    if len(ways) < len(DIGITS) or len(ways.translate(None, DIGITS)) != len(ways) - len(DIGITS):
        return dict.fromkeys(ways, 1.0)
    ends = len(ways.translate(None, DIGITS + _RARE_IN_NUMBERS))
    digit = (1.0 - Q_NUMBER_ENDS if ends else 1.0) / len(DIGITS)
    weights = dict.fromkeys(ways, Q_NUMBER_ENDS / ends if ends else 0.0)
    weights.update(dict.fromkeys(ways.translate(None, ways.translate(None, DIGITS)), digit))
    weights.update((byte, _RARE) for byte in ways if byte in _RARE_IN_NUMBERS)
    return weights
