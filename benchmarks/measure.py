"""Timing candidates against each other in one process: in random order, in rounds, by medians."""

from __future__ import annotations

import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

Candidate = Callable[[], object]


def interleaved(
    candidates: Mapping[str, Candidate], rounds: int = 31, shortest: float = 0.004, threads: int = 0
) -> dict[str, list[float]]:
    """Seconds per call of each candidate in each round.

    In a round each candidate is called for at least `shortest` seconds, in an order that is drawn anew.  With
    one thread, processor time is measured, so that other work on the machine hardly counts.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    repeats = {}
    for name, candidate in candidates.items():
        candidate()
        start = clock()
        candidate()
        once = max(clock() - start, 1e-8)
        repeats[name] = max(1, round(shortest / once))
    draw = random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name in draw.sample(list(candidates), len(candidates)):
            candidate, count = candidates[name], repeats[name]
            start = clock()
            for _ in range(count):
                candidate()
            times[name].append((clock() - start) / count)
    return times


def ratio(times: Mapping[str, list[float]], of: str, to: str) -> float:
    """How many times faster `to` is than `of`: the median over rounds."""
    return statistics.median(a / b for a, b in zip(times[of], times[to], strict=True))


def microseconds(seconds: list[float]) -> float:
    """The median, in microseconds."""
    return statistics.median(seconds) * 1e6


def machine(threads: int) -> str:
    """One line that says what was measured on what."""
    import portkit
    from portkit.runtime import devices
    from portkit.runtime.targets import _llvm, host

    parts = [
        f"portkit {portkit.__version__}",
        _llvm.versions(),
        f"numpy {np.__version__}",
        f"Python {platform.python_version()}",
        f"{devices.processor_name()} ({host().cpu}, {host().vector_bits}-bit vectors)",
        f"{threads} of {os.cpu_count()} processors",
    ]
    try:
        import torch
    except ModuleNotFoundError:
        return "; ".join(parts)
    return "; ".join([f"torch {torch.__version__}", *parts])
