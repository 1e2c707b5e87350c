"""Errors that a person caused and can mend: one sentence, a place, a remedy, an exit code.

    PortkitError          the call is at fault (exit 2)
      UsageError          a wrong path, option or rule name
      ConfigError         [tool.portkit] or another file of settings is wrong
      ApplyError          a rewrite that cannot be carried out safely
      KernelError         a kernel uses what the tile compiler does not take
      CheckFailed         a gate or a check did not pass (exit 1)

Our own faults are not here: they stay exceptions, and end with exit code 3.
"""

from __future__ import annotations


class PortkitError(Exception):
    """A fault of the user's call or code.

    `message` says what is wrong in one sentence, `place` where (`file:line:column`), `remedy` what to do.
    """

    exit_code = 2

    def __init__(self, message: str, *, place: str = "", remedy: str = "", source: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.remedy = remedy
        self.source = source  # source line with a caret below it, already formatted

    def __str__(self) -> str:
        head = f"{self.place}: {self.message}" if self.place else self.message
        rows = [
            head,
            *([self.source] if self.source else []),
            *([self.remedy] if self.remedy else []),
        ]
        return "\n".join(rows)


class UsageError(PortkitError):
    """The command was called with something that does not exist or does not fit."""


class ConfigError(PortkitError):
    """A settings file holds something that portkit does not know."""


class ApplyError(PortkitError):
    """A rewrite can't be carried out without touching what it must not touch."""


class KernelError(PortkitError):
    """A tile kernel uses something that the compiler refuses, at the place named."""


class CheckFailed(PortkitError):
    """A gate, a parity check or `--check` did not pass."""

    exit_code = 1


def caret(line: str, column: int, end_column: int | None = None) -> str:
    """The source line with carets below columns [column, end_column), both counted from 1."""
    width = max(1, (end_column or column + 1) - column)
    pad = "".join(c if c == "\t" else " " for c in line[: column - 1])
    return f"    {line}\n    {pad}{'^' * min(width, max(1, len(line) - column + 1))}"
