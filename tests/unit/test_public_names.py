"""What `import sgl_spec` offers and what it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import sgl_spec
from sgl_spec import errors

PUBLIC = {
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
}


def test_public_names_are_exactly_these() -> None:
    assert set(sgl_spec.__all__) == PUBLIC


def test_import_is_light() -> None:
    code = "import sgl_spec, sys; print([m for m in ('torch', 'sglang', 'numba', 'networkx') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_error_is_an_sgl_spec_error() -> None:
    classes = [
        c
        for _, c in inspect.getmembers(errors, inspect.isclass)
        if c.__module__ == errors.__name__ and issubclass(c, Exception)
    ]
    assert len(classes) >= 8
    assert all(issubclass(c, errors.SglSpecError) for c in classes)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        sgl_spec.Nonsense  # noqa: B018
