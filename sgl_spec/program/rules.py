"""What makes nodes and edges a program: one entry, no cycle but through back edges, roles and forks that match.

Checked once, when a `ProgramGraph` is made, before any round. A rule that fails names the node and its source line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import networkx as nx

from sgl_spec.errors import GraphError
from sgl_spec.program.nodes import Fork, Gen, Inserted, Join, RoleBegin, RoleEnd, Select, Text, node_name

if TYPE_CHECKING:
    from sgl_spec.program.graph import ProgramGraph


def check_rules(graph: ProgramGraph) -> None:
    """Raises GraphError for the first rule that does not hold."""
    for rule in _RULES:
        rule(graph)


def _has_one_entry(graph: ProgramGraph) -> None:
    if not graph.nodes:
        raise GraphError(f"{graph.program}: it appends nothing, so there is no graph of it")
    entries = [number for number in graph.nodes if not graph.forward.in_degree(number)]
    if len(entries) != 1:
        shown = ", ".join(node_name(graph.nodes[number]) for number in entries) or "no node"
        raise GraphError(f"{graph.program}: a program has one entry; nothing leads to {shown}")


def _is_acyclic_forwards(graph: ProgramGraph) -> None:
    if not nx.is_directed_acyclic_graph(graph.forward):
        tail, head = nx.find_cycle(graph.forward)[-1][:2]
        _fail(graph, tail, f"has an edge to {node_name(graph.nodes[head])} that closes a loop and is not marked `back`")
    for edge in graph.edges:
        if edge.back and not nx.has_path(graph.forward, edge.head, edge.tail):
            _fail(
                graph, edge.tail, f"has a back edge to {node_name(graph.nodes[edge.head])}, which does not lead to it"
            )


def _branches_begin_at_forks_and_end_at_joins(graph: ProgramGraph) -> None:
    for edge in graph.edges:
        tail, head = graph.nodes[edge.tail], graph.nodes[edge.head]
        if edge.branch is None:
            continue
        if not isinstance(tail, Fork) and not isinstance(head, Join):
            _fail(
                graph, edge.tail, f"has an edge of branch {edge.branch}, but is no fork and {node_name(head)} no join"
            )
        if isinstance(tail, Fork) and not 0 <= edge.branch < tail.size:
            _fail(graph, edge.tail, f"has {tail.size} branches, yet an edge of branch {edge.branch}")


def _forks_and_joins_match(graph: ProgramGraph) -> None:
    ends: dict[int, set[tuple[int, int | None]]] = {}
    for number, node in graph.nodes.items():
        if isinstance(node, Fork):
            for edge in graph.after(number):
                if edge.branch is not None:
                    joins = _joins_of_branch(graph, edge.head, edge.branch)
                    ends.setdefault(number, set()).update((join, edge.branch) for join in joins)
    claimed: dict[tuple[int, int | None], int] = {}
    for fork, pairs in ends.items():
        if len({join for join, _ in pairs}) > 1:
            names = " and ".join(node_name(graph.nodes[join]) for join in sorted({join for join, _ in pairs}))
            _fail(graph, fork, f"is joined twice, by {names}")
        for pair in pairs:
            if claimed.setdefault(pair, fork) != fork:
                _fail(graph, pair[0], f"joins branch {pair[1]} of two forks, at {graph.nodes[fork].source} and before")
    for edge in graph.edges:
        if isinstance(graph.nodes[edge.head], Join) and edge.branch is not None:
            if isinstance(graph.nodes[edge.tail], Fork):
                _fail(graph, edge.head, "joins a branch without steps by an edge; such a branch has no edge")
            if (edge.head, edge.branch) not in claimed:
                _fail(graph, edge.head, f"joins branch {edge.branch} of no fork")


def _joins_of_branch(graph: ProgramGraph, first: int, branch: int) -> set[int]:
    """The joins that the steps of a branch end at: none for a branch that is never joined."""
    seen, todo = {first}, [first]
    joins: set[tuple[int, int]] = set()
    while todo:
        for edge in graph.after(todo.pop()):
            if isinstance(graph.nodes[edge.head], Join) and edge.branch is not None:
                joins.add((edge.head, edge.branch))
            elif edge.branch is None and edge.head not in seen:
                seen.add(edge.head)
                todo.append(edge.head)
    wrong = [join for join, index in joins if index != branch]
    if wrong:
        _fail(graph, wrong[0], f"takes the end of branch {branch} for another branch's")
    return {join for join, _ in joins}


def _roles_match(graph: ProgramGraph) -> None:
    """The role open after each node is the same on every way there."""
    open_after: dict[int, str | None] = {}
    for number in nx.topological_sort(graph.forward):
        node = graph.nodes[number]
        ways = {
            open_after[edge.tail]
            for edge in graph.before(number)
            if not edge.back and _goes_on(graph, edge.head, edge.branch)
        }
        if len(ways) > 1:
            _fail(graph, number, f"is reached inside different roles: {', '.join(sorted(map(str, ways)))}")
        role = ways.pop() if ways else None
        if isinstance(node, RoleBegin):
            if role is not None:
                _fail(graph, number, f"begins the role {node.role} inside the role {role}")
            role = node.role
        elif isinstance(node, RoleEnd):
            if role != node.role:
                _fail(graph, number, f"ends the role {node.role}, but the open one is {role}")
            role = None
        open_after[number] = role


def _goes_on(graph: ProgramGraph, head: int, branch: int | None) -> bool:
    """Whether an edge carries a state on: the end of a branch at a join does not."""
    return not (isinstance(graph.nodes[head], Join) and branch is not None)


def _slots_keep_one_form(graph: ProgramGraph) -> None:
    """Outputs of one slot are remembered together, so gens on different lines may share a name only if alike."""
    first: dict[str, int] = {}
    for number, hole in graph.holes:
        if not hole.slot:
            _fail(graph, number, "has no slot")
        other = graph.nodes[first.setdefault(hole.slot, number)]
        if _form(hole) != _form(other):
            _fail(graph, number, f"has the name of {node_name(other)} but another form; give one of them its own name")


def _form(node: object) -> object:
    if isinstance(node, Gen):
        return "varying" if "constraint" in node.varying else node.constraint
    return "choices" if isinstance(node, Select) else None


def _values_are_named(graph: ProgramGraph) -> None:
    for number, node in graph.nodes.items():
        for part in node.parts if isinstance(node, Text) else ():
            if isinstance(part, Inserted) and bool(part.name) == (part.origin == "computed"):
                _fail(graph, number, f"inserts a value of origin {part.origin!r} under the name {part.name!r}")


def _fail(graph: ProgramGraph, number: int, problem: str) -> NoReturn:
    raise GraphError(f"{graph.program}: {node_name(graph.nodes[number])} {problem}")


_RULES: tuple[Callable[[ProgramGraph], None], ...] = (
    _has_one_entry,
    _is_acyclic_forwards,
    _branches_begin_at_forks_and_end_at_joins,
    _forks_and_joins_match,
    _roles_match,
    _slots_keep_one_form,
    _values_are_named,
)
