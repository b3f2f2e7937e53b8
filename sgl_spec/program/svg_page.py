"""Draws a graph as an SVG in an HTML page that needs nothing else. For people; outside any round."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

import networkx as nx

from sgl_spec.program.drawing import Captions, HoleTemplates, cut, title
from sgl_spec.program.graph import Edge, ProgramGraph
from sgl_spec.program.text_walk import RoleTexts

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 380, 46, 60, 34, 30
_LINE, _CHAR = 15, 6.7
_FILL = {"gen": "#ffe9b8", "select": "#ffe9b8", "text": "#f4f4f1", "fork": "#dcebff", "join": "#dcebff"}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px sans-serif; margin: 24px; }}
svg text {{ font: 11px monospace; fill: #222; white-space: pre; }}
svg .kind {{ font-weight: bold; }}
svg .where {{ fill: #777; }}
svg .template {{ fill: #35507a; }}
svg path {{ fill: none; stroke: #555; stroke-width: 1.3; }}
svg .back {{ stroke: #b3471d; stroke-dasharray: 5 4; }}
</style>
</head>
<body>
<h1>{title}</h1>
{svg}
</body>
</html>
"""


class _Place(NamedTuple):
    """The upper left corner of a node's box, in pixels."""

    x: float
    y: float


class _Cell(NamedTuple):
    """Where a node lies before anything is measured: its layer from the top, its column from the left."""

    layer: int
    column: int


class _Box(NamedTuple):
    number: int
    place: _Place
    template: list[str]


def draw_html(graph: ProgramGraph, roles: RoleTexts | None = None) -> str:
    """The page. Everything that comes from the program is escaped; there are no scripts and no references."""
    return _PAGE.format(title=escape(title(graph)), svg=draw_svg(graph, roles))


def draw_svg(graph: ProgramGraph, roles: RoleTexts | None = None) -> str:
    """The graph in layers from top to bottom: a node lies below everything that leads to it."""
    templates = HoleTemplates(graph, roles)
    boxes = _boxes(graph, templates)
    places = {box.number: box.place for box in boxes}
    width = max(place.x for place in places.values()) + _BOX_WIDTH + _GAP_X + _template_width(boxes)
    height = max(box.place.y + _height(box.template) for box in boxes) + _MARGIN
    shapes = [_edge(edge, places) for edge in graph.edges] + [line for box in boxes for line in _box(graph, box)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">\n{_ARROW}\n' + "\n".join(shapes) + "\n</svg>"
    )


_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<polygon points="0,0 8,4 0,8" fill="#555"/></marker></defs>'
)


def _boxes(graph: ProgramGraph, templates: HoleTemplates) -> list[_Box]:
    """Every column as wide, and every layer as high, as what lies in it."""
    cells = _cells(graph)
    beside = {number: templates.lines(number) for number in cells}
    columns, layers = {cell.column for cell in cells.values()}, {cell.layer for cell in cells.values()}
    widths, heights = dict.fromkeys(columns, 0.0), dict.fromkeys(layers, 0.0)
    for number, cell in cells.items():
        widths[cell.column] = max(widths[cell.column], _BOX_WIDTH + _text_width(beside[number]))
        heights[cell.layer] = max(heights[cell.layer], _height(beside[number]))
    x = {c: _MARGIN + sum(widths[left] + _GAP_X for left in columns if left < c) for c in columns}
    y = {row: _MARGIN + sum(heights[above] + _GAP_Y for above in layers if above < row) for row in layers}
    return [_Box(number, _Place(x[c], y[row]), beside[number]) for number, (row, c) in cells.items()]


def _cells(graph: ProgramGraph) -> dict[int, _Cell]:
    """A node lies in its first predecessor's column, or as many to the right of it as it comes after others there."""
    cells: dict[int, _Cell] = {}
    taken: set[_Cell] = set()
    for layer, numbers in enumerate(nx.topological_generations(graph.forward)):
        for number in sorted(numbers):
            cell = _Cell(layer, min((_column(graph, edge, cells) for edge in _ways(graph, number)), default=0))
            while cell in taken:
                cell = _Cell(layer, cell.column + 1)
            cells[number] = cell
            taken.add(cell)
    return cells


def _ways(graph: ProgramGraph, number: int) -> list[Edge]:
    return [edge for edge in graph.before(number) if not edge.back]


def _column(graph: ProgramGraph, edge: Edge, cells: dict[int, _Cell]) -> int:
    siblings = [other.head for other in graph.after(edge.tail) if not other.back and other.branch is not None]
    return cells[edge.tail].column + (siblings.index(edge.head) if edge.head in siblings else 0)


def _height(template: list[str]) -> float:
    return max(_BOX_HEIGHT, len(template) * _LINE + 6)


def _text_width(lines: list[str]) -> float:
    return max((len(line) for line in lines), default=0) * _CHAR


def _template_width(boxes: list[_Box]) -> float:
    return max(_text_width(box.template) for box in boxes) + 20


def _box(graph: ProgramGraph, box: _Box) -> Iterator[str]:
    node = graph.nodes[box.number]
    kind, what = Captions().visit(node)
    x, y = box.place
    room = int(_BOX_WIDTH / _CHAR) - 3
    yield (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" '
        f'fill="{_FILL.get(kind, "#e6f3e6")}" stroke="#999"/>'
    )
    yield _text(x + 10, y + 18, "kind", f"{box.number} {kind}")
    yield _text(x + 10 + (len(f"{box.number} {kind}") + 2) * _CHAR, y + 18, "where", str(node.source))
    yield _text(x + 10, y + 36, "what", cut(what, room))
    for index, line in enumerate(box.template):
        yield _text(x + _BOX_WIDTH + 14, y + 14 + index * _LINE, "template", line)


def _text(x: float, y: float, name: str, content: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{name}">{escape(_printable(content))}</text>'


def _printable(text: str) -> str:
    """Without the characters that XML cannot hold, even escaped."""
    return "".join(
        char if char >= " " and not "\ud800" <= char <= "\udfff" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def _edge(edge: Edge, places: dict[int, _Place]) -> str:
    tail, head = places[edge.tail], places[edge.head]
    if edge.back:
        return _back_edge(tail, head)
    x1, y1 = tail.x + _BOX_WIDTH / 2, tail.y + _BOX_HEIGHT
    x2, y2 = head.x + _BOX_WIDTH / 2, head.y
    # A longer way bends aside, so that it does not run through the boxes between.
    bend = 0 if y2 - y1 < 2 * (_BOX_HEIGHT + _GAP_Y) else _BOX_WIDTH * 0.62
    return (
        f'<path d="M {x1:.0f} {y1:.0f} C {x1 + bend:.0f} {y1 + 24:.0f}, {x2 + bend:.0f} {y2 - 24:.0f}, '
        f'{x2:.0f} {y2:.0f}" marker-end="url(#arrow)"/>'
    )


def _back_edge(tail: _Place, head: _Place) -> str:
    y1, y2 = tail.y + _BOX_HEIGHT / 2 + 8, head.y + _BOX_HEIGHT / 2 - 8
    left = min(tail.x, head.x) - _MARGIN + 6
    return (
        f'<path class="back" d="M {tail.x:.0f} {y1:.0f} C {left:.0f} {y1:.0f}, {left:.0f} {y2:.0f}, '
        f'{head.x:.0f} {y2:.0f}" marker-end="url(#arrow)"/>'
    )
