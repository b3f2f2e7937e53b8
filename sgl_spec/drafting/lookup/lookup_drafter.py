"""Prompt lookup over the whole prompt and output (origin "lookup"): drafts what followed where the text ended
like this before. Asked by the planner at the start of a round.

Prompt lookup (A. Saxena, prompt-lookup-decoding) copies one span after the longest match. Here a tree is drafted
from the matches of all lengths, see suffix_search.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.lookup.suffix_index import SuffixIndex
from sgl_spec.drafting.lookup.suffix_search import search_block
from sgl_spec.drafting.tree import Chain, DraftError

ORIGIN = "lookup"


class LookupDrafter(Drafter):
    """Drafts from each request's own prompt and output.

    Args:
        max_index_tokens: most tokens of one request that are indexed, see SuffixIndex.
        min_a: nodes less likely to be accepted are not looked for. At most the budget's min_gain: more would
            drop nodes that pay, less costs time for nodes the budget drops.
    """

    origin = ORIGIN

    def __init__(self, max_index_tokens: int = 1 << 16, min_a: float = 0.04) -> None:
        if not 0.0 <= min_a <= 1.0:
            raise DraftError(f"min_a is {min_a}; it is a probability, from 0 to 1")
        SuffixIndex(max_index_tokens)  # refuses a bad size now, not at the first request
        self._max_index_tokens = max_index_tokens
        self._min_a = min_a
        self._indexes: dict[str, SuffixIndex] = {}

    def start(self, request: DraftRequest) -> None:
        """Index the prompt: about 0.2 microseconds a token."""
        index = SuffixIndex(self._max_index_tokens)
        index.extend(request.prompt)
        self._indexes[request.rid] = index

    def propose(self, rid: str, max_tokens: int) -> Sequence[Chain]:
        """The likeliest `max_tokens` nodes, as one chain for each leaf of their tree.

        Raises:
            DraftError: the request never started.
        """
        index = self._index(rid)
        state = index.longest_match
        return search_block(index.automaton, state, index.length_of(state), max_tokens, self._min_a, ORIGIN)

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Index committed tokens.

        Raises:
            DraftError: the request never started, or a token is no token id.
        """
        self._index(rid).extend(tokens)

    def stop(self, rid: str) -> None:
        """Forget the request's index."""
        self._indexes.pop(rid, None)

    def _index(self, rid: str) -> SuffixIndex:
        try:
            return self._indexes[rid]
        except KeyError:
            raise DraftError(f"rid {rid!r} is not among the {len(self._indexes)} started requests") from None
