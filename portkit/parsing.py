"""Python text → syntax tree, or a sentence that tells a person why there is none."""

from __future__ import annotations

import ast
import re
import sys
import warnings

_MERGE = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
_TEMPLATE = re.compile(r"\{%.*?%\}|\{\{.*?\}\}")
_ASYNC = re.compile(r"[(,]\s*async\s*=")
_PRINT = re.compile(r"^\s*(?:print\s+[^\s=(]|print\s*$|print\s*>>|exec\s+[\"'\w])")
_OLD = (
    (_PRINT, "a print statement"),
    (re.compile(r"^\s*except\s+[\w.()\s,]+,\s*\w+\s*:"), "`except X, e:`"),
    (re.compile(r"^\s*raise\s+[\w.]+\s*,"), "`raise X, message`"),
    (re.compile(r"<>"), "`<>`"),
    (re.compile(r"\bur['\"]"), 'a ur"" string'),
    (re.compile(r"(?<![\w.])0[0-7]+[lL]?(?![\w.])|\b\d+[lL]\b"), "an old integer literal"),
    (re.compile(r"`[^`]+`"), "backticks"),
    (re.compile(r"^\s*def\s+\w+\(.*\([\w\s,]+\).*\)\s*:"), "a tuple parameter"),
)


class NotPython(Exception):
    """Text that `ast` does not take; `reason` is for people, positions count from 1."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


def parse(text: str) -> ast.Module:
    """The syntax tree of a module.  Raises NotPython with the reason and the place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in the user's code are no concern of ours
        try:
            return ast.parse(text)
        except SyntaxError as error:
            raise NotPython(_reason(text, error), error.lineno, error.offset) from None
        except ValueError as error:
            raise NotPython(str(error)) from None
        except (RecursionError, MemoryError):
            raise NotPython("is nested too deeply to be parsed") from None


def _reason(text: str, error: SyntaxError) -> str:
    lines = re.split(r"\r\n|\r|\n", text)
    number = error.lineno or 1
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    if _MERGE.search(text) is not None and any(_MERGE.match(item) for item in lines):
        return "holds merge conflict markers: settle the conflict first"
    if "too many nested" in error.msg:
        return "is nested too deeply to be parsed"
    if isinstance(error, TabError):
        return "mixes tabs and spaces in its indentation"
    near = "\n".join(lines[max(0, number - 2) : number + 1])
    if _ASYNC.search(line) or _ASYNC.search(near):
        return "uses `async=`, a keyword since Python 3.7: write `non_blocking=`"
    old = _python_two(lines, line, error.msg)
    if old:
        return f"is Python 2 ({old}): convert it to Python 3 first"
    if _TEMPLATE.search(line):
        return "is a template, not Python: a placeholder stands where code must"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"is not valid Python {version}: {error.msg}"


def _python_two(lines: list[str], line: str, message: str) -> str:
    if "Missing parentheses in call to 'print'" in message:
        return "a print statement"
    if "Missing parentheses in call to 'exec'" in message:
        return "an exec statement"
    for pattern, name in _OLD:
        if pattern.search(line):
            return name
    if "multiple exception types must be parenthesized" in message:
        return "`except X, e:`"
    if any(_PRINT.match(item) for item in lines) and "print" in message:
        return "a print statement"
    return ""
