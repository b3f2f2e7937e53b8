"""`predict`: a program says what a `gen` will probably write: an edited text, an earlier answer.

Stands before the round: the endpoint sends the text inside the hint, and the server drafts from it. What is wrong in it
costs drafts that are not accepted; it never changes the output.
"""

from __future__ import annotations

from typing import Any, TypeVar

from sgl_spec.drafting.hint import MAX_PREDICT_CHARS, is_unicode
from sgl_spec.errors import ConfigError

PREDICTION_ATTRIBUTE = "sgl_spec_prediction"

Expression = TypeVar("Expression")


def predict(gen_expr: Expression, text: str) -> Expression:
    """The same `gen`, with the output as it is expected to be, as OpenAI's `prediction`.

        s += sgl_spec.predict(sgl.gen("edited", max_tokens=400), code)

    Args:
        gen_expr: what `sgl.gen` returned.
        text: the expected output, at most 262,144 characters. It need not be right: the output may leave it and come
            back to it.

    Raises:
        ConfigError: `gen_expr` is no gen, or `text` is no text or too long.
    """
    from sglang.lang.ir import SglGen

    if not isinstance(gen_expr, SglGen):
        found = type(gen_expr).__name__
        raise ConfigError(f"predict: it takes what sgl.gen() returns, not {found} (a select generates nothing)")
    # A traced program's stand-in for text passes: only the run that sends the hint needs the text itself.
    if not isinstance(text, str) and not hasattr(type(text), "sgl_spec_stands_for_text"):
        raise ConfigError(f"predict: text is {text!r:.80}; it must be a str")
    if isinstance(text, str) and len(text) > MAX_PREDICT_CHARS:
        raise ConfigError(f"predict: text has {len(text):,} characters; at most {MAX_PREDICT_CHARS:,} are used")
    if isinstance(text, str) and not is_unicode(text):
        raise ConfigError("predict: text holds half a surrogate pair, which cannot be sent")
    setattr(gen_expr, PREDICTION_ATTRIBUTE, text)
    return gen_expr


def prediction_of(expr: Any) -> str | None:
    """The text predicted for a gen; None for none."""
    text = getattr(expr, PREDICTION_ATTRIBUTE, None)
    return text if isinstance(text, str) and text else None
