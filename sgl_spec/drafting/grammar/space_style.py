"""How an output spaces its JSON: what white space follows `{`, `,`, `:` and the rest. Learned from past outputs of the
slot and the output so far; asked where a grammar leaves white space open.

A schema usually allows any white space between its tokens, so a model chooses: `{"a": 1, "b": 2}`, one field a line, or
something of its own. It keeps to what it chose, within one output and from one output of a slot to the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

SPACES = b" \n\t\r"
OPENING, CLOSING = b"{[", b"}]"
_MARKS = b"{}[],:"
_IN_STRING = re.compile(rb'["\\]')
# What stands before white space: a mark, a value, or nothing yet; before a closing bracket these count instead.
_START, _VALUE, _BEFORE_CLOSING, _EMPTY = b"start", b"value", b"before closing", b"empty"
_OPENED, _QUOTE = (b"{", b"["), ord('"')


class Space(NamedTuple):
    """A guess at the white space that comes next, and P(it is that)."""

    text: bytes
    q: float


class _Seen(NamedTuple):
    """A space seen the last `times` times at some mark: all of it up to its last new line, and the indentation of one
    level (None where it was only seen within no brackets)."""

    line: bytes
    indent: bytes | None
    times: int


# Priors, where nothing was seen: json.dumps' way, which models follow most often on one line, and an indented one.
_INDENT = b"  "
_DEFAULTS: dict[bytes, tuple[Space, ...]] = {
    b"{": (Space(b"", 0.7), Space(b"\n", 0.15)),
    b"[": (Space(b"", 0.75), Space(b"\n", 0.1)),
    b",": (Space(b" ", 0.75), Space(b"\n", 0.15)),
    b":": (Space(b" ", 0.92),),
    _BEFORE_CLOSING: (Space(b"", 0.75), Space(b"\n", 0.15)),
}
_ELSEWHERE = (Space(b"", 0.9),)
# A space seen once is the next one with the first of these; with each time it was seen again, doubt falls.
_DOUBT = 0.08


class SpaceStyle:
    """What was seen so far. The open brackets are followed, so that an indentation fits where it is used.

    Attributes:
        version: another one whenever something else is expected than before.
    """

    def __init__(self) -> None:
        self._seen: dict[bytes, _Seen] = {}
        self._indent = _INDENT
        self._at = StylePlace()
        self.version = 0

    def read(self, text: bytes) -> None:
        """Learn from a text that goes on from what was read before."""
        self._at.read(text, self._note)

    def begin(self) -> None:
        """A new output begins; what was learned stays."""
        self._at = StylePlace()

    def _note(self, place: StylePlace, closing: bool) -> None:
        depth = len(place.brackets) - closing
        space = place.pending or b""
        line = space[: space.rfind(b"\n") + 1] or space
        indent = space[len(line) :][: (len(space) - len(line)) // depth] if depth > 0 and b"\n" in line else None
        if indent is not None and indent != self._indent:
            self._indent = indent
            self.version += 1
        mark = place.before(closing)
        for key in (mark, mark + place.brackets[-1:]):
            known = self._seen.get(key)
            if known is not None and known.line == line and (indent is None or indent == known.indent):
                self._seen[key] = _Seen(line, known.indent, known.times + 1)
            else:
                self._seen[key] = _Seen(line, indent, 1)
                self.version += 1

    def after(self, text: bytes) -> StylePlace:
        """The place after a text that would follow what was read."""
        return self._at.after(text)

    def spaces(self, place: StylePlace, closing: bool) -> list[Space]:
        """What white space, perhaps none, may come next; where some is there already, what more. Empty where what is
        there is not what was expected.

        Args:
            place: where.
            closing: whether a closing bracket comes after the space.
        """
        mark, depth = place.before(closing), len(place.brackets) - closing
        seen = self._seen.get(mark + place.brackets[-1:]) or self._seen.get(mark)
        if seen is not None:
            indent = self._indent if seen.indent is None else seen.indent
            whole = [Space(_spelled(seen.line, indent, depth), 1.0 - _DOUBT / seen.times)]
        else:
            guesses = _DEFAULTS.get(mark, _ELSEWHERE)
            whole = [Space(_spelled(space.text, self._indent, depth), space.q) for space in guesses]
        begun = place.pending
        if not begun:
            return whole
        return [Space(space.text[len(begun) :], space.q) for space in whole if space.text.startswith(begun)]


class StylePlace:
    """Where in a JSON text we are: in which brackets, after which mark, inside a string or not, and the white space
    after the mark (None where none could be optional)."""

    __slots__ = ("brackets", "escaped", "in_string", "mark", "pending")

    def __init__(self) -> None:
        self.in_string = self.escaped = False
        self.brackets = b""
        self.mark = _START
        self.pending: bytes | None = None

    def before(self, closing: bool) -> bytes:
        """What tells the white space that ends here, before a closing bracket or something else, from other spaces."""
        if closing:
            return _EMPTY if self.mark in _OPENED else _BEFORE_CLOSING
        return self.mark

    def after(self, text: bytes) -> StylePlace:
        """The place after a further text."""
        twin = StylePlace()
        twin.in_string, twin.escaped, twin.brackets = self.in_string, self.escaped, self.brackets
        twin.mark, twin.pending = self.mark, self.pending
        twin.read(text)
        return twin

    def read(self, text: bytes, note: Callable[[StylePlace, bool], None] | None = None) -> None:
        """Go over a text; `note` is told of every place where white space could stand, and whether a closing bracket
        comes after it."""
        at = 0
        while at < len(text):
            if self.in_string:
                at = self._through_string(text, at)
                continue
            byte = text[at]
            at += 1
            if byte in SPACES:
                if self.pending is not None:
                    self.pending += text[at - 1 : at]
            else:
                if note is not None and self.pending is not None and not self._goes_on(byte):
                    note(self, byte in CLOSING)
                self._over(byte)

    def _goes_on(self, byte: int) -> bool:
        """Whether `byte` is a further one of a number, say, after whose bytes no white space could stand."""
        return self.mark == _VALUE and not self.pending and byte not in _MARKS

    def _through_string(self, text: bytes, at: int) -> int:
        """Go on inside a string, to its end or over the next escape; returns where that is."""
        if self.escaped:
            self.escaped = False
            return at + 1
        found = _IN_STRING.search(text, at)
        if found is None:
            return len(text)
        if found.group() == b"\\":
            self.escaped = True
        else:
            self.in_string = False
            self.mark, self.pending = _VALUE, b""
        return found.end()

    def _over(self, byte: int) -> None:
        self.pending = b""
        self.mark = _VALUE
        if byte in _MARKS:
            if byte in CLOSING:
                self.brackets = self.brackets[:-1]
                return
            self.mark = bytes((byte,))
            if byte in OPENING:
                self.brackets += self.mark
        elif byte == _QUOTE:
            self.in_string = True
            self.pending = None


def _spelled(line: bytes, indent: bytes, depth: int) -> bytes:
    return line + indent * max(depth, 0) if line.endswith(b"\n") else line
