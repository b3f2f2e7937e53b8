"""A `ProgramGraph` is checked when it is made, and says of a fault which node has it, on which line."""

from __future__ import annotations

import dataclasses

import pytest
from program_graphs import CHATML, QUESTION, at, chain, gen, text

from sgl_spec.errors import GraphError
from sgl_spec.program.drawing import Captions
from sgl_spec.program.graph import Edge, ProgramGraph
from sgl_spec.program.nodes import Call, Constraint, Fork, Image, Inserted, Join, RoleBegin, RoleEnd, Select
from sgl_spec.program.visitor import Visitor


def test_a_straight_program_is_a_graph() -> None:
    graph = chain(text(1, "Q: ", QUESTION, "\nA:"), gen(2))
    assert (graph.entry, list(graph.nodes), [hole.node for hole in graph.holes]) == (0, [0, 1], [1])
    assert graph.looping == frozenset()
    assert repr(graph) == "ProgramGraph(demo, 2 nodes, 1 edges)"


def test_equality_is_of_program_nodes_and_edges_not_of_counts() -> None:
    nodes = [text(1, "a"), gen(2)]
    one = ProgramGraph("demo", nodes, [Edge(0, 1, times=5)], runs=5)
    assert one == chain(*nodes)
    assert hash(one) == hash(chain(*nodes))
    assert one != chain(text(1, "b"), gen(2))
    assert one != ProgramGraph("other", nodes, [Edge(0, 1)])
    assert one != "demo"


def test_nodes_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        gen(1).slot = "other"  # type: ignore[misc]


def test_a_fork_with_branches_and_a_join_is_a_graph() -> None:
    graph = forked([Edge(0, 1, branch=0), Edge(0, 2, branch=1), Edge(0, 3), Edge(1, 3, branch=0), Edge(2, 3, branch=1)])
    assert [edge.branch for edge in graph.after(0)] == [0, 1, None]
    assert [edge.branch for edge in graph.before(3)] == [None, 0, 1]


def test_branches_may_be_left_without_a_join() -> None:
    ProgramGraph("demo", [Fork(2, at(1)), gen(2), gen(2), text(4, "x")], [Edge(0, 1, 0), Edge(0, 2, 1), Edge(0, 3)])


def forked(edges: list[Edge], size: int = 2) -> ProgramGraph:
    return ProgramGraph("demo", [Fork(size, at(1)), gen(2), gen(2), Join("gather_variable", at(4))], edges)


def fork_edges(*changes: Edge) -> list[Edge]:
    good = {(0, 1): Edge(0, 1, 0), (0, 2): Edge(0, 2, 1), (0, 3): Edge(0, 3), (1, 3): Edge(1, 3, 0)}
    good |= {(2, 3): Edge(2, 3, 1)} | {(edge.tail, edge.head): edge for edge in changes}
    return list(good.values())


@pytest.mark.parametrize(
    ("edges", "size", "message"),
    [
        (fork_edges(), 1, r"fork at demo.py:1 has 1 branches, yet an edge of branch 1"),
        (fork_edges(Edge(1, 3, 1)), 2, r"join at demo.py:4 takes the end of branch 0 for another branch's"),
        (fork_edges(Edge(0, 3, 0)), 2, r"join at demo.py:4 joins a branch without steps by an edge"),
        ([Edge(0, 1), Edge(0, 2, 1), Edge(0, 3), Edge(1, 3, 0), Edge(2, 3, 1)], 2, r"joins branch 0 of no fork"),
    ],
)
def test_forks_and_joins_have_to_match(edges: list[Edge], size: int, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        forked(edges, size)


def test_a_fork_is_joined_once() -> None:
    nodes = [Fork(2, at(1)), gen(2), gen(2), Join("gather_variable", at(4)), Join("gather_variable", at(5))]
    edges = [Edge(0, 1, 0), Edge(0, 2, 1), Edge(0, 3), Edge(3, 4), Edge(1, 3, 0), Edge(2, 4, 1)]
    with pytest.raises(
        GraphError, match=r"fork at demo.py:1 is joined twice, by join at demo.py:4 and join at demo.py:5"
    ):
        ProgramGraph("demo", nodes, edges)


def begin(line: int, role: str = "user") -> RoleBegin:
    return RoleBegin(role, at(line))


def end(line: int, role: str = "user") -> RoleEnd:
    return RoleEnd(role, at(line))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ProgramGraph("demo", [], []), "demo: it appends nothing"),
        (lambda: ProgramGraph("demo", [text(1, "a"), text(2, "b")], []), "text at demo.py:1, text at demo.py:2"),
        (lambda: chain(gen(1), extra=[Edge(0, 0)]), "nothing leads to no node"),
        (
            lambda: chain(text(1, "a"), gen(2), text(3, "b"), extra=[Edge(2, 1)]),
            "closes a loop and is not marked `back`",
        ),
        (lambda: chain(text(1, "a"), gen(2), extra=[Edge(0, 1)]), "there twice"),
        (lambda: chain(text(1, "a"), extra=[Edge(0, 7)]), "0 -> 7 has an end that is no node"),
        (lambda: chain(begin(1), begin(2)), "rolebegin `user` at demo.py:2 begins the role user inside the role user"),
        (lambda: chain(text(1, "a"), end(2)), "ends the role user, but the open one is None"),
        (lambda: chain(begin(1), end(2, "system")), "ends the role system, but the open one is user"),
        (lambda: chain(gen(1, "")), "has no slot"),
        (lambda: chain(gen(1), Select("answer", at(2), ("a",))), "select `answer` at demo.py:2 has the name of gen"),
        (lambda: chain(text(1, Inserted("argument"))), "inserts a value of origin 'argument' under the name ''"),
        (lambda: branch_without_fork(), "is no fork and text at"),
        (lambda: false_back_edge(), "has a back edge to text at demo.py:3, which does not lead to it"),
    ],
)
def test_what_is_no_program_is_refused(make, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make()


def branch_without_fork() -> ProgramGraph:
    return ProgramGraph("demo", [text(1, "a"), text(2, "b")], [Edge(0, 1, branch=0)])


def false_back_edge() -> ProgramGraph:
    nodes = [text(1, "a"), text(2, "b"), text(3, "c")]
    return ProgramGraph("demo", nodes, [Edge(0, 1), Edge(0, 2), Edge(1, 2, back=True)])


def test_ways_have_to_agree_about_the_role() -> None:
    with pytest.raises(GraphError, match=r"text at demo.py:3 is reached inside different roles: None, user"):
        ProgramGraph("demo", [text(1, "a"), begin(2), text(3, "b")], [Edge(0, 1), Edge(0, 2), Edge(1, 2)])


def test_a_slot_may_be_written_twice_in_one_form() -> None:
    same = Constraint("regex", "[a-z]+")
    chain(gen(1, constraint=same), gen(2, constraint=same))
    with pytest.raises(GraphError, match=r"gen `answer` at demo.py:2 has the name of gen `answer` at demo.py:1 but"):
        chain(gen(1, constraint=same), gen(2))


def test_a_back_edge_makes_a_loop_and_leaves_the_rest_acyclic() -> None:
    graph = chain(text(1, "a"), gen(2), text(3, "b"), extra=[Edge(2, 1, back=True)])
    assert graph.looping == {1, 2}
    assert list(graph.forward.edges) == [(0, 1), (1, 2)]
    assert chain(gen(1), extra=[Edge(0, 0, back=True)]).looping == {0}


def test_a_visitor_refuses_what_it_does_not_know() -> None:
    class OnlyGens(Visitor[str]):
        def gen(self, node: object) -> str:
            return "gen"

    assert OnlyGens().visit(gen(1)) == "gen"
    with pytest.raises(GraphError, match=r"OnlyGens does not know nodes of kind Text \(at demo.py:3\)"):
        OnlyGens().visit(text(3, "a"))
    with pytest.raises(GraphError, match="Captions does not know nodes of kind str"):
        Captions().visit("a string")


def test_every_kind_of_node_can_be_captioned() -> None:
    nodes = [
        text(1, "a"), gen(1), Select("s", at(1), ("a", "b")), begin(1), end(1), Fork(2, at(1)),
        Join("gather_variable", at(1)), Image(("a.png",), at(1), "video"), Call("other.program", at(1)),
    ]  # fmt: skip
    kinds = [Captions().visit(node).kind for node in nodes]
    assert kinds == ["text", "gen", "select", "role", "role", "fork", "join", "video", "call"]


def test_a_template_is_found_by_slot_and_by_the_text_before_it() -> None:
    graph = chain(text(1, "first:"), gen(2), text(3, "second:"), gen(4), begin(5), gen(6, "other"))
    assert [template.before for template in graph.templates(CHATML)] == ["first:", "second:", "<|im_start|>user\n"]
    assert graph.template("answer").before == "first:"
    assert graph.template("answer", text="... second:").before == "second:"
    assert graph.template("answer", text="neither").before == "first:"
    assert graph.template("nothing") is None
