"""`ProgramGraph`: what a program appends, in which order, as a checked directed graph.

Made before any round. Nodes are numbered in an order in which every forward edge goes up. An edge that closes a loop
is marked `back`; without those the graph has no cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import networkx as nx

from sgl_spec.errors import GraphError
from sgl_spec.program.nodes import Gen, Hole, Node, Select
from sgl_spec.program.rules import check_rules
from sgl_spec.program.templates import HoleAt, HoleTemplate, RoleTexts, templates_by_node


@dataclass(frozen=True)
class Edge:
    """`head` may follow `tail`.

    Attributes:
        branch: of a fork: the index of the branch that begins or ends with this edge; None for a state's own next step.
        back: it closes a loop.
        times: in how many recorded steps it was taken; 1 in a traced graph. Not part of a graph's identity.
    """

    tail: int
    head: int
    branch: int | None = None
    back: bool = False
    times: int = 1


class Holding(NamedTuple):
    """A hole and the number of its node."""

    node: int
    hole: Hole


class ProgramGraph:
    """A program's graph. Two are equal when program, nodes and edges are.

    Args:
        program: the name the hint gives it.
        nodes: numbered from 0 in the order given.
        edges: over those numbers; an edge may be there once.
        runs: how many recorded runs it comes from; 0 for a traced one.

    Raises:
        GraphError: this cannot be a program; the message names the node and its source line.
    """

    def __init__(self, program: str, nodes: Iterable[Node], edges: Iterable[Edge], *, runs: int = 0) -> None:
        self.program = program
        self.runs = runs
        graph: nx.DiGraph[int] = nx.DiGraph()
        for number, node in enumerate(nodes):
            graph.add_node(number, node=node)
        for edge in edges:
            if edge.tail not in graph or edge.head not in graph:
                raise GraphError(f"{program}: the edge {edge.tail} -> {edge.head} has an end that is no node")
            if graph.has_edge(edge.tail, edge.head):
                raise GraphError(f"{program}: the edge {edge.tail} -> {edge.head} is there twice")
            graph.add_edge(edge.tail, edge.head, edge=edge)
        self._graph = nx.freeze(graph)
        self._templates: dict[object, tuple[HoleAt, ...]] = {}
        check_rules(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramGraph) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"ProgramGraph({self.program}, {len(self.nodes)} nodes, {len(self.edges)} edges)"

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        edges = frozenset((edge.tail, edge.head, edge.branch, edge.back) for edge in self.edges)
        return (self.program, tuple(self.nodes.values()), edges)

    @cached_property
    def nodes(self) -> Mapping[int, Node]:
        """The nodes by number."""
        return {number: data["node"] for number, data in self._graph.nodes(data=True)}

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, by tail and head."""
        return tuple(sorted((data["edge"] for _, _, data in self._graph.edges(data=True)), key=_ends))

    @cached_property
    def forward(self) -> nx.DiGraph[int]:
        """A copy without the back edges: acyclic once the graph is checked."""
        copy: nx.DiGraph[int] = nx.DiGraph()
        copy.add_nodes_from(self.nodes)
        copy.add_edges_from(_ends(edge) for edge in self.edges if not edge.back)
        return copy

    @property
    def entry(self) -> int:
        """The number of the node that every run begins with."""
        return next(number for number in self.nodes if not self.forward.in_degree(number))

    def after(self, number: int) -> tuple[Edge, ...]:
        """The edges out of a node, by head."""
        edges = (data["edge"] for _, _, data in self._graph.out_edges(number, data=True))
        return tuple(sorted(edges, key=_ends))

    def before(self, number: int) -> tuple[Edge, ...]:
        """The edges into a node, by tail."""
        edges = (data["edge"] for _, _, data in self._graph.in_edges(number, data=True))
        return tuple(sorted(edges, key=_ends))

    @cached_property
    def looping(self) -> frozenset[int]:
        """The nodes that a run may pass more than once."""
        groups = [group for group in nx.strongly_connected_components(self._graph) if len(group) > 1]
        alone = {edge.tail for edge in self.edges if edge.tail == edge.head}
        return frozenset(alone.union(*groups))

    @cached_property
    def holes(self) -> tuple[Holding, ...]:
        """The gens and selects, in the order of their numbers."""
        return tuple(Holding(number, node) for number, node in self.nodes.items() if isinstance(node, Gen | Select))

    def templates(self, roles: RoleTexts | None = None) -> tuple[HoleTemplate, ...]:
        """The template of each hole, in program order; holes of one slot with the same text around them share one.

        Args:
            roles: what the served model's chat template writes around each role; without it, text stops at roles.
        """
        return tuple(dict.fromkeys(found.template for found in self.templates_by_node(roles)))

    def templates_by_node(self, roles: RoleTexts | None = None) -> tuple[HoleAt, ...]:
        """The template of each hole with the number of its node, in the order of their numbers."""
        # Asked for before every call of a run, always with the same few chat templates.
        key = None if roles is None else tuple(sorted(roles.items()))
        if key not in self._templates:
            self._templates[key] = tuple(templates_by_node(self, roles))
        return self._templates[key]

    def template(self, slot: str, roles: RoleTexts | None = None, text: str | None = None) -> HoleTemplate | None:
        """The template of a slot, None if the program has no such hole.

        Args:
            text: the text so far. Where the slot occurs in several places, the one whose `before` this text ends with
                (the longest such) is meant; by default the first in the program.
        """
        found = [template for template in self.templates(roles) if template.slot == slot]
        if text is not None:
            found.sort(key=lambda one: -len(one.before) if text.endswith(one.before) else 1)
        return found[0] if found else None


def _ends(edge: Edge) -> tuple[int, int]:
    return (edge.tail, edge.head)
