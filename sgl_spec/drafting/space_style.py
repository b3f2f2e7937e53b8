"""How an output spaces its JSON: what white space follows `{`, `,`, `:` and the rest. Learned from past outputs of the
slot and the output so far; asked where a grammar leaves white space open.

A schema usually allows any white space between its tokens, so a model chooses: `{"a": 1, "b": 2}`, one field a line, or
something of its own. It keeps to what it chose, within one output and from one output of a slot to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SPACES = b" \n\t\r"
_OPENING, _CLOSING = b"{[", b"}]"
_MARKS = b"{}[],:"
_BEFORE_CLOSING = "before"


class Space(NamedTuple):
    """A guess at the white space that comes next, and P(it is that)."""

    text: bytes
    q: float


# Priors, where nothing was seen: json.dumps' way, which models follow most often on one line, and an indented one.
_DEFAULTS: dict[str, tuple[Space, ...]] = {
    "{": (Space(b"", 0.7), Space(b"\n  ", 0.15)),
    "[": (Space(b"", 0.75), Space(b"\n  ", 0.1)),
    ",": (Space(b" ", 0.75), Space(b"\n  ", 0.15)),
    ":": (Space(b" ", 0.92),),
    _BEFORE_CLOSING: (Space(b"", 0.75), Space(b"\n", 0.15)),
}
_ELSEWHERE = (Space(b"", 0.9),)
# A space seen once is the next one with the first of these; with each time it was seen again, doubt falls.
_DOUBT = 0.08


class SpaceStyle:
    """What was seen so far. Depth (of brackets) is followed, so that an indentation fits where it is used."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[bytes, int]] = {}
        self._times: dict[str, int] = {}
        self._state = _State()

    def read(self, text: bytes) -> None:
        """Learn from a text that goes on from what was read before."""
        for place in _places(text, self._state):
            self._note(place)

    def begin(self) -> None:
        """A new output begins; what was learned stays."""
        self._state = _State()

    def _note(self, place: _Place) -> None:
        unit = _unit(place)
        known, times = self._seen.get(place.mark, (None, 0))
        self._seen[place.mark] = (unit, times + 1 if known == unit else 1)

    def spaces(self, before: bytes, closing: bool) -> tuple[Space, ...]:
        """What white space, perhaps none, may come next.

        Args:
            before: text drafted after what was read, up to here.
            closing: whether a closing bracket comes after it.
        """
        state = self._state.copy()
        for _ in _places(before, state):
            pass
        mark = _BEFORE_CLOSING if closing and state.mark not in ("{", "[") else state.mark
        if mark in self._seen:
            unit, times = self._seen[mark]
            depth = state.depth - 1 if mark == _BEFORE_CLOSING else state.depth
            return (Space(_spelled(unit, depth), 1.0 - _DOUBT / times),)
        return _DEFAULTS.get(mark, _ELSEWHERE)


class _State:
    """Where in a JSON text we are: inside a string or not, how deep, and the last mark."""

    __slots__ = ("depth", "escaped", "in_string", "mark", "pending")

    def __init__(self) -> None:
        self.in_string = self.escaped = False
        self.depth = 0
        self.mark = ""
        self.pending: bytearray | None = None

    def copy(self) -> _State:
        twin = _State()
        twin.in_string, twin.escaped, twin.depth, twin.mark = self.in_string, self.escaped, self.depth, self.mark
        return twin


class _Place(NamedTuple):
    """White space that stood after `mark` (or before a closing bracket) at `depth`."""

    mark: str
    space: bytes
    depth: int


def _places(text: bytes, state: _State) -> Iterator[_Place]:
    """The places of `text` where white space could stand, with what stood there; moves `state` on."""
    for byte in text:
        if state.in_string:
            _inside_string(state, byte)
        elif byte in SPACES:
            if state.pending is not None:
                state.pending.append(byte)
        else:
            if state.pending is not None:
                yield _place_before(state, byte)
                state.pending = None
            _outside_string(state, byte)


def _inside_string(state: _State, byte: int) -> None:
    if state.escaped:
        state.escaped = False
    elif byte == ord("\\"):
        state.escaped = True
    elif byte == ord('"'):
        state.in_string = False
        state.mark, state.pending = '"', bytearray()


def _outside_string(state: _State, byte: int) -> None:
    if byte == ord('"'):
        state.in_string = True
        state.mark = ""
        return
    state.depth += (byte in _OPENING) - (byte in _CLOSING)
    state.mark = chr(byte) if byte in _MARKS else "value"
    state.pending = bytearray()


def _place_before(state: _State, byte: int) -> _Place:
    closing = byte in _CLOSING and state.mark not in ("{", "[")
    mark = _BEFORE_CLOSING if closing else state.mark
    return _Place(mark, bytes(state.pending or b""), state.depth - closing)


def _unit(place: _Place) -> bytes:
    """The space with its indentation for one level."""
    line, newline, indent = place.space.rpartition(b"\n")
    if not newline or place.depth < 1:
        return place.space
    return line + newline + indent[: len(indent) // place.depth]


def _spelled(unit: bytes, depth: int) -> bytes:
    line, newline, indent = unit.rpartition(b"\n")
    return line + newline + indent * max(depth, 0) if newline else unit
