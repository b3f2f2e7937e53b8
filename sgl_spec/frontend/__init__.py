"""The client side of a round: runs `@sgl.function` programs, hints the server, reports what each call did.

The only folder that imports `sglang.lang`, and only in `endpoint.py`, `run_identity.py` and `failed_executor.py`
(that import loads thousands of modules). The names below are therefore loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "CallRecord": "call_log",
    "Endpoint": "endpoint",
    "LoadedProgram": "program_file",
    "Runtime": "runtime",
    "load_program": "program_file",
    "run_program_file": "program_main",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
