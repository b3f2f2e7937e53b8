"""What is done to the logits at every node: penalties, min_new_tokens, logit_bias, grammars, custom processors."""

from __future__ import annotations

from mutation import Mutation
from names import CONTRACT, NODE_LOGITS, NODE_PENALTIES, SERVER, in_rounds

PENALTIES, LOGITS = f"{SERVER}penalties.py", f"{SERVER}logits.py"
COUNTING = ("frequency_penalty", "presence_penalty", "repetition_penalty")
GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")

MUTATIONS = (
    Mutation(
        "frequency-penalty-dropped", ("frequency_penalty",), PENALTIES,
        "np.full(most, params.frequency_penalty, np.float32)", "np.full(most, 0.0, np.float32)",
        (NODE_PENALTIES, in_rounds("frequency_penalty")),
    ),
    Mutation(
        "frequency-penalty-multiplied", ("frequency_penalty",), PENALTIES,
        "np.add.accumulate(np.full(most, params.frequency_penalty, np.float32), out=frequency[1:])",
        "frequency[1:] = np.float32(params.frequency_penalty) * np.arange(1, most + 1, dtype=np.float32)",
        (f"{CONTRACT}test_penalties.py::test_frequency_adds_up_as_it_does_token_by_token",),
    ),
    Mutation(
        "presence-penalty-dropped", ("presence_penalty",), PENALTIES,
        "additive[1:] -= np.float32(params.presence_penalty)", "additive[1:] -= np.float32(0.0)",
        (NODE_PENALTIES, in_rounds("presence_penalty")),
    ),
    Mutation(
        "repetition-penalty-dropped", ("repetition_penalty",), PENALTIES,
        "scaling[1:] = params.repetition_penalty", "scaling[1:] = 1.0",
        (NODE_PENALTIES, in_rounds("repetition_penalty")),
    ),
    Mutation(
        "path-not-counted", COUNTING, PENALTIES,
        "said.counts[special] + on_path.astype(np.int32)", "said.counts[special] + 0 * on_path.astype(np.int32)",
        (NODE_PENALTIES, *map(in_rounds, COUNTING)),
    ),
    Mutation(
        "path-counted-at-every-node", COUNTING, PENALTIES,
        "tree.mask[:, 1 : tree.size].astype(np.float32) @", "np.ones_like(tree.mask[:, 1 : tree.size], np.float32) @",
        (NODE_PENALTIES, *map(in_rounds, COUNTING)),
    ),
    Mutation(
        "output-not-counted", COUNTING, PENALTIES,
        "said.follow(req.output_ids)", "said.follow(req.output_ids[:0])",
        (NODE_PENALTIES, *map(in_rounds, COUNTING)),
    ),
    Mutation(
        "resumed-request-begins-anew", COUNTING, PENALTIES,
        "self._penalties.apply(logits, self._reqs, [only_a_root] * len(self._reqs))", "pass",
        (f"{CONTRACT}test_penalties.py::test_a_prefill_is_penalised_for_what_was_said_before",),
    ),
    Mutation(
        "min-new-tokens-dropped", ("min_new_tokens",), PENALTIES,
        "additive[early[:, None] & np.isin(special, stops)] = -np.inf", "pass",
        (NODE_PENALTIES, in_rounds("min_new_tokens")),
    ),
    Mutation(
        "min-new-tokens-by-rounds", ("min_new_tokens",), PENALTIES,
        "said.length + tree.depths < params.min_new_tokens", "said.length + 0 * tree.depths < params.min_new_tokens",
        (f"{CONTRACT}test_penalties.py::test_min_new_tokens_counts_the_path", NODE_PENALTIES),
    ),
    Mutation(
        "min-new-tokens-forgets-stop-token-ids", ("min_new_tokens",), PENALTIES,
        "tokens = {*(req.sampling_params.stop_token_ids or ()), ", "tokens = {",
        (NODE_PENALTIES,),
    ),
    Mutation(
        "logit-bias-dropped", ("logit_bias",), LOGITS,
        "if info.logit_bias is not None:", "if False:",
        (NODE_LOGITS, in_rounds("logit_bias")),
    ),
    Mutation(
        "logit-bias-at-the-root-only", ("logit_bias",), LOGITS,
        "(requests, width)).add_(info.logit_bias[:, None])", "(requests, width))[:, :1].add_(info.logit_bias[:, None])",
        (NODE_LOGITS, in_rounds("logit_bias")),
    ),
    Mutation(
        "infinite-bias-lifts-the-mask", ("logit_bias",), LOGITS,
        "mask.apply(logits)", "mask.apply(logits)\n        logits += (info.logit_bias == torch.inf) * torch.inf",
        (f"{CONTRACT}test_node_logits.py::test_an_infinite_bias_lifts_no_mask",),
    ),
    Mutation(
        "grammar-dropped", GRAMMARS, LOGITS,
        "if batch.has_grammar else None", "if False else None",
        (NODE_LOGITS, *map(in_rounds, GRAMMARS)),
    ),
    Mutation(
        "grammar-at-the-root-only", (*GRAMMARS, "max_thinking_tokens"), LOGITS,
        "mask.apply(logits)",
        "below = logits.unflatten(0, (requests, width))[:, 1:].clone()\n        mask.apply(logits)\n"
        "        logits.unflatten(0, (requests, width))[:, 1:] = below",
        (NODE_LOGITS, *map(in_rounds, (*GRAMMARS, "max_thinking_tokens"))),
    ),
    Mutation(
        "custom-processor-not-called", ("custom_logit_processor",), LOGITS,
        "if info.has_custom_logit_processor:", "if False:",
        (
            f"{CONTRACT}test_node_logits.py::test_a_custom_processor_is_called_once_with_its_own_root_last_of_all",
            in_rounds("custom_logit_processor"),
        ),
    ),
    Mutation(
        "custom-processor-does-not-abstain", ("custom_logit_processor",), f"{SERVER}abstain.py",
        "if req.custom_logit_processor:", "if False:",
        (in_rounds("custom_logit_processor"),),
    ),
    Mutation(
        "hidden-states-do-not-abstain", ("return_hidden_states",), f"{SERVER}abstain.py",
        "if req.return_hidden_states:", "if False:",
        (
            in_rounds("return_hidden_states"),
            f"{CONTRACT}test_parameters_in_rounds.py::test_hidden_states_are_those_before_each_token",
        ),
    ),
    Mutation(
        "off-ignored", ("custom_params",), f"{SERVER}request_states.py",
        "abstain.SWITCHED_OFF if state.hint.off else", "abstain.SWITCHED_OFF if False else",
        (in_rounds("custom_params"),),
    ),
)  # fmt: skip
