"""What slots wrote before: past outputs by slot and by program, indexed as requests finish. The memory drafter searches
it at the start of a round.

One owner's data is strictly apart: every key names its owner, and nothing is kept under no key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import index as as_index
from threading import Lock
from typing import NamedTuple

from sgl_spec.drafting.lookup.suffix_index import MOST_TOKEN, SuffixIndex
from sgl_spec.drafting.memory.slot_key import SlotKey, program_key
from sgl_spec.drafting.tree import DraftError
from sgl_spec.errors import ConfigError

# Markers around every output in an index. The search never proposes them; they make the beginning of an output a
# context like any other, and keep outputs from running into each other. There are four in front so that a beginning,
# where the slot alone says what comes, is trusted like a match of four tokens and not like one of one.
START = (-4, -3, -2, -1)
END = -5
MARKERS = len(START) + 1
# An output is cut to this share of what one index takes.
LONGEST_SHARE = 4
# Repeats of an output are indexed, for they are evidence, until they fill this share of an index.
REPEATS_SHARE = 8
LEAST_COPIES = 2
# Even a slot with a single short output costs about as much memory as an index of so many tokens.
LEAST_SLOT_TOKENS = 64


class RememberedOutput(NamedTuple):
    """A past output. copies: how many times it is indexed, at least 1."""

    tokens: tuple[int, ...]
    copies: int


class RememberedSlot(NamedTuple):
    """All that is kept of a slot or program. outputs: the oldest first; one that came again counts as new."""

    key: SlotKey
    outputs: tuple[RememberedOutput, ...]


class OutputMemory:
    """Bounded memory of finished outputs, for each slot and for each whole program.

    Remembering an output is linear in its length: it is inserted into the indexes of its slot and program and, when
    these are half full, into those that will follow them (about 0.2 microseconds a token and index). When all slots
    together hold more than `max_tokens`, the least recently used are forgotten whole.

    One thread remembers and reads; `snapshot` may be taken by any other.

    Args:
        max_tokens: most tokens indexed in all (about 130 bytes each); a slot counts at least LEAST_SLOT_TOKENS.
        max_slot_tokens: most of them in one slot or program, at least 64 and at most half of max_tokens.

    Raises:
        ConfigError: a bound is outside of these.
    """

    def __init__(self, max_tokens: int, max_slot_tokens: int) -> None:
        if not LEAST_SLOT_TOKENS <= max_slot_tokens <= max_tokens // 2:
            raise ConfigError(
                f"max_slot_tokens is {max_slot_tokens}; it must be from {LEAST_SLOT_TOKENS} to half of max_tokens, "
                f"which is {max_tokens}"
            )
        self.max_tokens = max_tokens
        self.max_slot_tokens = max_slot_tokens
        self.changes = 0  # grows with every output remembered; what was read before may then be out of date
        self._held = 0
        self._slots: OrderedDict[SlotKey, _SlotOutputs] = OrderedDict()  # the least recently used first
        self._lock = Lock()

    def __len__(self) -> int:
        """Slots and programs known."""
        return len(self._slots)

    @property
    def tokens_held(self) -> int:
        """Tokens indexed now, as counted against max_tokens."""
        return self._held

    def remember(self, key: SlotKey, output: Sequence[int]) -> None:
        """Index a finished output for its slot and its program. An empty one is nothing to remember.

        Raises:
            DraftError: `output` holds something that is no token id; then nothing is remembered.
        """
        tokens = _checked(output)
        if not tokens:
            return
        program = program_key(key)
        with self._lock:
            self._add(key, tokens)
            if program is not None:
                self._add(program, tokens)
            self._evict()
            self.changes += 1

    def outputs(self, key: SlotKey, limit: int = 8) -> tuple[tuple[int, ...], ...]:
        """The newest `limit` different outputs of a slot or program, the newest first; long ones are cut."""
        with self._lock:
            slot = self._used(key)
            return () if slot is None else slot.newest(limit)

    def index(self, key: SlotKey) -> SuffixIndex | None:
        """The index of a slot's or program's outputs, each between START and END; None for one never seen.

        It grows as outputs are remembered. Sooner or later another takes its place, or none: whoever keeps a place
        in it asks again when `changes` has changed.
        """
        with self._lock:
            slot = self._used(key)
            return None if slot is None else slot.index

    def snapshot(self) -> tuple[RememberedSlot, ...]:
        """All that is remembered at this moment, the least recently used slot first."""
        with self._lock:  # for as short as can be: the scheduler may be waiting to remember
            held = [(key, slot.copies.copy()) for key, slot in self._slots.items()]
        return tuple(RememberedSlot(key, tuple(map(RememberedOutput._make, copies.items()))) for key, copies in held)

    def restore(self, slots: Iterable[RememberedSlot]) -> None:
        """Remember what a snapshot held, of each slot and program by itself.

        Raises:
            DraftError: as for remember.
        """
        with self._lock:
            for slot in slots:
                for output in slot.outputs:
                    self._add(slot.key, _checked(output.tokens), output.copies)
                self._evict()
            self.changes += 1

    def _used(self, key: SlotKey) -> _SlotOutputs | None:
        slot = self._slots.get(key)
        if slot is not None:
            self._slots.move_to_end(key)
        return slot

    def _add(self, key: SlotKey, output: tuple[int, ...], copies: int = 1) -> None:
        slot = self._used(key)
        if slot is None:
            slot = self._slots[key] = _SlotOutputs(self.max_slot_tokens)
            self._held += slot.charge
        self._held -= slot.charge
        slot.add(output, copies)
        self._held += slot.charge

    def _evict(self) -> None:
        while self._held > self.max_tokens:
            _, slot = self._slots.popitem(last=False)
            self._held -= slot.charge


class _SlotOutputs:
    """The outputs of one slot in an index that forgets its older half when it is full, without a pause: from half
    full on, what is added also goes into the index that will then take its place."""

    def __init__(self, max_tokens: int) -> None:
        self._room = max_tokens // 2
        self._serving = _Indexed(self._room)
        self._following: _Indexed | None = None

    @property
    def index(self) -> SuffixIndex:
        return self._serving.index

    @property
    def copies(self) -> dict[tuple[int, ...], int]:
        return self._serving.copies

    @property
    def charge(self) -> int:
        following = 0 if self._following is None else len(self._following.index)
        return max(LEAST_SLOT_TOKENS, len(self._serving.index) + following)

    def newest(self, limit: int) -> tuple[tuple[int, ...], ...]:
        return tuple(islice(reversed(self._serving.copies), max(limit, 0)))

    def add(self, output: tuple[int, ...], copies: int) -> None:
        output = output[: self._room // LONGEST_SHARE - MARKERS]
        cost = len(output) + MARKERS
        most = max(LEAST_COPIES, self._room // (REPEATS_SHARE * cost))
        for _ in range(min(copies, most)):
            self._add_once(output, cost, most)

    def _add_once(self, output: tuple[int, ...], cost: int, most_copies: int) -> None:
        # More than three quarters full: its newest output at least is in the one that follows. (That one is as full
        # when it was begun with a repeat of all that the other held; then a new one begins.)
        while self._serving.copies.get(output, 0) < most_copies and len(self._serving.index) + cost > self._room:
            self._serving, self._following = self._following or _Indexed(self._room), None
        if 2 * len(self._serving.index) >= self._room:
            # Never the longer one: it holds of each output at most as many copies as the one that serves.
            self._following = self._following or _Indexed(self._room)
            self._following.add(output, most_copies)
        self._serving.add(output, most_copies)


class _Indexed:
    """An index and what is in it. copies: how many times each output is, the newest output last."""

    def __init__(self, max_tokens: int) -> None:
        self.index = SuffixIndex(max_tokens, markers=True)
        self.copies: dict[tuple[int, ...], int] = {}

    def add(self, output: tuple[int, ...], most_copies: int) -> None:
        copies = self.copies.pop(output, 0)
        if copies < most_copies:
            self.index.extend((*START, *output, END))
            copies += 1
        self.copies[output] = copies


def _checked(output: Sequence[int]) -> tuple[int, ...]:
    try:
        tokens = tuple(map(as_index, output))
    except TypeError as error:
        raise DraftError(f"output {output!r:.80} is not all token ids, which are ints") from error
    for token in (min(tokens, default=0), max(tokens, default=0)):
        if not 0 <= token <= MOST_TOKEN:
            raise DraftError(f"output holds {token}; token ids are ints from 0 to {MOST_TOKEN}")
    return tokens
