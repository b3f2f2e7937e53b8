"""What a traced program's calls, f-strings and comparisons do with stand-in values.

Used before a round, by rewritten functions (`trace_source`). The author's own functions are followed; SGLang's are
called; text stays text through `str`, f-strings and `join`; a value handed to anything else is refused by name.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from sglang.lang.interpreter import ProgramState, ProgramStateGroup
from sglang.lang.ir import SglFunction

from sgl_spec.errors import TraceError
from sgl_spec.frontend.trace_source import Rewriter
from sgl_spec.program.nodes import Part
from sgl_spec.program.placeholder import Placeholder, Refusals, first_held, parts_of, refuse, text_or_placeholder
from sgl_spec.program.source import is_user_file

# Answers of these do not come from the value, and Python does not ask the value.
_ASK_ABOUT_TYPE = (isinstance, issubclass, type, id, callable)
_CONTAINERS = (list, dict, set, tuple, deque)
_ALLOWED_MODULES = ("sglang", "sgl_spec")
_RUNS = {SglFunction.run: "run", SglFunction.__call__: "run", SglFunction.run_batch: "run_batch"}

RunCalled = Callable[[SglFunction, str, tuple[Any, ...], dict[str, Any]], Any]


class TraceHelpers:
    """The `Helpers` of one trace.

    Args:
        refusals: of this trace.
        run_called: what running another `@sgl.function` gives (function, "run" or "run_batch", arguments).
    """

    def __init__(self, refusals: Refusals, run_called: RunCalled) -> None:
        self._refusals = refusals
        self._run_called = run_called
        self.rewriter = Rewriter(self)

    def text(self, *parts: Any) -> Any:
        return _join("", parts)

    def value(self, value: Any, conversion: int, spec: Any) -> Any:
        if isinstance(spec, Placeholder):
            refuse(spec, "formats with")
        if isinstance(value, Placeholder):
            if conversion not in (-1, ord("s")) or spec:
                refuse(value, "formats {} (with `!r` or a format spec)")
            return value
        convert: dict[int, Callable[[Any], Any]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
        return format(convert.get(conversion, lambda same: same)(value), spec)

    def plain(self, value: Any, does: str, inside: bool) -> Any:
        if (held := first_held(value, 4 if inside else 0)) is not None:
            refuse(held, does)
        return value

    def returned(self, compute: Callable[[], Any], uses: Callable[[], tuple[Any, ...]]) -> Any:
        """What the program returns. A computation that can append nothing may stay unknown: no text depends on it."""
        before = self._refusals.first
        try:
            return compute()
        except TraceError:
            if before is not None or not all(_appends_nothing(value) for value in uses()):
                raise
            self._refusals.first = None
            return None

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if isinstance(function, Placeholder):
            refuse(function, "calls")
        args = tuple(self._followed(arg) for arg in args)
        kwargs = {name: self._followed(arg) for name, arg in kwargs.items()}
        if _is_users(function) or _is_ours(function):
            return self._call_own(self._followed(function), args, kwargs)
        return self._call_other(function, args, kwargs)

    def _call_own(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        program, method = _as_run(function)
        if program is not None:
            return self._run_called(program, method, args, kwargs)
        return function(*args, **kwargs)

    def _call_other(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        direct = next((arg for arg in (*args, *kwargs.values()) if isinstance(arg, Placeholder)), None)
        if direct is not None and function in (str, print):
            return direct if function is str and len(args) == 1 else None
        if isinstance(function, BuiltinFunctionType) and isinstance(function.__self__, str):
            if function.__name__ == "join" and len(args) == 1:
                return _join(function.__self__, list(args[0]))
        elif not _asks_the_value(function):
            if (held := first_held([*args, *kwargs.values()])) is not None:
                refuse(held, f"passes {{}} to {_name(function)}()")
            if any(isinstance(arg, ProgramState | ProgramStateGroup) for arg in (*args, *kwargs.values())):
                self._refusals.refuse("passes", f"its state to {_name(function)}(), which cannot be followed,")
        elif function in _ASK_ABOUT_TYPE and direct is not None:
            refuse(direct, f"asks {_name(function)}() about")
        return function(*args, **kwargs)

    def _followed(self, value: Any) -> Any:
        """The rewritten copy of one of the author's functions or methods; anything else as it is."""
        if not _is_users(value):
            return value
        if isinstance(value, MethodType):
            function: Any = value.__func__
            return MethodType(self.rewriter.rewritten(function), value.__self__)
        return self.rewriter.rewritten(value)


def _join(separator: str, items: Any) -> Any:
    """`separator.join(items)`, also where some of the items are stand-ins."""
    held = next((item for item in items if isinstance(item, Placeholder)), None)
    if held is None:
        return separator.join(items)
    parts: list[Part] = []
    for number, item in enumerate(items):
        parts += [separator] if number else []
        parts += parts_of(item) if isinstance(item, str | Placeholder) else refuse(held, f"joins {item!r} with")
    return text_or_placeholder(parts, held)


def _is_users(value: Any) -> bool:
    """Whether it is a Python function or method that the program's author wrote."""
    function = value.__func__ if isinstance(value, MethodType) else value
    return isinstance(function, FunctionType) and is_user_file(function.__code__.co_filename)


def _is_ours(function: Any) -> bool:
    """Whether SGLang or this package defines it: functions, classes and methods of their objects."""
    home = getattr(function, "__module__", None) or type(function).__module__
    return str(home).partition(".")[0] in _ALLOWED_MODULES


def _as_run(function: Any) -> tuple[SglFunction | None, str]:
    if isinstance(function, SglFunction):
        return function, "run"
    if isinstance(function, MethodType) and function.__func__ in _RUNS:
        return function.__self__, _RUNS[function.__func__]
    return None, ""


def _asks_the_value(function: Any) -> bool:
    """Whether what it does with a stand-in goes through the stand-in's own methods, or only keeps it."""
    if isinstance(function, type):
        return function.__module__ == "builtins"
    if not isinstance(function, BuiltinFunctionType):
        return False
    return getattr(builtins, function.__name__, None) is function or isinstance(function.__self__, _CONTAINERS)


def _appends_nothing(value: Any) -> bool:
    """Whether an expression that uses only such values cannot append to any state."""
    if isinstance(value, list | tuple | set | frozenset):
        return all(_appends_nothing(item) for item in value)
    if isinstance(value, dict):
        return all(_appends_nothing(item) for item in value.values())
    if isinstance(value, ModuleType | BuiltinFunctionType | FunctionType | type):
        return not _is_users(value) and not _is_ours(value)
    return value is None or isinstance(value, Placeholder | str | int | float)


def _name(function: Any) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", type(function).__name__)
    return name if module in (None, "builtins") else f"{module}.{name}"
