"""From the expressions that a program appends to the nodes of its graph. Shared by the tracer and the recorder.

Used before a round. An expression of a kind that is not known here is refused: a graph with a step left out would be
a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sglang.lang import ir

from sgl_spec.errors import TraceError
from sgl_spec.frontend.expect import shape_of
from sgl_spec.program.nodes import (
    COMPUTED,
    FREE,
    CallArgument,
    Constraint,
    Gen,
    Image,
    Node,
    Parts,
    RoleBegin,
    RoleEnd,
    Select,
    Setting,
    Text,
)
from sgl_spec.program.placeholder import Placeholder, first_held, parts_of, refuse
from sgl_spec.program.run_log import Lane
from sgl_spec.program.source import NOWHERE, SourceLine

# The settings that a gen may give itself, besides those with a field of their own in `Gen`.
_SETTINGS = (
    *("frequency_penalty", "ignore_eos", "min_p", "n", "presence_penalty"),
    *("temperature", "top_k", "top_p"),
)
Lines = tuple[SourceLine, ...]


class Written(NamedTuple):
    """A variable that a step writes, and its name in the whole program."""

    variable: str
    name: str


def append_expression(lane: Lane, expression: Any, lines: Lines) -> list[Written]:
    """Adds the steps of one appended expression to a lane; returns the variables they write.

    Raises:
        TraceError: a part of it is of a kind that is not known.
    """
    written: list[Written] = []
    for order, part in enumerate(_flat(expression)):
        written += _append(lane, part, lines or (NOWHERE,), order)
    return written


def _flat(expression: Any) -> Iterator[Any]:
    if isinstance(expression, ir.SglExprList):
        for part in expression.expr_list:
            yield from _flat(part)
    elif not isinstance(expression, ir.SglCommitLazy):  # SGLang's own, before a fork
        yield expression


def _append(lane: Lane, part: Any, lines: Lines, order: int) -> list[Written]:
    if isinstance(part, ir.SglConcateAndAppend):
        # The executors of a traced or recorded run know their lanes.
        part.states[0].stream_executor.sgl_spec_lane.join("concate_and_append", lines)
        return []
    if isinstance(part, ir.SglVarScopeBegin):
        return []
    if isinstance(part, ir.SglVarScopeEnd):
        return [Written(part.name, lane.defines(part.name))]
    node = _node(lane, part, lines[0])
    lane.add(node, lines, order)
    name = part.name if isinstance(node, Gen | Select) else None
    return [Written(name, lane.defines(name))] if name else []


def _node(lane: Lane, part: Any, source: SourceLine) -> Node:
    if isinstance(part, str | Placeholder):
        return Text(parts_of(part), source)
    if isinstance(part, ir.SglConstantText):
        return Text(parts_of(part.value), source)
    if isinstance(part, ir.SglGen):
        return _gen(part, lane.next_slot(_name(part)), source)
    if isinstance(part, ir.SglSelect):
        return _select(part, lane.next_slot(_name(part)), source)
    if isinstance(part, ir.SglRoleBegin):
        return RoleBegin(part.role, source)
    if isinstance(part, ir.SglRoleEnd):
        return RoleEnd(part.role, source)
    if isinstance(part, ir.SglImage | ir.SglVideo):
        return Image(_path(part.path), source, "video" if isinstance(part, ir.SglVideo) else "image")
    raise TraceError(
        f"the program appends {type(part).__name__} at {source}, which a graph has no node for", where=str(source)
    )


def _name(part: Any) -> str | None:
    if isinstance(part.name, Placeholder):
        refuse(part.name, "names a gen or select after")
    return part.name  # type: ignore[no-any-return]


def _path(path: Any) -> Parts:
    return parts_of(path) if isinstance(path, str | Placeholder) else (COMPUTED,)


def _gen(part: ir.SglGen, slot: str, source: SourceLine) -> Gen:
    params = part.sampling_params
    values: dict[str, Any] = {
        "constraint": _constraint(params),
        "stop": _texts(params.stop),
        "stop_token_ids": tuple(params.stop_token_ids or ()),
        "stop_regex": _texts(params.stop_regex),
        "max_tokens": params.max_new_tokens,
        "min_tokens": params.min_new_tokens,
        "settings": tuple(Setting(name, value) for name in _SETTINGS if (value := getattr(params, name)) is not None),
        "shape": shape_of(part) or (),
    }
    return Gen(slot, source, **_known(values))


def _select(part: ir.SglSelect, slot: str, source: SourceLine) -> Select:
    method = type(part.choices_method).__name__
    choices = part.choices if isinstance(part.choices, Placeholder) else tuple(part.choices)
    return Select(slot, source, **_known({"choices": choices, "method": method}))


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without the fields that hold a value only a run has; those are named in `varying` instead."""
    held = tuple(sorted(name for name, value in values.items() if first_held(value) is not None))
    return {**{name: value for name, value in values.items() if name not in held}, "varying": held}


def _constraint(params: ir.SglSamplingParams) -> Any:
    for kind, value in (("regex", params.regex), ("json_schema", params.json_schema), ("dtype", params.dtype)):
        if isinstance(value, Placeholder):
            return value
        if value is not None:
            return Constraint(kind, _constraint_text(value))  # type: ignore[arg-type]
    return FREE


def _constraint_text(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    return value if isinstance(value, str) else json.dumps(value)


def _texts(value: Any) -> Any:
    if isinstance(value, Placeholder):
        return value
    return (value,) if isinstance(value, str) else tuple(value or ())


def call_arguments(arguments: Mapping[str, Any]) -> tuple[CallArgument, ...]:
    """The arguments of a called function as text, in name order."""
    return tuple(
        CallArgument(name, parts_of(value) if isinstance(value, str | Placeholder) else _shown(value))
        for name, value in sorted(arguments.items())
    )


def _shown(value: Any) -> Parts:
    return (COMPUTED,) if first_held(value) is not None else parts_of(str(value))
