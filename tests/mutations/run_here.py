"""Run tests of the copy of the tree that is the current folder: `python run_here.py pytest-arguments`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, settings


class FirstFailure:
    """A property that fails is not made simpler: that it fails is all we want to know."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        settings.register_profile("first failure", settings.default, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("first failure")


def main(arguments: Sequence[str]) -> int:
    """pytest's exit status. An editable install finds the package in the working tree, so where it is, is checked."""
    import sgl_spec

    found = Path(sgl_spec.__file__ or "").resolve()
    if not found.is_relative_to(Path.cwd().resolve()):
        raise SystemExit(f"the tests would import {found}")
    return int(pytest.main(list(arguments), plugins=[FirstFailure()]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
