"""The report as workflow commands of GitHub Actions: annotations beside the code of a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from portkit import coverage
from portkit.engine import ScanResult
from portkit.finding import Finding, Support
from portkit.reports import _compared, _places

# GitHub shows the first ten of a kind: what blocks comes first
_ORDER = (Support.MANUAL, Support.UNKNOWN, Support.REVIEW, Support.AUTO)
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(result: ScanResult, *, verbose: bool = False, colour: bool = False, width: int = 100) -> str:
    """One command a line, and a last line for the log; `verbose`, `colour` and `width` change nothing."""
    return "\n".join(_lines(result))


def _lines(result: ScanResult) -> Iterator[str]:
    known = result.baseline.known if result.baseline is not None else frozenset()
    shown = [item for item in result.findings if item.support in _ORDER and item.id not in known]
    for item in sorted(shown, key=lambda item: _ORDER.index(item.support)):
        yield _annotation(item, result)
    for bad in result.unparsed:
        place = {"file": bad.path, "line": bad.line, "col": bad.column}
        yield _command("warning", place, "portkit: not parsed", f"{bad.path} {bad.reason}.")
    counted = coverage.dependencies(result.findings)
    yield f"portkit: {counted.total} CUDA dependencies in {result.files} files, {counted.resolved} resolved"
    for line in _compared.lines(result):
        yield f"portkit: {line}"


def _annotation(item: Finding, result: ScanResult) -> str:
    where = item.location
    place: dict[str, object] = {"file": where.path if where.path != _places.STDIN else None}
    lines = _places.lines(where, result.root)
    if lines is not None:
        place |= {"line": lines[0], "endLine": lines[1]}
        if lines[0] == lines[1] and where.cell is None:  # columns of several lines are refused
            place |= {"col": where.column, "endColumn": where.end_column}
    title = f"{item.rule} ({item.phase.value}, {item.support.value})"
    return _command(_COMMANDS[_places.LEVELS[item.support]], place, title, _places.said(item))


def _command(name: str, place: Mapping[str, object], title: str, message: str) -> str:
    values = {**place, "title": title}
    properties = ",".join(f"{key}={_property(str(value))}" for key, value in values.items() if value)
    return f"::{name} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
