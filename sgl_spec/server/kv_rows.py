"""How long the rows are in which SGLang notes where a request's keys and values lie.

Where it stands in a round: before the first one, when SGLang builds its pools.
"""

from __future__ import annotations

from collections.abc import Callable

from sglang.srt.mem_cache.allocation_sizing import get_alloc_page_size, get_alloc_reserve_per_decode


def slots_beyond_context(original: Callable[[], int]) -> int:
    """Hook around `get_req_to_token_extra_context_len`: a row's slots after those for the model's whole context.

    Every round SGLang reserves two verify widths beyond what is committed, but at page size 1 it makes rows only one
    width longer than the context. A request that comes closer than that to the end of its context would write into
    another's row on a GPU, and end the server on a CPU. SGLang's own formula for larger pages is right for all; it
    applies whoever speculates, since a longer row changes nothing else.
    """
    return max(original(), get_alloc_reserve_per_decode() + get_alloc_page_size() - 1)
