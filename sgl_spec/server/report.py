"""Per-request counts in `meta_info["sgl_spec"]`, through SGLang's own field for per-request values.

Where it stands in a round: after the last one, when SGLang's output streamer builds what the client sees. SGLang
expects a list with one entry for each output token, sends a slice of it with each chunk and joins the slices. We have
one account for the request, so a `Report` answers with nothing until the request is over and with the account then:
the client finds a list of one dict, in the last chunk of a stream. (An account in every chunk would make a stream's
size grow with the square of its length.)

With `--incremental-streaming-output` the tokenizer manager takes from the joined slices what belongs to the chunk's
own tokens. There the account is put at the place of the last chunk's first token: after nothing for every token sent.
"""

from __future__ import annotations

import weakref
from typing import Any

from sgl_spec.drafting.stats import SpecCounter

FIELD = "sgl_spec"


class Report(list[Any]):
    """Stands in SGLang's `req.customized_info["sgl_spec"]`.

    Args:
        req: the request; only a weak reference is kept.
        ignored_hint: why its hint was not used.
        incremental: its client is streamed to, and sent in each chunk only what is new.
    """

    def __init__(self, req: Any, ignored_hint: str | None = None, *, incremental: bool = False) -> None:
        super().__init__()
        self._incremental = incremental
        self._req = weakref.ref(req)
        self._account: dict[str, Any] | None = None
        self.ignored_hint = ignored_hint

    def close(self, account: dict[str, Any]) -> None:
        """The request is over; this is its account."""
        self._account = {**account, "ignored_hint": self.ignored_hint} if self.ignored_hint else account

    def __getitem__(self, index: Any) -> Any:
        if self._account is None and _over(self._req()):
            self.close(SpecCounter().snapshot().to_dict())  # over in its prefill: no round at all
        entries = [] if self._account is None else [self._account]
        if not isinstance(index, slice):
            return entries[index]
        return [None] * (index.start or 0) + entries if entries and self._incremental else entries


def _over(req: Any) -> bool:
    return req is not None and bool(req.finished())
