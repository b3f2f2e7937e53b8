"""What a graph says about the text around each hole, and the examples of that text in a prompt already written.

Used before a call's first round, when nothing of the slot was ever generated: earlier text that stands where the hole
stands shows what the answer will look like. Pure string functions; a hole is a `gen` or a `select`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from sgl_spec.program.nodes import FREE, Gen, Hole, ShapePart
from sgl_spec.program.text_walk import RoleText, RoleTexts, text_after, texts_before

if TYPE_CHECKING:
    from sgl_spec.program.graph import ProgramGraph

__all__ = ["HoleAt", "HoleTemplate", "RoleText", "RoleTexts", "find_examples", "templates_by_node"]


@dataclass(frozen=True)
class HoleTemplate:
    """A hole and the text around it.

    Attributes:
        program, slot: as the hint names them.
        before: the literal text directly before the hole, after the previous value; at most 2,000 characters of it.
        after: the literal text directly after it, up to the next value; at most 2,000 characters.
        stops: the gen's own stop strings.
        kind: what holds the output to a form: "free", "regex", "json_schema", "dtype" or "choices".
        constraint: the expression, schema or type; empty for "free" and "choices".
        choices: of a select.
        shape: what `sgl_spec.expect` declared.
        max_tokens: tokens, None where the gen leaves it to the run.
        times: how many holes of the graph this stands for.
        loops: whether a run may pass it more than once.
    """

    program: str
    slot: str
    before: str = ""
    after: str = ""
    stops: tuple[str, ...] = ()
    kind: str = "free"
    constraint: str = ""
    choices: tuple[str, ...] = ()
    shape: tuple[ShapePart, ...] = ()
    max_tokens: int | None = None
    times: int = 1
    loops: bool = False


class HoleAt(NamedTuple):
    """The number of a hole's node and its template."""

    node: int
    template: HoleTemplate


def templates_by_node(graph: ProgramGraph, roles: RoleTexts | None) -> list[HoleAt]:
    """The template of every hole, in program order; `times` counts the holes whose templates are equal."""
    befores = texts_before(graph, roles)
    found = []
    for number, hole in graph.holes:
        one = _template(graph.program, hole, befores[number], text_after(graph, number, roles))
        found.append(HoleAt(number, replace(one, loops=number in graph.looping)))
    times = Counter(template for _, template in found)
    return [HoleAt(number, replace(template, times=times[template])) for number, template in found]


def _template(program: str, hole: Hole, before: str, after: str) -> HoleTemplate:
    if not isinstance(hole, Gen):
        return HoleTemplate(program, hole.slot, before, after, kind="choices", choices=hole.choices)
    constraint = hole.constraint or FREE
    return HoleTemplate(
        program=program,
        slot=hole.slot,
        before=before,
        after=after,
        stops=hole.stop,
        kind=constraint.kind,
        constraint=constraint.text,
        shape=hole.shape,
        max_tokens=hole.max_tokens,
    )


def find_examples(
    text: str, before: str, after: str, stops: Sequence[str], limit: int = 8, max_chars: int = 4000
) -> tuple[str, ...]:
    """What stands in a prompt where the hole stands: few-shot examples of a slot's output, in the prompt's order.

    An example follows an earlier occurrence of `before` and ends at the first of `after`'s first line, a stop string,
    or, failing those, nothing: without an end in sight it is no example. Where the whole of `before` does not occur
    earlier, its last line is tried, and the line feed before it.

    Args:
        text: the prompt as written so far; its end is where the hole is.
        before, after: of the slot's template.
        stops: the stop strings that the call will have, those of its chat template included.
        limit: at most so many, the ones nearest to the hole.
        max_chars: characters of all examples together; the nearest are kept, whole.
    """
    ends = tuple(dict.fromkeys(end for end in (_first_line(after), *stops) if end))
    for anchor in _anchors(before):
        found = list(_examples(text, anchor, ends))
        if found:
            return _nearest(found, limit, max_chars)
    return ()


def _anchors(before: str) -> Iterator[str]:
    if before:
        yield before
    line = before.rstrip("\n").rfind("\n")
    if line > 0 and before[line:].strip():
        yield before[line:]


def _first_line(after: str) -> str:
    """`after` up to the end of its first line that is not empty: what follows varies more."""
    start = len(after) - len(after.lstrip("\n"))
    end = after.find("\n", start)
    return after if end < 0 else after[:end] if end > start else after[:start]


def _examples(text: str, anchor: str, ends: Sequence[str]) -> Iterator[str]:
    """Non-empty texts after earlier occurrences of `anchor`, each up to the first of `ends`; they do not overlap."""
    hole = len(text) if text.endswith(anchor) else text.rfind(anchor) + len(anchor)
    last = hole - len(anchor)
    position = text.find(anchor)
    while 0 <= position < last:
        start = position + len(anchor)
        # An end may begin where the hole's own `before` does (its line feed is one), not later.
        stop = min((found for end in ends if start <= (found := text.find(end, start)) <= last), default=-1)
        if stop >= 0 and text[start:stop].strip():
            yield text[start:stop]
        position = text.find(anchor, max(stop, start) if stop >= 0 else start)


def _nearest(found: Sequence[str], limit: int, max_chars: int) -> tuple[str, ...]:
    kept: list[str] = []
    room = max_chars
    for example in reversed(found[-limit:] if limit > 0 else ()):
        room -= len(example)
        if room < 0:
            break
        kept.append(example)
    return tuple(reversed(kept))
