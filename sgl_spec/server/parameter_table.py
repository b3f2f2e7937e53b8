"""Every parameter a request of SGLang 0.5.23 can carry, what SGL_SPEC does about it, and the tests that would notice.

Where it stands in a round: nowhere; data. `docs/lossless.md` shows it (`python -m sgl_spec.server.parameter_page`),
`tests/contract/test_parameter_table.py` holds it against the installed SGLang, so that a parameter SGLang adds is
noticed, and `tests/mutations` breaks the treatments one by one and sees the tests fail.
"""

from __future__ import annotations

from sgl_spec.server.parameter_row import Outside, Parameter, Treatment

HONOURED, ABSTAINS, REFUSED, SGLANG = Treatment

_CONTRACT = "tests/contract/"
_PENALTIES = f"{_CONTRACT}test_penalties.py::test_every_node_has_the_bits_of_decoding_alone"
_RESUMED = f"{_CONTRACT}test_penalties.py::test_a_prefill_is_penalised_for_what_was_said_before"
_LOGITS = f"{_CONTRACT}test_node_logits.py::test_every_node_has_the_bits_of_decoding_alone"
_ORACLE = f"{_CONTRACT}test_server_sampling.py::test_tokens_equal_the_oracles"
_BOTH_WAYS = f"{_CONTRACT}test_node_targets.py::test_both_ways_choose_the_same_tokens"
_FIRST_TOKEN = f"{_CONTRACT}test_sampler.py::test_it_chooses_the_targets_tokens_and_gives_their_logprobs"
_GRAMMAR_END = f"{_CONTRACT}test_grammar_end.py::test_it_ends_as_if_its_tokens_had_come_one_by_one"
_RUN_END = f"{_CONTRACT}test_run_end.py::test_a_request_ends_as_if_its_tokens_had_come_one_by_one"
_OWNERS = f"{_CONTRACT}test_request_states.py::test_owners_are_told_apart"
_REFUSED = f"{_CONTRACT}test_parameters_refused.py"
_SERVER = "tests/server/test_parameters.py"
_AT_THE_START = f"{_CONTRACT}test_algorithm.py::test_refuses_with_a_sentence"


def _rounds(case: str) -> str:
    """One case of the test that runs the worker."""
    return f"{_CONTRACT}test_parameters_in_rounds.py::test_a_parameter_in_rounds[{case}]"


def _sglangs(case: str) -> str:
    """One case of the test of what SGLang itself sees to, on a server."""
    return f"{_SERVER}::test_what_sglang_sees_to[{case}]"


def _logprobs(case: str) -> str:
    return f"{_CONTRACT}test_parameters_in_rounds.py::test_logprobs_are_those_of_the_accepted_path[{case}]"


# The fields of SGLang's SamplingParams.
SAMPLING: tuple[Parameter, ...] = (
    Parameter(
        "temperature", HONOURED, "divides the logits of every node before it is sampled; 0 takes the largest logit",
        (_ORACLE, _BOTH_WAYS, _FIRST_TOKEN, _rounds("temperature")), ("temperature",),
    ),
    Parameter(
        "top_k", HONOURED, "of every node's tokens in descending order (equal ones by id) the first k; 1 is greedy",
        (_ORACLE, _BOTH_WAYS, _rounds("top_k")), ("top_k",),
    ),
    Parameter(
        "top_p", HONOURED, "tokens are kept while the mass before them is at most p",
        (
            _ORACLE, _BOTH_WAYS, _rounds("top_p"),
            f"{_CONTRACT}test_parameters_in_rounds.py::test_a_parameter_alone_in_its_batch[top_p]",
        ),
        ("top_p",),
    ),
    Parameter(
        "min_p", HONOURED, "tokens less likely than p times the likeliest are dropped",
        (_ORACLE, _rounds("min_p")), ("min_p",),
    ),
    Parameter(
        "sampling_seed", HONOURED,
        "keys the noise, with position and token id; a request that names none draws one from its id",
        (
            _ORACLE, _BOTH_WAYS, _FIRST_TOKEN, _rounds("sampling_seed"),
            f"{_CONTRACT}test_seeds.py::test_the_seed_of_a_request",
            f"{_CONTRACT}test_seeds.py::test_every_batch_carries_its_requests_seeds_while_requests_join_and_leave",
        ),
        ("seed",),
    ),
    Parameter(
        "n", HONOURED, "n requests with a seed each, also where the client names one",
        (
            f"{_CONTRACT}test_seeds.py::test_samples_have_seeds_of_their_own_that_fit",
            f"{_CONTRACT}test_seeds.py::test_samples_of_one_request_get_a_seed_each",
        ),
        ("n",),
    ),
    Parameter(
        "frequency_penalty", HONOURED, "counts the answer and the path to the node",
        (
            _PENALTIES, _RESUMED, _rounds("frequency_penalty"),
            f"{_CONTRACT}test_penalties.py::test_frequency_adds_up_as_it_does_token_by_token",
        ),
        ("frequency_penalty",),
    ),
    Parameter(
        "presence_penalty", HONOURED, "likewise",
        (_PENALTIES, _RESUMED, _rounds("presence_penalty")), ("presence_penalty",),
    ),
    Parameter(
        "repetition_penalty", HONOURED, "likewise",
        (_PENALTIES, _RESUMED, _rounds("repetition_penalty")), ("repetition_penalty",),
    ),
    Parameter(
        "min_new_tokens", HONOURED, "what would end the request is forbidden at nodes that come too early",
        (
            _PENALTIES, _rounds("min_new_tokens"),
            f"{_CONTRACT}test_penalties.py::test_min_new_tokens_counts_the_path",
        ),
        ("min_tokens",),
    ),
    Parameter(
        "logit_bias", HONOURED, "added at every node",
        (
            _LOGITS, _rounds("logit_bias"),
            f"{_CONTRACT}test_node_logits.py::test_an_infinite_bias_lifts_no_mask",
        ),
        ("logit_bias",),
    ),
    Parameter(
        "json_schema", HONOURED, "the grammar's mask at every node, by SGLang's own walk with rollback",
        (_LOGITS, _GRAMMAR_END, _rounds("json_schema")),
        ("json_schema", "response_format", "tools", "tool_choice", "parallel_tool_calls"),
    ),
    Parameter("regex", HONOURED, "likewise", (_LOGITS, _GRAMMAR_END, _rounds("regex")), ("regex",)),
    Parameter("ebnf", HONOURED, "likewise", (_LOGITS, _GRAMMAR_END, _rounds("ebnf")), ("ebnf",)),
    Parameter(
        "structural_tag", HONOURED, "likewise", (_LOGITS, _GRAMMAR_END, _rounds("structural_tag")),
        ("response_format", "tools", "tool_choice"),
    ),
    Parameter(
        "max_new_tokens", HONOURED, "no draft goes past it, and an accepted run is cut there",
        (
            _RUN_END, f"{_CONTRACT}test_run_end.py::test_where_it_ends[the most tokens]",
            f"{_CONTRACT}test_parameters_drafts.py::test_no_draft_goes_past_max_new_tokens",
        ),
        ("max_tokens", "max_completion_tokens"),
    ),
    Parameter(
        "stop", HONOURED, "every token of an accepted run is judged by itself, as if it had come alone",
        (
            _RUN_END, _rounds("stop"), f"{_CONTRACT}test_run_end.py::test_where_it_ends[a stop split over tokens]",
            f"{_CONTRACT}test_run_end.py::test_where_it_ends[the second of two in the list comes first]",
        ),
        ("stop",),
    ),
    Parameter(
        "stop_token_ids", HONOURED, "likewise; such a token is never drafted",
        (
            _RUN_END, f"{_CONTRACT}test_run_end.py::test_where_it_ends[a stop token]",
            f"{_CONTRACT}test_parameters_drafts.py::test_what_ends_a_request_is_never_drafted",
        ),
        ("stop_token_ids",),
    ),
    Parameter("stop_regex", HONOURED, "likewise", (_RUN_END, _rounds("stop_regex")), ("stop_regex",)),
    Parameter(
        "ignore_eos", HONOURED, "what would have ended the request is a token as any, and may be drafted",
        (f"{_CONTRACT}test_parameters_drafts.py::test_with_ignore_eos_it_is_a_token_as_any",), ("ignore_eos",),
    ),
    Parameter(
        "custom_params", HONOURED,
        'the hint under "sgl_spec" changes drafts only ("off": there are none); the rest is for processors',
        (
            _rounds("custom_params"),
            f"{_CONTRACT}test_openai_prediction.py::test_a_prediction_becomes_the_hint",
        ),
        ("custom_params", "prediction"), "off",
    ),
    Parameter(
        "skip_special_tokens", SGLANG, "how tokens become text",
        (_sglangs("skip_special_tokens"),), ("skip_special_tokens",),
    ),
    Parameter("spaces_between_special_tokens", SGLANG, "likewise; means nothing to the tokenizers of today's models"),
    Parameter(
        "no_stop_trim", SGLANG, "whether the text keeps what ended it", (_sglangs("no_stop_trim"),), ("no_stop_trim",),
    ),
    Parameter(
        "stream_interval", SGLANG, "how many tokens a chunk of a stream waits for",
        (f"{_SERVER}::test_a_stream_waits_for_its_interval",),
    ),
    Parameter(
        "beam_width", REFUSED, 'SGLang: "Beam search is not supported with speculative decoding."',
        (f"{_REFUSED}::test_beam_search",),
    ),
    Parameter(
        "watermark", REFUSED, "`--enable-watermark` is refused at the start; without it SGLang refuses the request",
        (_AT_THE_START, f"{_REFUSED}::test_a_watermark_on_a_server_without"), ("watermark",),
    ),
)  # fmt: skip

# Copies that SGLang makes of the fields above; nobody sends them.
INTERNAL = (
    "stop_strs", "stop_regex_strs", "stop_str_max_len", "stop_regex_max_len", "is_normalized", "ebnf_full_assistant",
)  # fmt: skip

# The fields of SGLang's GenerateReqInput that touch what is generated or returned.
REQUEST: tuple[Parameter, ...] = (
    Parameter(
        "custom_logit_processor", ABSTAINS, "it may read the answer so far, and at a node that is another",
        (
            _rounds("custom_logit_processor"),
            f"{_CONTRACT}test_node_logits.py::test_a_custom_processor_is_called_once_with_its_own_root_last_of_all",
        ),
        ("custom_logit_processor",), "custom_logit_processor",
    ),
    Parameter(
        "return_hidden_states", ABSTAINS, "a tree's rows are not the answer's rows",
        (
            _rounds("return_hidden_states"),
            f"{_CONTRACT}test_parameters_in_rounds.py::test_hidden_states_are_those_before_each_token",
        ),
        ("return_hidden_states",), "return_hidden_states",
    ),
    Parameter(
        "return_logprob", HONOURED, "from the rows of the accepted path", (_logprobs("logprobs"),), ("logprobs",),
    ),
    Parameter("top_logprobs_num", HONOURED, "likewise", (_logprobs("top_logprobs"),), ("top_logprobs",)),
    Parameter("token_ids_logprob", HONOURED, "likewise", (_logprobs("chosen_logprobs"),)),
    Parameter(
        "stream", HONOURED, "chunks as they are committed; the last one carries the account",
        (
            f"{_CONTRACT}test_request_states.py::test_the_last_chunk_of_an_incremental_stream_carries_the_account",
            "tests/unit/test_report.py::test_where_a_chunk_has_only_what_is_new_the_account_is_at_its_first_token",
        ),
        ("stream",),
    ),
    Parameter(
        "require_reasoning", HONOURED, "reasoning ends, and its tokens are counted, at the exact token",
        (_rounds("require_reasoning"), f"{_CONTRACT}test_run_end.py::test_reasoning_ends_where_the_run_is_cut"),
    ),
    Parameter(
        "max_thinking_tokens", HONOURED, "part of the grammar of `--enable-strict-thinking`, so of its masks",
        (_rounds("max_thinking_tokens"),),
    ),
    Parameter("extra_key", HONOURED, "nothing one owner produced is drafted for another", (_OWNERS,), ("extra_key",)),
    Parameter("cache_salt", HONOURED, "likewise", (_OWNERS,), ("cache_salt",)),
    Parameter(
        "logprob_start_len", SGLANG, "logprobs of the prompt come from the prefill",
        (_sglangs("logprob_start_len"),), ("echo",),
    ),
    Parameter(
        "return_text_in_logprobs", SGLANG, "how logprobs are shown", (_sglangs("return_text_in_logprobs"),),
    ),
    Parameter(
        "return_flat_raw_top_logprobs", SGLANG, "likewise", (_sglangs("return_flat_raw_top_logprobs"),),
    ),
    Parameter(
        "return_flat_raw_output_top_logprobs", SGLANG, "likewise",
        (_sglangs("return_flat_raw_output_top_logprobs"),), ("return_flat_raw_output_top_logprobs",),
    ),
    Parameter(
        "return_flat_raw_top_logprobs_b64", SGLANG, "likewise",
        (_sglangs("return_flat_raw_top_logprobs_b64"),), ("return_flat_raw_top_logprobs_b64",),
    ),
    Parameter(
        "session_params", SGLANG, "which earlier request the prompt continues",
        (f"{_SERVER}::test_a_session_goes_on_as_it_does_alone",), ("session_params",),
    ),
    Parameter(
        "return_sampling_mask", REFUSED,
        'SGLang: "return_sampling_mask is not supported with speculative decoding."',
        (f"{_REFUSED}::test_sampling_masks",), ("return_sampling_mask",),
    ),
    Parameter(
        "sampling_logprobs_mode", REFUSED, "goes with `return_sampling_mask`",
        (f"{_REFUSED}::test_sampling_masks",), ("sampling_logprobs_mode",),
    ),
    Parameter("watermark", REFUSED, "see above", (_AT_THE_START,)),
    Parameter(
        "lora_path", REFUSED, "SGLang refuses `--enable-lora` with a registered algorithm",
        (f"{_REFUSED}::test_lora",), ("lora_path",),
    ),
    Parameter("lora_id", REFUSED, "likewise", (f"{_REFUSED}::test_lora",)),
    Parameter(
        "return_routed_experts", REFUSED, "`--enable-return-routed-experts` is refused at the start",
        (_AT_THE_START,), ("return_routed_experts",),
    ),
    Parameter("routed_experts_start_len", REFUSED, "likewise", (_AT_THE_START,), ("routed_experts_start_len",)),
    Parameter(
        "return_indexer_topk", REFUSED, "`--enable-return-indexer-topk` is refused at the start", (_AT_THE_START,),
    ),
)  # fmt: skip

OUTSIDE: tuple[Outside, ...] = (
    Outside(
        "The prompt: computed by SGLang before the first round; drafters read its tokens.",
        generate=(
            "text", "input_ids", "input_embeds", "image_data", "video_data", "audio_data", "mm_hashes",
            "mm_content_hashes", "use_audio_in_video", "video_config", "modalities", "positional_embed_overrides",
            "max_dynamic_patch", "min_dynamic_patch", "image_max_dynamic_patch", "video_max_dynamic_patch",
            "images_config", "mm_processor_kwargs", "session_id",
        ),
        openai=(
            "prompt", "messages", "input_ids", "use_audio_in_video", "video_config", "max_dynamic_patch",
            "min_dynamic_patch", "images_config", "mm_processor_kwargs", "session_id", "chat_template_kwargs",
            "continue_final_message", "reasoning_effort", "thinking", "task",
        ),
    ),
    Outside(
        "What else is told in the answer: the prompt's tokens, the output's tokens, counts.",
        generate=("return_prompt_token_ids",),
        openai=(
            "return_prompt_token_ids", "return_token_ids", "return_meta_info", "return_input_ids_in_sglext",
            "return_output_ids_in_sglext", "return_cached_tokens_details", "return_spec_tokens_details",
            "stream_options", "separate_reasoning", "stream_reasoning",
        ),
    ),
    Outside(
        "Scores of a prompt, for which nothing is generated.",
        generate=("multi_item_delimiter_indices", "token_indices_to_pool"),
    ),
    Outside(
        "Who takes the request and when, what is logged of it, and what belongs to other deployments.",
        generate=(
            "rid", "sampling_params", "log_metrics", "bootstrap_host", "bootstrap_port", "bootstrap_room",
            "bootstrap_pair_key", "decode_tp_size", "routed_dp_rank", "data_parallel_rank", "disagg_prefill_dp_rank",
            "routing_key", "conversation_id", "http_worker_ipc", "background", "no_logs", "custom_labels",
            "external_trace_header", "received_time", "need_wait_for_mm_inputs", "num_items_assigned", "encoder_urls",
            "kv_hints", "priority",
        ),
        openai=(
            "model", "user", "rid", "custom_labels", "bootstrap_host", "bootstrap_port", "bootstrap_room",
            "routed_dp_rank", "data_parallel_rank", "disagg_prefill_dp_rank", "priority",
        ),
    ),
    Outside(
        "Accepted by SGLang 0.5.23 and read nowhere.",
        generate=("return_entropy", "return_bytes"), openai=("best_of", "suffix"),
    ),
)  # fmt: skip
