"""The command to type after a scan."""

from __future__ import annotations

import shlex

from portkit import coverage
from portkit.engine import ScanResult
from portkit.finding import Support


def command(result: ScanResult) -> str:
    """The next command; empty where nothing is to be migrated."""
    paths = " ".join(shlex.quote(path) for path in result.paths)
    found = [item for item in result.findings if coverage.is_dependency(item)]
    waiting = [item for item in found if item.support is not Support.PORTABLE]
    if not waiting:
        return ""
    rewritable = [item.phase for item in waiting if item.support in (Support.AUTO, Support.REVIEW)]
    if not rewritable:
        return f"portkit scan {paths} --verbose"
    phase = min(rewritable, key=lambda item: item.rank)
    return f"portkit migrate {paths} --phase {phase.value}"
