"""What the worker does with the accepted path, and what every parameter stands on."""

from __future__ import annotations

from mutation import Mutation
from names import CONTRACT, SERVER, in_rounds

WORKER = f"{SERVER}worker.py"
LOGPROBS = ("return_logprob", "top_logprobs_num", "token_ids_logprob")
PATH_LOGPROBS = f"{CONTRACT}test_parameters_in_rounds.py::test_logprobs_are_those_of_the_accepted_path"

MUTATIONS = (
    Mutation(
        "logprobs-from-the-root-only", LOGPROBS, WORKER,
        "accepted.predict, accept_index=accepted.index)",
        "accepted.predict, accept_index=accepted.index.clamp(min=0) // width * width)",
        tuple(f"{PATH_LOGPROBS}[{field}]" for field in ("logprobs", "top_logprobs", "chosen_logprobs")),
    ),
    Mutation(
        "one-owner-for-all-keys", ("extra_key",), f"{SERVER}request_states.py",
        'json.dumps([key or "", salt or ""])', 'json.dumps(["", salt or ""])',
        (f"{CONTRACT}test_request_states.py::test_owners_are_told_apart",),
    ),
    Mutation(
        "one-owner-for-all-salts", ("cache_salt",), f"{SERVER}request_states.py",
        'json.dumps([key or "", salt or ""])', 'json.dumps([key or "", ""])',
        (f"{CONTRACT}test_request_states.py::test_owners_are_told_apart",),
    ),
    Mutation(
        "accepted-keys-stay-where-they-are", (), WORKER,
        "        self._settle_caches(batch, accepted, width)\n", "",
        (in_rounds("ignore_eos"), in_rounds("temperature")),
    ),
    Mutation(
        "mask-shows-siblings", (), f"{SERVER}verify_input.py",
        "else mask.flatten(),", "else torch.ones_like(mask).tril().flatten(),",
        (in_rounds("ignore_eos"), in_rounds("temperature")),
    ),
    Mutation(
        "a-draft-is-accepted-unseen", (), WORKER,
        "verify.positions, trees)\n",
        "verify.positions, trees)\n"
        "        drafted = verify.retrieve_next_token[:, 0] >= 0\n"
        "        target[::width] = torch.where(drafted, verify.draft_token[1 % width :: width], target[::width])\n",
        (in_rounds("ignore_eos"), in_rounds("temperature")),
    ),
    Mutation(
        "account-lost-in-an-incremental-stream", ("stream",), f"{SERVER}report.py",
        "[None] * (index.start or 0) + entries if", "entries if",
        (
            f"{CONTRACT}test_request_states.py::test_the_last_chunk_of_an_incremental_stream_carries_the_account",
            "tests/unit/test_report.py::test_where_a_chunk_has_only_what_is_new_the_account_is_at_its_first_token",
        ),
    ),
    Mutation(
        "prediction-dropped", ("custom_params",), f"{SERVER}openai_prediction.py",
        "request = self._predicted(request, read.text)", "pass",
        (f"{CONTRACT}test_openai_prediction.py::test_a_prediction_becomes_the_hint",),
    ),
    Mutation(
        "watermarks-let-in", ("watermark",), f"{SERVER}algorithm.py",
        '        ("--enable-watermark", server_args.enable_watermark),\n', "",
        (f"{CONTRACT}test_algorithm.py::test_refuses_with_a_sentence",),
    ),
)  # fmt: skip
