"""What answers at the address: whether it is a server of ours that speculates, and how it was started.

Stands outside a round. Keys and passwords that a server tells of itself do not get into a report.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from sgl_spec.cli.server_command import OUR_ALGORITHM
from sgl_spec.errors import ServerError
from sgl_spec.frontend.http_client import HttpClient

_SECRET = re.compile(r"(^|_)(api_key|password|secret|auth_token|hf_token)($|_)")
_SECRET_FLAG = re.compile(r"(--\S*(?:api-key|password|secret|token)[= ])\S+")


class Served(NamedTuple):
    """A server before its check.

    Attributes:
        info: its /server_info without secrets and without the state of its schedulers.
        refusal: why there is nothing to check, in a sentence; None when there is.
    """

    info: Mapping[str, Any]
    refusal: str | None = None

    @property
    def incremental(self) -> bool:
        """Whether it streams differences instead of the text so far."""
        return bool(self.info.get("incremental_streaming_output"))


def look_at(client: HttpClient) -> Served:
    """Asks the server what it is.

    Raises:
        ServerUnavailable: nothing answers at the address.
    """
    try:
        info = client.get("/server_info")
    except ServerError as error:
        if error.status in (401, 403):
            return Served({}, f"the server wants a key: {error.server_message} (--api-key)")
        return Served({}, f"this is not a server of sgl_spec: {error}")
    if not isinstance(info, dict) or "speculative_algorithm" not in info:
        return Served(
            {}, f"this is not a server of sgl_spec: {client.url}/server_info tells of no speculative_algorithm"
        )
    algorithm = info["speculative_algorithm"]
    if algorithm == OUR_ALGORITHM:
        return Served(public(info))
    what = "does not speculate" if algorithm is None else f"speculates with {algorithm}, which is not ours"
    return Served(
        public(info),
        f"the server {what}: it was started without --speculative-algorithm {OUR_ALGORITHM}, or with --off",
    )


def public(info: Mapping[str, Any]) -> dict[str, Any]:
    """What of a server's own words may be written into a file."""
    shown = {name: value for name, value in info.items() if name != "internal_states"}
    for name, value in shown.items():
        if _SECRET.search(name) and value is not None:
            shown[name] = "<redacted>"
        elif isinstance(value, str):
            shown[name] = _SECRET_FLAG.sub(r"\1<redacted>", value)
    return shown
