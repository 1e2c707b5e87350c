"""The command to type after a scan."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from portkit import coverage
from portkit.engine import ScanResult
from portkit.finding import Support


def command(result: ScanResult) -> str:
    """The next command; empty where nothing is to be migrated."""
    path = _one_path([path for path in result.paths if path != "-"])
    found = [item for item in result.findings if coverage.is_dependency(item)]
    waiting = [item for item in found if item.support is not Support.PORTABLE]
    if not waiting:
        return ""
    rewritable = [item.phase for item in waiting if item.support in (Support.AUTO, Support.REVIEW)]
    if not rewritable or not path:
        paths = " ".join(shlex.quote(path) for path in result.paths)
        return f"portkit scan {paths} --verbose"
    phase = min(rewritable, key=lambda item: item.rank)
    return f"portkit migrate {shlex.quote(path)} --phase {phase.value}"


def _one_path(paths: Sequence[str]) -> str:
    """The path, or the folder that holds all of them, since a migration is of one; empty without any."""
    if len(paths) < 2:
        return "".join(paths)
    return os.path.relpath(os.path.commonpath([os.path.abspath(path) for path in paths]))
