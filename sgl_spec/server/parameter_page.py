"""The parameter table as Markdown, for `docs/lossless.md`: `python -m sgl_spec.server.parameter_page` prints it.

Where it stands in a round: nowhere. A contract test compares the page with what this prints.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgl_spec.server.parameter_row import Outside, Parameter
from sgl_spec.server.parameter_table import OUTSIDE, REQUEST, SAMPLING

BEGIN, END = "<!-- parameters -->", "<!-- /parameters -->"


def markdown() -> str:
    """All between the marks `BEGIN` and `END` of the page, both included."""
    return "\n".join(
        (
            BEGIN,
            "### Sampling parameters",
            "",
            *_table(SAMPLING),
            "",
            "### Fields of `/generate` and of the OpenAI endpoints",
            "",
            *_table(REQUEST),
            "",
            "### Fields that touch no token",
            "",
            *map(_outside, OUTSIDE),
            END,
        )
    )


def _table(rows: Sequence[Parameter]) -> list[str]:
    return ["| Parameter | Treatment | How | Tested by |", "|---|---|---|---|", *map(_row, rows)]


def _row(row: Parameter) -> str:
    treatment = row.treatment.value + (f", counted as `{row.reason}`" if row.reason else "")
    return f"| {_names(row)} | {treatment} | {row.how} | {_tests(row.tests)} |"


def _names(row: Parameter) -> str:
    """The name, and in brackets what OpenAI calls it where that differs."""
    others = ", ".join(f"`{name}`" for name in row.openai if name != row.name)
    return f"`{row.name}`" + (f" ({others})" if others else "")


def _tests(tests: Sequence[str]) -> str:
    """File and test without what every one has in common: `tests/`, `test_`, `.py`."""
    return "<br>".join(
        f"`{path.removeprefix('tests/').removesuffix('.py')}::{name}`"
        for path, _, name in (test.partition("::") for test in tests)
    )


def _outside(group: Outside) -> str:
    names = sorted({*group.generate, *group.openai})
    return f"- {group.why} {', '.join(f'`{name}`' for name in names)}."


if __name__ == "__main__":
    print(markdown())
