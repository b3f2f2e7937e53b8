"""Batches for the draft model's forwards: an extend over pending rows, and the steps after it.

Where it stands in a round: inside the head's part. Built from requests alone, as the scheduler's own batch may hold
other requests, and after a request's last round there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.speculative.eagle_info import EagleDraftExtendInput, EagleDraftInput
from sglang.srt.speculative.eagle_utils import per_step_draft_out_cache_loc
from sglang.srt.speculative.eagle_worker_common import prepare_for_draft

from sgl_spec.server.eagle.backlog import Span


class Steps(NamedTuple):
    """A prepared batch of draft steps, and the slots each step writes: int64 [steps, requests * topk]."""

    batch: ForwardBatch
    slots: torch.Tensor


def extend_batch(spans: Sequence[Span], runner: Any, reads_hidden_states: bool) -> ForwardBatch:
    """The rows of all spans, one request each, as one extend of the draft model."""
    batch = _batch(spans, runner)
    counts = [len(span.tokens) for span in spans]
    device = runner.device
    batch.forward_mode = ForwardMode.EXTEND
    batch.input_ids = torch.tensor([token for span in spans for token in span.tokens], dtype=torch.int64, device=device)
    batch.prefix_lens, batch.extend_lens = [span.start for span in spans], counts
    batch.extend_num_tokens = sum(counts)
    batch.extend_logprob_start_lens = counts
    table = runner.req_to_token_pool.req_to_token
    slots = [table[span.req.kv.req_pool_idx, span.start : span.end] for span in spans]
    batch.out_cache_loc = torch.cat(slots).to(torch.int64)
    hidden = [span.hidden for span in spans if span.hidden is not None]
    batch.spec_info = EagleDraftExtendInput(
        hidden_states=torch.cat(hidden) if hidden else None, num_tokens_per_req=1, num_tokens_for_logprob_per_req=1
    )
    return ForwardBatch.init_new(
        batch, runner, capture_hidden_mode=_capture(reads_hidden_states), return_hidden_states_before_norm=False
    )


def step_batch(spans: Sequence[Span], runner: Any, reads_hidden_states: bool, topk: int, steps: int) -> Steps:
    """Decode steps after the rows of `spans`: `topk` branches a request, each in its own slots.

    Branch k's slots are positions [end + k * steps, end + (k + 1) * steps) of the request: SGLang keeps them allocated
    beyond a request's length, and the verify forward writes there afterwards.
    """
    batch = _batch(spans, runner)
    batch.forward_mode = ForwardMode.DECODE
    batch.spec_info = EagleDraftInput()
    forward, _, _ = prepare_for_draft(batch.spec_info, runner.req_to_token_pool, batch, None, runner, topk, steps)
    forward.capture_hidden_mode = _capture(reads_hidden_states)
    return Steps(forward, per_step_draft_out_cache_loc(forward.out_cache_loc, len(spans), topk, steps))


def _capture(reads_hidden_states: bool) -> CaptureHiddenMode:
    """What the draft model hands on from one step to the next: of each row, as a step has no other."""
    return CaptureHiddenMode.LAST if reads_hidden_states else CaptureHiddenMode.NULL


def _batch(spans: Sequence[Span], runner: Any) -> ScheduleBatch:
    """What both kinds have in common."""
    lengths = torch.tensor([span.end for span in spans], dtype=torch.int64)
    device = runner.device
    return ScheduleBatch(
        reqs=[span.req for span in spans],
        req_to_token_pool=runner.req_to_token_pool,
        token_to_kv_pool_allocator=runner.token_to_kv_pool_allocator,
        model_config=runner.model_config,
        spec_algorithm=runner.spec_algorithm,
        device=device,
        req_pool_indices=torch.tensor([span.req.kv.req_pool_idx for span in spans], dtype=torch.int64, device=device),
        seq_lens=lengths.to(device),
        seq_lens_cpu=lengths,
        seq_lens_sum=int(lengths.sum()),
        orig_seq_lens=lengths.to(torch.int32).to(device),
        multimodal_inputs=[None] * len(spans),
    )
