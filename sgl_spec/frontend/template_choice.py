"""Which of SGLang's frontend chat templates fits the served model.

SGLang guesses from words in the model's path and falls back to `default` without a word, which for a model in a local
folder sends `USER: ...` to a model trained on `<|im_start|>user`. We look at the model's own chat template instead, or,
when the server's files are not on this machine, ask the server which markers its tokenizer knows as one token.
Pure: paths, text and a probe callable in; a name out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class TemplateChoice(NamedTuple):
    """The template's name in SGLang's registry, why it was chosen, and a warning for the user when it is a fallback."""

    name: str
    reason: str
    warning: str | None = None


class _Marker(NamedTuple):
    """Text that a model's Jinja chat template contains, and SGLang's template of the same shape."""

    text: str
    template: str
    token: bool = True


# Order matters: a more particular marker comes before one that other families share.
_MARKERS = (
    _Marker("<|im_start|>", "chatml"),
    _Marker("<|start_header_id|>", "llama-3-instruct"),
    _Marker("<|header_start|>", "llama-4"),
    _Marker("<start_of_turn>", "gemma-it"),
    _Marker("<|turn>", "gemma-4-it"),
    _Marker("<|start_of_role|>", "granite-3-instruct"),
    _Marker("<|START_OF_TURN_TOKEN|>", "c4ai-command-r"),
    _Marker("<\uff5cUser\uff5c>", "deepseek-v3"),
    _Marker("[SYSTEM_PROMPT]", "mistral"),
    _Marker("<<SYS>>", "llama-2-chat", token=False),
)

_HOW_TO_PASS = 'pass the right one, for example Endpoint(url, chat_template="chatml")'


def choose_template(
    model_info: Mapping[str, Any],
    by_path: Callable[[str], str],
    is_one_token: Callable[[str], bool],
) -> TemplateChoice:
    """The chat template for the model a server serves.

    Args:
        model_info: the server's `/model_info`; `tokenizer_path` and `model_path` are read.
        by_path: SGLang's own guess from a path; "default" means it has none.
        is_one_token: whether the server's tokenizer has this text as one token (asked only as a last resort).
    """
    path = str(model_info.get("tokenizer_path") or model_info.get("model_path") or "")
    source = read_chat_template(Path(path)) if path else None
    if source is not None:
        return _from_source(path, source, by_path)
    guess = by_path(path)
    if guess != "default":
        return TemplateChoice(guess, f"the model's name, {path!r}")
    for marker in _MARKERS:
        if marker.token and is_one_token(marker.text):
            return TemplateChoice(marker.template, f"the server's tokenizer has the token {marker.text!r}")
    return _unknown(path, "neither its name nor its tokenizer says which")


def read_chat_template(folder: Path) -> str | None:
    """The Jinja chat template in a model's folder; "" if its tokenizer has none; None if there is no such tokenizer."""
    jinja, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    try:
        if jinja.is_file():
            return jinja.read_text(encoding="utf-8")
        if not config.is_file():
            return None
        declared = json.loads(config.read_text(encoding="utf-8")).get("chat_template") or ""
    except (OSError, ValueError, AttributeError):
        return None
    return declared if isinstance(declared, str) else json.dumps(declared, ensure_ascii=False)


def template_for_source(source: str) -> str | None:
    """SGLang's template whose role markers occur in this Jinja text, or None."""
    return next((marker.template for marker in _MARKERS if marker.text in source), None)


def _from_source(path: str, source: str, by_path: Callable[[str], str]) -> TemplateChoice:
    if not source:
        return TemplateChoice(by_path(path), "the model's tokenizer has no chat template")
    name = template_for_source(source)
    if name == "chatml" and (guess := by_path(path)) != "default":
        # Families that use ChatML's markers differ in their default system prompt; SGLang knows some by name.
        return TemplateChoice(guess, f"the model's chat template and its name, {path!r}")
    if name is not None:
        return TemplateChoice(name, "the role markers in the model's chat template")
    if (guess := by_path(path)) != "default":
        return TemplateChoice(guess, f"the model's name, {path!r}")
    return _unknown(path, "its chat template has role markers that no template of SGLang's frontend has")


def _unknown(path: str, why: str) -> TemplateChoice:
    warning = (
        f"chat_template: none is known for the served model {path!r} ({why}); roles will be written as 'USER:' and "
        f"'ASSISTANT:', which may harm its answers; {_HOW_TO_PASS}"
    )
    return TemplateChoice("default", why, warning)
