"""OpenAI's `prediction` on SGLang's own HTTP routes and chat class. A fake engine stands behind them: it keeps what it
is sent and answers as a test scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient
from sglang.srt.entrypoints import http_server
from sglang.srt.entrypoints.openai import serving_chat
from sglang.srt.parser.template_manager import TemplateManager
from sglang.srt.server_args import ServerArgs
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sgl_spec.drafting.hint import MAX_PREDICT_CHARS, decode_hint
from sgl_spec.server import algorithm as algorithm_module
from sgl_spec.server.openai_prediction import PredictingServingChat

CHAT_TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
HELLO = {"type": "content", "content": "hello"}
StockServingChat = PredictingServingChat.__mro__[1]


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A token a byte, so that a test can count them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: index for index, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=CHAT_TEMPLATE)


def outcome(accepted: int, rejected: int) -> list[dict[str, Any]]:
    """What the scheduler puts into `meta_info` when a request with a prediction is over."""
    return [{"rounds": 2, "prediction": {"accepted": accepted, "rejected": rejected}}]


@dataclass
class Engine:
    """In place of the tokenizer manager, from the prompt's tokens on. `accounts`: one for each completion."""

    accounts: list[Any] = field(default_factory=lambda: [outcome(4, 1)])
    requests: list[Any] = field(default_factory=list)
    tokenizer: Any = field(default_factory=byte_tokenizer)
    served_model_name: str = "m"
    server_args: Any = None
    request_logger: Any = field(default_factory=lambda: SimpleNamespace(log_requests=False))
    model_config: Any = field(
        default_factory=lambda: SimpleNamespace(
            is_multimodal=False, get_default_sampling_params=dict,
            hf_config=SimpleNamespace(model_type="llama", architectures=["LlamaForCausalLM"]),
        )
    )  # fmt: skip

    def config_value(self, name: str) -> None:
        return None

    def create_abort_task(self, request: Any) -> None:
        return None

    async def generate_request(self, request: Any, raw_request: Any) -> AsyncIterator[Any]:
        self.requests.append(request)
        if not request.stream:
            yield [self._content("said", index, account, True) for index, account in enumerate(self.accounts)]
            return
        for index, account in enumerate(self.accounts):
            yield self._content('sa"choices":[]', index, [], False)
            yield self._content('sa"choices":[],"usage":{id', index, account, True)

    def _content(self, text: str, index: int, account: Any, over: bool) -> dict[str, Any]:
        finish = {"type": "stop", "matched": None} if over else None
        meta = {
            "id": "r", "prompt_tokens": 7, "completion_tokens": 5, "finish_reason": finish, "sgl_spec": account,
            "weight_version": "default",
        }  # fmt: skip
        return {"text": text, "index": index, "meta_info": meta, "output_ids": [1]}

    @property
    def hint(self) -> Any:
        """The hint of the last request, as the scheduler would find it."""
        return (self.requests[-1].sampling_params["custom_params"] or {}).get("sgl_spec")


@dataclass
class Chat:
    """A client of `/v1/chat/completions` and the engine behind it."""

    engine: Engine
    client: TestClient

    def post(self, path: str = "/v1/chat/completions", **body: Any) -> Any:
        return self.client.post(path, json={"model": "m", "messages": [{"role": "user", "content": "hi"}], **body})

    def usage(self, **body: Any) -> dict[str, Any]:
        answer = self.post(**body)
        assert answer.status_code == 200, answer.text
        return answer.json()["usage"]

    def events(self, **body: Any) -> list[dict[str, Any]]:
        lines = self.post(stream=True, **body).text.split("\n\n")
        return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


class Said(NamedTuple):
    answer: Any
    asked: dict[str, Any]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Chat]]:
    serving = ServerArgs(model_path="m")
    monkeypatch.setattr(serving_chat, "get_serving", lambda: serving)
    monkeypatch.setattr(serving_chat, "get_model", lambda: SimpleNamespace(context_length=None))

    def start(algorithm: str | None = "SGL_SPEC", kind: type = PredictingServingChat, **engine: Any) -> Chat:
        monkeypatch.setattr(algorithm_module, "get_spec", lambda: SimpleNamespace(speculative_algorithm=algorithm))
        chat = Chat(Engine(**engine), TestClient(http_server.app))
        http_server.app.state.openai_serving_chat = kind(chat.engine, TemplateManager())
        return chat

    yield start
    del http_server.app.state.openai_serving_chat


@pytest.fixture
def chat(start: Callable[..., Chat]) -> Chat:
    return start()


@pytest.mark.parametrize(
    "content",
    ["hello", [{"type": "text", "text": "hello"}], [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]],
)
def test_a_prediction_becomes_the_hint(chat: Chat, content: Any) -> None:
    usage = chat.usage(prediction={"type": "content", "content": content})
    assert chat.engine.hint == {"version": 1, "predict": "hello"}
    assert decode_hint(chat.engine.hint).hint is not None
    assert usage["completion_tokens_details"] == {
        "reasoning_tokens": 0, "accepted_prediction_tokens": 4, "rejected_prediction_tokens": 1,
    }  # fmt: skip
    assert (usage["completion_tokens"], usage["total_tokens"]) == (5, 12)


def side_by_side(start: Callable[..., Chat], act: Callable[[Chat], Any]) -> list[Said]:
    """What SGLang's own class says and is asked, and then ours."""
    chats = ((chat := start(kind=kind), act(chat)) for kind in (StockServingChat, PredictingServingChat))
    return [Said(answer, vars(chat.engine.requests[0])) for chat, answer in chats]


@pytest.mark.parametrize("body", [{}, {"prediction": None}])
def test_without_a_prediction_all_is_as_sglang_has_it(start: Callable[..., Chat], body: dict[str, Any]) -> None:
    stock, ours = side_by_side(start, lambda chat: chat.usage(**body))
    assert stock.answer == ours.answer
    assert ours.answer["completion_tokens_details"] is None
    assert ours.asked["sampling_params"] == stock.asked["sampling_params"]


def test_a_prediction_changes_nothing_else(start: Callable[..., Chat]) -> None:
    body = {"temperature": 0.5, "max_tokens": 9, "stop": ["x"], "seed": 3, "extra_key": "k", "cache_salt": "s"}
    stock, ours = side_by_side(start, lambda chat: chat.post(prediction=HELLO, **body).json())
    for said in (stock, ours):
        del said.answer["created"], said.answer["usage"]["completion_tokens_details"]
        del said.asked["sampling_params"]["custom_params"], said.asked["received_time"]
    assert stock == ours
    assert (ours.asked["extra_key"], ours.asked["cache_salt"]) == ("k", "s")


@pytest.mark.parametrize("algorithm", [None, "NGRAM"])
@pytest.mark.parametrize("prediction", [HELLO, {"type": "content", "content": 7}])
def test_another_algorithm_leaves_the_field_alone(start: Callable[..., Chat], algorithm: Any, prediction: Any) -> None:
    chat = start(algorithm=algorithm)
    assert chat.usage(prediction=prediction)["completion_tokens_details"] is None
    assert chat.engine.hint is None


@pytest.mark.parametrize(
    ("prediction", "field_name", "words"),
    [
        ("hello", "prediction", "got a string"),
        ([HELLO], "prediction", "got a list"),
        ({"content": "x"}, "prediction.type", 'wanted "content", got nothing'),
        ({"type": "text", "content": "x"}, "prediction.type", "got 'text'"),
        ({"type": "content"}, "prediction.content", "got nothing"),
        ({"type": "content", "content": None}, "prediction.content", "got null"),
        ({"type": "content", "content": 7}, "prediction.content", "got a number"),
        ({"type": "content", "content": []}, "prediction.content", "got an empty list"),
        ({"type": "content", "content": ["x"]}, "prediction.content[0]", "got a string"),
        ({"type": "content", "content": [{"type": "image_url"}]}, "prediction.content[0].type", "got 'image_url'"),
        (
            {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": True}]},
            "prediction.content[1].text", "wanted a string, got true or false",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_a_malformed_prediction_is_a_bad_request(
    chat: Chat, prediction: Any, field_name: str, words: str, stream: bool
) -> None:
    answer = chat.post(prediction=prediction, stream=stream)
    assert answer.status_code == 400
    error = answer.json()
    assert error["param"] == field_name
    assert error["message"].startswith(f"{field_name}: wanted ")
    assert words in error["message"]
    assert (error["object"], error["type"], error["code"]) == ("error", "BadRequestError", 400)
    assert chat.engine.requests == []


def test_half_of_a_surrogate_pair_never_gets_here(chat: Chat) -> None:
    body = '{"messages": [{"role": "user", "content": "hi"}], "prediction": {"type": "content", "content": "a\\ud800"}}'
    answer = chat.client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "JSON decode error" in answer.text


@pytest.mark.parametrize(
    ("hint", "sent"),
    [
        ({"version": 1, "slot": "s"}, {"version": 1, "slot": "s", "predict": "hello"}),
        ({"version": 1, "predict": None}, {"version": 1, "predict": "hello"}),
        (None, {"version": 1, "predict": "hello"}),
        ({"version": 1, "predict": "mine"}, {"version": 1, "predict": "mine"}),
        ("nonsense", "nonsense"),  # left for the scheduler to ignore with a counted reason
    ],
)
def test_an_explicit_hint_is_completed_and_wins(chat: Chat, hint: Any, sent: Any) -> None:
    chat.post(prediction=HELLO, custom_params={"sgl_spec": hint, "other": 5})
    assert chat.engine.requests[0].sampling_params["custom_params"] == {"sgl_spec": sent, "other": 5}


def test_custom_params_pass_without_a_prediction(chat: Chat) -> None:
    usage = chat.usage(custom_params={"sgl_spec": {"version": 1, "predict": "mine"}})
    assert chat.engine.hint == {"version": 1, "predict": "mine"}
    assert usage["completion_tokens_details"] is None


def test_too_long_a_prediction_is_left_out_and_counted_as_rejected(
    start: Callable[..., Chat], caplog: pytest.LogCaptureFixture
) -> None:
    chat = start(accounts=[[{"rounds": 2}]])
    for _ in range(2):
        usage = chat.usage(
            prediction={"type": "content", "content": "x" * (MAX_PREDICT_CHARS + 1)},
            custom_params={"sgl_spec": {"version": 1, "slot": "s"}},
        )
        assert usage["completion_tokens_details"]["rejected_prediction_tokens"] == MAX_PREDICT_CHARS + 1
        assert usage["completion_tokens_details"]["accepted_prediction_tokens"] == 0
        assert chat.engine.hint == {"version": 1, "slot": "s"}
    assert http_server.app.state.openai_serving_chat.unused_predictions == {"oversized": 2}
    assert caplog.text.count("a prediction was not used (oversized)") == 1


@pytest.mark.parametrize("account", [[], None, [None], [{"rounds": 1}], [{"prediction": None}]])
def test_a_prediction_nothing_is_known_of_counts_as_rejected(start: Callable[..., Chat], account: Any) -> None:
    usage = start(accounts=[account]).usage(prediction=HELLO)
    assert usage["completion_tokens_details"]["rejected_prediction_tokens"] == len("hello")


def test_several_completions_are_summed(start: Callable[..., Chat]) -> None:
    chat = start(accounts=[outcome(4, 1), outcome(2, 3), []])
    for details in (
        chat.usage(prediction=HELLO, n=3)["completion_tokens_details"],
        chat.events(prediction=HELLO, n=3, stream_options={"include_usage": True})[-1]["usage"][
            "completion_tokens_details"
        ],
    ):
        assert (details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]) == (6, 4 + 5)


def test_a_stream_tells_in_its_usage_chunk(start: Callable[..., Chat]) -> None:
    body = {"prediction": HELLO, "stream_options": {"include_usage": True}}
    stock, ours = side_by_side(start, lambda chat: chat.events(**body))
    assert ours.asked["sampling_params"]["custom_params"]["sgl_spec"]["predict"] == "hello"
    assert ours.answer[-1]["usage"].pop("completion_tokens_details") == {
        "reasoning_tokens": 0, "accepted_prediction_tokens": 4, "rejected_prediction_tokens": 1,
    }  # fmt: skip
    assert stock.answer[-1]["usage"].pop("completion_tokens_details") is None
    for event in (*stock.answer, *ours.answer):
        del event["created"]
    assert ours.answer == stock.answer
    text = "".join(one["choices"][0]["delta"].get("content") or "" for one in ours.answer[:-1])
    assert text == 'sa"choices":[],"usage":{id'


def test_a_stream_without_usage_is_as_sglang_has_it(start: Callable[..., Chat]) -> None:
    bodies = ({}, {"prediction": HELLO}, {"prediction": HELLO, "stream_options": {"include_usage": False}})
    streams = [[one["choices"] for one in start().events(**body)] for body in bodies]
    assert streams[0] == streams[1] == streams[2]
    assert all(len(choices) == 1 for choices in streams[0])


def test_the_plugin_puts_it_in_the_place_of_sglangs_class_in_a_fresh_process() -> None:
    program = """
import sglang.srt.plugins as plugins
plugins.load_plugins()
from sglang.srt.managers.tokenizer_manager import TokenizerManager
from sglang.srt.entrypoints import http_server
from sgl_spec.server.openai_prediction import PredictingServingChat
print(TokenizerManager.serving_chat_class.fget(None) is PredictingServingChat)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True", done.stdout + done.stderr
