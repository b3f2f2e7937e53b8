"""One `select`: the requests that score its choices, and SGLang's method that decides by the scores.

Stands beside the rounds: nothing is generated, so nothing is drafted. All choices go in one request, over the prompt
that the server has cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sglang.lang.choices import ChoicesDecision, ChoicesSamplingMethod

from sgl_spec.errors import ServerError
from sgl_spec.frontend.choice_scores import ChoiceScore, score_choice, scoring_start
from sgl_spec.frontend.gen_request import prefill_body

# Posts a request in the name of the run (its pictures, its key) and returns the checked answer or answers.
Post = Callable[[dict[str, Any]], Any]
_NOTHING = {"max_new_tokens": 0, "temperature": 0}


class Selection(NamedTuple):
    """SGLang's decision, and the `meta_info` of every request it took."""

    decision: ChoicesDecision
    meta_infos: list[Mapping[str, Any]]


def decide(
    text: str, choices: Sequence[str], method: ChoicesSamplingMethod, post: Post, ids: Sequence[int] | None
) -> Selection:
    """Scores the choices after `text` and lets `method` decide.

    Args:
        ids: the tokens of `text`; None where the server does not tell them, which costs a prefill of its own.

    Raises:
        ServerError: an answer lacks log-probabilities.
    """
    infos: list[Mapping[str, Any]] = []

    def asked(body: dict[str, Any]) -> Any:
        answer = post(body)
        infos.extend(one["meta_info"] for one in (answer if isinstance(answer, list) else [answer]))
        return answer

    prompt = list(ids) if ids is not None else _ids_by_prefill(asked, text)
    answers = asked({"text": [text + choice for choice in choices], **_scoring(scoring_start(prompt))})
    scores = [
        score_choice(choice, prompt, _entries(answer, "input_token_logprobs"))
        for choice, answer in zip(choices, answers, strict=True)
    ]
    decision = method(
        choices=list(choices),
        normalized_prompt_logprobs=[score.mean for score in scores],
        input_token_logprobs=[score.entries for score in scores],
        output_token_logprobs=[_entries(answer, "output_token_logprobs") for answer in answers],
        unconditional_token_logprobs=_unconditional(asked, scores) if method.requires_unconditional_logprobs else None,
    )
    return Selection(decision, infos)


def _ids_by_prefill(asked: Post, text: str) -> list[int]:
    answer = asked({**prefill_body(text), "return_logprob": True, "logprob_start_len": 0})
    return [entry[1] for entry in _entries(answer, "input_token_logprobs")]


def _unconditional(asked: Post, scores: Sequence[ChoiceScore]) -> list[list[Any]]:
    # SGLang leaves `logprob_start_len` to its default, which has been "none of the prompt" for some time.
    ids = [[entry[1] for entry in score.entries] for score in scores]
    return [_entries(answer, "input_token_logprobs") for answer in asked({"input_ids": ids, **_scoring(0)})]


def _scoring(start: int) -> dict[str, Any]:
    return {
        "sampling_params": _NOTHING,
        "return_logprob": True,
        "return_text_in_logprobs": True,
        "logprob_start_len": start,
    }


def _entries(answer: Mapping[str, Any], name: str) -> list[Any]:
    entries = answer["meta_info"].get(name)
    if not isinstance(entries, list):
        raise ServerError(f"/generate: the server's answer has no {name}, which a select needs")
    return entries
