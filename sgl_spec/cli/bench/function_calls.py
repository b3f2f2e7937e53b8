"""Requests of the Berkeley Function-Calling Leaderboard: what is asked, and the JSON schema of the answer.

The leaderboard grew out of Gorilla (Patil et al., arXiv 2305.15334); the data folder holds its version 4. The workload
`json` sends the message alone; `bfcl` holds the answer to the schema as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sgl_spec.cli.bench.data_file import DataRow, read_rows
from sgl_spec.errors import ConfigError

CALLS_FILE = "bfcl_v4_simple_python.jsonl"

# BFCL names types as Python does; what JSON Schema has under the same name stays. "any" is a schema without a type.
_TYPES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "any": None,
    **{name: name for name in ("object", "number", "array", "string", "integer", "boolean", "null")},
}


class CallRequest(NamedTuple):
    """One request: the user's message with the functions in it, and those functions as the file describes them.

    `line` counts from 0; `where` names file and line.
    """

    line: int
    where: str
    message: str
    functions: tuple[Mapping[str, Any], ...]

    def schema(self) -> dict[str, Any]:
        """See `call_schema`."""
        return call_schema(self.functions, self.where)


def call_requests(data: Path) -> Iterator[CallRequest]:
    """The file's requests in its order.

    Raises:
        ConfigError: the file cannot be read, or a line lacks what is read from it.
    """
    for row in read_rows(data / CALLS_FILE):
        functions = tuple(row.field("function"))
        yield CallRequest(row.line, row.where, _message(row, functions), functions)


def call_schema(functions: tuple[Mapping[str, Any], ...], where: str) -> dict[str, Any]:
    """The JSON schema of one call, {"name": ..., "arguments": {...}}, of one of the functions.

    Args:
        functions: each with a "name" and BFCL's "parameters"; at least one.
        where: file and line, for errors.

    Raises:
        ConfigError: a function has no name, or a parameter has a type that neither BFCL's Python files nor JSON know.
    """
    calls = [_call(function, where) for function in functions]
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def _message(row: DataRow, functions: tuple[Mapping[str, Any], ...]) -> str:
    question = row.field("question")[0][0]["content"]
    return (
        f"These functions exist:\n{json.dumps(functions, indent=1)}\n\n"
        f"Answer the request with one function call, as JSON like "
        f'{{"name": "...", "arguments": {{"...": "..."}}}} and nothing else.\n\nRequest: {question}'
    )


def _call(function: Mapping[str, Any], where: str) -> dict[str, Any]:
    if "name" not in function:
        raise ConfigError(f"{where}: a function has no 'name'.")
    arguments = {"type": "dict", "properties": {}, **function.get("parameters", {})}
    return {
        "type": "object",
        "properties": {
            "name": {"const": function["name"]},
            "arguments": _schema(arguments, f"{where}, function {function['name']!r}"),
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _schema(parameter: Mapping[str, Any], where: str) -> dict[str, Any]:
    """One parameter, and what is nested in it. Descriptions and defaults constrain nothing and are left out."""
    name = parameter.get("type", "any")
    if name not in _TYPES:
        raise ConfigError(f"{where}: the type is {name!r}; known types are {', '.join(_TYPES)}.")
    schema: dict[str, Any] = {} if _TYPES[name] is None else {"type": _TYPES[name]}
    if "enum" in parameter:
        schema["enum"] = parameter["enum"]
    if isinstance(parameter.get("items"), Mapping):
        schema["items"] = _schema(parameter["items"], f"{where}, items")
    if "properties" in parameter:
        schema |= {
            "properties": {key: _schema(one, f"{where}, {key}") for key, one in parameter["properties"].items()},
            "required": list(parameter.get("required", ())),
            "additionalProperties": False,
        }
    return schema
