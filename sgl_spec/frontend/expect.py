"""`expect`: a program declares what a `gen`'s output will look like.

Stands before the round: the endpoint sends the shape inside the hint, and the server drafts its literal text. A wrong
shape costs drafts that are not accepted; it never changes the output.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeVar

from sgl_spec.drafting.hint import is_unicode
from sgl_spec.errors import ConfigError
from sgl_spec.program.nodes import ShapePart

MAX_PARTS = 64
MAX_CHARS = 16_000
SHAPE_ATTRIBUTE = "sgl_spec_shape"

Expression = TypeVar("Expression")


def expect(gen_expr: Expression, *shape: Any) -> Expression:
    """The same `gen`, with the shape its output is expected to have.

        s += sgl_spec.expect(sgl.gen("verdict", max_tokens=60), "Because ", ..., ".\\nVerdict: ", ["Yes", "No"])

    Args:
        gen_expr: what `sgl.gen` returned.
        shape: the output's parts in order: a `str` for text it has there, `...` for free text of any length, a list or
            tuple of `str` for one of these alternatives. At most 64 parts and 16,000 characters.

    Raises:
        ConfigError: `gen_expr` is no gen, or the shape cannot be; the message says which part.
    """
    from sglang.lang.ir import SglGen

    if not isinstance(gen_expr, SglGen):
        found = type(gen_expr).__name__
        raise ConfigError(f"expect: it takes what sgl.gen() returns, not {found} (a select already says its choices)")
    setattr(gen_expr, SHAPE_ATTRIBUTE, _checked(shape))
    return gen_expr


def shape_of(expr: Any) -> tuple[ShapePart, ...] | None:
    """The shape declared for a gen; None for none."""
    shape: tuple[ShapePart, ...] | None = getattr(expr, SHAPE_ATTRIBUTE, None)
    return shape


def _checked(shape: tuple[Any, ...]) -> tuple[ShapePart, ...]:
    if not 1 <= len(shape) <= MAX_PARTS:
        raise ConfigError(f"expect: a shape has 1 to {MAX_PARTS} parts, not {len(shape)}")
    parts = tuple(_part(part, number) for number, part in enumerate(shape, 1))
    for number, (part, following) in enumerate(pairwise(parts), 1):
        if part is ... and following is ...:
            raise ConfigError(f"expect: parts {number} and {number + 1} are both free text (...); one is enough")
    chars = sum(_chars(part) for part in parts)
    if chars > MAX_CHARS:
        raise ConfigError(f"expect: a shape has at most {MAX_CHARS:,} characters, not {chars:,}")
    return parts


def _part(part: Any, number: int) -> ShapePart:
    if part is ...:
        return part
    if isinstance(part, list | tuple):
        if not part:
            raise ConfigError(f"expect: part {number} has no alternatives; give at least one text")
        return tuple(_text(alternative, number) for alternative in part)
    return _text(part, number)


def _text(value: Any, number: int) -> str:
    # A traced program's stand-in for text is kept for the tracer, which asks for it by this attribute.
    if hasattr(type(value), "sgl_spec_stands_for_text"):
        return value  # type: ignore[no-any-return]
    if not isinstance(value, str):
        raise ConfigError(f"expect: part {number} is {value!r:.80}; a part is a str, ... or a list of str")
    if not value:
        raise ConfigError(f"expect: part {number} is or has an empty text; leave it out")
    if not is_unicode(value):
        raise ConfigError(f"expect: part {number} is {value!a:.80}; half a surrogate pair cannot be sent")
    return value


def _chars(part: ShapePart) -> int:
    if part is ...:
        return 0
    if isinstance(part, tuple):
        return sum(_chars(alternative) for alternative in part)
    return len(part) if isinstance(part, str) else 0
