"""Loads a program from `PROGRAM.py[:function]`: the file a user names on the command line.

A program file is an ordinary script with `PROGRAM`, an `@sgl.function`, and `inputs()`, which returns a list of keyword
arguments, one dict for each run. This module imports no SGLang; the program's file does.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sgl_spec.errors import ConfigError

PROGRAM_FILE_PREFIX = "sgl_spec_program_file."
DEFAULT_FUNCTION = "PROGRAM"


class LoadedProgram(NamedTuple):
    """A program ready to run: `function.run(backend=..., **inputs[i])`."""

    name: str
    function: Any
    inputs: list[dict[str, Any]]


def load_program(spec: str) -> LoadedProgram:
    """Loads `path/to/file.py` or `path/to/file.py:function`.

    Raises:
        ConfigError: the file is missing, fails to import, or lacks the function or its inputs; the message says which.
    """
    path, _, function_name = spec.partition(":") if ".py:" in spec else (spec, "", "")
    file = Path(path)
    if file.suffix != ".py" or not file.is_file():
        raise ConfigError(f"program: {path!r} is not a Python file; give a path such as programs/json_record.py")
    module = _import(file)
    function = _function(module, file, function_name or DEFAULT_FUNCTION)
    name = file.stem if function_name in ("", DEFAULT_FUNCTION) else f"{file.stem}:{function_name}"
    return LoadedProgram(name, function, _inputs(module, file, function))


def _import(file: Path) -> ModuleType:
    name = PROGRAM_FILE_PREFIX + file.stem
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise ConfigError(f"program: Python cannot import {str(file)!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a module up by name
    try:
        with _importing_beside(file):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(f"program: importing {str(file)!r} failed: {type(error).__name__}: {error}") from error
    return module


@contextmanager
def _importing_beside(file: Path) -> Iterator[None]:
    """A script may import its neighbours; so may a program while it is loaded."""
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _function(module: ModuleType, file: Path, name: str) -> Any:
    function = getattr(module, name, None)
    if _is_program(function):
        return function
    others = sorted(key for key, value in vars(module).items() if _is_program(value))
    found = f"it has {', '.join(others)}" if others else "it has no @sgl.function at all"
    problem = "has no" if function is None else "has something else under the name"
    raise ConfigError(f"program: {str(file)!r} {problem} {name!r} (an @sgl.function is needed); {found}")


def _is_program(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("run", "run_batch", "func", "arg_names"))


def _inputs(module: ModuleType, file: Path, function: Any) -> list[dict[str, Any]]:
    make = getattr(module, "inputs", None)
    if make is None:
        if required := _required(function):
            raise ConfigError(
                f"program: {str(file)!r} has no inputs() but its function needs {', '.join(required)}; "
                "define inputs() to return a list of keyword-argument dicts"
            )
        return [{}]
    values = make() if callable(make) else make
    if not isinstance(values, list) or not values or not all(isinstance(value, dict) for value in values):
        raise ConfigError(f"program: inputs() of {str(file)!r} gave {values!r:.200}, not a non-empty list of dicts")
    return [_checked(value, index, file, function) for index, value in enumerate(values)]


def _checked(value: dict[str, Any], index: int, file: Path, function: Any) -> dict[str, Any]:
    unknown = sorted(set(value) - set(function.arg_names))
    missing = [name for name in _required(function) if name not in value]
    if unknown or missing:
        faults = [f"unknown {', '.join(unknown)}"] * bool(unknown) + [f"missing {', '.join(missing)}"] * bool(missing)
        raise ConfigError(f"program: inputs()[{index}] of {str(file)!r} does not fit its function: {'; '.join(faults)}")
    return value


def _required(function: Any) -> list[str]:
    optional = len(function.arg_defaults)
    names = list(function.arg_names)[: len(function.arg_names) - optional]
    return [name for name in names if name not in function.bind_arguments]
