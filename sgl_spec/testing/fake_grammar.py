"""Grammars without a backend, for testing drafters of constrained output: small languages over bytes, held to by an
automaton whose every state can be looked at.

    sheet = (Literal(b'{"house":'), Space(), Literal(b'"'), OneOf(b"red", b"blue"), Literal(b'"}'))
    grammar = FakeGrammar(sheet, codec)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sgl_spec.drafting.constraint import Ways
from sgl_spec.testing.fake_codec import FakeCodec

WHITE_SPACE = b" \n\t\r"


class Literal(NamedTuple):
    """Just this text."""

    text: bytes


class OneOf(NamedTuple):
    """One of several texts, or of several sequences of parts."""

    choices: tuple[bytes | tuple[Part, ...], ...]


class Free(NamedTuple):
    """From `least` to `most` bytes out of `bytes`."""

    bytes: bytes
    least: int
    most: int


class Space(NamedTuple):
    """Up to `most` bytes of white space, or none."""

    most: int = 8


Part = Literal | OneOf | Free | Space


class _Automaton:
    """States are numbered; state 0 is the first. steps: by state and byte; jumps: to states reached without a byte."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.steps: list[dict[int, set[int]]] = [{}]
        self.jumps: list[set[int]] = [set()]
        self.last = self._add(parts, 0)
        self._after: dict[tuple[frozenset[int], int], frozenset[int]] = {}

    def _state(self) -> int:
        self.steps.append({})
        self.jumps.append(set())
        return len(self.steps) - 1

    def _add(self, parts: Sequence[Part], start: int) -> int:
        for part in parts:
            start = self._add_part(part, start)
        return start

    def _add_part(self, part: Part, start: int) -> int:
        if isinstance(part, Literal):
            return self._over(part.text, start)
        if isinstance(part, OneOf):
            end = self._state()
            for choice in part.choices:
                inner = (Literal(choice),) if isinstance(choice, bytes) else choice
                self.jumps[self._add(inner, start)].add(end)
            return end
        allowed, least, most = (WHITE_SPACE, 0, part.most) if isinstance(part, Space) else part
        return self._repeat(allowed, least, most, start)

    def _over(self, text: bytes, start: int) -> int:
        for byte in text:
            state = self._state()
            self.steps[start].setdefault(byte, set()).add(state)
            start = state
        return start

    def _repeat(self, allowed: bytes, least: int, most: int, start: int) -> int:
        end = self._state()
        for times in range(most + 1):
            if times >= least:
                self.jumps[start].add(end)
            if times < most:
                state = self._state()
                for byte in allowed:
                    self.steps[start].setdefault(byte, set()).add(state)
                start = state
        return end

    def closed(self, states: set[int]) -> frozenset[int]:
        """With all that is reached without a byte."""
        pending, found = list(states), set(states)
        while pending:
            for state in self.jumps[pending.pop()] - found:
                found.add(state)
                pending.append(state)
        return frozenset(found)

    def after(self, states: frozenset[int], text: bytes) -> frozenset[int]:
        for byte in text:
            known = self._after.get((states, byte))
            if known is None:
                reached = set().union(*(self.steps[state].get(byte, ()) for state in states))
                known = self._after[states, byte] = self.closed(reached)
            states = known
        return states


class FakeGrammar:
    """A `Constraint` over the language of `parts`, of which `commit` moves the end of what is committed.

    Args:
        parts: one after the other.
        codec: its tokens; those without text only `ending` is allowed of, and only at the end.
        settles_tokens: as llguidance does it, the tokenizer's own token is the only one allowed where a text is forced.
    """

    def __init__(self, parts: Sequence[Part], codec: FakeCodec, settles_tokens: bool = False) -> None:
        self.codec, self.settles_tokens = codec, settles_tokens
        self.automaton = _Automaton(parts)
        self._at = FakeCursor(self)
        self.cursors: list[FakeCursor] = []

    def cursor(self) -> FakeCursor | None:
        if self._at.ended:
            return None
        twin = FakeCursor(self)
        twin.states = self._at.states
        self.cursors.append(twin)
        return twin

    def commit(self, token: int) -> bool:
        """Go on over a committed token; False where the mask forbids it."""
        return self._at.accept(token)

    @property
    def mask(self) -> list[int]:
        """Every token that may come next."""
        return self._at.mask


class FakeCursor:
    """A `ConstraintCursor`.

    Attributes:
        states: of the automaton; empty after the ending.
        asked: how often anything was asked or moved.
    """

    def __init__(self, grammar: FakeGrammar) -> None:
        self._grammar = grammar
        self.settles_tokens = grammar.settles_tokens
        self.states = grammar.automaton.closed({0})
        self.asked = 0
        self._past: list[frozenset[int]] = []

    @property
    def ended(self) -> bool:
        return not self.states

    @property
    def depth(self) -> int:
        """Steps that could be taken back."""
        return len(self._past)

    def accept(self, token: int) -> bool:
        self.asked += 1
        codec = self._grammar.codec
        if token == codec.ending and self._may_end():
            self._go(frozenset())
            return True
        forced = self.forced_tokens(())
        text = codec.token_bytes(token)
        return bool(text) and (not forced or forced[0] == token) and self.accept_bytes(text)

    def accept_bytes(self, text: bytes) -> bool:
        self.asked += 1
        states = self._grammar.automaton.after(self.states, text)
        if states:
            self._go(states)
        return bool(states)

    def _go(self, states: frozenset[int]) -> None:
        self._past.append(self.states)
        self.states = states

    def rollback(self, steps: int) -> None:
        self.asked += 1
        assert 0 <= steps <= len(self._past)
        if steps:
            self.states = self._past[-steps]
            del self._past[-steps:]

    def forced(self) -> bytes:
        self.asked += 1
        text, states = b"", self.states
        while len(text) < 1000:
            ways = self._ways(states)
            if len(ways) != 1 or self._grammar.automaton.last in states:
                break
            text += ways
            states = self._grammar.automaton.after(states, ways)
        return text

    def forced_tokens(self, after: Sequence[int]) -> Sequence[int]:
        """The tokenizer's tokens of the forced text, without those that a longer text could change."""
        if not self.settles_tokens:
            return ()
        states = self.states
        self.states = self._grammar.automaton.after(states, self._grammar.codec.text(after))
        forced = self.forced()
        self.states = states
        tokens = self._grammar.codec.encode_bytes(forced)
        left = len(forced)
        settled = []
        for token in tokens:
            if self._grammar.codec.goes_beyond(forced[-left:]):
                break
            settled.append(token)
            left -= len(self._grammar.codec.token_bytes(token))
        return settled

    def ways(self) -> Ways:
        self.asked += 1
        known = bytes(byte for byte in self._ways(self.states) if self._grammar.codec.has_byte(byte))
        return Ways(known, self._may_end())

    def _may_end(self) -> bool:
        return not self.states or self._grammar.automaton.last in self.states

    def _ways(self, states: frozenset[int]) -> bytes:
        steps = self._grammar.automaton.steps
        return bytes(sorted(set().union(*(steps[state] for state in states))))

    @property
    def mask(self) -> list[int]:
        """Every token that may come next, by trying them all."""
        allowed = []
        for token in range(self._grammar.codec.size):
            if self.accept(token):
                self.rollback(1)
                allowed.append(token)
        return allowed
