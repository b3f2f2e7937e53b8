"""Committed tokens that the draft model has not been given yet, with the target's hidden states, request by request.

Where it stands in a round: filled after every prefill and acceptance, emptied when the head is asked. A head reads,
for every position, the target's hidden state there and the token after it; a round that skips the head leaves its rows
here, and the next that asks it gives it all of them in one extend. Who drafted a row's token makes no difference.

A row's token is the one after its position for a head, and the one at its position for a small model.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch


class Span(NamedTuple):
    """Consecutive rows for the head.

    Attributes:
        req: whose; a request of SGLang.
        start: position of the first row, where the head's keys and values for it go.
        tokens: one for each row.
        hidden: [rows, size], the target's hidden states at these positions; None for a model that reads none.
    """

    req: Any
    start: int
    tokens: list[int]
    hidden: torch.Tensor | None

    @property
    def end(self) -> int:
        """The position after the last row."""
        return self.start + len(self.tokens)


class _Pending:
    """start: position of the first row; parts: hidden states, [rows, size] each, in order."""

    def __init__(self, start: int, rows: int, hidden: torch.Tensor | None) -> None:
        self.start = start
        self.rows = rows
        self.parts = [] if hidden is None else [hidden]

    def append(self, rows: int, hidden: torch.Tensor | None) -> None:
        self.rows += rows
        if hidden is not None:
            self.parts.append(hidden)

    def drop(self, rows: int) -> None:
        """Forget the first `rows`."""
        self.start += rows
        self.rows -= rows
        if self.parts:
            self.parts = [torch.cat(self.parts)[rows:]]


class Backlog:
    """Rows by request: a request that is gone takes its rows with it.

    Args:
        shift: how far a row's token is after its position: 1 for a head, 0 for a small model.
    """

    def __init__(self, shift: int) -> None:
        self._shift = shift
        self._pending: weakref.WeakKeyDictionary[Any, _Pending] = weakref.WeakKeyDictionary()

    def begin(self, req: Any, start: int, rows: int, hidden: torch.Tensor | None) -> None:
        """After a prefill: all before `start` is the head's already; rows from there on are pending."""
        self._pending[req] = _Pending(start, rows, hidden)

    def append(self, req: Any, rows: int, hidden: torch.Tensor | None) -> None:
        """After a round: the next rows. Nothing for a request that never began here."""
        pending = self._pending.get(req)
        if pending is not None:
            pending.append(rows, hidden)

    def rows(self, req: Any) -> int:
        """How many are pending; 0 also for a request that never began here."""
        pending = self._pending.get(req)
        return 0 if pending is None else pending.rows

    def span(self, req: Any, but_last: int = 0) -> Span | None:
        """The pending rows of `req`, without the last `but_last`, and without any whose next token is not known.

        None where there are none, or where they do not end at the last committed token (the request was changed behind
        our back: without these rows the head would read nonsense).
        """
        pending = self._pending.get(req)
        if pending is None:
            return None
        known = len(req.origin_input_ids) + len(req.output_ids) - self._shift - pending.start
        rows = min(pending.rows, known) - but_last
        if rows < 1 or known > pending.rows:
            return None
        tokens = text_slice(req, pending.start + self._shift, rows)
        hidden = torch.cat(pending.parts)[:rows] if pending.parts else None
        return Span(req, pending.start, tokens, hidden)

    def given(self, span: Span) -> None:
        """The head has been given the rows of `span`."""
        self._pending[span.req].drop(len(span.tokens))

    def forget(self, req: Any) -> None:
        self._pending.pop(req, None)

    def clear(self) -> None:
        self._pending.clear()


def text_slice(req: Any, start: int, count: int) -> list[int]:
    """`count` tokens of prompt and output from `start` on."""
    prompt, output = req.origin_input_ids, req.output_ids
    length = len(prompt)
    first = list(prompt[start : min(start + count, length)])
    return first + list(output[max(start - length, 0) : max(start + count - length, 0)])
