"""Per-request counts in `meta_info["sgl_spec"]`, through SGLang's own field for per-request values.

Where it stands in a round: read by SGLang's output streamer after the round, when it builds what the client sees.
SGLang expects a list with one entry for each output token and sends a slice of it; we have one account for the
request, so a `Report` answers every slice with the account as it is now: a list of one dict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIELD = "sgl_spec"


class Report(list[Any]):
    """Stands in SGLang's `req.customized_info["sgl_spec"]`; reading it asks `account` for the present counts."""

    def __init__(self, account: Callable[[], dict[str, Any]]) -> None:
        super().__init__()
        self._account = account
        self._closed: dict[str, Any] | None = None

    def close(self) -> None:
        """The request is over: keep its last account and let go of what made it."""
        self._closed = self._account()

    def __getitem__(self, index: Any) -> Any:
        account = self._account() if self._closed is None else self._closed
        return [account] if isinstance(index, slice) else account
