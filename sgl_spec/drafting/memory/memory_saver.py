"""Keeps the memory of past outputs on disk while the server runs: beside the rounds, see file_saver."""

from __future__ import annotations

from pathlib import Path

from sgl_spec.drafting.file_saver import FileSaver
from sgl_spec.drafting.memory.memory_file import MemoryIdentity, save
from sgl_spec.drafting.memory.output_memory import OutputMemory


class MemorySaver(FileSaver):
    """Saves a memory.

    Args:
        memory: saved as it is at each save.
        path: of the file, see memory_file.save.
        identity: written into the file.
        interval_s: seconds from one save to the next, above 0.

    Raises:
        ConfigError: interval_s is not above 0.
    """

    def __init__(
        self, memory: OutputMemory, path: str | Path, identity: MemoryIdentity, interval_s: float = 30.0
    ) -> None:
        super().__init__("past outputs", lambda: memory.changes, lambda: save(memory, path, identity), interval_s)
