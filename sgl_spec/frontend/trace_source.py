"""A program's functions, rewritten so that nothing they do with a stand-in value goes unseen.

Used before a round, by the tracer only; a program that runs is never touched. Python asks an object when a program
branches on it or compares it, but not for `x is None`, `match x`, `isinstance(x, str)` or f-strings, whose result is
plain text whatever they hold. In the copy of a function made here, those go through `Helpers`.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple, Protocol

from sgl_spec.errors import TraceError
from sgl_spec.program.source import SourceLine

TEXT, VALUE, CALL, PLAIN, RETURN = (f"__sgl_spec_{name}__" for name in ("text", "value", "call", "plain", "return"))
_COPY = "__sgl_spec_function__"
# These look at the frame that calls them.
_UNWRAPPED = {"super", "locals", "globals", "vars", "dir", "eval", "exec", "breakpoint"}


class Helpers(Protocol):
    """What a rewritten function calls instead of what its author wrote."""

    def text(self, *parts: Any) -> Any:
        """An f-string, from its literals and values."""

    def value(self, value: Any, conversion: int, spec: Any) -> Any:
        """A value inside an f-string; `conversion` is the letter's code after `!`, or -1."""

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call."""

    def plain(self, value: Any, does: str, inside: bool) -> Any:
        """A value that Python would not be asked about; `inside`: nor about what it contains."""

    def returned(self, compute: Callable[[], Any], uses: Callable[[], tuple[Any, ...]]) -> Any:
        """What the program itself returns; `uses` gives the values of the names in that expression."""


class _Rewriter(ast.NodeTransformer):
    """`outermost`: of the program's function, whose returned value can no longer reach its text."""

    def __init__(self, outermost: bool) -> None:
        self._outermost = outermost
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        value = node.value
        if value is None or not self._outermost or self._depth != 1 or not _is_lazy(value):
            return self.generic_visit(node)  # type: ignore[return-value]
        names = ast.Tuple([ast.Name(name, ast.Load()) for name in _free_names(value)], ast.Load())
        node.value = _call(RETURN, [_lambda(self.visit(value)), _lambda(names)], value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts = [self.visit(part) for part in node.values]
        return _call(TEXT, parts, node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        spec = self.visit(node.format_spec) if node.format_spec is not None else ast.Constant("")
        return _call(VALUE, [self.visit(node.value), ast.Constant(node.conversion), spec], node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _UNWRAPPED:
            return node
        return _call(CALL, [node.func, *node.args], node, node.keywords)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            does = "compares {} (with `is`)"
            operands = [_plain(operand, does, inside=False) for operand in (node.left, *node.comparators)]
            node.left, node.comparators = operands[0], operands[1:]
        return node

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        node.subject = _plain(node.subject, "matches {} (with `match`)", inside=True)
        return node


def _call(name: str, args: list[ast.expr], like: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.expr:
    new = ast.Call(ast.Name(name, ast.Load()), args, keywords or [])
    for node in ast.walk(new):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, like)
    return ast.copy_location(new, like)


def _lambda(body: ast.expr) -> ast.expr:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)


def _is_lazy(expression: ast.expr) -> bool:
    """Whether it means the same inside a lambda."""
    kinds = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)
    return not any(
        isinstance(node, kinds) or (isinstance(node, ast.Name) and node.id in _UNWRAPPED)
        for node in ast.walk(expression)
    )


def _free_names(expression: ast.expr) -> list[str]:
    """The names it reads from outside, but not a variable that is only indexed by a constant (`s["answer"]`)."""
    walk = list(ast.walk(expression))
    bound = {node.id for node in walk if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in walk if isinstance(node, ast.arg)}
    indexed = {id(n.value) for n in walk if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)}
    read = [node.id for node in walk if isinstance(node, ast.Name) and id(node) not in indexed]
    return sorted(set(read) - bound)


def _plain(operand: ast.expr, does: str, *, inside: bool) -> ast.expr:
    return _call(PLAIN, [operand, ast.Constant(does), ast.Constant(inside)], operand)


class _Place(NamedTuple):
    file: str
    line: int
    name: str


class Rewriter:
    """Makes and remembers the rewritten copies of functions for one trace."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers: dict[str, Any] = {
            TEXT: helpers.text,
            VALUE: helpers.value,
            CALL: helpers.call,
            PLAIN: helpers.plain,
            RETURN: helpers.returned,
        }
        self._codes: dict[CodeType, CodeType] = {}
        self._made: set[CodeType] = set()

    def rewritten(self, function: FunctionType, *, outermost: bool = False) -> FunctionType:
        """The function with its code rewritten; its globals, defaults and closure are the same objects.

        Args:
            outermost: it is the program's own function, whose value a run hands to its caller.

        Raises:
            TraceError: its source cannot be read, or is not what it was compiled from.
        """
        code = function.__code__
        if code in self._made:
            return function
        if code not in self._codes:
            self._codes[code] = _compile(code, outermost)
            self._made.update(_all_codes(self._codes[code]))
        new = self._codes[code]
        outer = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        cells = tuple(outer[name] if name in outer else CellType(self._helpers[name]) for name in new.co_freevars)
        copy = FunctionType(new, function.__globals__, function.__name__, function.__defaults__, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__dict__.update(function.__dict__)
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        return copy


def _compile(code: CodeType, outermost: bool) -> CodeType:
    place = _Place(code.co_filename, code.co_firstlineno, code.co_name)
    if _says(_code_of(_definition(place), code)) != _says(code):
        raise _unreadable(place, "its file says something else than what was loaded")
    changed = _Rewriter(outermost).visit(_definition(place))
    return _code_of(changed, code).replace(co_name=code.co_name, co_qualname=code.co_qualname)


def _says(code: CodeType) -> tuple[Any, ...]:
    """What tells an edited function from the loaded one. Not the instructions: those of a nested function differ."""
    consts = [repr(const) for const in code.co_consts if not isinstance(const, CodeType)]
    inner = [_says(const) for const in code.co_consts if isinstance(const, CodeType)]
    return (code.co_varnames, sorted(code.co_names), consts, inner)


def _definition(place: _Place) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda:
    """The function's definition, parsed anew, with its decorators taken off."""
    linecache.checkcache(place.file)
    text = "".join(linecache.getlines(place.file))
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise _unreadable(place, f"its file no longer parses: {error}") from error
    found = [node for node in ast.walk(tree) if _is_at(node, place)]
    if len(found) != 1:
        what = "its file cannot be read" if not text else "no definition is" if not found else "several are"
        raise _unreadable(place, what if not text else f"{what} on that line")
    node: Any = found[0]
    if not isinstance(node, ast.Lambda):
        node.decorator_list, node.name = [], _COPY
    return node  # type: ignore[no-any-return]


def _is_at(node: ast.AST, place: _Place) -> bool:
    if isinstance(node, ast.Lambda):
        return place.name == "<lambda>" and node.lineno == place.line
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != place.name:
        return False
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) == place.line


def _code_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, like: CodeType) -> CodeType:
    """The definition's code, compiled inside a function that has the helpers and the closure's names as parameters."""
    names = [TEXT, VALUE, CALL, PLAIN, RETURN, *like.co_freevars]
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    body: ast.stmt = ast.Expr(node) if isinstance(node, ast.Lambda) else node
    factory = ast.FunctionDef("__sgl_spec_factory__", arguments, [body], [])
    module = ast.fix_missing_locations(ast.Module([factory], []))
    flags = like.co_flags & _FUTURE_FLAGS
    compiled = compile(module, like.co_filename, "exec", flags=flags, dont_inherit=True)
    (outer,) = (const for const in compiled.co_consts if isinstance(const, CodeType))
    name = "<lambda>" if isinstance(node, ast.Lambda) else _COPY
    (inner,) = (const for const in outer.co_consts if isinstance(const, CodeType) and const.co_name == name)
    return inner


_FUTURE_FLAGS = 0x1000000  # `from __future__ import annotations`, the only one that still changes anything


def _all_codes(code: CodeType) -> set[CodeType]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return {code}.union(*(_all_codes(one) for one in inner))


def _unreadable(place: _Place, why: str) -> TraceError:
    where = str(SourceLine(place.file, place.line))
    return TraceError(f"the source of {place.name} at {where} cannot be followed: {why}", where=where)
