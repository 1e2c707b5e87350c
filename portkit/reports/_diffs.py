"""Unified diffs as two columns, with what is to know of each rewrite below the lines that it changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from portkit.finding import Finding, Support

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")

Notes = Mapping[str, Mapping[int, Sequence[Mapping[str, str]]]]  # path → line before → rewrites


def notes(findings: Iterable[Finding]) -> Notes:
    """What the rewrites of a scan change, by the line that they are about."""
    found: dict[str, dict[int, list[Mapping[str, str]]]] = {}
    for item in findings:
        if item.location.cell is not None or item.support not in (Support.AUTO, Support.REVIEW):
            continue
        row = {"rule": item.rule, "support": item.support.value, "remedy": item.remedy, "note": item.note}
        rows = found.setdefault(item.location.path, {}).setdefault(item.location.line, [])
        if row not in rows:
            rows.append(row)
    return found


def files(diffs: Iterable[tuple[str, str]], known: Notes) -> list[dict[str, Any]]:
    """Each file that differs: its rows of two columns, and how many lines came and went."""
    shown = []
    for path, text in diffs:
        rows = list(_rows(text, known.get(path, {})))
        if rows:
            added = sum(row["kind"] == "change" and row["right"] is not None for row in rows)
            removed = sum(row["kind"] == "change" and row["left"] is not None for row in rows)
            shown.append({"path": path, "rows": rows, "added": added, "removed": removed})
    return shown


def _rows(text: str, known: Mapping[int, Sequence[Mapping[str, str]]]) -> Iterator[dict[str, Any]]:
    old, new, begun = 0, 0, False
    removed: list[str] = []
    added: list[str] = []
    for line in [*text.split("\n"), "@"]:
        if not line or (not begun and line[0] != "@"):  # the names of the files
            continue
        if line[0] == "-":
            removed.append(line[1:])
            continue
        if line[0] == "+":
            added.append(line[1:])
            continue
        if line[0] == "\\":  # no newline at the end of the file
            continue
        yield from _change(removed, added, old, new, known)
        old, new = old + len(removed), new + len(added)
        removed, added = [], []
        found = _HUNK.match(line)
        if found:
            if begun:
                yield {"kind": "gap"}
            begun = True
            old, new = int(found[1]), int(found[2])
        elif line[0] == " ":
            yield _row("same", (old, line[1:]), (new, line[1:]))
            old, new = old + 1, new + 1


def _change(
    removed: Sequence[str],
    added: Sequence[str],
    old: int,
    new: int,
    known: Mapping[int, Sequence[Mapping[str, str]]],
) -> Iterator[dict[str, Any]]:
    """Lines that went beside those that came, and below them what is known of the rewrites."""
    for index in range(max(len(removed), len(added))):
        left = (old + index, removed[index]) if index < len(removed) else None
        right = (new + index, added[index]) if index < len(added) else None
        yield _row("change", left, right)
    for index in range(len(removed)):
        yield from ({"kind": "note", **note} for note in known.get(old + index, ()))


def _row(kind: str, left: tuple[int, str] | None, right: tuple[int, str] | None) -> dict[str, Any]:
    return {"kind": kind, "left": left, "right": right}
