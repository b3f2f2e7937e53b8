"""A request that would end the server is refused with a sentence; every other goes through, and so does every request
of a server that does not decode with SGL_SPEC."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor, DisallowedTokensLogitsProcessor
from sglang.srt.sampling.sampling_params import SamplingParams

from sgl_spec.errors import ConfigError
from sgl_spec.server import algorithm as algorithm_module
from sgl_spec.server import request_guard
from sgl_spec.server.plugin import hooks

GOOD = DisallowedTokensLogitsProcessor.to_str()


@pytest.fixture(params=["SGL_SPEC", "sgl_spec", None, "EAGLE3"])
def algorithm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(algorithm_module, "get_spec", lambda: SimpleNamespace(speculative_algorithm=request.param))
    return request.param


def _ours(algorithm: str | None) -> bool:
    return algorithm is not None and algorithm.upper() == "SGL_SPEC"


def _send(text: Any) -> list[Any]:
    """What SGLang's own check was called with."""
    seen: list[Any] = []
    request = SimpleNamespace(custom_logit_processor=text)
    request_guard.check_request(lambda *args: seen.extend(args), "manager", request, [1, 2])
    return seen


class Refusing(CustomLogitProcessor):
    def __init__(self) -> None:
        raise RuntimeError("no such table")


BAD = ["nonsense", "{}", json.dumps({"callable": "00ff"}), json.dumps({"callable": "zz"}), Refusing.to_str()]


@pytest.mark.parametrize("text", [*BAD, json.dumps({"callable": __import__("dill").dumps(int).hex()})])
def test_a_processor_that_is_none(algorithm: str | None, text: str) -> None:
    if _ours(algorithm):
        with pytest.raises(ConfigError, match="custom_logit_processor"):
            _send(text)
    else:
        assert len(_send(text)) == 3


def _prompted(request: Any, input_ids: list[int] | None) -> list[Any]:
    seen: list[Any] = []
    request_guard.check_request(lambda *args: seen.extend(args), "manager", request, input_ids)
    return seen


def test_a_prompt_without_tokens(algorithm: str | None) -> None:
    request = SimpleNamespace(input_embeds=None)
    if _ours(algorithm):
        with pytest.raises(ConfigError, match="the prompt has no token"):
            _prompted(request, [])
    else:
        assert _prompted(request, []) == ["manager", request, []]


@pytest.mark.parametrize(("embeds", "input_ids"), [(None, [0]), ([[0.5]], []), ([[0.5]], None), (None, None)])
def test_a_prompt_that_has_something(algorithm: str | None, embeds: Any, input_ids: list[int] | None) -> None:
    request = SimpleNamespace(input_embeds=embeds)
    assert _prompted(request, input_ids) == ["manager", request, input_ids]


@pytest.mark.parametrize("text", [None, "", GOOD])
def test_what_sglang_checks_is_still_checked(algorithm: str | None, text: Any) -> None:
    assert _send(text)[0] == "manager"
    assert _send(text)[2] == [1, 2]


@pytest.mark.parametrize("wrong", [-1, 50, 10**12])
def test_a_stop_token_that_is_none(algorithm: str | None, wrong: int) -> None:
    params = SamplingParams(min_new_tokens=3, stop_token_ids=[5, wrong])
    if _ours(algorithm):
        with pytest.raises(ConfigError, match=f"stop_token_ids has {wrong}.*0 to 49"):
            request_guard.check_stop_tokens(SamplingParams.verify, params, 50)
    else:
        request_guard.check_stop_tokens(SamplingParams.verify, params, 50)


@pytest.mark.parametrize(
    "given", [{"stop_token_ids": [99]}, {"min_new_tokens": 3, "stop_token_ids": [0, 49]}, {"min_new_tokens": 3}]
)
def test_stop_tokens_that_do_no_harm(algorithm: str | None, given: dict[str, Any]) -> None:
    request_guard.check_stop_tokens(SamplingParams.verify, SamplingParams(**given), 50)
    with pytest.raises(ValueError, match="top_p"):
        request_guard.check_stop_tokens(SamplingParams.verify, SamplingParams(top_p=7.0, **given), 50)


def test_sglang_calls_both() -> None:
    listed = {hook.target.rpartition(".")[2]: hook.hook for hook in hooks()}
    assert listed["_validate_one_request"] is request_guard.check_request
    assert listed["verify"] is request_guard.check_stop_tokens
