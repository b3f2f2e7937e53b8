"""Requests that would end the server are refused, each alone.

Where it stands in a round: before all of them, where a request arrives and a ValueError is a refusal. SGLang 0.5.23
meets what is checked here in the scheduler, while it prepares a prefill: an error there ends the server, and every
request on it. Only where SGL_SPEC decodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

from sgl_spec.errors import ConfigError
from sgl_spec.server.algorithm import decodes_here


def check_processor(original: Callable[..., None], manager: Any, request: Any, *args: Any, **kwargs: Any) -> None:
    """Hook around `TokenizerManager._validate_one_request`.

    Raises:
        ConfigError: the request's custom logit processor cannot be made from its text.
    """
    original(manager, request, *args, **kwargs)
    text = getattr(request, "custom_logit_processor", None)
    if not text or not decodes_here():
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
