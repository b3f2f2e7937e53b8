"""A mutation: one treatment of one parameter, broken in one place of the source, and the tests that must then fail."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SERVER_TIER = "tests/server/"


class Mutation(NamedTuple):
    """`old` occurs exactly once in `file` (a path in the repository) and is replaced by `new`.

    parameters: the rows of `sgl_spec.server.parameter_table` whose treatment it breaks; none for what all of them stand
    on. tests: pytest ids, `path::name` or `path::name[case]`; each of them must fail, or the mutation has survived.
    """

    name: str
    parameters: tuple[str, ...]
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def needs_server(self) -> bool:
        """Only a running server shows it, so it stays out of the quick run."""
        return any(test.startswith(SERVER_TIER) for test in self.tests)


def misfit(mutation: Mutation, root: Path = ROOT) -> str | None:
    """Why `mutation` no longer fits the source below `root`, or None when it does."""
    path = root / mutation.file
    if not path.is_file():
        return f"{mutation.file} does not exist"
    found = path.read_text().count(mutation.old)
    if found != 1:
        return f"its old text occurs {found} times in {mutation.file}, not once: {mutation.old!r}"
    if mutation.new == mutation.old:
        return "it changes nothing"
    return None


def apply(mutation: Mutation, root: Path) -> None:
    """Break the copy of the repository at `root`."""
    path = root / mutation.file
    path.write_text(path.read_text().replace(mutation.old, mutation.new))
