"""Merges runs of a program into its graph: one node for each place in the program, one edge for each step taken.

Stands between watching (`run_log`) and the checked graph, before any round. A trace is one run whose texts already
say which values they hold; recorded runs are held against each other. Both take this one way, so that a program
without branches gives the same graph either way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import networkx as nx

from sgl_spec.errors import GraphError
from sgl_spec.program.graph import Edge, ProgramGraph
from sgl_spec.program.nodes import (
    Call,
    CallArgument,
    Fork,
    Gen,
    Image,
    Inserted,
    Join,
    Node,
    Parts,
    RoleBegin,
    RoleEnd,
    Select,
    Text,
)
from sgl_spec.program.run_log import Lane, RunLog, Step
from sgl_spec.program.text_parts import Sample, common_parts

# Fields that tell two nodes of one place apart; the rest may vary from run to run.
_IDENTITY: dict[type, str] = {
    Gen: "slot",
    Select: "slot",
    RoleBegin: "role",
    RoleEnd: "role",
    Fork: "size",
    Join: "mode",
    Image: "medium",
    Call: "program",
}
_NEW_STRETCH = (Gen, Select, Call, Fork)
_START = "start"


class _Way(NamedTuple):
    """Where a step comes from, and the branch that begins there (None when a state goes on)."""

    key: Hashable
    branch: int | None = None


class _Seen(NamedTuple):
    node: Node
    values: Mapping[Inserted, str]


@dataclass
class _End:
    """A fork whose branches end at a join."""

    fork: Hashable
    ways: list[_Way]


def merge_runs(runs: Sequence[RunLog], *, fold: bool, traced: bool = False) -> ProgramGraph:
    """The graph of a program from its runs.

    Args:
        runs: of one program.
        fold: places that a run passes again become a loop. Text between two holes is never folded: examples that a
            loop writes one after another stay apart. False keeps every pass.
        traced: the run was read, not recorded.

    Raises:
        GraphError: no runs, runs of several programs, or steps that are no program.
    """
    programs = sorted({run.program for run in runs})
    if len(programs) != 1:
        raise GraphError(f"runs: they are of {', '.join(programs) or 'no program'}; one program's runs make one graph")
    merge = _Merge(fold)
    for run in runs:
        merge.add(run)
    return merge.graph(programs[0], 0 if traced else len(runs), runs[0])


class _Merge:
    def __init__(self, fold: bool) -> None:
        self._fold = fold
        self._seen: dict[Hashable, list[_Seen]] = {}
        self._edges: dict[tuple[Hashable, Hashable], tuple[int | None, int]] = {}
        self._ends: dict[int, _End] = {}
        self._first: dict[Hashable, None] = {}

    def add(self, run: RunLog) -> None:
        """One more run."""
        self._walk(run.main, (), None)

    def _walk(self, lane: Lane, place: Hashable, came: _Way | None) -> _Way | None:
        copies: dict[Hashable, int] = {}
        for step in lane.steps:
            key = self._key(step, place, copies)
            self._seen.setdefault(key, []).append(_Seen(step.node, step.values))
            if came is None:
                self._first.setdefault(key)
            else:
                self._edge(came, key)
            for way in self._ends[id(step)].ways if id(step) in self._ends else ():
                self._edge(way, key)
            self._walk_branches(step, key)
            came = _Way(key)
        return came

    def _walk_branches(self, step: Step, key: Hashable) -> None:
        for lane in step.branches:
            branch = lane.path[-1]
            last = self._walk(lane, (key, branch), _Way(key, branch))
            if lane.joined is not None:
                end = self._ends.setdefault(id(lane.joined), _End(key, []))
                # A branch without steps has no edge, and a fork's edges all belong to its own branches.
                if last is not None and lane.steps and not isinstance(lane.steps[-1].node, Fork):
                    end.ways.append(_Way(last.key, branch))

    def _key(self, step: Step, place: Hashable, copies: dict[Hashable, int]) -> Hashable:
        kind = type(step.node)
        told_apart = getattr(step.node, _IDENTITY[kind]) if kind in _IDENTITY else None
        fork = self._ends[id(step)].fork if id(step) in self._ends else None
        site = (place, step.lines, step.order, kind.__name__, told_apart, fork)
        if self._fold and isinstance(step.node, _NEW_STRETCH):
            copies.clear()
        copy = copies[site] = copies.get(site, -1) + 1
        return (site, copy)

    def _edge(self, way: _Way, head: Hashable) -> None:
        _, times = self._edges.get((way.key, head), (None, 0))
        self._edges[way.key, head] = (way.branch, times + 1)

    def graph(self, program: str, runs: int, example: RunLog) -> ProgramGraph:
        """The checked graph of what was added."""
        if not self._seen:
            raise GraphError(f"{program}: it appends nothing, so there is no graph of it")
        nodes = {key: _merge_nodes(seen) for key, seen in self._seen.items()}
        if len(self._first) > 1:
            nodes = {_START: Text((), example.start), **nodes}
            for key in self._first:
                self._edge(_Way(_START), key)
        entry = next(iter(self._first)) if len(self._first) == 1 else _START
        graph: nx.DiGraph[Hashable] = nx.DiGraph()
        graph.add_nodes_from(nodes)
        graph.add_edges_from(self._edges)
        back = set(_back_edges(graph, entry))
        graph.remove_edges_from(back)
        place = {key: number for number, key in enumerate(nodes)}
        order = list(nx.lexicographical_topological_sort(graph, key=place.__getitem__))
        number = {key: index for index, key in enumerate(order)}
        edges = [
            Edge(number[tail], number[head], branch, (tail, head) in back, times)
            for (tail, head), (branch, times) in self._edges.items()
        ]
        return ProgramGraph(program, [nodes[key] for key in order], edges, runs=runs)


def _back_edges(graph: nx.DiGraph[Hashable], entry: Hashable) -> Iterator[tuple[Hashable, Hashable]]:
    """The edges that lead to a node still open in a depth-first walk: without them no cycle is left."""
    open_nodes, done = {entry}, set()
    stack = [(entry, iter(list(graph.successors(entry))))]
    while stack:
        node, heads = stack[-1]
        head = next(heads, None)
        if head is None:
            stack.pop()
            open_nodes.discard(node)
            done.add(node)
        elif head in open_nodes:
            yield (node, head)
        elif head not in done:
            open_nodes.add(head)
            stack.append((head, iter(list(graph.successors(head)))))


def _merge_nodes(seen: Sequence[_Seen]) -> Node:
    first = seen[0].node
    if all(one.node == first for one in seen):
        return first
    if isinstance(first, Text | Image):
        return dataclasses.replace(first, parts=_merge_parts([_Text(_parts(one.node), one.values) for one in seen]))
    if isinstance(first, Call):
        return dataclasses.replace(first, arguments=tuple(_merge_arguments(first, seen)))
    if isinstance(first, Gen | Select):
        return _merge_holes(first, [one.node for one in seen])
    raise GraphError(f"{first} and {next(one.node for one in seen if one.node != first)} are one place in the program")


class _Text(NamedTuple):
    parts: Parts
    values: Mapping[Inserted, str]


def _parts(node: Any) -> Parts:
    parts: Parts = node.parts
    return parts


def _merge_parts(texts: Sequence[_Text]) -> Parts:
    if all(text.parts == texts[0].parts for text in texts):
        return texts[0].parts
    return common_parts([Sample("".join(str(part) for part in text.parts), text.values) for text in texts])


def _merge_arguments(first: Call, seen: Sequence[_Seen]) -> Iterator[CallArgument]:
    """The arguments that every run gave."""
    given = [dict(one.node.arguments) for one in seen if isinstance(one.node, Call)]
    for name, _ in first.arguments:
        if all(name in arguments for arguments in given):
            texts = [_Text(arguments[name], one.values) for arguments, one in zip(given, seen, strict=True)]
            yield CallArgument(name, _merge_parts(texts))


def _merge_holes(first: Gen | Select, nodes: Sequence[Node]) -> Gen | Select:
    """A field whose values differ takes its default and is named in `varying`."""
    varying = {name for node in nodes for name in getattr(node, "varying", ())}
    for field in dataclasses.fields(first):
        if field.name != "varying" and len({getattr(node, field.name) for node in nodes}) > 1:
            varying.add(field.name)
    defaults: dict[str, Any] = {
        field.name: field.default for field in dataclasses.fields(first) if field.name in varying
    }
    return dataclasses.replace(first, **defaults, varying=tuple(sorted(varying)))
