"""Entry point of the group `sglang.srt.plugins`: runs once in every SGLang process, before the server's arguments
are resolved.

Registers the algorithm, the sampler and the server's hooks; on a mismatch with the installed SGLang the name is
registered all the same and refuses with the reason, so that a user reads what is wrong instead of "unknown algorithm".
"""

from __future__ import annotations

# Every place of the server where SGLang is hooked rather than extended (those of the CPU platform are listed in
# `platform_cpu/backend.py`): a class, and our subclass that takes its place. A user cannot name another tokenizer
# manager, whose `serving_chat_class` would be the way to another chat endpoint.
SERVING_CHAT = "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat"


def load() -> None:
    from sgl_spec.server import algorithm, sglang_contract

    broken = [row for row in sglang_contract.check_contract() if not row.ok]
    if broken:
        algorithm.refusal = sglang_contract.refusal(broken)
    algorithm.register()
    if not broken:
        _extend()


def _extend() -> None:
    from sglang.srt.layers.sampler import register_sampler_backend
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from sgl_spec.server.openai_prediction import PredictingServingChat
    from sgl_spec.server.sampler import BACKEND, SeededSampler

    register_sampler_backend(BACKEND, SeededSampler)
    HookRegistry.register(SERVING_CHAT, PredictingServingChat, HookType.REPLACE)
