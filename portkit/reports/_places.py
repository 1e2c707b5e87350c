"""Where a finding stands for tools that show it beside the code, and how serious they call it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from portkit.applying import notebook
from portkit.errors import ApplyError
from portkit.finding import Finding, Location, Support
from portkit.source import Kind, Unreadable, read

STDIN = "<stdin>"
# the words of SARIF; a finding that blocks is an error, one that a safe rewrite mends a note
LEVELS = {
    Support.PORTABLE: "none",
    Support.AUTO: "note",
    Support.REVIEW: "warning",
    Support.UNKNOWN: "warning",
    Support.MANUAL: "error",
}


def lines(where: Location, root: Path) -> tuple[int, int] | None:
    """First and last line of a place in its file; of a notebook's cell, those of the JSON text.

    None where a notebook can no longer be read, or is no longer what was scanned.
    """
    if where.cell is None:
        return where.line, where.end_line
    cells = _cells(root / where.path)
    if where.cell >= len(cells) or not 0 < where.line <= where.end_line <= len(cells[where.cell]):
        return None
    return cells[where.cell][where.line - 1], cells[where.cell][where.end_line - 1]


@lru_cache(maxsize=64)  # findings come sorted by file
def _cells(file: Path) -> list[list[int]]:
    try:
        return notebook.line_numbers(read(file, file.name, Kind.NOTEBOOK).text)
    except (Unreadable, ApplyError):
        return []


def said(item: Finding) -> str:
    """What is wrong and what to do, as sentences; within a notebook, also where."""
    where = item.location
    place = f"Cell {where.cell}, line {where.line}: " if where.cell is not None else ""
    parts = [sentence(item.message), sentence(item.remedy), sentence(item.note)]
    return place + " ".join(part for part in parts if part)


def sentence(text: str) -> str:
    """A text with a full stop, if it lacks one."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?", ":", "`")) else f"{text}."
