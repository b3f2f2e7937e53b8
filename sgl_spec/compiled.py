"""Compiled loops, kept on disk between starts where that is possible. Used by drafting and by the CPU platform while
they are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def kept_njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba's `njit(cache=True, **options)`; without the cache where numba finds no folder that it may write to (an
    installation that is read-only, with no home): numba refuses then, though each start would only be slower."""

    def compile_it(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return njit(**options)(function)

    return compile_it
