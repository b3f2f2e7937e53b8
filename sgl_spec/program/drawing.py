"""Draws a graph as text or as Mermaid, each hole with its template beside it. For people; outside any round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sgl_spec.program.graph import Edge, ProgramGraph
from sgl_spec.program.nodes import (
    Call,
    Fork,
    Gen,
    Image,
    Inserted,
    Join,
    Parts,
    RoleBegin,
    RoleEnd,
    Select,
    ShapePart,
    Text,
)
from sgl_spec.program.templates import HoleTemplate
from sgl_spec.program.text_walk import RoleTexts
from sgl_spec.program.visitor import Visitor

MOST_SHOWN = 60


class Caption(NamedTuple):
    """A node in words: its kind and what it holds, cut to what can be read at a glance."""

    kind: str
    what: str


class Captions(Visitor[Caption]):
    """The caption of each kind of node."""

    def text(self, node: Text) -> Caption:
        return Caption("text", shown_parts(node.parts))

    def gen(self, node: Gen) -> Caption:
        details = [node.slot]
        details += [node.constraint.kind] if node.constraint.kind != "free" else []
        details += [f"at most {node.max_tokens} tokens"] if node.max_tokens is not None else []
        details += [f"varying {', '.join(node.varying)}"] if node.varying else []
        return Caption("gen", ", ".join(details))

    def select(self, node: Select) -> Caption:
        choices = " | ".join(quoted(choice, 20) for choice in node.choices) or "choices that vary"
        return Caption("select", f"{node.slot}, {cut(choices, MOST_SHOWN)}")

    def role_begin(self, node: RoleBegin) -> Caption:
        return Caption("role", f"{node.role} begins")

    def role_end(self, node: RoleEnd) -> Caption:
        return Caption("role", f"{node.role} ends")

    def fork(self, node: Fork) -> Caption:
        return Caption("fork", f"{node.size} branches")

    def join(self, node: Join) -> Caption:
        return Caption("join", node.mode.replace("_", " "))

    def image(self, node: Image) -> Caption:
        return Caption(node.medium, shown_parts(node.parts))

    def call(self, node: Call) -> Caption:
        arguments = ", ".join(f"{name}={shown_parts(parts, 20)}" for name, parts in node.arguments)
        return Caption("call", f"{node.program}({cut(arguments, MOST_SHOWN)})")


def cut(text: str, most: int) -> str:
    """`text`, its middle left out where it is longer than `most` characters."""
    if len(text) <= most:
        return text
    head = (most - 3) // 2
    return f"{text[:head]}...{text[len(text) - (most - 3 - head) :]}"


def quoted(text: str, most: int = MOST_SHOWN) -> str:
    """A literal as one line, in quotes."""
    line = cut(text, most).replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace('"', '\\"')
    return f'"{line}"'


def shown_parts(parts: Parts, most: int = MOST_SHOWN) -> str:
    """Literals in quotes, values in braces: `"Question: " {question} "\\n"`."""
    return " ".join(_shown_part(part, most) for part in parts) or '""'


def _shown_part(part: str | Inserted, most: int) -> str:
    if isinstance(part, str):
        return quoted(part, most)
    return f"{{{part.name or part.origin}}}"


def template_lines(template: HoleTemplate) -> list[str]:
    """What a template says, a line for each thing it says."""
    lines = [f"before {quoted(template.before)}", f"after {quoted(template.after)}"]
    if template.stops:
        lines.append("stops " + ", ".join(quoted(stop, 30) for stop in template.stops))
    if template.kind not in ("free", "choices"):
        lines.append(f"{template.kind} {quoted(template.constraint)}")
    if template.shape:
        lines.append("shape " + " ".join(_shown_shape(part) for part in template.shape))
    often = "in a loop" if template.loops else f"{template.times} times" if template.times > 1 else ""
    return lines + [often] * bool(often)


def _shown_shape(part: ShapePart) -> str:
    if isinstance(part, tuple):
        return "(" + " | ".join(quoted(text, 20) for text in part) + ")"
    return quoted(part, 30) if isinstance(part, str) else "..."


class HoleTemplates:
    """Which template belongs to which hole of a graph."""

    def __init__(self, graph: ProgramGraph, roles: RoleTexts | None) -> None:
        self._by_node = dict(graph.templates_by_node(roles))

    def lines(self, number: int) -> list[str]:
        """The template of node `number` in lines; none for a node that is no hole."""
        return template_lines(self._by_node[number]) if number in self._by_node else []


def title(graph: ProgramGraph) -> str:
    """The program, its size, and how its graph was made."""
    how = f"recorded over {graph.runs} runs" if graph.runs else "traced"
    return f"{graph.program}: {len(graph.nodes)} nodes, {len(graph.holes)} holes, {how}"


def draw_text(graph: ProgramGraph, roles: RoleTexts | None = None) -> str:
    """The graph in lines: one for each node, with where it goes when that is not the next line."""
    templates = HoleTemplates(graph, roles)
    lines = [title(graph), ""]
    for number, node in graph.nodes.items():
        kind, what = Captions().visit(node)
        goes = _goes(graph.after(number), number)
        lines.append(f"{number:>4}  {kind:<6}  {what}  [{node.source}]{goes}")
        lines += [f"{'':14}| {line}" for line in templates.lines(number)]
    return "\n".join(lines) + "\n"


def _goes(edges: Iterable[Edge], number: int) -> str:
    edges = list(edges)
    if [(edge.head, edge.branch, edge.back) for edge in edges] == [(number + 1, None, False)]:
        return ""
    return "  -> " + ", ".join(map(edge_label, edges)) if edges else "  (end)"


def edge_label(edge: Edge) -> str:
    """An edge in words, from its tail."""
    branch = f" (branch {edge.branch})" if edge.branch is not None else ""
    return f"{'back to ' if edge.back else ''}{edge.head}{branch}"


def draw_mermaid(graph: ProgramGraph, roles: RoleTexts | None = None) -> str:
    """The graph in Mermaid's flowchart language, templates as notes on dotted lines."""
    templates = HoleTemplates(graph, roles)
    lines = [f"%% {title(graph)}", "flowchart TD"]
    for number, node in graph.nodes.items():
        kind, what = Captions().visit(node)
        label = _mermaid(f"{kind}: {what}")
        lines.append(f'    n{number}(["{label}"])' if kind in ("gen", "select") else f'    n{number}["{label}"]')
        if beside := templates.lines(number):
            lines.append(f'    t{number}>"{"<br/>".join(map(_mermaid, beside))}"]')
            lines.append(f"    n{number} -.- t{number}")
    for edge in graph.edges:
        arrow = "-. again .->" if edge.back else f"-- branch {edge.branch} -->" if edge.branch is not None else "-->"
        lines.append(f"    n{edge.tail} {arrow} n{edge.head}")
    return "\n".join(lines) + "\n"


def _mermaid(text: str) -> str:
    """Text inside Mermaid's quotes: everything with a meaning there, or in HTML, becomes a numbered entity."""
    return "".join(char if char.isalnum() or char in " .,:_-+/()=" else f"#{ord(char)};" for char in text)
