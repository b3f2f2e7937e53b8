"""One run of a program, as steps in lanes: what the tracer and the recorder both write down.

A lane is one state's own sequence of steps; each branch of a fork has a lane. Stands between watching a program and
merging its runs into a graph. No SGLang here: who watches translates expressions to nodes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sgl_spec.errors import TraceError
from sgl_spec.program.nodes import Call, Fork, Inserted, Join, Node
from sgl_spec.program.source import SourceLine

# A trace that is longer than this does not end by itself: a loop without a condition on any value.
MAX_STEPS = 20_000


@dataclass
class Step:
    """One node as it was appended.

    Attributes:
        node: with the texts of this run.
        lines: the author's lines that were running, innermost first: the step's place in the program.
        order: its place (from 0) in the expression appended by that line.
        values: what the program had read by then, by where it came from; empty in a trace, whose texts say it.
        branches: for a Fork, the lanes of its branches.
    """

    node: Node
    lines: tuple[SourceLine, ...]
    order: int = 0
    values: Mapping[Inserted, str] = field(default_factory=dict)
    branches: tuple[Lane, ...] = ()


@dataclass
class Lane:
    """The steps of one state, in order.

    Attributes:
        path: the branch indices that lead here; () is the program's own state.
        names: for each variable, the name it goes by in the whole program (`x[1]` for a branch's).
        calls: gens and selects so far, which is how an unnamed one is told apart.
        joined: the step, in the parent lane, at which this branch ended.
    """

    run: RunLog
    path: tuple[int, ...] = ()
    parent: Lane | None = None
    names: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    calls: int = 0
    joined: Step | None = None
    siblings: tuple[Lane, ...] = ()

    def add(self, node: Node, lines: tuple[SourceLine, ...], order: int = 0) -> Step:
        """Appends a step."""
        self.run.count_step(node)
        step = Step(node, lines, order, dict(self.run.values))
        self.steps.append(step)
        return step

    def next_slot(self, name: str | None) -> str:
        """The slot of the next gen or select: its name, or its order, as `Endpoint` counts it."""
        self.calls += 1
        if name:
            return str(name)
        return f"fork#{self.calls}" if self.path else f"#{self.calls}"

    def defines(self, name: str) -> str:
        """The program-wide name of a variable that this lane writes."""
        self.names[name] = name + "".join(f"[{index}]" for index in self.path)
        return self.names[name]

    def fork(self, size: int, lines: tuple[SourceLine, ...]) -> tuple[Lane, ...]:
        """Appends a Fork and returns the lanes of its branches."""
        step = self.add(Fork(size, lines[0]), lines)
        lanes = tuple(Lane(self.run, (*self.path, i), self, dict(self.names)) for i in range(size))
        for lane in lanes:
            lane.siblings = lanes
        step.branches = lanes
        return lanes

    def join(self, mode: str, lines: tuple[SourceLine, ...]) -> None:
        """Ends this branch and its siblings, once: whichever of them is asked first appends the Join."""
        if self.parent is None or self.joined is not None:
            return
        step = self.parent.add(Join(mode, lines[0]), lines)
        for lane in self.siblings:
            lane.joined = step

    def reads(self, name: str, value: Any) -> None:
        """The program read a variable. After a join the value is a list, one for each branch."""
        self._reads(self.names.get(name, name), value)

    def _reads(self, key: str, value: Any) -> None:
        if isinstance(value, list):
            for index, item in enumerate(value):
                self._reads(f"{key}[{index}]", item)
        else:
            self.run.know(Inserted("variable", key), str(value))


class RunLog:
    """One run: its lanes and what the program is known to have read so far.

    Args:
        program: the program's name, as the hint gives it.
        arguments: the run's arguments as text, by name; empty in a trace.
    """

    def __init__(self, program: str, start: SourceLine, arguments: Mapping[str, Any] | None = None) -> None:
        self.program = program
        self.start = start
        self.values: dict[Inserted, str] = {
            Inserted("argument", name): str(value) for name, value in (arguments or {}).items()
        }
        self.main = Lane(self)
        self.caller: RunLog | None = None
        self._steps = 0

    def know(self, what: Inserted, value: str) -> None:
        """The program read this value. A program that runs this one as a function may use it too, by another name."""
        self.values[what] = value
        if self.caller is not None and what.origin == "variable":
            self.caller.know(Inserted("call", f"{self.program}.{what.name}"), value)

    def called_by(self, caller: RunLog, call: Call, lines: tuple[SourceLine, ...]) -> None:
        """Another run's program runs this one."""
        self.caller = caller
        caller.main.add(call, lines)

    def count_step(self, node: Node) -> None:
        """Raises TraceError for a run too long to be a graph."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TraceError(
                f"{self.program} appends more than {MAX_STEPS} nodes, the last at {node.source}: it has a loop that "
                "ends on no value, or one that belongs into several runs",
                where=str(node.source),
            )
