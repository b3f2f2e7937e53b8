"""Every error `sgl_spec` raises on purpose, in one tree. Imported by all layers, imports none.

A message names the field or thing at fault, the value it had, and what would be right, so that a user can
act on it without reading our code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class SglSpecError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(SglSpecError, ValueError):
    """A setting is unknown, of the wrong type or out of range."""


class HintError(SglSpecError, ValueError):
    """A hint cannot be built from what the caller gave (raised on the client only, never in the server)."""


class ContractError(SglSpecError):
    """The installed SGLang does not have the names, or not in the shape, that we override, call or read."""


class PlatformError(SglSpecError):
    """The CPU platform cannot do what the model or the server's flags ask of it."""


class MemoryFileError(SglSpecError):
    """The file of past outputs cannot be read or written, is damaged, or belongs to another tokenizer or version."""


class CalibrationFileError(SglSpecError):
    """The file of calibration tables cannot be read or written, is damaged, or of another version."""


class CostTableError(SglSpecError, ValueError):
    """A table of what rounds cost is damaged, of another version, or holds what is no time."""


class ModelPreparationError(SglSpecError):
    """The bundled model cannot be found, converted or checked."""


class TraceError(SglSpecError):
    """A program cannot be read without running it: what it does next depends on a value that only a run has.

    Attributes:
        where: the source line, as "file.py:31"; None when no line of the program is at fault.
    """

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where


class GraphError(SglSpecError):
    """Nodes and edges that cannot be a program; the message names the node and its source line."""


class ServerUnavailable(SglSpecError):
    """No server answers at the address, or it stopped while we waited."""


class ServerError(SglSpecError):
    """The server answered with an error.

    Attributes:
        status: the HTTP status, or None when the error came inside a stream.
        server_message: the server's own words.
    """

    def __init__(self, message: str, *, status: int | None = None, server_message: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.server_message = server_message


class RunFailure(NamedTuple):
    """One failed run of a batch: its place in the batch, from 0, and what it failed with."""

    index: int
    error: Exception


class BatchError(SglSpecError):
    """Runs of a batch failed; the others went on. Complete once `run_batch` has raised it.

    Args:
        failures: may grow until then.
        states: by place in the batch, those that finished, as SGLang's `ProgramState`.
        size: runs in the batch.

    Attributes:
        failures: every failed run, by place in the batch.
        states: what the batch would have returned, with None for the runs that failed or never began.
    """

    def __init__(self, failures: Sequence[RunFailure], states: Mapping[int, Any], size: int) -> None:
        super().__init__(failures, states, size)
        self._failures, self._states, self._size = failures, states, size

    @property
    def failures(self) -> tuple[RunFailure, ...]:
        return tuple(sorted(self._failures, key=lambda one: one.index))

    @property
    def states(self) -> list[Any]:
        return [self._states.get(index) for index in range(self._size)]

    def __str__(self) -> str:
        shown = [f"run {index}: {error}" for index, error in self.failures[:_MOST_SHOWN]]
        more = len(self.failures) - len(shown)
        return "\n".join(
            [f"{len(self.failures)} of {self._size} runs failed", *shown, *([f"and {more} more"] if more else [])]
        )


_MOST_SHOWN = 5
