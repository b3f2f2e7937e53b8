"""Which seed a request samples with.

Where it stands in a round: before it. In the HTTP process the samples of one request (`n` above 1) get a seed each; in
the scheduler every batch that SGLang builds carries its requests' seeds, with speculation and without, and keeps them
while requests join and leave. Both are hooks (`plugin.hooks`), and do nothing where the server samples by SGLang's own
backends: those read seeds only with `--enable-deterministic-inference`, and then refuse min_p beside them.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
from sglang.srt.runtime_context import get_exec
from sglang.srt.utils.common import is_pin_memory_available

from sgl_spec.server.algorithm import SAMPLING_BACKEND

SEED_OF_DETERMINISTIC_INFERENCE = 42  # SGLang's, for requests that name none


def _ours() -> bool:
    return bool(get_exec().kernel.sampling_backend == SAMPLING_BACKEND)


def _derived(data: bytes) -> int:
    """A number that fits an int64, not negative."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") >> 1


def _named_seed(params: Any) -> int | None:
    """The seed of SGLang's `SamplingParams`; None when nobody named one."""
    if params.sampling_seed is not None:
        return int(params.sampling_seed)
    return SEED_OF_DETERMINISTIC_INFERENCE if get_exec().deterministic.enable_deterministic_inference else None


def request_seed(req: Any) -> int:
    """The request's own seed, or one derived from its id: equal on every rank, and on no two requests."""
    seed = _named_seed(req.sampling_params)
    return _derived(req.rid.encode()) if seed is None else seed


def put_seeds(original: Callable[..., Any], info: Any, batch: Any, vocab_size: int) -> None:
    """Hook of `SamplingBatchInfo.adjusted_from_schedule_batch`, which SGLang calls on every batch info it builds."""
    original(info, batch, vocab_size)
    if _ours():
        seeds = [request_seed(req) for req in batch.reqs]
        pinned = is_pin_memory_available(info.device)
        on_host = torch.tensor(seeds, dtype=torch.int64, pin_memory=pinned)
        info.sampling_seed = on_host.to(info.device, non_blocking=True)


def sample_seed(seed: int, sample: int) -> int:
    """The seed of sample number `sample` of a request with `seed` (an int64): sample 0 has the request's own."""
    for _ in range(sample):
        seed = _derived(b"sgl_spec sample" + seed.to_bytes(8, "little", signed=True))
    return seed


def give_own_seed(original: Callable[..., Any], manager: Any, tokenized: Any) -> Any:
    """Hook of `TokenizerManager._send_one_request`: samples of one request differ also when it names a seed.

    SGLang sends the samples one after the other with one `SamplingParams` between them (before them, to fill the
    cache, a request that has a copy of it). So each is sent a copy, and the shared one goes on to the next seed.
    """
    if isinstance(tokenized, TokenizedGenerateReqInput) and tokenized.sampling_params.n > 1 and _ours():
        shared = tokenized.sampling_params
        tokenized.sampling_params = copy.copy(shared)
        seed = _named_seed(shared)
        if seed is not None:
            shared.sampling_seed = sample_seed(seed, 1)
    return original(manager, tokenized)
