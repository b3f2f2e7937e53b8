"""The literal text that a state holds before and after each node of a graph: the strings of the templates.

Used before a round. Only text that is there whichever way a run comes is given: where ways meet, before a node, it is
what their texts end with alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from sgl_spec.program.nodes import Call, Fork, Gen, Image, Inserted, Join, Parts, RoleBegin, RoleEnd, Select, Text
from sgl_spec.program.text_parts import common_end
from sgl_spec.program.visitor import Visitor

if TYPE_CHECKING:
    from sgl_spec.program.graph import Edge, ProgramGraph

MAX_CHARS = 2_000
_VALUE = Inserted("computed")


class RoleText(NamedTuple):
    """What a chat template writes before and after a message of one role."""

    prefix: str
    suffix: str


RoleTexts = Mapping[str, RoleText]


class _Written(Visitor[Parts]):
    """The text a node appends. What is not known is a value: text does not reach across it."""

    def __init__(self, roles: RoleTexts | None) -> None:
        self._roles = roles

    def text(self, node: Text) -> Parts:
        return node.parts

    def gen(self, node: Gen) -> Parts:
        return (_VALUE,)

    def select(self, node: Select) -> Parts:
        return (_VALUE,)

    def image(self, node: Image) -> Parts:
        return (_VALUE,)

    def role_begin(self, node: RoleBegin) -> Parts:
        return (_VALUE,) if self._roles is None else (self._role(node.role).prefix,)

    def role_end(self, node: RoleEnd) -> Parts:
        return (_VALUE,) if self._roles is None else (self._role(node.role).suffix,)

    def fork(self, node: Fork) -> Parts:
        return ()

    def join(self, node: Join) -> Parts:
        return () if node.mode == "gather_variable" else (_VALUE,)

    def call(self, node: Call) -> Parts:
        return ()

    def _role(self, name: str) -> RoleText:
        return (self._roles or {}).get(name, RoleText("", ""))


def texts_before(graph: ProgramGraph, roles: RoleTexts | None) -> dict[int, str]:
    """For each node, the literal text directly before what it appends.

    Forward edges first; then back edges may only shorten a text, until nothing changes.
    """
    written = {number: _Written(roles).visit(node) for number, node in graph.nodes.items()}
    before: dict[int, str] = {}
    after: dict[int, str] = {}
    changed = True
    while changed:
        changed = False
        for number in graph.nodes:
            ways = [
                after[edge.tail] for edge in graph.before(number) if edge.tail in after and _carries_text(graph, edge)
            ]
            text = common_end(ways)
            if before.get(number) != text:
                changed = True
                before[number], after[number] = text, _text_at_end(text, written[number])
    return before


def _carries_text(graph: ProgramGraph, edge: Edge) -> bool:
    return not (isinstance(graph.nodes[edge.head], Join) and edge.branch is not None)


def _text_at_end(before: str, written: Parts) -> str:
    for part in reversed(written):
        if not isinstance(part, str):
            before = ""
            break
    tail = ""
    for part in reversed(written):
        if not isinstance(part, str):
            break
        tail = part + tail
    return (before + tail)[-MAX_CHARS:]


def text_after(graph: ProgramGraph, number: int, roles: RoleTexts | None) -> str:
    """The literal text directly after a node, up to the next value or the end of its state's text.

    Where several steps may follow, the one that runs took most often is meant.
    """
    writer, text, seen = _Written(roles), "", {number}
    edge = _likeliest(graph, number)
    while edge is not None and len(text) < MAX_CHARS and edge.head not in seen:
        seen.add(edge.head)
        for part in writer.visit(graph.nodes[edge.head]):
            if not isinstance(part, str):
                return text[:MAX_CHARS]
            text += part
        edge = _likeliest(graph, edge.head)
    return text[:MAX_CHARS]


def _likeliest(graph: ProgramGraph, number: int) -> Edge | None:
    """The step that goes on with the text: a state's own before a branch's, never past a branch's end."""
    edges = [edge for edge in graph.after(number) if _carries_text(graph, edge)]
    edges.sort(key=lambda edge: (edge.branch is not None, -edge.times))
    return edges[0] if edges else None
