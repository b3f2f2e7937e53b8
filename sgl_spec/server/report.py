"""Per-request counts in `meta_info["sgl_spec"]`, through SGLang's own field for per-request values.

Where it stands in a round: after the last one, when SGLang's output streamer builds what the client sees. SGLang
expects a list with one entry for each output token, sends a slice of it with each chunk and joins the slices. We have
one account for the request, so a `Report` answers with nothing until the request is over and with the account then:
the client finds a list of one dict, in the last chunk of a stream. (An account in every chunk would make a stream's
size grow with the square of its length.)
"""

from __future__ import annotations

from typing import Any

FIELD = "sgl_spec"


class Report(list[Any]):
    """Stands in SGLang's `req.customized_info["sgl_spec"]`."""

    def __init__(self) -> None:
        super().__init__()
        self._account: dict[str, Any] | None = None

    def close(self, account: dict[str, Any]) -> None:
        """The request is over; this is its account."""
        self._account = account

    def __getitem__(self, index: Any) -> Any:
        entries = [] if self._account is None else [self._account]
        return entries if isinstance(index, slice) else entries[index]
