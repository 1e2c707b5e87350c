"""Changing the source of notebook cells inside the JSON text, every other byte as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from portkit.errors import ApplyError

_SPACE = re.compile(r"[ \t\r\n]*")
_CHARACTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)
_DECODER = json.JSONDecoder()
_SOURCE_KEYS = ("source", "input")  # the second one is that of notebooks before version 4


@dataclass(frozen=True)
class CellSource:
    """Where the source of one code cell stands in the JSON text."""

    start: int
    end: int
    text: str


def sources(text: str) -> list[CellSource | None]:
    """The sources of the code cells, in order; None for a cell without one.  Raises ApplyError."""
    try:
        return list(_sources(text))
    except (ValueError, IndexError, RecursionError):
        raise ApplyError("the notebook is not valid JSON") from None


def write(text: str, changed: Mapping[int, str]) -> str:
    """The JSON text with the source of some code cells (by index) changed.

    Lines that stay keep their spelling, escapes included; the form, a string or a list of lines, stays too.
    Raises ApplyError where the result would differ anywhere else.
    """
    cells = sources(text)
    out = text
    for index in sorted(changed, reverse=True):
        cell = cells[index]
        if cell is None:
            raise ApplyError(f"cell {index} has no source")
        raw = text[cell.start : cell.end]
        ascii_only = text.isascii()
        compact = '": ' not in text
        new = (
            _list(raw, changed[index], ascii_only, compact)
            if raw[0] == "["
            else _string(raw, changed[index], ascii_only)
        )
        out = out[: cell.start] + new + out[cell.end :]
    _check(text, out, changed)
    return out


def _check(text: str, new: str, changed: Mapping[int, str]) -> None:
    """Check that nothing but the sources differs, and that they are what was asked."""
    before, after = json.loads(text), json.loads(new)
    found = [cell.text if cell is not None else None for cell in sources(new)]
    if any(found[index] != wanted for index, wanted in changed.items()):
        raise ApplyError("the cell's source can't be written back exactly")
    for notebook in (before, after):
        for index, cell in enumerate(_code_cells(notebook)):
            if index in changed:
                cell[_key(cell)] = ""
    if before != after:
        raise ApplyError("the rewrite would change more of the notebook than the cell's source")


def _code_cells(notebook: dict[str, object]) -> list[dict[str, object]]:
    holder = notebook
    worksheets = notebook.get("worksheets")
    if "cells" not in notebook and isinstance(worksheets, list):
        holder = worksheets[0]
    cells = holder["cells"]
    assert isinstance(cells, list)
    return [cell for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code"]


def _key(cell: Mapping[str, object]) -> str:
    return "source" if "source" in cell else "input"


# --- positions in the JSON text -----------------------------------------------------------------


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Keys of the object at `at`, with start and end of their values."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        yield key, start, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _elements(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Start and end of the elements of the array at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _cells_at(text: str) -> int:
    """Where the list of cells starts.  The last of equal keys counts, as it does for `json`."""
    top = {key: start for key, start, _ in _members(text, _skip(text, 0))}
    if "cells" in top or "worksheets" not in top:
        return top.get("cells", len(text))
    first = next(_elements(text, top["worksheets"]))[0]
    return {key: start for key, start, _ in _members(text, first)}.get("cells", len(text))


def _sources(text: str) -> Iterator[CellSource | None]:
    for start, _ in _elements(text, _cells_at(text)):
        if text[start] != "{":
            continue
        members = {key: (first, last) for key, first, last in _members(text, start)}
        kind = members.get("cell_type")
        if kind is None or json.loads(text[kind[0] : kind[1]]) != "code":
            continue
        span = next((members[key] for key in _SOURCE_KEYS if key in members), None)
        yield _cell_source(text, span) if span is not None else None


def _cell_source(text: str, span: tuple[int, int]) -> CellSource | None:
    value = json.loads(text[span[0] : span[1]])
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return CellSource(*span, "".join(value))
    return CellSource(*span, value) if isinstance(value, str) else None


def line_numbers(text: str) -> list[list[int]]:
    """For each code cell: the line of the JSON text (from 1) on which each line of its source begins.

    Raises ApplyError for what is no notebook.
    """
    return [_cell_lines(text, cell) if cell is not None else [] for cell in sources(text)]


def _cell_lines(text: str, cell: CellSource) -> list[int]:
    raw = text[cell.start : cell.end]
    first = text.count("\n", 0, cell.start) + 1
    spans = list(_elements(raw, 0)) if raw[0] == "[" else [(0, len(raw))]
    numbers: list[int] = []
    whole = True  # whether the last line so far has its end
    for start, end in spans:
        lines = _lines(json.loads(raw[start:end], strict=False))
        numbers += [first + raw.count("\n", 0, start)] * (len(lines) if whole else len(lines) - 1)
        whole = not lines or lines[-1].endswith("\n")
    return numbers


# --- writing --------------------------------------------------------------------------------------


def _lines(text: str) -> list[str]:
    """Lines with their line feeds, the way notebooks split them."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _merged(old: Sequence[tuple[str, str]], new: str, ascii_only: bool) -> list[str]:
    """JSON spellings (without quotes) of the lines of `new`: those of `old` for lines that stay."""
    lines = _lines(new)
    spelled: list[str] = []
    matcher = SequenceMatcher(None, [line for line, _ in old], lines, autojunk=False)
    for tag, old_start, old_end, start, end in matcher.get_opcodes():
        if tag == "equal":
            spelled += [raw for _, raw in old[old_start:old_end]]
        else:
            spelled += [json.dumps(line, ensure_ascii=ascii_only)[1:-1] for line in lines[start:end]]
    return spelled


def _string(raw: str, new: str, ascii_only: bool) -> str:
    old: list[tuple[str, str]] = []
    line = ""
    for match in _CHARACTER.finditer(raw[1:-1]):
        line += match.group()
        if json.loads(f'"{match.group()}"', strict=False) == "\n":
            old.append((json.loads(f'"{line}"', strict=False), line))
            line = ""
    if line:
        old.append((json.loads(f'"{line}"', strict=False), line))
    return f'"{"".join(_merged(old, new, ascii_only))}"'


def _list(raw: str, new: str, ascii_only: bool, compact: bool) -> str:
    spans = list(_elements(raw, 0))
    if not spans:
        return json.dumps(_lines(new), ensure_ascii=ascii_only)
    old = [(json.loads(raw[start:end]), raw[start + 1 : end - 1]) for start, end in spans]
    lead = raw[1 : spans[0][0]]
    tail = raw[spans[-1][1] : -1]
    gap = raw[spans[0][1] : spans[1][0]] if len(spans) > 1 else f",{lead or ('' if compact else ' ')}"
    return f"[{lead}{gap.join(f'{chr(34)}{line}{chr(34)}' for line in _merged(old, new, ascii_only))}{tail}]"
