"""Code cells of a notebook, with IPython's own syntax made harmless for `ast` without moving a character."""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import dataclass

_LINE_MAGIC = re.compile(r"^(\s*)([%!?].*|[\w.]+\?{1,2})\s*$")
_INLINE_PYTHON = re.compile(
    r"^(\s*)(%{1,2}(?:time|timeit|prun|memit|mprun|lprun)(?:\s+-\S+(?:\s+\d+\b)?)*\s+)(\S.*)$"
)
_ASSIGNED = re.compile(r"^(\s*[\w, .\[\]'\"]+=\s*)([!%].*)$")
_PYTHON_CELLS = frozenset({"time", "timeit", "capture", "prun", "memit", "python", "python3", "px"})


@dataclass(frozen=True)
class Unit:
    """One piece of code with names of its own place in the report: a whole file, or a cell."""

    text: str  # as the user wrote it
    python: str | None  # same length, fit for `ast`; None where the cell is not Python at all
    cell: int | None = None  # index among the code cells, from 0


class CellError(Exception):
    """A notebook that is not one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def split_notebook(text: str) -> tuple[Unit, ...]:
    """The code cells of a notebook's JSON.  Raises CellError with the reason."""
    try:
        notebook = json.loads(text)
    except json.JSONDecodeError as error:
        raise CellError(f"is not valid JSON: {error.msg.lower()}", error.lineno) from None
    except RecursionError:
        raise CellError("its JSON is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise CellError(f"is not valid JSON: {str(error).partition(';')[0].lower()}") from None
    if not isinstance(notebook, dict):
        raise CellError("is not a notebook: the JSON holds no object")
    cells = notebook.get("cells")
    sheets = notebook.get("worksheets")
    if cells is None and isinstance(sheets, list) and sheets and isinstance(sheets[0], dict):
        cells = sheets[0].get("cells")
    if not isinstance(cells, list):
        raise CellError("is not a notebook: it has no cells")
    python = _is_python(notebook.get("metadata"))
    sources = [
        _cell_text(cell) for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code"
    ]
    return tuple(
        Unit(source, neutralise(source) if python else None, index) for index, source in enumerate(sources)
    )


def asks_for_accelerator(text: str) -> bool:
    """Whether a notebook's JSON may say on what kind of machine it wants to run."""
    return any(word in text for word in ('"accelerator"', '"gpuClass"', '"gpuType"', '"isGpuEnabled"'))


def _is_python(metadata: object) -> bool:
    if not isinstance(metadata, dict):
        return True
    for holder, key in (("kernelspec", "language"), ("language_info", "name")):
        part = metadata.get(holder)
        language = part.get(key) if isinstance(part, dict) else None
        if isinstance(language, str):
            return language.lower() in ("python", "ipython", "python3")
    return True


def _cell_text(cell: dict[str, object]) -> str:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        return "".join(str(line) for line in source)
    return source if isinstance(source, str) else ""


def neutralise(text: str) -> str | None:
    """The cell as Python of the same length: magics, shell lines and help requests become harmless.

    None where the whole cell is in another language (`%%bash`).
    """
    first = text.lstrip("\n\r \t")
    if first.startswith("%%"):
        word = re.match(r"%%(\w+)", first)
        if word is None or word[1] not in _PYTHON_CELLS:
            return None
    elif _parses(text):
        return text
    lines = text.splitlines(keepends=True)
    result = []
    continued = False
    for line in lines:
        body = line.rstrip("\r\n")
        ending = line[len(body) :]
        if continued:
            continued = body.endswith("\\")
            body = _comment(body)
        else:
            changed = _neutral_line(body)
            continued = changed != body and body.endswith("\\")
            body = changed
        result.append(body + ending)
    return "".join(result)


def _parses(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _neutral_line(line: str) -> str:
    inline = _INLINE_PYTHON.match(line)
    if inline is not None and not inline[2].startswith("%%"):
        return inline[1] + "0;".ljust(len(inline[2])) + inline[3]
    magic = _LINE_MAGIC.match(line)
    if magic is not None:
        rest = line[len(magic[1]) :]
        return magic[1] + "0" + "#" * (len(rest) - 1)
    assigned = _ASSIGNED.match(line)
    if assigned is not None:
        return assigned[1] + "0" + "#" * (len(assigned[2]) - 1)
    return line


def _comment(line: str) -> str:
    body = line.lstrip()
    return line[: len(line) - len(body)] + "#" * len(body)
