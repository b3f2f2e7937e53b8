"""Penalties at every node of random trees have the bits SGLang's own penalizers give where decoding alone said the same
tokens; a request that is resumed is penalised for what it had said."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from penalty_world import (
    ALSO_ENDING,
    ENDING,
    PENALIZERS,
    VOCABULARY,
    Batch,
    Case,
    Request,
    alone,
    batches,
    cases,
    flat_trees,
    path_of,
    random_logits,
    same_bits,
    sampling_info,
)
from sglang.srt.sampling.penaltylib import BatchedPenalizerOrchestrator
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo

from sgl_spec.drafting.flat_tree import FlatTree
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.server import algorithm as algorithm_module
from sgl_spec.server import penalties as penalties_module
from sgl_spec.server.penalties import Penalties, counts_output, terms_by_count

ALL = {"frequency_penalty": 0.3, "presence_penalty": 0.2, "repetition_penalty": 1.2}


def check_every_node(before: torch.Tensor, after: torch.Tensor, batch: list[Case], trees: list[FlatTree]) -> None:
    """Rows of `after`, in which every node stands below the others of its request, against decoding alone."""
    width = trees[0].width
    for i, (case, tree) in enumerate(zip(batch, trees, strict=True)):
        for node in range(tree.size):
            row, said = i * width + node, [*case.request.output_ids, *path_of(tree, node)]
            assert same_bits(after[row], alone(case.request, said, before[row])), (i, node, said)


@given(batches, st.integers(0, 2), st.integers(0, 999), st.sampled_from([torch.float32, torch.bfloat16]))
def test_every_node_has_the_bits_of_decoding_alone(
    batch: list[Case], padding: int, seed: int, dtype: torch.dtype
) -> None:
    trees = flat_trees(batch, padding)
    before = random_logits(seed, len(batch) * trees[0].width, dtype=dtype)
    after = before.clone()
    Penalties().apply(after, [case.request for case in batch], trees)
    check_every_node(before, after, batch, trees)


@given(cases(), st.lists(st.integers(0, 24), max_size=4), st.integers(0, 24), st.integers(0, 999))
def test_counts_follow_an_output_that_grows_and_is_taken_back(
    case: Case, rounds: list[int], taken_back: int, seed: int
) -> None:
    request, whole, kept = case.request, case.request.output_ids[:], Penalties()
    trees = flat_trees([case], 0)
    before = random_logits(seed, trees[0].width)
    for length in (*sorted(rounds), taken_back):
        request.output_ids = whole[:length]
        kept.apply(before.clone(), [request], trees)
    request.output_ids = whole
    after = before.clone()
    kept.apply(after, [request], trees)
    check_every_node(before, after, [case], trees)


@given(st.lists(cases(grown=False), min_size=1, max_size=4), st.integers(0, 999))
def test_a_prefill_is_penalised_for_what_was_said_before(batch: list[Case], seed: int) -> None:
    """Through SGLang's own sampling info, as its sampler asks it: nothing said in a first prefill, a whole output
    where the request was retracted and resumed."""
    reqs = [case.request for case in batch]
    dense = torch.full((len(reqs), VOCABULARY), 7.0)  # what SGLang's own penalizers came to: not used
    info = sampling_info(reqs, acc_additive_penalties=dense, acc_scaling_penalties=dense)
    Penalties().take_over(info, reqs)
    before = random_logits(seed, len(reqs))
    after = before.clone()
    info.apply_logits_bias(after)
    for i, request in enumerate(reqs):
        assert same_bits(after[i], alone(request, list(request.output_ids), before[i]))


@pytest.mark.parametrize("algorithm", ["SGL_SPEC", "EAGLE3", None])
def test_sglangs_own_penalizers_are_silent_where_we_decode(
    algorithm: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after requests joined and left, and nowhere else."""
    monkeypatch.setattr(algorithm_module, "get_spec", lambda: SimpleNamespace(speculative_algorithm=algorithm))
    infos, batches_ = [], [Batch([Request([3], **ALL), Request([4])]), Batch([Request([5], min_new_tokens=4)])]
    for batch in batches_:
        info = sampling_info(
            batch.reqs, penalizer_orchestrator=BatchedPenalizerOrchestrator(VOCABULARY, batch, PENALIZERS)
        )
        penalties_module.silence_sglang(SamplingBatchInfo.adjusted_from_schedule_batch, info, batch, VOCABULARY)
        infos.append(info)
    running, joining = infos
    running.merge_batch(joining)
    batches_[0].reqs += batches_[1].reqs
    running.filter_batch([0, 2], torch.tensor([0, 2]))
    forward = running.copy_for_forward()
    silent = forward.acc_additive_penalties is None and forward.acc_scaling_penalties is None
    assert silent == (algorithm == "SGL_SPEC")
    assert len(forward) == 2


@pytest.mark.parametrize("penalty", [0.1, 0.7, -1.3, 1 / 3])
def test_frequency_adds_up_as_it_does_token_by_token(penalty: float) -> None:
    """In float32, where a sum of many is no product."""
    request = Request(frequency_penalty=penalty, presence_penalty=0.3)
    wanted, total = [np.float32(0)], np.float32(0)
    for _ in range(5000):
        total = np.float32(total + np.float32(penalty))
        wanted.append(np.float32(np.float32(0) - total) - np.float32(0.3))
    found = terms_by_count(request.sampling_params, 5000).additive
    assert found.tolist() == wanted
    assert found.tolist() != [np.float32(-n * np.float32(penalty)) - np.float32(0.3 * (n > 0)) for n in range(5001)]


def test_min_new_tokens_counts_the_path() -> None:
    """Three tokens are out and five are wanted: the endings are forbidden at the root and at depth 1, not below."""
    tree = DraftTree(9)
    tree.graft(Chain((5, 6, 7), (0.5, 0.5, 0.5), "test"))
    request = Request([8, 8, 9], min_new_tokens=5, stop_token_ids=[11], ignore_eos=True)
    trees = flat_trees([Case(request, tree)], 0)
    logits = torch.zeros(4, VOCABULARY)
    Penalties().apply(logits, [request], trees)
    forbidden = [set(row.isinf().nonzero().flatten().tolist()) for row in logits]
    assert forbidden == [{ENDING, ALSO_ENDING, 11}] * 2 + [set()] * 2


@pytest.mark.parametrize("wrong", [-1, VOCABULARY, 10**12])
def test_a_stop_token_that_is_none_is_nothing(wrong: int) -> None:
    request = Request(min_new_tokens=2, stop_token_ids=[wrong])
    trees = flat_trees([Case(request, DraftTree(0))], 0)
    logits = torch.zeros(1, VOCABULARY)
    Penalties().apply(logits, [request], trees)
    assert logits.isinf().nonzero()[:, 1].tolist() == [ENDING, ALSO_ENDING]


@given(batches, st.integers(0, 999))
def test_rows_cut_from_longer_ones(batch: list[Case], seed: int) -> None:
    """As where the model's vocabulary is padded: what is beyond it stays as it is."""
    trees = flat_trees(batch, 0)
    reqs, rows = [case.request for case in batch], len(batch) * trees[0].width
    padded = random_logits(seed, rows, VOCABULARY + 8)
    whole, beyond = padded[:, :VOCABULARY].contiguous(), padded[:, VOCABULARY:].clone()
    Penalties().apply(padded[:, :VOCABULARY], reqs, trees)
    Penalties().apply(whole, reqs, trees)
    assert same_bits(padded[:, :VOCABULARY].contiguous(), whole)
    assert same_bits(padded[:, VOCABULARY:].contiguous(), beyond)


def test_a_request_without_penalties_is_left_alone_beside_one_with_all() -> None:
    plain, penalised = Request([4, 4, 5]), Request([4, 4, 5], **ALL)
    batch = [Case(plain, DraftTree(5)), Case(penalised, DraftTree(5)), Case(plain, DraftTree(5))]
    before = random_logits(1, 3)
    after = before.clone()
    Penalties().apply(after, [case.request for case in batch], flat_trees(batch, 0))
    assert [same_bits(a, b) for a, b in zip(before, after, strict=True)] == [True, False, True]
    assert not counts_output(plain.sampling_params)


@given(batches, st.integers(0, 999))
def test_the_other_way_to_scale_is_the_same(batch: list[Case], seed: int) -> None:
    """On a GPU it is SGLang's function that scales, which it would compile there."""
    trees, outcomes = flat_trees(batch, 0), []
    for scale in (penalties_module.scale_in_torch, penalties_module.scale_as_sglang):
        logits = random_logits(seed, len(batch) * trees[0].width)
        with pytest.MonkeyPatch.context() as patch, torch.compiler.set_stance("force_eager"):
            patch.setattr(penalties_module, "scale_in_torch", scale)
            Penalties().apply(logits, [case.request for case in batch], trees)
        outcomes.append(logits)
    assert same_bits(*outcomes)


def test_a_request_that_is_gone_is_forgotten() -> None:
    kept, request = Penalties(), Request([3], **ALL)
    kept.apply(random_logits(0, 1), [request], flat_trees([Case(request, DraftTree(3))], 0))
    gone = weakref.ref(request)
    del request
    gc.collect()
    assert gone() is None
