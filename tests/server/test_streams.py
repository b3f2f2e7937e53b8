"""What is said of an output while it is written and beside its text: streams, logprobs, counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from client import OFF, PROMPTS, QUOTE, Server, account

from sgl_spec import Runtime

# Characters of two, three and four bytes, most of which are several tokens.
UNICODE = "In 東京 a 🦊 ate crème brûlée for 5 €.\n" * 3
REASONED = "I think it is right, because of the rule.</think> The answer is forty-two."
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


def predicting(text: str) -> dict[str, Any]:
    return {"sgl_spec": {"version": 1, "memory": "off", "predict": text}}


@pytest.mark.parametrize(
    "params", [{}, {"stream_interval": 5}, {"stop": ["🦊 ate c"]}], ids=lambda p: "-".join(p) or "plain"
)
def test_a_stream_ends_with_the_same_text_and_never_takes_back(on: Server, params: dict[str, Any]) -> None:
    told = {"custom_params": predicting(UNICODE), "max_new_tokens": 40, **params}
    whole = on.generate(UNICODE, **{name: value for name, value in told.items() if name != "stream_interval"})
    chunks = on.stream(UNICODE, **told)
    texts = [chunk["text"] for chunk in chunks]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    assert not any("\ufffd" in text for text in texts)
    assert texts[-1] == whole["text"]
    assert chunks[-1]["output_ids"] == whole["output_ids"]
    assert account(chunks[-1])["tokens"] == whole["meta_info"]["completion_tokens"] - 1
    assert len(chunks) < len(whole["output_ids"]) / 2, "no run was longer than a token, so this tests nothing"


def test_a_chat_stream_adds_up_to_the_same_text_and_usage(on: Server, off: Server) -> None:
    def create(server: Server, **options: Any) -> Any:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=300)
        content = f"{UNICODE}\n\nRepeat this text word for word."
        return client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": content}], temperature=0, max_tokens=32, **options
        )

    whole = create(off)
    said = whole.choices[0].message.content
    chunks = list(create(on, extra_body={"custom_params": predicting(said)}, **STREAMED))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == said
    usage = chunks[-1].usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (whole.usage.prompt_tokens, whole.usage.completion_tokens)
    assert usage.total_tokens == whole.usage.total_tokens
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert [reason for reason in reasons if reason] == [whole.choices[0].finish_reason]
    assert len(chunks) < usage.completion_tokens / 2


@pytest.mark.parametrize("params", [{}, {"temperature": 0.8, "sampling_seed": 5}], ids=["greedy", "sampled"])
def test_logprobs_are_those_of_the_tokens_kept(on: Server, off: Server, params: dict[str, Any]) -> None:
    wanted = {
        "request_return_logprob": True, "request_top_logprobs_num": 3, "request_token_ids_logprob": [2, 30],
        "request_return_text_in_logprobs": True, "request_logprob_start_len": 10, "stop": ["three we"], **params,
    }  # fmt: skip
    text = on.generate(QUOTE, custom_params=OFF, **params)["text"]
    drafted, alone = (on.generate(QUOTE, custom_params=c, **wanted)["meta_info"] for c in (predicting(text), OFF))
    fields = [f"{side}_{kind}" for side in ("input", "output")
              for kind in ("token_logprobs", "top_logprobs", "token_ids_logprobs")]  # fmt: skip
    for field in fields:
        assert drafted[field] == alone[field]
        if field.startswith("output"):
            assert len(drafted[field]) == drafted["completion_tokens"]
    if not params:
        stock = off.generate(QUOTE, **wanted)["meta_info"]
        assert [drafted[field] for field in fields] == [stock[field] for field in fields]
    assert drafted["sgl_spec"][-1]["rounds"] < drafted["completion_tokens"] / 2


@pytest.mark.parametrize("prompt", PROMPTS)
def test_counts_agree_with_the_output(on: Server, prompt: str) -> None:
    answer = on.generate(prompt, max_new_tokens=64)
    counts, meta = account(answer), answer["meta_info"]
    # The first token comes from the prefill; every round commits its accepted drafts and one bonus.
    assert counts["tokens"] == meta["completion_tokens"] - 1
    assert counts["rounds"] == meta["spec_verify_ct"]
    assert 0 <= counts["rounds"] + counts["accepted"]["all"] - counts["tokens"] <= 1  # a stop may take the bonus
    assert counts["accepted"]["all"] <= counts["reached"]["all"] <= counts["drafted"]["all"]
    assert sum(n for origin, n in counts["drafted"].items() if origin != "all") >= counts["drafted"]["all"]


@pytest.fixture(scope="module")
def flagged() -> Iterator[Server]:
    """A server with a short context, a reasoning parser, and streams of what is new only."""
    flags = {"context_length": 256, "reasoning_parser": "qwen3", "incremental_streaming_output": True}
    with Runtime(max_total_tokens=4_096, random_seed=1, **flags) as runtime:
        yield Server(runtime.url)


def test_an_incremental_stream_has_the_account_in_its_last_chunk(flagged: Server) -> None:
    whole = flagged.generate(UNICODE, max_new_tokens=40)
    chunks = flagged.stream(UNICODE, max_new_tokens=40, custom_params=predicting(UNICODE))
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
    assert list(itertools.chain(*(chunk["output_ids"] for chunk in chunks))) == whole["output_ids"]
    assert len(chunks) > 2
    assert [len(chunk["meta_info"]["sgl_spec"]) for chunk in chunks] == [*([0] * (len(chunks) - 1)), 1]
    assert account(chunks[-1])["tokens"] == len(whole["output_ids"]) - 1


@pytest.mark.parametrize(("params", "reasoning"), [({}, 14), ({"stop": ["cause of"]}, 8), ({"max_new_tokens": 9}, 9)])
def test_reasoning_ends_where_it_ends_alone(flagged: Server, params: dict[str, Any], reasoning: int) -> None:
    asked: dict[str, Any] = {"request_require_reasoning": True, "max_new_tokens": 20, **params}
    prompt = f"{REASONED}\n" * 3
    drafted, alone = (flagged.generate(prompt, custom_params=c, **asked) for c in (predicting(REASONED), OFF))
    assert drafted["output_ids"] == alone["output_ids"]
    assert drafted["meta_info"]["reasoning_tokens"] == alone["meta_info"]["reasoning_tokens"] == reasoning
    assert account(drafted)["rounds"] <= 2


def test_the_end_of_the_context(flagged: Server) -> None:
    """Within two widths of it SGLang reserves more slots than it made room for (`kv_rows`)."""
    prompt = QUOTE * 4
    told = {"max_new_tokens": None, "ignore_eos": True}
    drafted, alone = (flagged.generate(prompt, custom_params=c, **told) for c in ({}, OFF))
    assert drafted["output_ids"] == alone["output_ids"]
    assert drafted["meta_info"]["finish_reason"] == alone["meta_info"]["finish_reason"]
    assert drafted["meta_info"]["prompt_tokens"] + drafted["meta_info"]["completion_tokens"] == 256 - 2
    assert account(drafted)["rounds"] < account(drafted)["tokens"]
