"""One way to print a table of text."""

from __future__ import annotations

from collections.abc import Sequence


def render(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """A table with two spaces between columns and a rule under the header.

    Args:
        header: one title per column.
        rows: each as long as the header.
        align: one of "<", ">" per column.

    Raises:
        ValueError: a row or `align` is not as long as the header.
    """
    table = [list(map(str, row)) for row in (header, *rows)]
    if {len(row) for row in table} | {len(align)} != {len(header)}:
        raise ValueError(f"Every row and `align` must have {len(header)} columns.")
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    table.insert(1, ["-" * width for width in widths])
    return "\n".join(_line(row, align, widths) for row in table)


def _line(row: Sequence[str], align: str, widths: Sequence[int]) -> str:
    cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True))
    return "  ".join(cells).rstrip()
