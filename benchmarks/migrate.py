"""Seconds and lines a second of `portkit migrate`, all phases, into a copy: on one core and on two.

Usage: migrate.py PATH... [--runs N]

PATHs are repositories.  Every run is a new process that writes a new copy, with nothing kept from before;
runs of both kinds take turns, and the median counts.  Processor time is of all processes together: it says
more than seconds where the machine has other work.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from portkit import config, engine


@dataclass
class Kind:
    """One number of processes, and what its runs took."""

    jobs: int
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def run(path: Path, kind: Kind) -> None:
    """One migration of a repository into a copy.  Raises CalledProcessError if it fails."""
    with tempfile.TemporaryDirectory() as scratch:
        copy, cache = Path(scratch, "copy"), Path(scratch, "cache")
        command = [sys.executable, "-m", "portkit", "migrate", str(path), "--phase", "full-model"]
        command += ["--output", str(copy), "--jobs", str(kind.jobs)]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        environment = {**os.environ, "PORTKIT_CACHE_DIR": str(cache)}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        kind.seconds.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        kind.processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of portkit migrate.")
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    table = Table(
        "repository", "lines", "processes", "seconds", "processor", "lines / s", "for 100,000 lines"
    )
    for path in given.paths:
        lines = engine.scan([path], config.load(path)).lines
        kinds = [Kind(1), Kind(2)]
        for _ in range(given.runs):
            for kind in kinds:
                run(path, kind)
        for kind in kinds:
            seconds = statistics.median(kind.seconds)
            table.add_row(
                path.name,
                f"{lines:,}",
                str(kind.jobs),
                f"{seconds:.1f}",
                f"{statistics.median(kind.processor):.1f}",
                f"{lines / seconds:,.0f}",
                f"{seconds / lines * 100_000:.1f} s",
            )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
