"""The JSON files that commands leave. Outside any round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sgl_spec.errors import ConfigError


def check_writable(path: Path) -> None:
    """Raises ConfigError now rather than after an hour's measuring."""
    try:
        with path.open("a"):
            pass
    except OSError as error:
        raise ConfigError(f"--out is {path}; it cannot be written: {error.strerror}.") from error


def write_json(path: Path, content: Any) -> None:
    """Writes the file whole or not at all. Raises ValueError for numbers that JSON does not have."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    part.replace(path)
