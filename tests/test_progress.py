"""The progress bar: on a terminal only, and gone when all is done."""

from __future__ import annotations

import io
import sys

import pytest

from portkit import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nobody_in_front_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress.bar() is None


def test_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    show = progress.bar()
    assert show is not None
    for done in range(1001):
        show(done, 1000)
    written = screen.getvalue().split("\r\x1b[K")
    assert "[############............] 500/1000 files" in written
    assert written[-1] == ""
    assert len(written) < 110  # not once a file
