"""The head is given every committed token's row exactly once, in order, however long it was not asked."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sgl_spec.server.eagle.backlog import Backlog, Span


class _Request:
    """A request of SGLang as far as the backlog looks at it; hidden states are their positions."""

    def __init__(self, prompt: int, rng: random.Random) -> None:
        self.origin_input_ids = [rng.randrange(1000) for _ in range(prompt)]
        self.output_ids: list[int] = []
        self.kv = SimpleNamespace(req_pool_idx=1)

    @property
    def text(self) -> list[int]:
        return self.origin_input_ids + self.output_ids


def _rows(start: int, count: int) -> torch.Tensor:
    return torch.arange(start, start + count, dtype=torch.float32)[:, None]


def _commit(backlog: Backlog, req: Any, count: int, rng: random.Random) -> None:
    """A round: the root and count - 1 accepted drafts get their states, SGLang appends the tokens."""
    backlog.append(req, count, _rows(len(req.text) - 1, count))
    req.output_ids += [rng.randrange(1000) for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_given_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    req, backlog = _Request(rng.randrange(1, 30), rng), Backlog(1)
    end = len(req.origin_input_ids)
    backlog.begin(req, end - 1, 1, _rows(end - 1, 1))
    req.output_ids.append(7)
    given = end - 1
    for _ in range(30):
        if rng.random() < 0.5:
            but_last = rng.choice([0, 0, 1])
            span = backlog.span(req, but_last)
            if span is not None:
                assert span.start == given
                assert span.end == len(req.text) - 1 - but_last
                assert span.tokens == req.text[span.start + 1 : span.end + 1]
                assert span.hidden.flatten().tolist() == list(range(span.start, span.end))
                backlog.given(span)
                given = span.end
        _commit(backlog, req, rng.randrange(1, 6), rng)
        assert backlog.rows(req) == len(req.text) - 1 - given


def test_a_run_that_a_stop_cut_leaves_only_rows_whose_next_token_is_known() -> None:
    rng = random.Random(0)
    req, backlog = _Request(5, rng), Backlog(1)
    backlog.begin(req, 4, 1, _rows(4, 1))
    req.output_ids.append(7)
    _commit(backlog, req, 4, rng)
    del req.output_ids[3:]
    span = backlog.span(req)
    assert span is not None
    assert (span.start, span.end) == (4, 7)


def test_a_request_that_went_on_without_us_has_no_rows() -> None:
    rng = random.Random(0)
    req, backlog = _Request(5, rng), Backlog(1)
    assert backlog.span(req) is None
    backlog.append(req, 2, _rows(5, 2))
    assert backlog.rows(req) == 0
    backlog.begin(req, 4, 1, _rows(4, 1))
    req.output_ids += [7, 8, 9]  # two of them with no states
    assert backlog.span(req) is None
    backlog.begin(req, 7, 1, _rows(7, 1))  # prefilled again, after it was retracted
    span = backlog.span(req)
    assert span is None or span.start == 7


def test_a_small_model_needs_only_counts_and_reads_the_text_as_it_is() -> None:
    req, backlog = _Request(5, random.Random(0)), Backlog(0)
    backlog.begin(req, 5, 1, None)
    req.output_ids.append(7)
    backlog.append(req, 2, None)
    req.output_ids += [8, 9]
    span = backlog.span(req)
    assert span is not None
    assert (span.start, span.tokens, span.hidden) == (5, [7, 8, 9], None)
    backlog.given(span)
    assert backlog.span(req) is None
    backlog.append(req, 1, None)
    req.output_ids.append(6)
    assert backlog.span(req) == Span(req, 8, [6], None)


def test_rows_leave_with_their_request() -> None:
    req, backlog = _Request(5, random.Random(0)), Backlog(1)
    backlog.begin(req, 4, 1, _rows(4, 1))
    backlog.forget(req)
    assert backlog.rows(req) == 0
    backlog.forget(req)
    backlog.begin(req, 4, 1, _rows(4, 1))
    backlog.clear()
    assert backlog.rows(req) == 0
