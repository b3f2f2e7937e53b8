"""Small graphs and run logs for the tests of `sgl_spec.program`."""

from __future__ import annotations

from collections.abc import Sequence

from sgl_spec.program.graph import Edge, ProgramGraph
from sgl_spec.program.nodes import Gen, Inserted, Node, Text
from sgl_spec.program.run_log import RunLog
from sgl_spec.program.source import SourceLine
from sgl_spec.program.text_walk import RoleText

CHATML = {role: RoleText(f"<|im_start|>{role}\n", "<|im_end|>\n") for role in ("system", "user", "assistant")}
QUESTION = Inserted("argument", "question")


def at(line: int) -> SourceLine:
    return SourceLine("/programs/demo.py", line)


def text(line: int, *parts: str | Inserted) -> Text:
    return Text(parts, at(line))


def gen(line: int, slot: str = "answer", **fields: object) -> Gen:
    return Gen(slot, at(line), **fields)  # type: ignore[arg-type]


def chain(*nodes: Node, extra: Sequence[Edge] = ()) -> ProgramGraph:
    """Nodes one after another, and some more edges."""
    return ProgramGraph("demo", nodes, [*(Edge(i, i + 1) for i in range(len(nodes) - 1)), *extra])


def run_log(steps: Sequence[Node], arguments: dict[str, str] | None = None) -> RunLog:
    """A run of straight steps, each on the line of its node."""
    log = RunLog("demo", at(1), arguments)
    for node in steps:
        log.main.add(node, (node.source,))
    return log
