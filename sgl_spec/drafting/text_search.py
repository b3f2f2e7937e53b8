"""What a grammar lets the output be next, as texts: forced runs, alternatives, the ends of free values. The constraint
drafter asks for it under the nodes of every round's tree.

The search goes by bytes, not tokens: at a byte the grammar has a handful of ways on where at a token it has thousands.
The likeliest text is expanded first, as in Sequoia (arXiv 2402.12374), each until it ends in a free value.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from sgl_spec.drafting.constraint import ConstraintCursor, Ways
from sgl_spec.drafting.space_style import SPACES, SpaceStyle

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
# P(an output that may end or go on ends).
Q_OUTPUT_ENDS = 0.4
# White space where it is optional, once it has begun, ends so likely after what the style expected.
Q_AFTER_SPACE = 0.97
# So many kinds of white space at one place mean that any may stand there.
ANY_SPACE = 3
_MAX_RUNS = 48
# What one search may cost: texts followed to their next branch, and texts not followed that are still worth drafting.
MOST_EXPANSIONS = 16
MOST_LEFT_OVER = 24


class Run(NamedTuple):
    """A part of a text: its first byte has probability q, the others follow without a choice.

    Attributes:
        text: one byte or more.
        q: P(the output goes on like this | it came here).
        forced: the grammar left no choice.
    """

    text: bytes
    q: float
    forced: bool


class TextGuess(NamedTuple):
    """One way on from where the search began.

    Attributes:
        runs: in order.
        open_end: something else follows for sure, so that the last token of this text may reach beyond it.
    """

    runs: tuple[Run, ...]
    open_end: bool

    @property
    def text(self) -> bytes:
        return b"".join(run.text for run in self.runs)


class _Path(NamedTuple):
    """A text to be expanded. A heap of these yields the likeliest first."""

    cost: float
    number: int
    runs: tuple[Run, ...]


class TextSearch:
    """One search below one place of a grammar.

    Args:
        cursor: at that place; it is there again after `run`.
        style: of white space, having read everything up to there.
        before: drafted text between what `style` has read and the place.
        max_bytes: of one text.
        min_a: texts less likely than this are not looked for.
    """

    def __init__(
        self, cursor: ConstraintCursor, style: SpaceStyle, before: bytes, max_bytes: int, min_a: float
    ) -> None:
        self._cursor = cursor
        self._style = style
        self._before = before
        self._max_bytes = max_bytes
        self._min_a = min_a
        self._heap: list[_Path] = []
        self._pushed = 0

    def run(self, a: float, max_bytes: int) -> list[TextGuess]:
        """Texts from a place that is reached with probability `a`, the likeliest first, until they hold about
        `max_bytes` bytes (what they begin with in common counted once for each)."""
        guesses: list[TextGuess] = []
        self._push((), a)
        found = 0
        for _ in range(MOST_EXPANSIONS):
            if not self._heap or found >= max_bytes:
                break
            path = heappop(self._heap)
            guess = self._expand(path)
            if guess is not None and guess.runs:
                guesses.append(guess)
                found += sum(len(run.text) for run in guess.runs[len(path.runs) - 1 :])
        guesses.extend(TextGuess(path.runs, True) for path in sorted(self._heap)[:MOST_LEFT_OVER] if path.runs)
        return guesses

    def _push(self, runs: tuple[Run, ...], a: float) -> None:
        if a >= self._min_a:
            heappush(self._heap, _Path(-a, self._pushed, runs))
            self._pushed += 1

    def _expand(self, path: _Path) -> TextGuess | None:
        """Follow `path` to where it ends. None where it splits into others, which were pushed."""
        cursor = self._cursor
        runs, text = list(path.runs), b"".join(run.text for run in path.runs)
        steps = 0
        if text:
            if not cursor.accept_bytes(text):
                return None
            steps = 1
        try:
            while len(text) < self._max_bytes and len(runs) < _MAX_RUNS:
                more = cursor.forced()
                if not more:
                    if _free(cursor):
                        self._push_end(tuple(runs), -path.cost)
                        return TextGuess(tuple(runs), True)
                    ways = cursor.ways()
                    if len(ways.bytes) != 1 or ways.end:
                        return self._branch(tuple(runs), text, ways, -path.cost)
                    more = ways.bytes
                if not cursor.accept_bytes(more):
                    break
                steps += 1
                text += more
                runs.append(Run(more, 1.0, True))
            return TextGuess(tuple(runs), True)
        finally:
            cursor.rollback(steps)

    def _branch(self, runs: tuple[Run, ...], text: bytes, ways: Ways, a: float) -> TextGuess | None:
        """Push what may follow `runs`; a guess where nothing is worth pushing, or a free value begins or goes on."""
        solid = _without_optional_space(ways.bytes)
        if len(solid) > FEW_WAYS:
            self._push_end(runs, a)
            return TextGuess(runs, True)
        share, pushed = 1.0 - Q_OUTPUT_ENDS if ways.end else 1.0, self._pushed
        if len(solid) < len(ways.bytes):
            in_space = text[-1:] in (b" ", b"\n", b"\t", b"\r")
            share *= Q_AFTER_SPACE if in_space else self._push_spaces(runs, text, solid, a)
        self._push_ways(runs, solid, a, share)
        return None if self._pushed > pushed else TextGuess(runs, bool(ways.bytes))

    def _push_end(self, runs: tuple[Run, ...], a: float) -> None:
        """A value that could end: offer the end that leads to something forced."""
        for end in ENDS:
            if self._leads_on(end):
                self._push((*runs, Run(end, Q_END, False)), a * Q_END)
                return

    def _leads_on(self, text: bytes) -> bool:
        cursor = self._cursor
        if not cursor.accept_bytes(text):
            return False
        forced = cursor.forced()
        leads = bool(forced) or (not _free(cursor) and len(_without_optional_space(cursor.ways().bytes)) <= FEW_WAYS)
        cursor.rollback(1)
        return leads

    def _push_spaces(self, runs: tuple[Run, ...], text: bytes, solid: bytes, a: float) -> float:
        """Offer the white space the style expects; returns P(there is none)."""
        closing = bool(solid) and all(byte in b"}]" for byte in solid)
        none = 1.0 - Q_AFTER_SPACE
        for space in self._style.spaces(self._before + text, closing):
            if space.text:
                self._push((*runs, Run(space.text, space.q, False)), a * space.q)
            else:
                none = space.q
        return none

    def _push_ways(self, runs: tuple[Run, ...], solid: bytes, a: float, share: float) -> None:
        weights = _weights(solid)
        total = sum(weights)
        for byte, weight in zip(solid, weights, strict=True):
            q = share * weight / total
            self._push((*runs, Run(bytes((byte,)), q, False)), a * q)


def certain_text(cursor: ConstraintCursor, most_bytes: int) -> bytes:
    """The text that must come next, about as far as `most_bytes`; the cursor is where it was again."""
    text, steps = b"", 0
    while len(text) < most_bytes:
        more = cursor.forced()
        if not more:
            if _free(cursor):
                break
            ways = cursor.ways()
            if len(ways.bytes) != 1 or ways.end:
                break
            more = ways.bytes
        if not cursor.accept_bytes(more):
            break
        steps += 1
        text += more
    cursor.rollback(steps)
    return text


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
    solid = bytes(byte for byte in ways if byte not in SPACES)
    return solid if len(ways) - len(solid) >= ANY_SPACE else ways


def _weights(ways: bytes) -> list[float]:
    """How likely each of a few bytes is. The ten digits together count as one way."""
    numeric = sum(byte in DIGITS for byte in ways) == len(DIGITS)
    if not numeric:
        return [1.0] * len(ways)
    ends = sum(byte not in DIGITS and byte not in _RARE_IN_NUMBERS for byte in ways)
    weights = []
    for byte in ways:
        if byte in DIGITS:
            weights.append((1.0 - Q_NUMBER_ENDS if ends else 1.0) / len(DIGITS))
        elif byte in _RARE_IN_NUMBERS:
            weights.append(0.04)
        else:
            weights.append(Q_NUMBER_ENDS / ends)
    return weights
