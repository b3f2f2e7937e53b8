"""A speculative backend for SGLang programs.

Importing this package loads neither torch nor sglang; the names below load what they need when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sgl_spec.errors import (
    ConfigError,
    ContractError,
    HintError,
    ModelPreparationError,
    PlatformError,
    ServerError,
    ServerUnavailable,
    SglSpecError,
)

if TYPE_CHECKING:
    from sgl_spec.config import SpecConfig
    from sgl_spec.frontend.endpoint import Endpoint
    from sgl_spec.frontend.runtime import Runtime

__version__ = "0.1.0"

_LAZY = {
    "Endpoint": "sgl_spec.frontend.endpoint",
    "Runtime": "sgl_spec.frontend.runtime",
    "SpecConfig": "sgl_spec.config",
}

__all__ = [
    "ConfigError",
    "ContractError",
    "Endpoint",
    "HintError",
    "ModelPreparationError",
    "PlatformError",
    "Runtime",
    "ServerError",
    "ServerUnavailable",
    "SglSpecError",
    "SpecConfig",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
