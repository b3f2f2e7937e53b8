"""SGLang's sampler with our choice of the token: what it returns beside the token stays SGLang's."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sampling_world import NO_TOP_K
from sglang.srt.layers.logits_processor import LogitsProcessorOutput, SamplingMaskStatus
from sglang.srt.layers.sampler import Sampler
from sglang.srt.runtime_context import get_context, get_parallel
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.sampling.sampling_params import TOP_K_ALL

from sgl_spec.server.algorithm import SAMPLING_BACKEND
from sgl_spec.server.sampler import SeededSampler, row_params
from sgl_spec.server.sampling import target_tokens

ROWS, VOCABULARY = 6, 40
TOP_K = [1, 5, 20, NO_TOP_K, 3, 7]
TOP_P = [1.0, 0.9, 0.5, 1.0, 1.0, 0.8]
MIN_P = [0.0, 0.0, 0.05, 0.0, 0.2, 0.0]


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    group = SimpleNamespace(world_size=1, device_group=None)
    with get_context().override_server_args(sampling_backend=SAMPLING_BACKEND), get_parallel().override(tp_group=group):
        yield


def info(rows: list[int], seeded: bool = True, **changes: Any) -> SamplingBatchInfo:
    values: dict[str, Any] = {
        "temperatures": torch.tensor([[0.5 + row / 4] for row in rows]),
        "top_ks": torch.tensor([TOP_K[row] for row in rows], dtype=torch.int32),
        "top_ps": torch.tensor([TOP_P[row] for row in rows]),
        "min_ps": torch.tensor([MIN_P[row] for row in rows]),
        "sampling_seed": torch.tensor(rows) * 31 - 40 if seeded else None,
        "is_all_greedy": False, "is_any_greedy": True, "vocab_size": VOCABULARY, "need_top_p_sampling": True,
        "need_top_k_sampling": True, "need_min_p_sampling": True, "device": "cpu",
    }  # fmt: skip
    return SamplingBatchInfo(**{**values, **changes})


def output(rows: list[int]) -> LogitsProcessorOutput:
    logits = torch.randn(ROWS, VOCABULARY, generator=torch.Generator().manual_seed(3)) * 2
    return LogitsProcessorOutput(next_token_logits=logits[rows].contiguous())


def sample(sampler: Sampler, rows: list[int], batch_info: SamplingBatchInfo, logprobs: bool = False) -> Any:
    out = output(rows)
    wanted = [[1, 2] for _ in rows]
    # Compiling the softmax takes seconds; what it computes is the same.
    with torch.compiler.set_stance("force_eager"):
        tokens = sampler(out, batch_info, logprobs, [2 for _ in rows], wanted, torch.tensor(rows) + 7)
    return tokens, out


def test_it_chooses_the_targets_tokens_and_gives_their_logprobs() -> None:
    rows, sampler = list(range(ROWS)), SeededSampler()
    tokens, out = sample(sampler, rows, info(rows), logprobs=True)
    logits = output(rows).next_token_logits
    assert tokens.tolist() == target_tokens(logits, row_params(info(rows)), torch.tensor(rows) + 7).tolist()
    expected = torch.log_softmax(logits / info(rows).temperatures, -1).gather(1, tokens.long()[:, None]).flatten()
    torch.testing.assert_close(out.next_token_logprobs, expected)


def test_a_request_samples_the_same_alone_and_among_others() -> None:
    rows, sampler = list(range(ROWS)), SeededSampler()
    together = sample(sampler, rows, info(rows))[0].tolist()
    assert [int(sample(sampler, [row], info([row]))[0]) for row in rows] == together
    assert sample(sampler, rows[::-1], info(rows[::-1]))[0].tolist() == together[::-1]


def test_a_sampling_mask_holds_what_stock_keeps() -> None:
    """`return_sampling_mask`: the tokens the filters leave, of the rows that ask for them."""
    rows = [0, 1, 2, 4, 5]
    asking = {"sampling_mask_batch_indices": torch.tensor([1, 2, 3, 4])}
    tokens, ours = sample(SeededSampler(), rows, info(rows, **asking))
    with get_context().override_server_args(sampling_backend="pytorch"):
        _, stock = sample(Sampler(), rows, info(rows, seeded=False, **asking))
    mask, expected = ours.sampling_mask_output, stock.sampling_mask_output
    assert mask.statuses.tolist() == [SamplingMaskStatus.OK] * 4
    assert mask.lengths.tolist() == expected.lengths.tolist()
    for row, length in enumerate(mask.lengths.tolist()):
        kept = mask.token_ids[row, :length].tolist()
        assert kept == expected.token_ids[row, :length].tolist()
        assert int(tokens[row + 1]) in kept
    assert bool((mask.selected_logprobs <= 0).all())


def test_without_seeds_it_samples_as_stock() -> None:
    rows = [3, 3]
    plain = {"need_top_k_sampling": False, "need_top_p_sampling": False, "need_min_p_sampling": False}
    torch.manual_seed(5)
    ours = sample(SeededSampler(), rows, info(rows, seeded=False, **plain))[0].tolist()
    torch.manual_seed(5)
    assert ours == sample(Sampler(), rows, info(rows, seeded=False, **plain))[0].tolist()


def test_the_batchs_word_for_no_limit_is_known() -> None:
    assert TOP_K_ALL == NO_TOP_K
