"""The request of one `gen`: SGLang's own body, with what its frontend gets wrong about parameters put right or refused.

Stands before the round. The caller's parameters are never written to: a program hands the same stop list to many gens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from sglang.lang.backend.runtime_endpoint import RuntimeEndpoint
from sglang.lang.global_config import global_config
from sglang.lang.interpreter import StreamExecutor
from sglang.lang.ir import SglSamplingParams

from sgl_spec.drafting.hint import Hint, encode_hint, is_unicode
from sgl_spec.errors import ConfigError

_DTYPES = (int, float, str, bool)
_ASKED = ("return_logprob", "logprob_start_len", "top_logprobs_num", "return_text_in_logprobs")


def checked_params(
    executor: StreamExecutor, params: SglSamplingParams, template_stops: Sequence[str]
) -> SglSamplingParams:
    """A copy of the parameters as the server is to have them: the template's stops added, a dtype as a regex.

    Raises:
        ConfigError: `n` or `dtype` is not usable here; the message says which and why.
    """
    _check_n(executor, params.n)
    stops = [params.stop] if isinstance(params.stop, str) else list(params.stop or ())
    copy = dataclasses.replace(params, stop=stops + list(template_stops))
    if copy.dtype is not None and copy.dtype not in [*_DTYPES, *(one.__name__ for one in _DTYPES)]:
        raise ConfigError(f"dtype: {copy.dtype!r} is none of int, float, str and bool")
    RuntimeEndpoint._handle_dtype_to_regex(_NO_BACKEND, copy)
    return copy


_NO_BACKEND: Any = None  # the stock method reads nothing of its `self`


def _check_n(executor: StreamExecutor, n: Any) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ConfigError(f"n: {n!r} is not a number of answers; give a whole number of at least 1")
    if n > 1 and executor.stream:
        raise ConfigError(f"n: a stream shows one answer, not {n}; run without stream=True, or use s.fork({n})")
    if n > 1 and executor.num_api_spec_tokens is not None:
        raise ConfigError(f"n: with num_api_spec_tokens a gen has one answer, not {n}; leave one of the two out")


def check_text(text: str, takes_empty: Callable[[], bool]) -> None:
    """Raises ConfigError for a prompt that the server should not be sent.

    Args:
        takes_empty: asked of an empty prompt only: whether the model's tokenizer makes a token of it (a BOS). SGLang's
            scheduler ends with a prompt of no tokens in it, and with it everybody's requests.
    """
    if not text and not takes_empty():
        raise ConfigError("text: a gen or select needs a prompt, and nothing was appended before it; append some text")
    if not is_unicode(text):
        at = next(place for place, char in enumerate(text) if not is_unicode(char))
        raise ConfigError(f"text: character {at} of the prompt is half a surrogate pair ({text[at]!a}): no text has it")


def gen_body(text: str, params: SglSamplingParams, hint: Hint) -> dict[str, Any]:
    """What is posted to `/generate`, without pictures and key."""
    body: dict[str, Any] = {
        "text": text,
        "sampling_params": {
            "skip_special_tokens": global_config.skip_special_tokens_in_output,
            "spaces_between_special_tokens": global_config.spaces_between_special_tokens_in_out,
            **params.to_srt_kwargs(),
            "custom_params": {"sgl_spec": encode_hint(hint)},
        },
    }
    body.update({name: value for name in _ASKED if (value := getattr(params, name)) is not None})
    return body


def prefill_body(text: str) -> dict[str, Any]:
    """A request that computes a prompt into the server's cache and generates nothing."""
    return {"text": text, "sampling_params": {"max_new_tokens": 0}}
