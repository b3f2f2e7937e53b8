"""The `sgl_kernel` module that SGLang's CPU branches import, made of this folder's functions.

Where it stands in a round: nowhere; it is wiring, done once per process. What SGLang calls as
`torch.ops.sgl_kernel.X` is registered as a torch op of that name, what it imports from `sgl_kernel` becomes an
attribute of the module. Anything else SGLang might ask of `sgl_kernel` fails with the name it asked for.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from sgl_spec.errors import PlatformError
from sgl_spec.platform_cpu import attention, cache_ops, pointwise_ops, tree_ops

MODULE = "sgl_kernel"
_MARK = "__sgl_spec_cpu_platform__"
# SGLang compares this with the least version it accepts.
_VERSION = "999.0.0+sgl_spec.cpu"

FUNCTIONS: tuple[Callable[..., Any], ...] = (
    cache_ops.assign_draft_cache_locs_contiguous_cpu,
    cache_ops.assign_extend_cache_locs_cpu,
    cache_ops.assign_req_to_token_pool_cpu,
    cache_ops.build_draft_decode_metadata_cpu,
    cache_ops.copy_all_layer_kv_cache_cpu,
    cache_ops.fill_accept_out_cache_loc_cpu,
    cache_ops.fill_bonus_tokens_cpu,
    tree_ops.build_tree_kernel_efficient_cpu,
    tree_ops.verify_tree_greedy_cpu,
)
SPECULATIVE_FUNCTIONS = (tree_ops.reconstruct_indices_from_tree_mask,)

OPS: dict[str, tuple[str, Callable[..., Any]]] = {
    "decode_attention_cpu": (
        "(Tensor query, Tensor k_cache, Tensor v_cache, float k_scale, float v_scale, Tensor(a!) output, Tensor? key, "
        "Tensor? value, Tensor? loc, Tensor attn_logits, Tensor req_to_token, Tensor req_pool_indices, "
        "Tensor seq_lens, float sm_scale, float logit_cap, bool is_cross_attn, int sliding_window, "
        "Tensor? encoder_lens, Tensor? sinks) -> ()",
        attention.decode_attention_cpu,
    ),
    "extend_attention_cpu": (
        "(Tensor q_extend, Tensor? k_extend, Tensor? v_extend, Tensor(a!) o_extend, Tensor k_buffer, "
        "Tensor v_buffer, float k_scale, float v_scale, Tensor req_to_token, Tensor req_pool_indices, "
        "Tensor seq_lens, Tensor extend_seq_lens, Tensor extend_start_loc, int max_len_extend, float sm_scale, "
        "float logit_cap, bool is_cross_attn, int sliding_window, Tensor? encoder_lens, Tensor? sinks, "
        "Tensor? tree_mask, bool is_causal) -> ()",
        attention.extend_attention_cpu,
    ),
    "rotary_embedding_cpu": (
        "(Tensor positions, Tensor query, Tensor key, int head_size, Tensor cos_sin_cache, bool is_neox) "
        "-> (Tensor, Tensor)",
        pointwise_ops.rotary_embedding_cpu,
    ),
    "murmur_hash32_cpu": (
        "(Tensor seed, Tensor positions, Tensor col_indices) -> Tensor",
        pointwise_ops.murmur_hash32_cpu,
    ),
    # arm64 only: thread binding and shared-memory all-reduce, which gloo does without.
    "init_cpu_threads_env": ("(int[]? cpus) -> ()", lambda cpus: None),
    "initialize": ("(int size, int rank) -> ()", lambda size, rank: None),
}

_library: torch.library.Library | None = None


def is_installed() -> bool:
    return hasattr(sys.modules.get(MODULE), _MARK)


def _module(name: str, functions: tuple[Callable[..., Any], ...]) -> types.ModuleType:
    module = types.ModuleType(name, "Stands in for the CPU build of sgl_kernel (sgl_spec.platform_cpu).")
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    module.__version__ = _VERSION  # type: ignore[attr-defined]
    setattr(module, _MARK, True)
    for function in functions:
        setattr(module, function.__name__, function)
    sys.modules[name] = module
    return module


def _register_ops() -> None:
    global _library
    if _library is not None:
        return
    # A fragment: a CUDA build of `sgl_kernel` that loaded, without a GPU to use, has defined the namespace already.
    _library = torch.library.Library(MODULE, "FRAGMENT")
    for name, (schema, function) in OPS.items():
        _library.define(name + schema)
        # The two start-up ops take no tensor, so no backend key would select them.
        key = "CompositeExplicitAutograd" if "Tensor" not in schema else "CPU"
        _library.impl(name, function, key)


def install() -> None:
    """Put the module in place and register its ops. Errors if another `sgl_kernel` is loaded in this process."""
    loaded = sys.modules.get(MODULE)
    if loaded is not None and not is_installed():
        raise PlatformError(
            f"{MODULE} is already loaded from {loaded.__file__}; the CPU platform cannot stand in for it"
        )
    module = _module(MODULE, FUNCTIONS)
    module.speculative = _module(f"{MODULE}.speculative", SPECULATIVE_FUNCTIONS)  # type: ignore[attr-defined]
    _register_ops()
