"""Every name of SGLang that we override, call or read, checked against the installed version (design, rule 3).

Where it stands in a round: before the first one. `plugin.load` runs the check in every server process; `sgl-spec
doctor` prints it. A name used in `server/` or `platform_cpu/` belongs here first.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Sequence
from importlib import metadata
from typing import Any, NamedTuple

from sgl_spec.server.sglang_names import (
    CALL,
    FRONTEND_NAMES,
    HEAD_NAMES,
    OPENAI_NAMES,
    OVERRIDE,
    PLATFORM_NAMES,
    READ,
    SPEC,
    Name,
)  # fmt: skip

PINNED = "0.5.23"


class ContractRow(NamedTuple):
    """The outcome for one name. `detail` says what is missing when not ok."""

    name: str
    where: str
    ok: bool
    detail: str


_OPS = "sglang.kernels.ops.speculative"
_GRAMMAR = "sglang.srt.constrained"

SERVER_NAMES: tuple[Name, ...] = (
    Name(f"{SPEC}.spec_info:SpeculativeAlgorithm.register", CALL, ("name", "supports_overlap", "spec_class")),
    Name(f"{SPEC}.spec_info:SpeculativeAlgorithm.create_future_map", CALL, ("device", "req_to_token_pool")),
    Name(f"{SPEC}.spec_registry:CustomSpecAlgo.is_ngram", OVERRIDE),
    Name(f"{SPEC}.spec_registry:CustomSpecAlgo.has_draft_kv", OVERRIDE),
    Name(f"{SPEC}.spec_registry:CustomSpecAlgo.handle_server_args", OVERRIDE, ("server_args",)),
    Name(f"{SPEC}.base_spec_worker:BaseSpecWorker.alloc_memory_pool", OVERRIDE),
    Name(f"{SPEC}.base_spec_worker:BaseSpecWorker.init_cuda_graphs", OVERRIDE),
    Name(f"{SPEC}.base_spec_worker:BaseSpecWorker.clear_cache_pool", OVERRIDE),
    Name(f"{SPEC}.base_spec_worker:BaseSpecWorker.note_request_finished", OVERRIDE, ("rid", "natural_stop")),
    Name(f"{SPEC}.ngram_info:NgramVerifyInput", CALL, (
        "draft_token", "custom_mask", "positions", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling",
        "draft_token_num", "new_seq_lens")),
    Name(f"{SPEC}.ngram_info:NgramVerifyInput.filter_batch", OVERRIDE, ("new_indices", "new_indices_cpu")),
    Name(f"{SPEC}.ngram_info:NgramVerifyInput.merge_batch", OVERRIDE, ("spec_info",)),
    Name(f"{SPEC}.spec_utils:GrammarTree.from_host", CALL,
         ("retrieve_next_token", "retrieve_next_sibling", "draft_token")),
    Name(f"{SPEC}.spec_utils:build_grammar_vocab_mask", CALL,
         ("reqs", "tree", "sampling_info", "device", "barrier")),
    Name(f"{SPEC}.spec_utils:move_accept_tokens_to_target_kvcache", CALL,
         ("batch", "accept_index", "num_correct_drafts", "token_to_kv_pool_allocator")),
    Name(f"{SPEC}.spec_utils:prepare_mamba_track_for_verify", CALL, ("batch",)),
    Name(f"{SPEC}.spec_utils:commit_mamba_states_after_verify", CALL),
    Name(f"{_OPS}.cache_locs:assign_extend_cache_locs_func", CALL,
         ("req_pool_indices", "req_to_token", "start_offset", "end_offset", "batch_size", "draft_token_num", "device")),
    Name(f"{_OPS}.spec_tree:verify_tree_greedy_func", CALL,
         ("predicts", "accept_index", "accept_token_num", "candidates", "retrieve_index", "retrieve_next_token",
          "retrieve_next_sibling", "target_predict", "topk")),
    Name("sglang.srt.managers.tp_worker:TpModelWorker.forward_batch_generation", CALL,
         ("batch", "pp_proxy_tensors", "is_verify", "capture_hidden_mode")),
    Name("sglang.srt.managers.tp_worker:TpModelWorker.get_memory_pool", CALL),
    Name("sglang.srt.managers.scheduler:GenerationBatchResult", CALL,
         ("logits_output", "next_token_ids", "can_run_cuda_graph", "accept_lens", "new_seq_lens", "next_draft_input",
          "speculative_num_draft_tokens")),
    Name("sglang.srt.managers.schedule_batch:ScheduleBatch", READ,
         ("reqs", "forward_mode", "input_ids", "out_cache_loc", "seq_lens", "seq_lens_cpu", "req_pool_indices",
          "req_to_token_pool", "sampling_info", "spec_info", "return_logprob", "has_grammar")),
    Name("sglang.srt.managers.schedule_batch:Req", READ,
         ("rid", "output_ids", "customized_info", "sampling_params", "custom_logit_processor",
          "return_hidden_states", "origin_input_ids_unpadded", "eos_token_ids", "tokenizer", "finished",
          "finished_reason", "to_finish", "grammar", "extra_key", "cache_salt", "stream")),
    Name("sglang.srt.managers.schedule_batch:FINISH_ABORT", READ),
    Name("sglang.srt.mem_cache.allocation_sizing:get_req_to_token_extra_context_len", OVERRIDE),
    Name("sglang.srt.mem_cache.allocation_sizing:get_alloc_reserve_per_decode", CALL),
    Name("sglang.srt.mem_cache.allocation_sizing:get_alloc_page_size", CALL),
    Name("sglang.srt.managers.schedule_batch:Req.update_finish_state", OVERRIDE, ("new_accepted_len",)),
    Name("sglang.srt.managers.scheduler:Scheduler.get_internal_state", OVERRIDE, ("recv_req",)),
    Name("sglang.srt.managers.scheduler:Scheduler", READ, ("draft_worker",)),
    Name("sglang.srt.managers.io_struct:GetInternalStateReqOutput", READ, ("internal_state",)),
    Name(f"{_GRAMMAR}.base_grammar_backend:BaseGrammarObject", READ, ("accept_token", "rollback", "is_terminated")),
    Name(f"{_GRAMMAR}.xgrammar_backend:XGrammarGrammar", READ, ("matcher", "is_terminated")),
    Name(f"{_GRAMMAR}.llguidance_backend:GuidanceGrammar", READ, ("ll_matcher", "is_terminated")),
    Name(f"{_GRAMMAR}.reasoner_grammar_backend:ReasonerGrammarObject", READ, ("grammar", "_grammar_active")),
    Name("xgrammar:GrammarMatcher", READ, (
        "fork", "accept_token", "accept_string", "rollback", "find_jump_forward_string", "fill_next_token_bitmask",
        "is_terminated", "stop_token_ids")),
    Name("xgrammar:TokenizerInfo.from_huggingface", CALL, ("tokenizer", "vocab_size")),
    Name("llguidance:LLMatcher", READ, (
        "deep_copy", "try_consume_tokens", "rollback", "compute_ff_bytes", "compute_ff_tokens", "compute_bitmask",
        "is_stopped", "is_accepting", "is_error")),
    Name("sglang.srt.sampling.sampling_params:SamplingParams", READ,
         ("sampling_seed", "custom_params", "max_new_tokens", "min_new_tokens", "frequency_penalty",
          "presence_penalty", "repetition_penalty", "ignore_eos", "stop_token_ids", "json_schema", "regex", "ebnf",
          "structural_tag", "n", "temperature", "top_k")),
    Name("sglang.srt.sampling.sampling_batch_info:SamplingBatchInfo", READ,
         ("temperatures", "top_ks", "top_ps", "min_ps", "sampling_seed", "is_all_greedy", "logit_bias",
          "need_top_k_sampling", "need_top_p_sampling", "sampling_mask_batch_indices", "device",
          "acc_additive_penalties", "acc_scaling_penalties", "penalizer_orchestrator", "has_custom_logit_processor")),
    Name("sglang.srt.sampling.sampling_params:SamplingParams.verify", OVERRIDE, ("vocab_size",)),
    Name("sglang.srt.sampling.custom_logit_processor:CustomLogitProcessor.from_str", CALL, ("json_str",)),
    Name("sglang.srt.managers.tokenizer_manager:TokenizerManager._validate_one_request", OVERRIDE,
         ("obj", "input_ids")),
    Name("sglang.srt.server_args:ServerArgs", READ,
         ("speculative_num_draft_tokens", "speculative_eagle_topk", "speculative_num_steps", "max_running_requests",
          "disable_overlap_schedule", "enable_mixed_chunk", "sampling_backend", "speculative_draft_model_path",
          "grammar_backend", "enable_watermark", "enable_dp_attention", "pp_size", "rl_on_policy_target",
          "enable_return_routed_experts", "enable_return_indexer_topk",
          "disaggregation_mode", "tokenizer_worker_num", "device", "page_size", "attention_backend",
          "decode_attention_backend")),
    Name("sglang.srt.runtime_context:get_device", CALL),
    Name("sglang.srt.runtime_context:get_exec", CALL),
    Name("sglang.srt.runtime_context:get_parallel", CALL),
    Name("sglang.srt.runtime_context:get_serving", CALL),
    Name("sglang.srt.runtime_context:get_spec", CALL),
    Name("sglang.srt.distributed.parallel_state:GroupCoordinator.broadcast", CALL, ("input_", "src")),
    Name("sglang.srt.distributed.parallel_state:GroupCoordinator", READ, ("rank_in_group", "world_size")),
    Name("sglang.srt.managers.tp_worker:TpModelWorker", READ, ("tokenizer", "model_runner")),
    Name("sglang.srt.model_executor.forward_batch_info:ForwardMode", READ, ("TARGET_VERIFY", "DECODE", "is_decode")),
    Name("sglang.srt.model_executor.model_runner:ModelRunner", READ,
         ("decode_cuda_graph_runner", "model_config", "attn_backend", "dtype")),
    Name("sglang.srt.configs.model_config:ModelConfig", READ,
         ("hf_config", "quantization", "dtype", "hidden_size", "vocab_size")),
    Name("sglang.srt.layers.attention.base_attn_backend:AttentionBackend.init_forward_metadata", CALL,
         ("forward_batch",)),
    Name("sglang.srt.mem_cache.memory_pool:ReqToTokenPool", READ, ("req_to_token",)),
    Name("sglang.srt.mem_cache.memory_pool:KVCache", READ, ("size",)),
    Name("sglang.srt.layers.sampler:register_sampler_backend", CALL, ("backend", "factory")),
    Name("sglang.srt.layers.sampler:_SamplingMaskCapture", CALL,
         ("weights", "token_ids", "selected_weight", "batch_rows")),
    Name("sglang.srt.arg_groups.resolution_hooks:register_resolution_hook", CALL, ("name",)),
    Name("sglang.srt.arg_groups.overrides:declare_resolution", CALL, ("server_args", "source")),
    Name("sglang.srt.sampling.sampling_batch_info:SamplingBatchInfo.adjusted_from_schedule_batch", OVERRIDE,
         ("batch", "vocab_size")),
    Name("sglang.srt.managers.tokenizer_manager:TokenizerManager._send_one_request", OVERRIDE, ("tokenized_obj",)),
    Name("sglang.srt.managers.io_struct:TokenizedGenerateReqInput", READ, ("sampling_params",)),
    Name("sglang.srt.layers.sampler:apply_custom_logit_processor", CALL,
         ("logits", "sampling_batch_info")),
    Name("sglang.srt.layers.sampler:Sampler.forward", OVERRIDE, ("logits_output", "sampling_info", "positions")),
    Name("sglang.srt.layers.sampler:Sampler._preprocess_logits", OVERRIDE, ("logits", "sampling_info")),
    Name("sglang.srt.layers.sampler:Sampler._sample_from_probs", OVERRIDE,
         ("probs", "sampling_info", "positions", "simple_sampling_case")),
    Name("sglang.srt.layers.logprob_processor:compute_spec_logprobs", CALL,
         ("batch", "logits_output", "predict", "accept_index")),
    Name("sglang.srt.sampling.penaltylib.repetition_penalty:apply_scaling_penalties", CALL,
         ("logits", "scaling_penalties")),
    # PrefillPenalties stands in for it, with the first two.
    Name("sglang.srt.sampling.penaltylib:BatchedPenalizerOrchestrator", READ, ("is_required", "apply", "release")),
    Name("sglang.srt.utils.common:is_pin_memory_available", CALL, ("device",)),
    Name("sglang.srt.utils.async_probe:sanitize_nan_logits", CALL),
    Name("sglang.srt.observability.req_time_stats:set_time_batch", CALL),
)  # fmt: skip

CONTRACT = SERVER_NAMES + HEAD_NAMES + OPENAI_NAMES + PLATFORM_NAMES + FRONTEND_NAMES


def _resolve(path: str) -> Any:
    module, _, attributes = path.partition(":")
    return functools.reduce(getattr, attributes.split("."), importlib.import_module(module))


def _missing_parameters(target: Any, names: Sequence[str]) -> list[str]:
    parameters = inspect.signature(target).parameters
    return [name for name in names if name not in parameters]


def _missing_attributes(target: Any, names: Sequence[str]) -> list[str]:
    known = {field.name for field in dataclasses.fields(target)} if dataclasses.is_dataclass(target) else set()
    known |= set(getattr(target, "__struct_fields__", ())) | set(getattr(target, "__annotations__", ()))
    try:
        source = inspect.getsource(target)
    except (OSError, TypeError):  # a compiled class: all it has is on it
        source = ""
    return [n for n in names if n not in known and not hasattr(target, n) and f"self.{n}" not in source]


def _check(name: Name) -> ContractRow:
    where = f"{name.path} ({name.use})"
    try:
        target = _resolve(name.path)
    except (ImportError, AttributeError) as error:
        return ContractRow(name.path, where, False, f"not found: {error}")
    missing = _missing_attributes(target, name.names) if name.use == READ else _missing_parameters(target, name.names)
    what = "attribute" if name.use == READ else "parameter"
    return ContractRow(name.path, where, not missing, f"has no {what} {', '.join(missing)}" if missing else "")


def _check_version() -> ContractRow:
    try:
        found = metadata.version("sglang")
    except metadata.PackageNotFoundError:
        return ContractRow("sglang", "version", False, f"not installed; wanted {PINNED}")
    detail = "" if found == PINNED else f"found {found}, wanted {PINNED}: pip install sglang=={PINNED}"
    return ContractRow("sglang", "version", found == PINNED, detail)


def check_contract() -> list[ContractRow]:
    """One row for the version, then one for each name. Where the version differs the names are still checked."""
    return [_check_version(), *(_check(name) for name in CONTRACT)]


def refusal(broken: Sequence[ContractRow]) -> str:
    """The sentence a user reads when the algorithm refuses to start."""
    first = broken[0]
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"SGL_SPEC cannot run on this SGLang: {first.name} {first.detail}{more}. `sgl-spec doctor` lists all."
