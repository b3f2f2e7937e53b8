"""Names of SGLang that single parts of ours use: draft heads, the OpenAI endpoint, the CPU platform, the frontend.

Where it stands in a round: before the first one; `sglang_contract` checks them.
"""

from __future__ import annotations

from typing import NamedTuple

CALL = "call"  # a function or method we call: it must take the parameters named
OVERRIDE = "override"  # a method we replace in a subclass or hook: likewise
READ = "read"  # an attribute of the class's instances that we read or set


class Name(NamedTuple):
    """One dependency: `module:object`, how we use it, and the parameters (CALL, OVERRIDE) or attributes (READ)."""

    path: str
    use: str
    names: tuple[str, ...] = ()


SPEC = "sglang.srt.speculative"
_EXECUTOR = "sglang.srt.model_executor"
_EAGLE = f"{SPEC}.eagle_worker_v2:EagleDraftWorker"

HEAD_NAMES: tuple[Name, ...] = (
    Name(f"{SPEC}.spec_registry:CustomSpecAlgo.is_standalone", OVERRIDE),
    Name(f"{SPEC}.spec_registry:CustomSpecAlgo.is_eagle3", OVERRIDE),
    Name(_EAGLE, CALL, ("server_args", "gpu_id", "nccl_port", "target_worker")),
    Name(_EAGLE, READ, ("draft_runner", "draft_attn_backend", "parallel_layout", "hot_token_id", "topk",
                        "speculative_num_steps", "cuda_graph_runner", "cuda_graph_runner_for_draft_extend")),
    Name(f"{_EAGLE}._draft_extend_for_prefill", CALL,
         ("batch", "target_hidden_states", "next_token_ids", "mm_input_embeds")),
    Name(f"{_EAGLE}._capture_cuda_graphs", OVERRIDE),
    Name(f"{SPEC}.standalone_worker_v2:StandaloneDraftWorker", CALL,
         ("server_args", "gpu_id", "nccl_port", "target_worker")),
    Name(f"{SPEC}.eagle_info:EagleDraftExtendInput", CALL,
         ("hidden_states", "num_tokens_per_req", "num_tokens_for_logprob_per_req")),
    Name(f"{SPEC}.eagle_info:EagleDraftInput", CALL, ("hidden_states",)),
    Name(f"{SPEC}.eagle_utils:per_step_draft_out_cache_loc", CALL,
         ("out_cache_loc", "batch_size", "topk", "num_steps")),
    Name(f"{SPEC}.eagle_worker_common:prepare_for_draft", CALL,
         ("draft_input", "req_to_token_pool", "batch", "cuda_graph_runner", "draft_model_runner", "topk", "num_steps")),
    Name(f"{SPEC}.spec_utils:draft_tp_context", CALL, ("layout",)),
    Name(f"{SPEC}.draft_utils:DraftBackendFactory", CALL, ("draft_model_runner", "topk", "speculative_num_steps")),
    Name("sglang.srt.layers.moe.utils:speculative_moe_backend_context", CALL),
    Name("sglang.srt.layers.moe.utils:speculative_moe_a2a_backend_context", CALL),
    Name("sglang.srt.layers.logits_processor:LogitsProcessorOutput", READ,
         ("next_token_logits", "hidden_states", "mm_input_embeds")),
    Name(f"{_EXECUTOR}.forward_context:ForwardContext", CALL, ("attn_backend",)),
    Name(f"{_EXECUTOR}.forward_context:forward_context", CALL, ("ctx", "forward_batch")),
    Name(f"{_EXECUTOR}.forward_batch_info:CaptureHiddenMode", READ, ("FULL", "LAST", "NULL")),
    Name(f"{_EXECUTOR}.forward_batch_info:ForwardMode", READ, ("EXTEND", "DECODE")),
    Name(f"{_EXECUTOR}.forward_batch_info:ForwardBatch.init_new", CALL,
         ("batch", "model_runner", "capture_hidden_mode", "return_hidden_states_before_norm")),
    Name(f"{_EXECUTOR}.forward_batch_info:ForwardBatch", READ,
         ("input_ids", "positions", "out_cache_loc", "spec_info", "capture_hidden_mode",
          "mark_forward_metadata_ready")),
    Name(f"{_EXECUTOR}.model_runner:ModelRunner.forward", CALL, ("forward_batch",)),
    Name(f"{_EXECUTOR}.model_runner:ModelRunner", READ,
         ("req_to_token_pool", "token_to_kv_pool_allocator", "token_to_kv_pool", "spec_algorithm", "device")),
    Name("sglang.srt.managers.schedule_batch:ScheduleBatch", READ,
         ("tree_cache", "orig_seq_lens", "seq_lens_sum", "prefix_lens", "extend_lens", "extend_num_tokens",
          "extend_logprob_start_lens", "multimodal_inputs")),
    Name("sglang.srt.managers.schedule_batch:Req", READ, ("kv", "origin_input_ids")),
    Name("sglang.srt.managers.schedule_batch:Req", CALL,
         ("rid", "origin_input_text", "origin_input_ids", "sampling_params")),
    Name("sglang.srt.sampling.sampling_params:SamplingParams", CALL),
    Name("sglang.srt.managers.schedule_batch:ReqKvInfo", READ, ("req_pool_idx",)),
    Name("sglang.srt.mem_cache.memory_pool:MHATokenToKVPool", READ, ("k_buffer", "v_buffer")),
    Name("sglang.srt.utils.common:fast_topk", CALL, ("values", "topk", "dim")),
    Name("sglang.srt.runtime_context:get_memory", CALL),
    Name("sglang.srt.server_args:ServerArgs", READ,
         ("speculative_draft_model_revision", "speculative_draft_attention_backend", "enable_return_hidden_states")),
)  # fmt: skip

_OPENAI = "sglang.srt.entrypoints.openai"
_CHAT = f"{_OPENAI}.serving_chat:OpenAIServingChat"

OPENAI_NAMES: tuple[Name, ...] = (
    Name(f"{_CHAT}.handle_request", OVERRIDE, ("request", "raw_request")),
    Name(f"{_CHAT}.create_error_response", CALL, ("message", "param")),
    Name(f"{_CHAT}._build_chat_response", OVERRIDE, ("request", "ret", "created")),
    Name(f"{_CHAT}._handle_non_streaming_request", OVERRIDE, ("adapted_request", "request", "raw_request")),
    Name(f"{_CHAT}._generate_chat_stream", OVERRIDE, ("adapted_request", "request", "raw_request")),
    Name(f"{_CHAT}._generate_stream_content", OVERRIDE, ("content", "index", "request")),
    Name(f"{_OPENAI}.serving_base:OpenAIServingBase", READ, ("tokenizer_manager",)),
    Name(f"{_OPENAI}.protocol:ChatCompletionRequest", READ, ("custom_params", "n")),
    Name(f"{_OPENAI}.protocol:ChatCompletionResponse", READ, ("usage",)),
    Name(f"{_OPENAI}.protocol:UsageInfo", READ, ("reasoning_tokens", "completion_tokens_details")),
    Name(f"{_OPENAI}.protocol:CompletionTokensDetails", READ, ("reasoning_tokens",)),
    Name("sglang.srt.managers.tokenizer_manager:TokenizerManager", READ, ("tokenizer", "serving_chat_class")),
)  # fmt: skip

PLATFORM_NAMES: tuple[Name, ...] = (
    Name("sglang.srt.layers.attention.attention_registry:register_attention_backend", CALL, ("name",)),
    Name("sglang.srt.layers.attention.intel_amx_backend:IntelAMXAttnBackend", CALL, ("model_runner",)),
    Name("sglang.srt.layers.quantization.unquant:UnquantizedLinearMethod.apply", OVERRIDE, ("layer", "x", "bias")),
    Name("sglang.srt.layers.logits_processor:LogitsProcessor._compute_lm_head", OVERRIDE,
         ("hidden_states", "lm_head", "embedding_bias")),
    Name("sglang.srt.layers.activation:SiluAndMul.forward_native", OVERRIDE, ("x",)),
    Name("sglang.srt.layers.activation:GeluAndMul.forward_native", OVERRIDE, ("x",)),
    Name("sglang.srt.plugins.hook_registry:HookRegistry.register", CALL),
    Name("sglang.srt.plugins.hook_registry:HookType", READ, ("REPLACE", "AROUND")),
)  # fmt: skip

FRONTEND_NAMES: tuple[Name, ...] = (
    Name("sglang.lang.backend.runtime_endpoint:RuntimeEndpoint", CALL, ("base_url",)),
    Name("sglang.lang.interpreter:StreamExecutor", READ,
         ("worker", "error_", "fork_start_text_pos", "variables", "use_thread", "is_finished")),
    Name("sglang.lang.interpreter:run_program", CALL, ("program", "func_args", "func_kwargs")),
    Name("sglang.lang.interpreter:run_internal", CALL, ("state", "program", "func_args", "func_kwargs")),
    Name("sglang.lang.interpreter:StreamExecutor.submit", OVERRIDE, ("expr",)),
    Name("sglang.lang.interpreter:StreamExecutor.fork", OVERRIDE),
    Name("sglang.lang.interpreter:StreamExecutor.get_var", OVERRIDE, ("name",)),
    Name("sglang.lang.interpreter:StreamExecutor.end", OVERRIDE),
    Name("sglang.lang.interpreter:StreamExecutor._execute", OVERRIDE, ("other",)),
    Name("sglang.lang.interpreter:StreamExecutor._execute_var_scope_end", OVERRIDE, ("expr",)),
    Name("sglang.lang.interpreter:StreamExecutor._execute_separate_reasoning", OVERRIDE, ("expr",)),
    Name("sglang.lang.interpreter:run_program_batch", CALL, ("program", "batch_arguments", "generator_style")),
    Name("sglang.lang.interpreter:cache_program", READ),
    Name("sglang.lang.interpreter:ProgramState", CALL, ("stream_executor",)),
    Name("sglang.lang.interpreter:ProgramStateGroup.join", CALL, ("mode",)),
    Name("sglang.lang.ir:SglFunction", READ, ("run", "run_batch", "func", "arg_names", "bind_arguments")),
    Name("sglang.lang.ir:SglGen", READ, ("name",)),
    Name("sglang.lang.ir:SglSelect", READ, ("name", "choices")),
    Name("sglang.lang.ir:SglSamplingParams", READ),
    Name("sglang.lang.ir:SglExpr", READ),
    Name("sglang.lang.ir:SglExprList", READ, ("expr_list",)),
    Name("sglang.lang.ir:SglConstantText", READ, ("value",)),
    Name("sglang.lang.ir:SglRoleBegin", READ, ("role",)),
    Name("sglang.lang.ir:SglRoleEnd", READ, ("role",)),
    Name("sglang.lang.ir:SglVarScopeBegin", READ, ("name",)),
    Name("sglang.lang.ir:SglVarScopeEnd", READ, ("name",)),
    Name("sglang.lang.ir:SglSeparateReasoning", READ),
    Name("sglang.lang.ir:SglImage", READ),
    Name("sglang.lang.ir:SglVideo", READ),
    Name("sglang.lang.ir:SglCommitLazy", READ),
    Name("sglang.lang.ir:SglConcateAndAppend", READ),
    Name("sglang.lang.backend.base_backend:BaseBackend", READ),
    Name("sglang.lang.choices:ChoicesDecision", READ, ("decision",)),
    Name("sglang.lang.choices:ChoicesSamplingMethod", READ),
    Name("sglang.lang.global_config:global_config", READ,
         ("skip_special_tokens_in_output", "spaces_between_special_tokens_in_out")),
    Name("sglang.lang.chat_template:chat_template_registry", READ),
    Name("sglang.lang.chat_template:get_chat_template", CALL, ("name",)),
    Name("sglang.lang.chat_template:get_chat_template_by_model_path", CALL, ("model_path",)),
    Name("sglang.lang.chat_template:ChatTemplate.get_prefix_and_suffix", CALL, ("role", "hist_messages")),
    Name("sglang.lang.chat_template:ChatTemplate", READ, ("role_prefix_and_suffix",)),
)  # fmt: skip
