"""Every batch carries its requests' seeds, whoever joins and leaves; the samples of one request have one each."""

from __future__ import annotations

import asyncio
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sglang.srt.arg_groups.overrides import declare_resolution
from sglang.srt.managers.io_struct import EmbeddingReqInput, GenerateReqInput, TokenizedGenerateReqInput
from sglang.srt.managers.tokenizer_manager import TokenizerManager
from sglang.srt.plugins.hook_registry import HookType, _wrap_fn
from sglang.srt.runtime_context import get_context
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.sampling.sampling_params import SamplingParams

from sgl_spec.cli.server_command import OUR_SAMPLER
from sgl_spec.server import plugin
from sgl_spec.server.algorithm import SAMPLING_BACKEND
from sgl_spec.server.sampler import keep_backend
from sgl_spec.server.seeds import request_seed, sample_seed

INT64 = st.integers(-(2**63), 2**63 - 1)
FARTHEST = (-(2**63), -1, 0, 2**32, 2**63 - 1)


@contextmanager
def server(backend: str = SAMPLING_BACKEND, **settings: Any) -> Iterator[None]:
    with get_context().override_server_args(sampling_backend=backend, **settings):
        yield


def hooked(target: str) -> Callable[..., Any]:
    """The method of SGLang as it is in a server: with our hook around it."""
    hook = next(hook for hook in plugin.hooks() if hook.target.endswith(target))
    return _wrap_fn(pkgutil.resolve_name(hook.target), hook.hook, HookType[hook.kind])


def req(rid: str, seed: int | None = None) -> SimpleNamespace:
    params = SamplingParams(sampling_seed=seed, temperature=0.7, top_p=0.9, min_p=0.1, top_k=9)
    return SimpleNamespace(
        rid=rid, sampling_params=params, custom_logit_processor=None, return_sampling_mask=False, origin_input_ids=[1],
        output_ids=[],
    )  # fmt: skip


class Batch:
    """As much of SGLang's ScheduleBatch as a batch info is made from."""

    device = "cpu"

    def __init__(self, reqs: list[SimpleNamespace]) -> None:
        self.reqs = reqs


def info_of(*reqs: SimpleNamespace) -> SamplingBatchInfo:
    return SamplingBatchInfo.from_schedule_batch(Batch(list(reqs)), 50)  # type: ignore[arg-type]


@pytest.fixture
def _hooked_info(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "adjusted_from_schedule_batch"
    monkeypatch.setattr(SamplingBatchInfo, name, hooked(f"SamplingBatchInfo.{name}"))


@pytest.mark.usefixtures("_hooked_info")
def test_every_batch_carries_its_requests_seeds_while_requests_join_and_leave() -> None:
    first, second = [req("a", 5), req("b"), req("c", -1)], [req("d"), req("e", 2**63 - 1)]
    with server():
        info, joining, idle = info_of(*first), info_of(*second), info_of()
        info.filter_batch([2, 1], torch.tensor([2, 1]))
        info.merge_batch(idle)
        info.merge_batch(joining)
        forward = info.copy_for_forward()
        # Taken back for want of memory, and prefilled again: the same seed.
        again = info_of(first[1])
        expected = [-1, request_seed(first[1]), request_seed(second[0]), 2**63 - 1]
    assert forward.sampling_seed.tolist() == info.sampling_seed.tolist() == expected
    assert again.sampling_seed.tolist() == [expected[1]]
    assert (idle.sampling_seed.dtype, idle.sampling_seed.shape) == (torch.int64, (0,))


@pytest.mark.usefixtures("_hooked_info")
def test_a_server_that_samples_by_sglangs_own_backend_is_left_alone() -> None:
    with server("pytorch"):
        assert info_of(req("a", 5)).sampling_seed is None
    with server("pytorch", enable_deterministic_inference=True):
        assert info_of(req("a", 5), req("b")).sampling_seed.tolist() == [5, 42]


def test_the_seed_of_a_request() -> None:
    with server():
        assert [request_seed(req("a", seed)) for seed in FARTHEST] == list(FARTHEST)
        # The same in every process, on every rank, after every start.
        assert request_seed(req("a")) == 1702698405120146464
        assert len({request_seed(req(f"{i}")) for i in range(1000)}) == 1000
    with server(enable_deterministic_inference=True):
        assert (request_seed(req("a")), request_seed(req("a", 7))) == (42, 7)


@given(INT64)
def test_samples_have_seeds_of_their_own_that_fit(seed: int) -> None:
    seeds = [sample_seed(seed, sample) for sample in range(5)]
    assert seeds[0] == seed
    assert len(set(seeds)) == 5
    assert all(0 <= derived < 2**63 for derived in seeds[1:])
    assert sample_seed(seeds[2], 2) == seeds[4]


def test_a_samples_seed_is_the_same_after_every_start() -> None:
    assert sample_seed(7, 1) == 7726483402924498441


# ---- n above 1 ----------------------------------------------------------------------------------------------------


class Manager(TokenizerManager):
    """SGLang's expansion of `n`, with what stands around it cut off. `sent`: the parameters of each request sent."""

    def __init__(self) -> None:
        self.rid_to_state: dict[str, Any] = {}
        self.sent: list[SamplingParams] = []

    async def _tokenize_one_request(self, obj: Any) -> Any:
        if isinstance(obj, EmbeddingReqInput):
            return obj
        params = SamplingParams(**obj.sampling_params)
        return TokenizedGenerateReqInput(
            rid=obj.rid, input_text=obj.text, input_ids=None, input_embeds=None, mm_inputs=None, token_type_ids=None,
            sampling_params=params, return_logprob=False, logprob_start_len=-1, top_logprobs_num=0,
            token_ids_logprob=None, stream=False,
        )  # fmt: skip

    def _init_req_state(self, obj: Any, request: Any = None) -> None:
        stats = SimpleNamespace(set_finished_time=lambda: None)
        for rid in [obj.rid] if isinstance(obj.rid, str) else obj.rid:
            self.rid_to_state[rid] = SimpleNamespace(time_stats=stats)

    async def _wait_one_response(self, obj: Any, request: Any = None) -> Any:
        yield {"meta_info": {"id": obj.rid}}

    async def note_sent(self, tokenized: Any) -> None:
        self.sent.append(tokenized.sampling_params)


def sent(**body: Any) -> list[SamplingParams]:
    """What one call of /generate sends to the scheduler."""
    obj = GenerateReqInput(**body)
    obj.normalize_batch_and_arguments()
    manager = Manager()
    manager._init_req_state(obj)

    async def call() -> None:
        async for _ in manager._handle_batch_request(obj, None, dict(manager.rid_to_state)):
            pass

    asyncio.run(call())
    return manager.sent


@pytest.fixture
def _hooked_send(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = next(hook for hook in plugin.hooks() if hook.target.endswith("TokenizerManager._send_one_request"))
    monkeypatch.setattr(Manager, "_send_one_request", _wrap_fn(Manager.note_sent, hook.hook, HookType[hook.kind]))


def seeds(params: list[SamplingParams]) -> list[int | None]:
    """Without those of the requests that only fill the cache."""
    return [p.sampling_seed for p in params if p.max_new_tokens != 0]


@pytest.mark.usefixtures("_hooked_send")
@pytest.mark.parametrize("seed", FARTHEST)
def test_samples_of_one_request_get_a_seed_each(seed: int) -> None:
    wanted = [sample_seed(seed, sample) for sample in range(3)]
    with server():
        params = sent(text="a", sampling_params={"n": 3, "sampling_seed": seed})
        assert (len(params), seeds(params)) == (4, wanted)
        two = sent(text=["a", "b"], sampling_params={"n": 3, "sampling_seed": seed})
        assert (len(two), seeds(two)) == (8, wanted * 2)


@pytest.mark.usefixtures("_hooked_send")
def test_what_needs_no_seed_of_its_own_gets_none() -> None:
    with server():
        assert seeds(sent(text="a", sampling_params={"n": 3})) == [None] * 3
        assert seeds(sent(text=["a", "b"], sampling_params={"n": 1, "sampling_seed": 4})) == [4, 4]
        beam = {"n": 2, "beam_width": 2, "sampling_seed": 4}
        assert seeds(sent(text=["a", "b"], sampling_params=beam)) == [4, 4]
    with server("pytorch"):
        assert seeds(sent(text="a", sampling_params={"n": 3, "sampling_seed": 4})) == [4] * 3
    with server(enable_deterministic_inference=True):
        assert seeds(sent(text="a", sampling_params={"n": 2})) == [None, sample_seed(42, 1)]


@pytest.mark.usefixtures("_hooked_send")
def test_an_embedding_request_is_left_alone() -> None:
    manager, obj = Manager(), EmbeddingReqInput(text="a")
    obj.sampling_params = SamplingParams(n=2, sampling_seed=3)
    with server():
        asyncio.run(manager._send_one_request(obj))
    assert manager.sent == [obj.sampling_params]
    assert obj.sampling_params.sampling_seed == 3


def test_the_method_that_is_hooked_is_the_one_that_sends() -> None:
    assert asyncio.iscoroutinefunction(TokenizerManager._send_one_request)
    assert hooked("TokenizerManager._send_one_request").__wrapped__ is TokenizerManager._send_one_request


# ---- the sampling backend -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "resolved"),
    [(SAMPLING_BACKEND, SAMPLING_BACKEND), ("flashinfer", "pytorch"), (None, "pytorch")],
)
def test_our_backend_stays_where_sglang_would_take_its_own(asked: str | None, resolved: str) -> None:
    """On a CPU, and for deterministic inference."""
    args = SimpleNamespace(sampling_backend=asked, _resolved_overrides=[])
    keep_backend(args, lambda a: declare_resolution(a, "stock", sampling_backend="pytorch"))
    assert args._resolved_overrides[-1][1] == {"sampling_backend": resolved}
    assert args.sampling_backend == asked


def test_the_command_line_names_our_backend() -> None:
    assert OUR_SAMPLER == SAMPLING_BACKEND
