"""What a program says about its own output, before any round: the graph of its nodes and the template of each hole.

Pure: networkx and the standard library. `sgl_spec.frontend` reads an `@sgl.function` into these types.
"""

from __future__ import annotations

from sgl_spec.program.graph import Edge, ProgramGraph
from sgl_spec.program.nodes import (
    Call,
    Constraint,
    Fork,
    Gen,
    Image,
    Inserted,
    Join,
    Node,
    RoleBegin,
    RoleEnd,
    Select,
    Text,
)
from sgl_spec.program.source import SourceLine
from sgl_spec.program.templates import HoleTemplate, RoleText, find_examples

__all__ = [
    "Call",
    "Constraint",
    "Edge",
    "Fork",
    "Gen",
    "HoleTemplate",
    "Image",
    "Inserted",
    "Join",
    "Node",
    "ProgramGraph",
    "RoleBegin",
    "RoleEnd",
    "RoleText",
    "Select",
    "SourceLine",
    "Text",
    "find_examples",
]
