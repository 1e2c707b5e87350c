"""Lines a second of `portkit scan`, cold and on one core, over trees that have little to do with CUDA.

Usage: scan.py [PATH...] [--runs N]    (default: the standard library, and packages beside it)

Each run is a new process, its start included.  The best of N runs counts; the goal is 20,000 lines a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

GOAL = 20_000  # lines a second
_PACKAGES = ("numpy", "mypy", "sympy", "rich", "jinja2")


def trees() -> list[Path]:
    """What there is on any machine where portkit is installed."""
    installed = Path(sysconfig.get_path("purelib"))
    found = [installed / name for name in _PACKAGES if (installed / name).is_dir()]
    return [Path(sysconfig.get_path("stdlib")), *found]


def once(tree: Path) -> tuple[float, dict[str, object]]:
    """Seconds and scope of one scan in a new process."""
    command = [sys.executable, "-m", "portkit", "scan", str(tree), "--jobs", "1", "--format", "json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    data = json.loads(done.stdout)
    return seconds, {**data["scope"], "findings": len(data["findings"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    table = Table("tree", "files", "lines", "findings", "seconds", "lines/s", f"of {GOAL:,}/s", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for tree in options.paths or trees():
        runs = [once(tree) for _ in range(options.runs)]
        seconds, scope = min(runs, key=lambda run: run[0])
        speed = int(str(scope["lines"])) / seconds
        row = (str(tree.name), f"{scope['files']:,}", f"{scope['lines']:,}", f"{scope['findings']:,}")
        table.add_row(*row, f"{seconds:.2f}", f"{speed:,.0f}", f"{speed / GOAL:.1f} x")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
