"""Drawings show every node, edge and template, and nothing from a program gets out of its quotes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from program_graphs import CHATML, QUESTION, at, chain, gen, text

from sgl_spec.program.drawing import cut, draw_mermaid, draw_text, quoted, shown_parts
from sgl_spec.program.graph import Edge, ProgramGraph
from sgl_spec.program.nodes import Call, CallArgument, Constraint, Fork, Join, RoleBegin, RoleEnd, Select
from sgl_spec.program.svg_page import draw_html, draw_svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text><script>alert(1)</script>\"'&<img onerror=x>]]>\x00\x1b\ud800"


@pytest.fixture
def graph() -> ProgramGraph:
    nodes = [
        text(1, "Q: ", QUESTION), Fork(2, at(2)), gen(3, "side", stop=("\n",)), gen(3, "side"),
        Join("gather_variable", at(4)), Select("pick", at(5), ("yes", "no")), RoleBegin("user", at(6)),
        RoleEnd("user", at(7)), gen(8, "last", constraint=Constraint("regex", "[a-z]+"), shape=("a", ..., ("b", "c"))),
        Call("other.program", at(9), (CallArgument("topic", (QUESTION,)),)),
    ]  # fmt: skip
    edges = [Edge(0, 1), Edge(1, 2, 0), Edge(1, 3, 1), Edge(1, 4), Edge(2, 4, 0), Edge(3, 4, 1)]
    edges += [Edge(i, i + 1) for i in range(4, 9)] + [Edge(9, 5, back=True)]
    return ProgramGraph("demo", nodes, edges, runs=3)


def test_the_text_is_a_line_for_each_node_and_its_template(graph: ProgramGraph) -> None:
    assert draw_text(graph, CHATML) == DRAWN


DRAWN = r"""demo: 10 nodes, 4 holes, recorded over 3 runs

   0  text    "Q: " {question}  [demo.py:1]
   1  fork    2 branches  [demo.py:2]  -> 2 (branch 0), 3 (branch 1), 4
   2  gen     side  [demo.py:3]  -> 4 (branch 0)
              | before ""
              | after ""
              | stops "\n"
   3  gen     side  [demo.py:3]  -> 4 (branch 1)
              | before ""
              | after ""
   4  join    gather variable  [demo.py:4]
   5  select  pick, "yes" | "no"  [demo.py:5]
              | before ""
              | after "<|im_start|>user\n<|im_end|>\n"
              | in a loop
   6  role    user begins  [demo.py:6]
   7  role    user ends  [demo.py:7]
   8  gen     last, regex  [demo.py:8]
              | before "<|im_start|>user\n<|im_end|>\n"
              | after ""
              | regex "[a-z]+"
              | shape "a" ... ("b" | "c")
              | in a loop
   9  call    other.program(topic={question})  [demo.py:9]  -> back to 5
"""


def test_mermaid_has_every_node_and_edge(graph: ProgramGraph) -> None:
    drawn = draw_mermaid(graph)
    assert drawn.splitlines()[1] == "flowchart TD"
    assert [int(n) for n in re.findall(r"^    n(\d+)[\[(]", drawn, re.MULTILINE)] == list(graph.nodes)
    arrows = re.findall(r"^    n(\d+) (-->|-- branch (\d) -->|-\. again \.->) n(\d+)$", drawn, re.MULTILINE)
    assert [(int(tail), int(head)) for tail, _, _, head in arrows] == [(edge.tail, edge.head) for edge in graph.edges]
    assert drawn.count("-. again .->") == 1


def test_mermaid_quotes_hold() -> None:
    for line in draw_mermaid(chain(text(1, HOSTILE), gen(2, HOSTILE))).splitlines()[2:]:
        label = re.fullmatch(r'    \w+(?:\["|\(\["|>")(.*?)"(?:\]|\]\))|    \w+ \S+ \w+', line)
        assert label is not None
        assert not set(label[1] or "") & set('"`{}[]|\\')
        assert set(re.findall(r"<.*?>", label[1] or "")) <= {"<br/>"}


def boxes(svg: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(rect.get("x", "")), float(rect.get("y", ""))) for rect in svg.iter(f"{SVG}rect")]


def test_the_svg_is_in_layers_without_overlap(graph: ProgramGraph) -> None:
    svg = ElementTree.fromstring(draw_svg(graph, CHATML))
    places = dict(zip(map(int, (t.text.split()[0] for t in kinds(svg))), boxes(svg), strict=True))
    assert sorted(places) == list(graph.nodes)
    assert len(set(places.values())) == len(places)
    assert all(places[edge.tail][1] < places[edge.head][1] for edge in graph.edges if not edge.back)
    assert places[2][1] == places[3][1]
    paths = list(svg.iter(f"{SVG}path"))
    assert len(paths) == len(graph.edges)
    assert [path.get("class") for path in paths].count("back") == 1
    size = float(svg.get("width", "")), float(svg.get("height", ""))
    assert all(0 < x < size[0] and 0 < y < size[1] for x, y in places.values())


def kinds(svg: ElementTree.Element) -> list[ElementTree.Element]:
    return [element for element in svg.iter(f"{SVG}text") if element.get("class") == "kind"]


def test_the_page_is_whole_and_escapes_what_programs_say(graph: ProgramGraph) -> None:
    page = draw_html(chain(text(1, HOSTILE), gen(2, HOSTILE, constraint=Constraint("regex", HOSTILE))))
    tree = ElementTree.fromstring(page.partition("\n")[2].replace('<meta charset="utf-8">', ""))
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert tags == {
        "html",
        "head",
        "title",
        "style",
        "body",
        "h1",
        "svg",
        "defs",
        "marker",
        "polygon",
        "path",
        "rect",
        "text",
    }
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    page.encode("utf-8")
    assert "recorded over 3 runs" in draw_html(graph)


def test_short_forms() -> None:
    assert cut("abcdefghij", 9) == "abc...hij"
    assert quoted('a "b"\n\\') == '"a \\"b\\"\\n\\\\"'
    assert shown_parts(()) == '""'
