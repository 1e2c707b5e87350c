"""Seconds, lines a second and peak memory of `portkit scan`: cold and warm, on one core and on two.

Usage: scan.py [PATH...] [--runs N] [--rivals VENV]

PATHs are folders of sources, such as packages from the registry that were unpacked (default: the standard
library and what is installed beside it).  Every run is a new process, its start included; runs of all kinds
take turns, and the median counts.  `--rivals`: a virtual environment with PaConvert and TorchFix.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

import portkit

_PACKAGES = ("numpy", "mypy", "sympy", "rich", "jinja2")


@dataclass
class Kind:
    """One way to run a program, and what its runs took."""

    name: str
    command: list[str]
    cold: bool = False  # starts with an empty cache
    seconds: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # peak of all its processes together, in bytes
    error: str = ""


def trees() -> list[Path]:
    """What there is on any machine where portkit is installed."""
    installed = Path(sysconfig.get_path("purelib"))
    return [
        item
        for item in (Path(sysconfig.get_path("stdlib")), *map(installed.joinpath, _PACKAGES))
        if item.is_dir()
    ]


def resident(pid: int) -> int:
    """Bytes of memory of a process and its children; shared pages count for their share (Linux only)."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(resident(int(child)) for child in (task / "children").read_text().split())
    except (OSError, ValueError):
        pass
    return total


def run(kind: Kind, cache: Path) -> None:
    """One run in a new process."""
    if kind.cold:
        shutil.rmtree(cache, ignore_errors=True)
    peak, done = [0], threading.Event()
    start = time.perf_counter()
    process = subprocess.Popen(
        kind.command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PORTKIT_CACHE_DIR": str(cache)},
    )

    def watch() -> None:
        while not done.wait(0.1):
            peak[0] = max(peak[0], resident(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, error = process.communicate()
    kind.seconds.append(time.perf_counter() - start)
    done.set()
    watcher.join()
    kind.memory.append(peak[0])
    if process.returncode != 0:
        kind.error = error.decode(errors="replace").strip().splitlines()[-1][:80] if error else "failed"


def kinds(paths: list[str], rivals: Path | None, out: Path) -> list[Kind]:
    """What is measured, in the order in which it takes turns."""
    scan = [sys.executable, "-m", "portkit", "scan", *paths, "--format", "json"]
    found = [Kind("portkit, cold, 2 cores", [*scan, "--jobs", "2"], cold=True)]
    found.append(Kind("portkit, warm", [*scan, "--jobs", "2"]))
    found.append(Kind("portkit, cold, 1 core", [*scan, "--jobs", "1"], cold=True))
    if rivals is not None:
        torchfix = rivals / "bin" / "torchfix"
        paconvert = rivals / "bin" / "paconvert"
        if torchfix.exists():
            found.append(Kind("TorchFix", [str(torchfix), "--select=ALL", *paths]))
        if paconvert.exists():
            for path in paths:
                name = f"PaConvert, {Path(path).name}"
                found.append(
                    Kind(name, [str(paconvert), "--in_dir", path, "--out_dir", str(out / Path(path).name)])
                )
    return found


def scope(paths: list[str]) -> dict[str, int]:
    """Files and lines that are looked at."""
    command = [sys.executable, "-m", "portkit", "scan", *paths, "--format", "json", "--no-cache"]
    data = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {"files": data["scope"]["files"], "lines": data["scope"]["lines"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rivals", type=Path)
    options = parser.parse_args()
    paths = [str(path) for path in options.paths or trees()]
    size = scope(paths)
    with tempfile.TemporaryDirectory() as folder:
        measured = kinds(paths, options.rivals, Path(folder) / "out")
        for _ in range(options.runs):
            for kind in measured:
                run(kind, Path(folder) / "cache")
    console = Console(width=110)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    console.print(
        f"portkit {portkit.__version__}, Python {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores, load {load:.1f}; {size['files']:,} files, {size['lines']:,} lines"
    )
    table = Table("run", "seconds", "lines/s", "peak memory", "", box=None)
    for kind in measured:
        seconds, memory = statistics.median(kind.seconds), statistics.median(kind.memory)
        table.add_row(
            kind.name,
            f"{seconds:.2f}",
            f"{size['lines'] / seconds:,.0f}",
            f"{memory / 1e6:,.0f} MB",
            kind.error,
        )
    console.print(table)


if __name__ == "__main__":
    main()
