"""Requests with penalties over a small vocabulary, trees of drafts for them, and what SGLang itself makes of the logits
where decoding alone has said the same tokens: its own penalizers, told token by token."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from sglang.srt.sampling.penaltylib import (
    BatchedFrequencyPenalizer,
    BatchedMinNewTokensPenalizer,
    BatchedPenalizerOrchestrator,
    BatchedPresencePenalizer,
    BatchedRepetitionPenalizer,
)
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.sampling.sampling_params import SamplingParams

from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.tree import Chain, DraftTree

VOCABULARY = 40
ENDING, ALSO_ENDING = 1, 2
PENALIZERS = {
    BatchedFrequencyPenalizer, BatchedMinNewTokensPenalizer, BatchedPresencePenalizer, BatchedRepetitionPenalizer,
}  # fmt: skip


class Request:
    """As much of SGLang's Req as penalties look at."""

    def __init__(self, output: Sequence[int] = (), grammar: Any = None, **params: Any) -> None:
        self.sampling_params = SamplingParams(**params)
        self.output_ids = array("q", output)
        self.eos_token_ids = {ALSO_ENDING}
        self.tokenizer = SimpleNamespace(eos_token_id=ENDING, additional_stop_token_ids=None)
        self.grammar = grammar


class Batch:
    """As much of SGLang's ScheduleBatch as penalizers and `process_logits` look at."""

    def __init__(self, reqs: Sequence[Request], info: SamplingBatchInfo | None = None) -> None:
        self.reqs, self.device, self.sampling_info = list(reqs), "cpu", info
        self.has_grammar = any(req.grammar is not None for req in reqs)


class Case(NamedTuple):
    """One request and the tree drafted for it."""

    request: Request
    tree: DraftTree


def sampling_info(reqs: Sequence[Request], vocabulary: int = VOCABULARY, **fields: Any) -> SamplingBatchInfo:
    ones = torch.ones(len(reqs))
    return SamplingBatchInfo(
        temperatures=ones[:, None], top_ps=ones, top_ks=ones.int(), min_ps=ones * 0, is_all_greedy=True,
        is_any_greedy=True, need_top_p_sampling=False, need_top_k_sampling=False, need_min_p_sampling=False,
        vocab_size=vocabulary, device="cpu", **fields,
    )  # fmt: skip


def alone(request: Request, said: Sequence[int], logits: torch.Tensor, **fields: Any) -> torch.Tensor:
    """What SGLang's decoding makes of one row of logits [vocabulary] where `request` has said `said`."""
    batch = Batch([request])
    penalizers = BatchedPenalizerOrchestrator(len(logits), batch, PENALIZERS)
    info = sampling_info([request], len(logits), penalizer_orchestrator=penalizers, **fields)
    for token in said:
        penalizers.cumulate_output_tokens(torch.tensor([token]))
    row = logits.clone()[None]
    with torch.compiler.set_stance("force_eager"):  # compiling takes seconds a shape; the division is the same
        forward = info.copy_for_forward()
        forward.update_regex_vocab_mask()
        forward.apply_logits_bias(row)
    return row[0]


def path_of(tree: FlatTree, node: int) -> list[int]:
    """The drafts on the way to `node`, its own token last."""
    return [] if node == 0 else [*path_of(tree, int(tree.parents[node])), int(tree.tokens[node])]


def random_logits(seed: int, rows: int, columns: int = VOCABULARY, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 9).to(dtype)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    bits = torch.int16 if one.dtype == torch.bfloat16 else torch.int32
    return bool(torch.equal(one.view(bits), other.view(bits)))


_tokens = st.integers(0, VOCABULARY - 1) | st.integers(0, 3)  # few tokens: the output repeats itself, and it ends
_penalty = st.sampled_from([0.0, 0.0, 0.1, 0.7, -1.3, 2.0]) | st.floats(-2, 2)
_params = st.fixed_dictionaries(
    {
        "frequency_penalty": _penalty,
        "presence_penalty": _penalty,
        "repetition_penalty": st.sampled_from([1.0, 1.0, 1.3, 0.6]) | st.floats(1e-3, 2),
        "min_new_tokens": st.just(0) | st.integers(0, 30),
        "stop_token_ids": st.none() | st.sets(_tokens, max_size=3),
        "ignore_eos": st.booleans(),
    }
)


@st.composite
def cases(draw: st.DrawFn, grown: bool = True) -> Case:
    """grown: with an output, whose last token is the root."""
    output = draw(st.lists(_tokens, min_size=int(grown), max_size=24))
    tree = DraftTree(output[-1] if output else 0)
    for tokens in draw(st.lists(st.lists(_tokens, min_size=1, max_size=6), max_size=5)) if grown else ():
        tree.graft(Chain(tuple(tokens), (0.1,) * len(tokens), "test"))
    return Case(Request(output, **draw(_params)), tree)


batches = st.lists(cases(), min_size=1, max_size=4)


def flat_trees(batch: Sequence[Case], padding: int) -> list[FlatTree]:
    """All of one width, as in a round."""
    width = max(len(case.tree) for case in batch) + padding
    return [flatten(case.tree, width) for case in batch]
