"""A baseline: the findings that are known and tolerated for now, so that only new ones count.

The file has one line of JSON a finding, sorted, without line numbers: it changes only where findings come or
go, and two branches that change it merge line by line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from portkit import coverage
from portkit.engine import ScanResult
from portkit.errors import UsageError
from portkit.files import write_atomically
from portkit.finding import Finding, Support

_VERSION = 1
_HEAD = {"portkit_baseline": _VERSION}
_KEYS = {"path", "rule", "id"}
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")


@dataclass(frozen=True, order=True)
class Entry:
    """One known finding."""

    path: str  # from the root of the project, with forward slashes
    rule: str
    id: str
    places: int = 1  # that the finding stands for


@dataclass(frozen=True)
class Compared:
    """A scan beside its baseline."""

    file: Path
    entries: int
    known: frozenset[str]  # ids
    new: frozenset[str]
    gone: tuple[Entry, ...]  # in the baseline, and no longer found: they can be taken out of it


def counts(item: Finding) -> bool:
    """Whether a finding can be in a baseline: what is portable already needs no tolerance."""
    return coverage.is_dependency(item) and item.support is not Support.PORTABLE


def write(file: Path, findings: Iterable[Finding]) -> int:
    """Write the baseline that tolerates `findings`; returns how many entries it has.  Raises UsageError."""
    entries = sorted({_of(item) for item in findings if counts(item)})
    rows = [_HEAD, *(_row(item) for item in entries)]
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    write_atomically(file, text.encode("utf-8", "backslashreplace"))
    return len(entries)


def _of(item: Finding) -> Entry:
    return Entry(item.location.path, item.rule, item.id, item.occurrences)


def _row(item: Entry) -> dict[str, Any]:
    places = {"places": item.places} if item.places > 1 else {}
    return {"path": item.path, "rule": item.rule, "id": item.id} | places


def read(file: Path) -> list[Entry]:
    """The entries of a baseline.  Raises UsageError with the line that is wrong."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = "`portkit scan --write-baseline FILE` writes one."
        raise UsageError(f"The baseline cannot be read: {reason}.", place=str(file), remedy=remedy) from None
    except UnicodeDecodeError:
        raise UsageError("The baseline is not UTF-8.", place=str(file), remedy=_ANEW) from None
    if not lines or _parsed(file, 1, lines[0]) != _HEAD:
        raise UsageError(
            f"This is no baseline of version {_VERSION}: its first line must be {json.dumps(_HEAD)}.",
            place=f"{file}:1",
            remedy=_ANEW,
        )
    return [_entry(file, number, line) for number, line in enumerate(lines[1:], start=2) if line.strip()]


_ANEW = "Write it anew with `portkit scan --write-baseline FILE`."


def _entry(file: Path, number: int, line: str) -> Entry:
    row = _parsed(file, number, line)
    places = row.pop("places", 1) if isinstance(row, dict) else 0
    texts = isinstance(row, dict) and set(row) == _KEYS and all(isinstance(v, str) for v in row.values())
    if not texts or not isinstance(places, int) or places < 1:
        what = "An entry has exactly the texts path, rule and id, and perhaps a number of places."
        raise UsageError(what, place=f"{file}:{number}", remedy=_ANEW)
    return Entry(**row, places=places)


def _parsed(file: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        conflict = line.startswith(_CONFLICT)
        what = "A merge conflict is left here." if conflict else "This line is not JSON."
        remedy = "Keep the entries of both sides, and delete the marks." if conflict else _ANEW
        raise UsageError(what, place=f"{file}:{number}", remedy=remedy) from None


def compare(result: ScanResult, file: Path) -> Compared:
    """What of a scan is known, what is new, and what is gone.  Raises UsageError for a broken baseline.

    Entries of files, folders and rules that this scan did not look at, or could not parse, are not gone.
    """
    entries = read(file)
    ids: dict[str, int] = {}
    for entry in entries:
        ids[entry.id] = max(entry.places, ids.get(entry.id, 0))
    found = {item.id: item.occurrences for item in result.findings if counts(item)}
    known = frozenset(name for name, places in found.items() if places <= ids.get(name, 0))
    rules = {rule.id for rule in result.rules}
    unparsed = {item.path for item in result.unparsed}
    scanned = _scanned(result)
    gone = {
        entry
        for entry in entries
        if entry.id not in found
        and entry.rule in rules
        and entry.path not in unparsed
        and _is_below(entry.path, scanned)
    }
    return Compared(file, len(ids), known, frozenset(found) - known, tuple(sorted(gone)))


def _scanned(result: ScanResult) -> list[str]:
    """The paths that the user named, from the root."""
    root = os.path.abspath(result.root)
    paths = [os.path.abspath(path) for path in result.paths if path != "-"]
    return [Path(os.path.relpath(path, root)).as_posix() for path in paths]


def _is_below(path: str, folders: Sequence[str]) -> bool:
    places = {str(folder) for folder in (PurePosixPath(path), *PurePosixPath(path).parents)}  # "." is one
    return not places.isdisjoint(folders)
