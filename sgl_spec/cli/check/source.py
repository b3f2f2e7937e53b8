"""What the matrix is made of: sources of requests, and the requests they have.

Stands outside a round. Data only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

PROGRAM: Literal["program"] = "program"
ROW: Literal["row"] = "row"


class Call(NamedTuple):
    """One /generate request as somebody makes it. The matrix sets its temperature, seed, lengths and isolation key.

    Attributes:
        name: of a program the slot; of a row the prompt.
        body: the request.
    """

    name: str
    body: Mapping[str, Any]


class Source(NamedTuple):
    """A program, or a row of parameters: what the result is summed up by.

    Attributes:
        name: unique among all sources.
        kind: "program" or "row".
        calls: the requests it has; none after a failure.
        sampled_only: what it asks for means nothing at temperature 0.
        failure: why its calls are not to be had, or not all of them; None when they are.
    """

    name: str
    kind: Literal["program", "row"]
    calls: tuple[Call, ...]
    sampled_only: bool = False
    failure: str | None = None
