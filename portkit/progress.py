"""A progress bar on stderr, where somebody sits in front of it."""

from __future__ import annotations

import sys
from collections.abc import Callable

_WIDTH = 24
_CLEAR = "\r\x1b[K"


def bar(noun: str = "files") -> Callable[[int, int], None] | None:
    """What shows how many of how many are done, and goes when all are; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        return None
    shown = -1

    def show(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total if total else 100
        if percent == shown and done < total:
            return
        shown = percent
        filled = _WIDTH * done // total if total else _WIDTH
        text = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total} {noun}" if done < total else ""
        sys.stderr.write(f"{_CLEAR}{text}")
        sys.stderr.flush()

    return show
