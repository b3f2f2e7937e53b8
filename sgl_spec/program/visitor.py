"""A visitor of program nodes that refuses what it does not know, so that a new kind of node breaks loudly, everywhere.

Used before a round, by whatever reads a graph (templates, drawing).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from sgl_spec.errors import GraphError
from sgl_spec.program.nodes import Call, Fork, Gen, Image, Join, RoleBegin, RoleEnd, Select, Text

Result = TypeVar("Result")

_METHODS: dict[type, str] = {
    Text: "text",
    Gen: "gen",
    Select: "select",
    RoleBegin: "role_begin",
    RoleEnd: "role_end",
    Fork: "fork",
    Join: "join",
    Image: "image",
    Call: "call",
}


class Visitor(Generic[Result]):
    """Calls the method named for a node's kind: `text`, `gen`, `select`, `role_begin`, `role_end`, `fork`, `join`,
    `image` or `call`. A subclass defines those it can answer."""

    def visit(self, node: Any) -> Result:
        """What the node's method returns.

        Raises:
            GraphError: this visitor has no method for such a node.
        """
        name = _METHODS.get(type(node))
        method = getattr(self, name, None) if name is not None else None
        if method is None:
            where = getattr(node, "source", "an unknown line")
            raise GraphError(f"{type(self).__name__} does not know nodes of kind {type(node).__name__} (at {where})")
        result: Result = method(node)
        return result
