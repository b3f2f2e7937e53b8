"""Keeps what a server learns on disk while it runs: a thread beside the rounds, which it never delays by more than the
copying of what it saves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from sgl_spec.errors import ConfigError

logger = logging.getLogger(__name__)


class FileSaver:
    """Saves when something new was learned, at most once in `interval_s` seconds, and a last time at `close`.

    Whatever goes wrong with a save is logged, once for each kind of error, and tried again after the interval. It never
    reaches a request.

    Args:
        what: is saved, for the log and the thread's name.
        changes: a number that grows with everything learned.
        save: saves all of it; called in the thread.
        interval_s: seconds from one save to the next, above 0.

    Raises:
        ConfigError: interval_s is not above 0.
    """

    def __init__(self, what: str, changes: Callable[[], int], save: Callable[[], None], interval_s: float) -> None:
        if not interval_s > 0:
            raise ConfigError(f"interval_s is {interval_s}; seconds between two saves must be above 0")
        self._what = what
        self._changes = changes
        self._save_all = save
        self._interval_s = interval_s
        self._saved = changes()
        self._logged: set[str] = set()
        self._closing = Event()
        self._thread = Thread(target=self._run, name=f"sgl_spec saver of {what}", daemon=True)
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
        changes = self._changes()  # before the save: what comes in between is saved twice, not never
        if changes == self._saved:
            return
        try:
            self._save_all()
            self._saved = changes
        except Exception as error:  # a disk's trouble, or our own, is no reason to stop serving
            self._log(error)

    def _log(self, error: Exception) -> None:
        cause = error.__cause__ or error
        kind = f"{type(cause).__name__} {getattr(cause, 'errno', '')}"
        if kind not in self._logged:
            self._logged.add(kind)
            logger.warning("%s are not saved (more of this kind is not logged): %s", self._what, error)
