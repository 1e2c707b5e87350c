"""Random kernels, compiled and interpreted: the results must agree.  Needs hypothesis.

    python scripts/fuzz_kernels.py --cases 10000 --processes 2

Each process tries its share; one that dies (a fault of the compiler that ends the process) leaves the kernel
it was at in the folder `--keep`.  A kernel that fails is made small and printed; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
LEVELS = ("", "-avx512f", "-avx512f,-avx2,-avx,-fma")  # of x86: the same kernels in other vector widths


def worker(cases: int, seed: int, keep: Path) -> int:
    """Try a number of kernels; gives the exit code."""
    from portkit.runtime.targets import host

    try:
        hypothesis: Any = importlib.import_module("hypothesis")
    except ModuleNotFoundError:
        print("hypothesis is not installed: pip install hypothesis", file=sys.stderr)
        return 2
    check: Any = importlib.import_module("kernel_check").check
    grammar: Any = importlib.import_module("kernel_grammar").Grammar
    last = keep / f"kernel-{seed}.py"

    def agrees(data: Any) -> None:
        def choose(n: int) -> int:
            return int(data.draw(hypothesis.strategies.integers(0, n - 1)))

        kernel = grammar(choose).build(2 + choose(8))
        target, off = host(), LEVELS[choose(len(LEVELS))] if host().name == "x86_64" else ""
        last.write_text(f"{kernel}\n# features: {off or 'of the host'}\n", encoding="utf-8")
        check(kernel, replace(target, features=f"{target.features},{off}") if off else target)

    settings = hypothesis.settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    try:
        hypothesis.seed(seed)(settings(hypothesis.given(hypothesis.strategies.data())(agrees)))()
    except BaseException as error:  # hypothesis raises the test's own error, or a group of them
        print(f"{last.read_text(encoding='utf-8')}\n{type(error).__name__}: {error}", flush=True)
        return 1
    last.unlink()
    return 0


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--share", type=int, default=500, help="cases of one process before the next one starts"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-kernels"))
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    if given.worker:
        return worker(given.cases, given.seed, given.keep)
    return _spread(given)


def _spread(given: argparse.Namespace) -> int:
    """Run the shares, a few at a time."""
    left = given.cases
    running: list[tuple[int, int, subprocess.Popen[bytes]]] = []
    failed = done = 0
    seed = given.seed
    while left > 0 or running:
        while left > 0 and len(running) < given.processes:
            share = min(given.share, left)
            command = [sys.executable, __file__, "--worker", "--cases", str(share), "--seed", str(seed)]
            running.append((seed, share, subprocess.Popen([*command, "--keep", str(given.keep)])))
            left, seed = left - share, seed + 1
        number, share, process = running.pop(0)
        code = process.wait()
        done += share
        failed += code != 0
        if code < 0:
            print(f"process {number} ended with signal {-code}: {given.keep / f'kernel-{number}.py'}")
        print(f"{done} of {given.cases} cases, {failed} shares failed", file=sys.stderr, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
