"""Where a run ends."""

from __future__ import annotations

from mutation import Mutation
from names import CONTRACT, RUN_END, SERVER, in_rounds

ENDS, WORKER = f"{SERVER}run_end.py", f"{SERVER}worker.py"
STATES, DRAFTS = f"{SERVER}request_states.py", f"{CONTRACT}test_parameters_drafts.py"
GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")
STOPS = ("stop", "stop_token_ids", "stop_regex")

MUTATIONS = (
    Mutation(
        "runs-are-not-cut", ("stop", "stop_regex", "require_reasoning"), WORKER,
        "kept = [kept_tokens(req, path.tokens) for req, path in zip(batch.reqs, paths, strict=True)]",
        "kept = [len(path.tokens) for path in paths]",
        tuple(map(in_rounds, ("stop", "stop_regex", "require_reasoning"))),
    ),
    Mutation(
        "stop-strings-in-all-of-the-run", ("stop",), ENDS,
        "probe.update_finish_state(1)", "probe.update_finish_state(number)",
        (f"{CONTRACT}test_run_end.py::test_where_it_ends[a stop split over tokens]",),
    ),
    Mutation(
        "the-whole-run-is-kept", (*STOPS, "max_new_tokens", "require_reasoning"), ENDS,
        "            return number\n", "            return len(run)\n",
        (
            RUN_END, f"{CONTRACT}test_run_end.py::test_where_it_ends[the most tokens]",
            f"{CONTRACT}test_run_end.py::test_where_it_ends[a stop token]",
            f"{CONTRACT}test_run_end.py::test_where_it_ends[the second of two in the list comes first]",
            f"{CONTRACT}test_run_end.py::test_where_it_ends[anchored]",
            f"{CONTRACT}test_run_end.py::test_reasoning_ends_where_the_run_is_cut",
        ),
    ),
    Mutation(
        "drafts-go-past-max-new-tokens", ("max_new_tokens",), STATES,
        "return int(req.sampling_params.max_new_tokens) - len(req.output_ids)",
        "return int(req.sampling_params.max_new_tokens)",
        (f"{DRAFTS}::test_no_draft_goes_past_max_new_tokens",),
    ),
    Mutation(
        "stop-tokens-are-drafted", ("stop_token_ids",), STATES,
        "tokens = {*(params.stop_token_ids or ()), ", "tokens = {",
        (f"{DRAFTS}::test_what_ends_a_request_is_never_drafted",),
    ),
    Mutation(
        "ignore-eos-unnoticed-by-drafts", ("ignore_eos",), STATES,
        "    if params.ignore_eos:\n", "    if False:\n",
        (f"{DRAFTS}::test_with_ignore_eos_it_is_a_token_as_any",),
    ),
    Mutation(
        "what-grammars-refuse-is-kept", GRAMMARS, ENDS,
        "run = run[: _through_grammar_end(req.grammar, run)]", "pass",
        (f"{CONTRACT}test_grammar_end.py::test_it_ends_as_if_its_tokens_had_come_one_by_one",),
    ),
)  # fmt: skip
