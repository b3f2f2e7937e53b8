"""Keeps the memory of past outputs on disk while the server runs: a thread beside the rounds, which it never delays by
more than the copying of references.
"""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event, Thread

from sgl_spec.drafting.memory.memory_file import MemoryIdentity, save
from sgl_spec.drafting.memory.output_memory import OutputMemory
from sgl_spec.errors import ConfigError

logger = logging.getLogger(__name__)


class MemorySaver:
    """Saves when something new was remembered, at most once in `interval_s` seconds, and a last time at `close`.

    Whatever goes wrong with a save is logged, once for each kind of error, and tried again after the interval. It never
    reaches a request.

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
        if not interval_s > 0:
            raise ConfigError(f"interval_s is {interval_s}; seconds between two saves must be above 0")
        self._memory = memory
        self._path = path
        self._identity = identity
        self._interval_s = interval_s
        self._saved = memory.changes
        self._logged: set[str] = set()
        self._closing = Event()
        self._thread = Thread(target=self._run, name="sgl_spec memory saver", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Save what is new and end the thread. May be called again, to no effect."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            self._save()
        self._save()

    def _save(self) -> None:
        changes = self._memory.changes  # before the snapshot: what comes in between is saved twice, not never
        if changes == self._saved:
            return
        try:
            save(self._memory, self._path, self._identity)
            self._saved = changes
        except Exception as error:  # a disk's trouble, or our own, is no reason to stop serving
            self._log(error)

    def _log(self, error: Exception) -> None:
        cause = error.__cause__ or error
        kind = f"{type(cause).__name__} {getattr(cause, 'errno', '')}"
        if kind not in self._logged:
            self._logged.add(kind)
            logger.warning("past outputs are not saved (more of this kind is not logged): %s", error)
