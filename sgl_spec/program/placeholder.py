"""Stand-ins for values that only a run has. They may become program text; anything else a program does with one fails.

Used before a round, while a program is traced. A tracer that let a program branch on a stand-in would follow one arm
and call it the program (SGLang's own does); this one refuses, and names the line and what the line does.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sgl_spec.errors import TraceError
from sgl_spec.program.nodes import Inserted, Part, Parts, join_parts
from sgl_spec.program.source import current_line

_DEPTH = 4

_REFUSED = {
    "branches on": ["__bool__"],
    "iterates over": ["__iter__", "__reversed__", "__next__"],
    "takes the length of": ["__len__", "__length_hint__"],
    "turns {} into a number": ["__int__", "__float__", "__complex__", "__index__", "__round__", "__trunc__"],
    "compares": ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"],
    "looks inside": ["__contains__"],
    "indexes": ["__getitem__", "__setitem__", "__delitem__"],
    "uses {} as a key or set member": ["__hash__"],
    "calls": ["__call__"],
    "computes with": [
        f"__{side}{name}__"
        for side in ("", "r", "i")
        for name in (
            *("sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
            *("lshift", "rshift", "and", "or", "xor"),
        )
    ]
    + ["__neg__", "__pos__", "__abs__", "__invert__"],
    "turns {} into bytes": ["__bytes__", "__buffer__"],
    "opens": ["__enter__", "__exit__", "__fspath__"],
    "formats {} (only an f-string, `+`, str() and join() are followed)": ["__str__", "__format__"],
}


class Refusals:
    """The refusals of one trace. The first stands even when the program catches it: `except` must not hide an arm."""

    def __init__(self) -> None:
        self.first: TraceError | None = None
        self.active = True

    def refuse(self, does: str, subject: str) -> NoReturn:
        """Raises TraceError: "the program branches on the value of `step` at react_agent.py:31".

        Args:
            does: what the program does; `{}` in it is the place of `subject`, by default the end.
        """
        where = str(current_line())
        action = does.replace("{}", subject) if "{}" in does else f"{does} {subject}"
        error = TraceError(f"the program {action} at {where}", where=where)
        self.first = self.first or error
        raise error


class Placeholder:
    """Program text with at least one value in it that only a run has.

    `+` with text gives a longer one. Every other operation raises TraceError.
    """

    sgl_spec_stands_for_text = True

    def __init__(self, parts: Parts, refusals: Refusals) -> None:
        super().__init__()
        self._sgl_spec_parts = join_parts(parts)
        self._sgl_spec_refusals = refusals

    def __add__(self, other: Any) -> Any:
        return self._sgl_spec_joined(other, after=True)

    def __radd__(self, other: Any) -> Any:
        return self._sgl_spec_joined(other, after=False)

    def _sgl_spec_joined(self, other: Any, *, after: bool) -> Any:
        if isinstance(other, str | Placeholder):
            mine, its = self._sgl_spec_parts, parts_of(other)
            return type(self)(mine + its if after else its + mine, self._sgl_spec_refusals)
        if isinstance(other, int | float | complex | bytes | list | tuple | dict | set):
            refuse(self, "computes with")
        return NotImplemented  # another library's object may know how to be added to text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # Python and libraries probe for protocols this way
        refuse(self, f"uses `.{name}` of")

    def __repr__(self) -> str:
        if self._sgl_spec_refusals.active:
            refuse(self, "formats {} with repr()")
        return f"<{subject_of(self)}>"


def _refusing(does: str) -> Any:
    def method(self: Placeholder, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(self, does)

    return method


for _does, _names in _REFUSED.items():
    for _name in _names:
        setattr(Placeholder, _name, _refusing(_does))


def refuse(placeholder: Placeholder, does: str) -> NoReturn:
    """Raises TraceError: the program does this with that value."""
    placeholder._sgl_spec_refusals.refuse(does, subject_of(placeholder))


def parts_of(value: str | Placeholder) -> Parts:
    """The parts of text that may hold values."""
    return value._sgl_spec_parts if isinstance(value, Placeholder) else join_parts([value])


def subject_of(placeholder: Placeholder) -> str:
    """The value in words: "the value of `step`"."""
    parts = placeholder._sgl_spec_parts
    names = ", ".join(f"`{part.name}`" for part in parts if isinstance(part, Inserted) and part.name)
    value = f"the value of {names}" if names else "text that only a run has"
    return value if len(parts) == 1 else f"text that holds {value}" if names else value


def first_held(value: Any, depth: int = _DEPTH) -> Placeholder | None:
    """The first placeholder in `value`: itself, or inside lists, tuples, sets and dicts nested to `depth`."""
    if isinstance(value, Placeholder):
        return value
    if depth == 0 or not isinstance(value, list | tuple | set | frozenset | dict):
        return None
    inside: list[Any] = list(value.values()) if isinstance(value, dict) else list(value)
    return next((held for item in inside if (held := first_held(item, depth - 1)) is not None), None)


def text_or_placeholder(parts: list[Part], like: Placeholder) -> Placeholder:
    """A placeholder of the same trace and class as `like` with these parts."""
    return type(like)(tuple(parts), like._sgl_spec_refusals)
