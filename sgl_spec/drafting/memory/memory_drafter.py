"""Drafts what the slot wrote before (origin "memory"). Asked by the planner at the start of a round.

Retrieval from a datastore of earlier text as a draft is the idea of REST (He et al., arXiv 2311.08252). Here the store
is the slot's own past, an output's beginning is a context too, and the search is the one of the lookup drafter.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.lookup.suffix_cursor import SuffixCursor
from sgl_spec.drafting.lookup.suffix_index import SuffixIndex
from sgl_spec.drafting.lookup.suffix_search import search_block
from sgl_spec.drafting.memory.output_memory import START, OutputMemory
from sgl_spec.drafting.memory.slot_key import SlotKey, program_key, slot_key
from sgl_spec.drafting.tree import Chain, DraftError

ORIGIN = "memory"
# A place is found again by going over so many of the newest tokens; a longer match says no more (see PRIORS).
REPLAYED_TOKENS = 32


class MemoryDrafter(Drafter):
    """Drafts from past outputs of the request's slot; where these have nothing, from those of the whole program.

    Args:
        memory: read in every round, and given the output of every request that ends by itself.
        min_a: nodes less likely to be accepted are not looked for.
    """

    origin = ORIGIN

    def __init__(self, memory: OutputMemory, min_a: float = 0.04) -> None:
        if not 0.0 <= min_a <= 1.0:
            raise DraftError(f"min_a is {min_a}; it is a probability, from 0 to 1")
        self._memory = memory
        self._min_a = min_a
        self._writers: dict[str, _Writer] = {}

    def start(self, request: DraftRequest) -> None:
        """Find the request's slot."""
        self._writers[request.rid] = _Writer(request, self._memory)

    def propose(self, rid: str, max_tokens: int) -> Sequence[Chain]:
        """The likeliest `max_tokens` nodes, as one chain for each leaf of their tree.

        Raises:
            DraftError: the request never started.
        """
        writer = self._writer(rid)
        for place in writer.places:
            chains = place.search(writer.output, max_tokens, self._min_a)
            if chains:
                return chains
        return []

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Take committed tokens along.

        Raises:
            DraftError: the request never started.
        """
        self._writer(rid).output.extend(tokens)

    def finish(self, rid: str, output: Sequence[int]) -> None:
        """Remember `output` without the tokens that ended it, if the request lets its output be remembered."""
        writer = self._writers.get(rid)
        if writer is None or not writer.remembered:
            return
        length = len(output)
        while length and output[length - 1] in writer.endings:
            length -= 1
        self._memory.remember(writer.key, output[:length])

    def stop(self, rid: str) -> None:
        """Forget the request, not its output."""
        self._writers.pop(rid, None)

    def _writer(self, rid: str) -> _Writer:
        try:
            return self._writers[rid]
        except KeyError:
            raise DraftError(f"rid {rid!r} is not among the {len(self._writers)} started requests") from None


class _Writer:
    """A running request: its slot, its output so far, and where that stands in the outputs of the past."""

    def __init__(self, request: DraftRequest, memory: OutputMemory) -> None:
        self.key = slot_key(request)
        self.endings = request.endings
        self.remembered = request.hint.writes_memory
        self.output: list[int] = []
        keys = (self.key, program_key(self.key)) if request.hint.reads_memory else ()
        self.places = tuple(_Place(memory, key) for key in keys if key is not None)


class _Place:
    """Where a request's output stands in an index that others make grow, replace or drop."""

    def __init__(self, memory: OutputMemory, key: SlotKey) -> None:
        self._memory = memory
        self._key = key
        self._changes = -1  # those of the memory when it was last asked
        self._index: SuffixIndex | None = None
        self._size = 0  # of the index then
        self._cursor: SuffixCursor | None = None
        self._fed = 0  # tokens of the output that the cursor went over

    def search(self, output: list[int], max_tokens: int, min_a: float) -> Sequence[Chain]:
        """What followed in the index where an output went on like the end of this one."""
        if self._changes != self._memory.changes:
            self._ask_again()
        index = self._index
        if index is None:
            return []
        cursor = self._followed(index, output)
        return search_block(index.automaton, cursor.state, cursor.length, max_tokens, min_a, ORIGIN)

    def _ask_again(self) -> None:
        """Outputs were remembered since: the index may be another one, none, or hold a longer match than before."""
        self._changes = self._memory.changes
        index = self._memory.index(self._key)
        size = 0 if index is None else len(index)
        if index is not self._index or size != self._size:
            self._cursor = None
        self._index, self._size = index, size

    def _followed(self, index: SuffixIndex, output: list[int]) -> SuffixCursor:
        """The cursor, moved to the end of `output`: from where it was, or from a new start."""
        if self._cursor is None:
            self._cursor = SuffixCursor(index)
            newest = output[-REPLAYED_TOKENS:]
            self._cursor.extend(newest if len(newest) == REPLAYED_TOKENS else [*START, *newest])
        elif self._fed < len(output):
            self._cursor.extend(output[self._fed :])
        self._fed = len(output)
        return self._cursor
