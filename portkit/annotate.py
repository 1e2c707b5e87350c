"""Comments at the sites that are left to a person: what to do there, above the statement, once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from portkit.anchors import comment_sign, lines_of, starts
from portkit.applying import notebook
from portkit.applying.quiet import quietly
from portkit.cells import neutralise
from portkit.errors import ApplyError
from portkit.finding import Finding
from portkit.layers import Layer, Patch
from portkit.source import Kind, Source

_OURS = re.compile(r"\s*(?:#|//) portkit: ([A-Z]+\d+) ")
_COOKIE = re.compile(r"[ \t\f]*#.*?coding[:=]")  # within the first two lines it names the encoding

Check = Callable[[str], Sequence[Finding]]


@dataclass(frozen=True)
class Annotated:
    """A file with comments."""

    text: str
    layers: tuple[Layer, ...] = ()  # patches name comments by index in `done`
    done: tuple[Finding, ...] = ()  # a finding for each comment


def annotate(source: Source, findings: Iterable[Finding], check: Check, first: int = 0) -> Annotated:
    """Put a comment above each finding that has none yet; comments are numbered from `first`.

    `check` gives the findings of a changed text: comments that would be findings themselves are left out.
    A kind of file without comments (JSON) stays as it is.
    """
    by_unit: dict[int, list[Finding]] = {}
    if source.path.endswith(".lock"):  # written by a tool, which would drop them
        return Annotated(source.text)
    for finding in findings:
        if source.kind is Kind.NOTEBOOK and finding.location.cell is None:
            continue  # about the notebook itself
        by_unit.setdefault(finding.location.cell or 0, []).append(finding)
    done: list[Finding] = []
    layers: list[Layer] = []
    units = {}
    for number, found in sorted(by_unit.items()):
        made = _unit(source, number, sorted(found, key=lambda item: item.sort_key), first + len(done))
        if made is not None:
            layer, commented = made
            done += commented
            layers.append(layer)
            units[number] = layer.apply(source.units[number].text)
    if not units:
        return Annotated(source.text)
    try:
        text = notebook.write(source.text, units) if source.kind is Kind.NOTEBOOK else units[0]
    except ApplyError:
        return Annotated(source.text)
    if source.kind not in (Kind.PYTHON, Kind.NOTEBOOK) and not _same(check(source.text), check(text)):
        return Annotated(source.text)
    return Annotated(text, tuple(layers), tuple(done))


def _same(before: Sequence[Finding], after: Sequence[Finding]) -> bool:
    """Whether two texts have the same findings, on whatever lines."""
    counts = [Counter((item.rule, item.message) for item in found) for found in (before, after)]
    return counts[0] == counts[1]


def _unit(
    source: Source, number: int, findings: Sequence[Finding], first: int
) -> tuple[Layer, list[Finding]] | None:
    """The comments of one file or cell, or None if there are none to add."""
    text = source.units[number].text
    python = neutralise(text) if source.kind is Kind.NOTEBOOK else text
    if python is None:
        return None
    lines = lines_of(text)
    places = starts(python, source.kind, source.path)
    cell = number if source.kind is Kind.NOTEBOOK else None
    wanted: dict[int, list[Finding]] = {}
    for finding in findings:
        row = finding.location.line - 1
        place = places[row] if row < len(places) else None
        if place is not None and not _has_comment(lines, place, finding.rule):
            others = wanted.setdefault(place, [])
            if all((item.rule, item.remedy) != (finding.rule, finding.remedy) for item in others):
                others.append(finding)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    patches: list[Patch] = []
    done: list[Finding] = []
    for place, found in sorted(wanted.items()):
        for finding in found:
            comment = _comment(source, finding, lines, place)
            patches.append(Patch(offsets[place], offsets[place], comment, first + len(done)))
            done.append(replace(finding, edits=()))
    if not _are_harmless(text, python, patches, source.kind):
        kept = [k for k, patch in enumerate(patches) if _are_harmless(text, python, [patch], source.kind)]
        patches = [replace(patches[k], edit=first + number) for number, k in enumerate(kept)]
        done = [done[k] for k in kept]
    return (Layer(tuple(patches), cell=cell), done) if done else None


def _has_comment(lines: Sequence[str], place: int, rule: str) -> bool:
    """Whether the comments right above a line have one of ours for this rule."""
    for line in reversed(lines[:place]):
        match = _OURS.match(line)
        if match is None:
            return False
        if match[1] == rule:
            return True
    return False


def _comment(source: Source, finding: Finding, lines: Sequence[str], place: int) -> str:
    line = lines[place]
    indent = line[: len(line) - len(line.lstrip(" \t\f"))]
    end = line[len(line.rstrip("\r\n")) :] or source.newline
    text = f"{comment_sign(source.kind)} portkit: {finding.rule} {' '.join(finding.remedy.split())}"
    text = text.rstrip("\\ ")  # else it would go on in the next line
    return f"{indent}{_held(text, source.encoding)}{end}"


def _held(text: str, encoding: str) -> str:
    """The text as far as an encoding can hold it."""
    return text.encode(encoding, "replace").decode(encoding)


def _are_harmless(text: str, python: str, patches: Sequence[Patch], kind: Kind) -> bool:
    """Whether the program stays the same with some comments more."""
    if kind not in (Kind.PYTHON, Kind.NOTEBOOK):
        return True
    new = Layer(tuple(patches)).apply(text)
    if kind is Kind.NOTEBOOK:
        if text.lstrip().startswith("%%") and not new.lstrip().startswith("%%"):
            return False  # a cell magic stays first
        changed = neutralise(new)
        return changed is not None and _dump(python) == _dump(changed)
    cookies = [[_COOKIE.match(line) is not None for line in lines_of(one)[:2]] for one in (text, new)]
    return any(cookies[0]) == any(cookies[1]) and _dump(python) == _dump(new)


def _dump(python: str) -> str | None:
    try:
        with quietly():
            return ast.dump(ast.parse(python))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
