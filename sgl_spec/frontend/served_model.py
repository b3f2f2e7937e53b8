"""What a server serves, and the chat template of SGLang's frontend that fits it.

Asked once, when an `Endpoint` is made, before any round.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from sglang.lang.chat_template import (
    ChatTemplate,
    chat_template_registry,
    get_chat_template,
    get_chat_template_by_model_path,
)

from sgl_spec.errors import ConfigError, ServerError, SglSpecError
from sgl_spec.frontend.http_client import HttpClient
from sgl_spec.frontend.template_choice import choose_template


def model_info(http: HttpClient) -> dict[str, Any]:
    """The server's `/model_info`. Raises ServerError when what answers is not an SGLang server."""
    try:
        info = http.get("/model_info")
    except ServerError as error:
        if error.status != 404:
            raise
        info = http.get("/get_model_info")  # the name before SGLang 0.5.4
    if not isinstance(info, dict) or "model_path" not in info:
        raise ServerError(f"{http.url}/model_info: no model_path in the answer: is this an SGLang server?")
    return info


def resolve_template(given: str | ChatTemplate | None, model_info: Mapping[str, Any], http: HttpClient) -> ChatTemplate:
    """The template given by name or value, or the one that fits the model; warns where only a fallback is known.

    Raises:
        ConfigError: no template has the given name.
    """
    if isinstance(given, ChatTemplate):
        return given
    if given is not None:
        if given not in chat_template_registry:
            known = ", ".join(sorted(chat_template_registry))
            raise ConfigError(f"chat_template: {given!r} is none of SGLang's frontend templates: {known}")
        return get_chat_template(given)
    choice = choose_template(
        model_info,
        by_path=lambda path: get_chat_template_by_model_path(path).name,
        is_one_token=lambda text: _is_one_token(http, text),
    )
    if choice.warning:
        warnings.warn(choice.warning, stacklevel=3)
    return get_chat_template(choice.name)


def _is_one_token(http: HttpClient, text: str) -> bool:
    return len(token_ids(http, text, special=False) or ()) == 1


def token_ids(http: HttpClient, text: str, *, special: bool = True) -> list[int] | None:
    """The tokens that the server makes of a text; None from a server that does not tell.

    Args:
        special: with the tokens that the tokenizer puts around a prompt, such as a BOS.
    """
    try:
        answer = http.post("/tokenize", {"prompt": text, "add_special_tokens": special})
    except SglSpecError:
        return None  # a server too old for /tokenize, or one that keeps it to itself: no evidence either way
    ids = answer.get("tokens") if isinstance(answer, dict) else None
    return ids if isinstance(ids, list) else None
