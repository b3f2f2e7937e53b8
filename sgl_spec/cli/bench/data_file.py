"""Reading the data files (`--data DIR`) that workloads are built from. A mistake is named by file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sgl_spec.errors import ConfigError


class DataRow(NamedTuple):
    """One JSON object of a file with one per line. `line` counts from 0."""

    file: str
    line: int
    content: dict[str, Any]

    @property
    def where(self) -> str:
        """File and line, as errors name them."""
        return f"{self.file}, line {self.line + 1}"

    def field(self, name: str) -> Any:
        """The value of a field. Raises ConfigError when there is none."""
        if name not in self.content:
            raise ConfigError(f"{self.where}: the field {name!r} is missing.")
        return self.content[name]


def read_lines(path: Path) -> list[str]:
    """The lines of a text file. Raises ConfigError when it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError as error:
        raise ConfigError(f"--data: {path} cannot be read ({error.strerror}).") from error


def read_rows(path: Path) -> Iterator[DataRow]:
    """The objects of a JSON-lines file, one after another.

    Raises:
        ConfigError: the file cannot be read, or a line is not a JSON object.
    """
    for number, line in enumerate(read_lines(path)):
        try:
            content = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}, line {number + 1}: not JSON ({error}).") from error
        if not isinstance(content, dict):
            raise ConfigError(f"{path}, line {number + 1}: expected a JSON object, got {type(content).__name__}.")
        yield DataRow(path.name, number, content)
