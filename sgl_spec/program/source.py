"""Lines of a program's source, and which frames of a running interpreter are the program's own.

Used before a round, while a program is traced or recorded: every node and every refusal names such a line.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep
_LIBRARIES = tuple(
    {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


class SourceLine(NamedTuple):
    """A line of a program: the file's path and the line's number, from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


NOWHERE = SourceLine("<unknown>", 0)


@lru_cache(maxsize=4096)
def is_user_file(file: str) -> bool:
    """Whether a program's author wrote `file`: it is neither ours, nor Python's, nor an installed package's."""
    if file.startswith("<"):
        return False
    real = os.path.realpath(file)
    return not real.startswith((_PACKAGE, *_LIBRARIES))


def user_lines(frame: FrameType | None, stop: Collection[CodeType] = ()) -> Iterator[SourceLine]:
    """The author's lines that are running now, innermost first, up to a frame that runs one of the codes in `stop`."""
    while frame is not None and frame.f_code not in stop:
        if is_user_file(frame.f_code.co_filename):
            yield SourceLine(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back


def current_line() -> SourceLine:
    """The innermost of the author's lines that are running now."""
    return next(user_lines(sys._getframe(1)), NOWHERE)
