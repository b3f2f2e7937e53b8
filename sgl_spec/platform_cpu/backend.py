"""Registers the CPU platform's attention backend, its linear layers and activations with SGLang.

Entry point of the group `sglang.srt.plugins`: runs once in every SGLang process, after `activate`. Where it stands
in a round: nowhere; wiring. The hooks below are the only places where SGLang is hooked rather than extended:
it has no way to register another unquantised linear method or activation.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

import torch

from sgl_spec.errors import PlatformError
from sgl_spec.platform_cpu import activate

logger = logging.getLogger(__name__)

# What SGLang resolves to on a CPU without AMX, and what a user or a draft head may name.
BACKEND_NAMES = ("torch_native", "intel_amx")
LINEAR_APPLY = "sglang.srt.layers.quantization.unquant.UnquantizedLinearMethod.apply"
LM_HEAD = "sglang.srt.layers.logits_processor.LogitsProcessor._compute_lm_head"
ACTIVATIONS = tuple(f"sglang.srt.layers.activation.{name}.forward_native" for name in ("SiluAndMul", "GeluAndMul"))


@functools.cache
def _say_active() -> None:
    """Once per process, and not before SGLang has set up its log."""
    logger.info("sgl_spec CPU platform active: no accelerator and no sgl_kernel CPU build on this machine")


def _create_backend(runner: Any) -> Any:
    from sglang.srt.layers.attention.intel_amx_backend import IntelAMXAttnBackend

    if runner.use_mla_backend:
        raise PlatformError("the CPU platform does not support multi-head latent attention (MLA); use a GPU")
    if runner.dtype not in (torch.bfloat16, torch.float32):
        raise PlatformError(
            f"--dtype {runner.dtype}: the CPU platform computes in bfloat16 or float32; choose one of the two"
        )
    _say_active()
    return IntelAMXAttnBackend(runner)


def load() -> None:
    """Register, where the platform is active."""
    if not activate.is_active():
        return
    from sglang.srt.layers.attention.attention_registry import register_attention_backend
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from sgl_spec.platform_cpu import activation, linear

    for name in BACKEND_NAMES:
        register_attention_backend(name)(_create_backend)
    HookRegistry.register(LINEAR_APPLY, linear.apply_hook, HookType.AROUND)
    HookRegistry.register(LM_HEAD, linear.lm_head_hook, HookType.AROUND)
    for name in ACTIVATIONS:
        HookRegistry.register(name, activation.native_hook, HookType.AROUND)
