"""The nodes of a program graph: what an `@sgl.function` appends to its state, one frozen value each.

Made before any round, by the tracer or the recorder. Text that a run inserts (an argument, an earlier answer) is an
`Inserted` part between literal parts, never its value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import EllipsisType
from typing import Literal, NamedTuple

from sgl_spec.program.source import SourceLine

Origin = Literal["argument", "variable", "call", "computed"]

# A part of a declared shape: literal text, `...` for free text, or alternatives.
ShapePart = str | EllipsisType | tuple[str, ...]


class Inserted(NamedTuple):
    """A value that only a run has, inside a program's text.

    Attributes:
        origin: an "argument" of the program, a generated "variable", a variable of another function that was run with
            "call", or "computed": text that no such value explains, for example a tool's answer.
        name: the argument's or variable's name; a variable of the i-th fork is `name[i]`; a called function's is
            `program.name`. Empty for computed text.
    """

    origin: Origin
    name: str = ""


COMPUTED = Inserted("computed")

Part = str | Inserted
Parts = tuple[Part, ...]


class Constraint(NamedTuple):
    """What holds a generation to a form.

    Attributes:
        kind: "free" for none.
        text: the expression, the schema as JSON text, or the type's name; empty for "free".
    """

    kind: Literal["free", "regex", "json_schema", "dtype"]
    text: str = ""


FREE = Constraint("free")


class Setting(NamedTuple):
    """A sampling setting that a `gen` gives itself, for example temperature 0."""

    name: str
    value: float | str


class CallArgument(NamedTuple):
    """An argument of a called function and the text given for it."""

    name: str
    parts: Parts


@dataclass(frozen=True)
class Text:
    """Text the program appends: literals and inserted values, in order."""

    parts: Parts
    source: SourceLine


@dataclass(frozen=True)
class Gen:
    """A hole that the model writes.

    Attributes:
        slot: the name the server knows it by: the gen's own, or its order, as `Endpoint` sends it.
        constraint: what the grammar holds it to.
        stop, stop_token_ids, stop_regex: what ends it, besides the run's own settings.
        max_tokens, min_tokens: tokens; None where the gen leaves it to the run.
        settings: its other sampling settings, in name order.
        shape: what `sgl_spec.expect` declared; empty for nothing.
        varying: the names of fields whose values differed between recorded runs (they then hold their defaults) or
            that hold a run's value.
    """

    slot: str
    source: SourceLine
    constraint: Constraint = FREE
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    stop_regex: tuple[str, ...] = ()
    max_tokens: int | None = None
    min_tokens: int | None = None
    settings: tuple[Setting, ...] = ()
    shape: tuple[ShapePart, ...] = ()
    varying: tuple[str, ...] = ()


@dataclass(frozen=True)
class Select:
    """A hole filled with one of `choices`. `method` is the class that decides; `varying` as in `Gen`."""

    slot: str
    source: SourceLine
    choices: tuple[str, ...] = ()
    method: str = ""
    varying: tuple[str, ...] = ()


@dataclass(frozen=True)
class RoleBegin:
    role: str
    source: SourceLine


@dataclass(frozen=True)
class RoleEnd:
    role: str
    source: SourceLine


@dataclass(frozen=True)
class Fork:
    """The state is copied `size` times; each copy is a branch of its own, and the state itself goes on."""

    size: int
    source: SourceLine


@dataclass(frozen=True)
class Join:
    """The branches of a fork end here. `mode` is SGLang's: "gather_variable" or "concate_and_append"."""

    mode: str
    source: SourceLine


@dataclass(frozen=True)
class Image:
    """A picture, or a video, at the path given by `parts`."""

    parts: Parts
    source: SourceLine
    medium: Literal["image", "video"] = "image"


@dataclass(frozen=True)
class Call:
    """Another `@sgl.function`, run by this one. It has a state of its own: nothing is appended here."""

    program: str
    source: SourceLine
    arguments: tuple[CallArgument, ...] = ()


Node = Text | Gen | Select | RoleBegin | RoleEnd | Fork | Join | Image | Call
Hole = Gen | Select


def join_parts(parts: Iterable[Part]) -> Parts:
    """The same text in as few parts as can be: no empty literal, no two literals in a row."""
    out: list[Part] = []
    for part in parts:
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        elif part != "":
            out.append(part)
    return tuple(out)


def node_name(node: Node) -> str:
    """A short name for messages: "gen `step` at react_agent.py:30"."""
    kind = type(node).__name__.lower()
    name = {"gen": "slot", "select": "slot", "rolebegin": "role", "roleend": "role", "call": "program"}.get(kind)
    return f"{kind}{f' `{getattr(node, name)}`' if name else ''} at {node.source}"
