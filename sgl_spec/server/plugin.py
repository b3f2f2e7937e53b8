"""Entry point of the group `sglang.srt.plugins`: runs once in every SGLang process, before the server's arguments
are resolved.

Registers the algorithm, the sampler and the server's hooks; on a mismatch with the installed SGLang the name is
registered all the same and refuses with the reason, so that a user reads what is wrong instead of "unknown algorithm".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple


class Hook(NamedTuple):
    """One place where SGLang is hooked rather than extended.

    Attributes:
        target: dotted name of a class, function or method of SGLang.
        hook: what takes its place, or is called with the original before the arguments.
        kind: the name of a `HookType` of SGLang: "REPLACE" or "AROUND".
    """

    target: str
    hook: Callable[..., Any]
    kind: str


def load() -> None:
    from sgl_spec.server import algorithm, sglang_contract

    broken = [row for row in sglang_contract.check_contract() if not row.ok]
    if broken:
        algorithm.refusal = sglang_contract.refusal(broken)
    algorithm.register()
    if broken:
        _refuse_sampler()
    else:
        _extend()


def _refuse_sampler() -> None:
    """`sgl-spec serve --off` names our sampler: its name stays known too, and refuses with the reason."""
    from sgl_spec.errors import ContractError
    from sgl_spec.server import algorithm

    def refuse() -> Any:
        raise ContractError(algorithm.refusal)

    with suppress(ImportError):
        from sglang.srt.layers.sampler import register_sampler_backend

        register_sampler_backend(algorithm.SAMPLING_BACKEND, refuse)


def hooks() -> tuple[Hook, ...]:
    """Every hook of the server (those of the CPU platform are listed in `platform_cpu/backend.py`), and why SGLang
    cannot be extended there."""
    from sgl_spec.server import internal_state, kv_rows, penalties, request_guard, run_end, seeds
    from sgl_spec.server.openai_prediction import PredictingServingChat

    return (
        # A user cannot name another tokenizer manager, whose `serving_chat_class` would be the way to another chat
        # endpoint.
        Hook("sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat", PredictingServingChat, "REPLACE"),
        # The scheduler builds its requests itself, and judges a run's end itself.
        Hook("sglang.srt.managers.schedule_batch.Req.update_finish_state", run_end.judge_last_token, "AROUND"),
        Hook("sglang.srt.managers.scheduler.Scheduler.get_internal_state", internal_state.add_ours, "AROUND"),
        # SGLang computes it where it builds its pools.
        Hook(
            "sglang.srt.mem_cache.allocation_sizing.get_req_to_token_extra_context_len",
            kv_rows.slots_beyond_context,
            "AROUND",
        ),
        # Both are where SGLang itself refuses a request, and neither asks anyone else.
        Hook(
            "sglang.srt.managers.tokenizer_manager.TokenizerManager._validate_one_request",
            request_guard.check_request,
            "AROUND",
        ),
        Hook("sglang.srt.sampling.sampling_params.SamplingParams.verify", request_guard.check_stop_tokens, "AROUND"),
        # Named by SGLang as "placeholder for override", but the scheduler names the class to override it in.
        Hook(
            "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo.adjusted_from_schedule_batch",
            seeds.put_seeds,
            "AROUND",
        ),
        # SGLang's own penalizers cannot be switched off.
        Hook(
            "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo.adjusted_from_schedule_batch",
            penalties.silence_sglang,
            "AROUND",
        ),
        # The samples of one request differ in nothing but their id when they are sent.
        Hook("sglang.srt.managers.tokenizer_manager.TokenizerManager._send_one_request", seeds.give_own_seed, "AROUND"),
    )


def _extend() -> None:
    from sglang.srt.arg_groups.resolution_hooks import register_resolution_hook
    from sglang.srt.layers.sampler import register_sampler_backend
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from sgl_spec.server.algorithm import SAMPLING_BACKEND
    from sgl_spec.server.sampler import SeededSampler, keep_backend

    register_sampler_backend(SAMPLING_BACKEND, SeededSampler)
    register_resolution_hook("handle_deterministic_inference")(keep_backend)
    for target, hook, kind in hooks():
        HookRegistry.register(target, hook, HookType[kind])
