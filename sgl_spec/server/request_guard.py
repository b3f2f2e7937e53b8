"""Requests that would end the server are refused, each alone.

Where it stands in a round: before all of them, where a request arrives and a ValueError is a refusal. SGLang 0.5.23
meets what is checked here in the scheduler, while it prepares a prefill: an error there ends the server, and every
request on it. Only where SGL_SPEC decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

from sgl_spec.errors import ConfigError
from sgl_spec.server.algorithm import decodes_here


def check_request(
    original: Callable[..., None], manager: Any, request: Any, input_ids: Sequence[int] | None, *args: Any
) -> None:
    """Hook around `TokenizerManager._validate_one_request`.

    Raises:
        ConfigError: the prompt has no token, or the request's custom logit processor cannot be made from its text.
    """
    original(manager, request, input_ids, *args)
    if decodes_here():
        _check_prompt(request, input_ids)
        _check_processor(getattr(request, "custom_logit_processor", None))


def _check_prompt(request: Any, input_ids: Sequence[int] | None) -> None:
    if input_ids is not None and not len(input_ids) and getattr(request, "input_embeds", None) is None:
        raise ConfigError(
            "the prompt has no token, so there is nothing to go on from (this model's tokenizer begins no text by "
            "itself); send a text of at least one character, or input_ids with at least one id"
        )


def _check_processor(text: str | None) -> None:
    if not text:
        return
    try:
        processor = CustomLogitProcessor.from_str(text)
    except Exception as error:  # a client's pickle may raise anything
        raise ConfigError(
            f"custom_logit_processor cannot be loaded ({type(error).__name__}: {error}); send what the `to_str()` of a "
            "class of `CustomLogitProcessor` returns, and install what it imports on the server"
        ) from error
    if not callable(processor):
        raise ConfigError(f"custom_logit_processor is a {type(processor).__name__}, which cannot be called")


def check_stop_tokens(original: Callable[[Any, int], None], params: Any, vocab_size: int) -> None:
    """Hook around `SamplingParams.verify`: `min_new_tokens` forbids stop tokens by their place among the logits.

    Raises:
        ConfigError: with min_new_tokens, a stop token is no token of the model.
    """
    original(params, vocab_size)
    if params.min_new_tokens > 0 and decodes_here():
        wrong = sorted(token for token in params.stop_token_ids or () if not 0 <= token < vocab_size)
        if wrong:
            raise ConfigError(
                f"stop_token_ids has {wrong[0]}, which is no token of this model (0 to {vocab_size - 1}); with "
                f"min_new_tokens={params.min_new_tokens} every stop token must be one"
            )
