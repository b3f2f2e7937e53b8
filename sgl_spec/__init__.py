"""A speculative backend for SGLang programs.

Importing this package loads neither torch nor sglang; the names below load what they need when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sgl_spec.errors import (
    BatchError,
    ConfigError,
    ContractError,
    GraphError,
    HintError,
    MemoryFileError,
    ModelPreparationError,
    PlatformError,
    ServerError,
    ServerUnavailable,
    SglSpecError,
    TraceError,
)

if TYPE_CHECKING:
    from sgl_spec.config import SpecConfig
    from sgl_spec.frontend.endpoint import Endpoint
    from sgl_spec.frontend.expect import expect
    from sgl_spec.frontend.predict import predict
    from sgl_spec.frontend.runtime import Runtime

__version__ = "0.3.0"

_LAZY = {
    "Endpoint": "sgl_spec.frontend.endpoint",
    "Runtime": "sgl_spec.frontend.runtime",
    "SpecConfig": "sgl_spec.config",
    "expect": "sgl_spec.frontend.expect",
    "predict": "sgl_spec.frontend.predict",
}

__all__ = [
    "BatchError",
    "ConfigError",
    "ContractError",
    "Endpoint",
    "GraphError",
    "HintError",
    "MemoryFileError",
    "ModelPreparationError",
    "PlatformError",
    "Runtime",
    "ServerError",
    "ServerUnavailable",
    "SglSpecError",
    "SpecConfig",
    "TraceError",
    "__version__",
    "expect",
    "predict",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
