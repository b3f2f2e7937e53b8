"""`prediction` on `/v1/chat/completions`, as OpenAI's own client sends it and reads the usage."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from client import Server

from sgl_spec.drafting.hint import MAX_PREDICT_CHARS

TEXT = (
    "A reader may borrow up to eight books at a time and keep each of them for three weeks. A loan can be renewed "
    "twice, unless another reader has asked for the same book."
)
ASK = f"{TEXT}\n\nRepeat this text word for word."
OTHER = "Seventeen zebras dance beneath purple umbrellas while quartz clocks melt."
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}


def create(server: Server, content: Any = None, **options: Any) -> Any:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=300)
    if content is not None:
        options["prediction"] = {"type": "content", "content": content}
    return client.chat.completions.create(
        model="default", messages=[{"role": "user", "content": ASK}], temperature=0, max_tokens=48, **options
    )


def said(completion: Any) -> str:
    return completion.choices[0].message.content


def counts(completion: Any) -> tuple[int, int]:
    details = completion.usage.completion_tokens_details
    return details.accepted_prediction_tokens, details.rejected_prediction_tokens


def account(completion: Any) -> dict[str, Any]:
    return completion.choices[0].meta_info["sgl_spec"][-1]


@pytest.fixture(scope="module")
def answer(off: Server) -> str:
    """What the model says without any of this."""
    return said(create(off))


def test_a_right_prediction_is_accepted_and_takes_few_rounds(on: Server, answer: str) -> None:
    told = {"extra_body": {"return_meta_info": True, "custom_params": {"sgl_spec": {"version": 1, "width": 16}}}}
    completion = create(on, answer, **told)
    accepted, rejected = counts(completion)
    assert said(completion) == answer
    assert accepted > 0.8 * completion.usage.completion_tokens
    assert rejected < 0.2 * accepted
    assert account(completion)["rounds"] < completion.usage.completion_tokens / 4
    assert account(completion)["prediction"] == {"accepted": accepted, "rejected": rejected}


def test_a_wrong_prediction_is_rejected_and_changes_nothing(on: Server, answer: str) -> None:
    completion = create(on, [{"type": "text", "text": OTHER}])
    accepted, rejected = counts(completion)
    assert said(completion) == answer
    assert rejected > accepted


def test_a_stream_reports_the_same_in_its_last_chunk_and_nothing_unasked(on: Server, answer: str) -> None:
    chunks = list(create(on, answer, **WITH_USAGE))
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == answer
    assert counts(chunks[-1]) == counts(create(on, answer))
    assert all(one.usage is None for one in create(on, answer, stream=True))


def test_several_completions_are_summed(on: Server, answer: str) -> None:
    one, two = (counts(create(on, answer, n=n)) for n in (1, 2))
    assert sum(two) == 2 * sum(one)


def test_without_a_prediction_usage_has_no_details(on: Server) -> None:
    assert create(on).usage.completion_tokens_details is None
    assert create(on, prediction=None).usage.completion_tokens_details is None
    assert list(create(on, **WITH_USAGE))[-1].usage.completion_tokens_details is None


def test_a_server_without_speculation_is_as_it_was(off: Server, answer: str) -> None:
    completion = create(off, answer)
    assert said(completion) == answer
    assert completion.usage.completion_tokens_details is None


@pytest.mark.parametrize("stream", [False, True])
def test_a_malformed_prediction_is_a_bad_request(on: Server, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match=r"prediction\.content\[0\]\.type: wanted \"text\"") as caught:
        create(on, [{"type": "image_url", "text": "x"}], stream=stream)
    assert caught.value.body["param"] == "prediction.content[0].type"


def test_too_long_a_prediction_is_no_error(on: Server, answer: str) -> None:
    completion = create(on, "x " * (MAX_PREDICT_CHARS // 2 + 1))
    accepted, rejected = counts(completion)
    assert said(completion) == answer
    assert accepted == 0
    assert rejected > MAX_PREDICT_CHARS // 8


def test_a_hint_passes_through_extra_body(on: Server, answer: str) -> None:
    body = {"return_meta_info": True, "custom_params": {"sgl_spec": {"version": 1, "off": True}}}
    completion = create(on, extra_body=body)
    assert said(completion) == answer
    assert account(completion)["drafted"].get("all", 0) == 0
    assert completion.usage.completion_tokens_details is None
