"""What a workload is made of: one request to a model. Stands before any round; `measure` posts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

Chat = Callable[[str], str]  # a user's message -> the whole prompt, in the served model's template


class Prompt(NamedTuple):
    """One request.

    Attributes:
        id: unique in its workload.
        text: the whole prompt.
        stop: strings that end the output.
        max_new_tokens: lowers the measurement's own limit.
        json_schema, regex, ebnf: what the output is held to; at most one of them.
        program, slot: who asks, as the hint says it. None sends no name, as a client without `sgl_spec` would.
    """

    id: str
    text: str
    stop: tuple[str, ...] = ()
    max_new_tokens: int | None = None
    json_schema: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    program: str | None = None
    slot: str | None = None


Builder = Callable[[Path, Chat], Iterator[Prompt]]
