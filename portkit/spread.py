"""Doing the same to many things, in several processes where that is worth it, in the order given."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_ENOUGH = 24  # things from which on more processes are worth their start
_MOST = 8  # processes


def spread(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """The results of `work` for all items, in order; `progress` is told how many of them are there.

    `work`, items and results must be picklable.  `jobs` is the number of processes; None: as many as there
    are cores, at most 8, and only if there are items enough.
    """
    count = jobs or (min(_MOST, cores()) if len(items) >= _ENOUGH else 1)
    if count < 2 or len(items) < 2:
        return _counted(map(work, items), len(items), progress)
    # fork is quick, and safe only while this process has a single thread
    fork = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if fork else "spawn")
    try:
        pool = ProcessPoolExecutor(min(count, len(items)), context)
    except (OSError, NotImplementedError, ImportError):  # a machine without semaphores
        return _counted(map(work, items), len(items), progress)
    with pool:
        return _counted(pool.map(work, items), len(items), progress)


def _counted(
    results: Iterable[Result], total: int, progress: Callable[[int, int], None] | None
) -> list[Result]:
    found = []
    for result in results:
        found.append(result)
        if progress is not None:
            progress(len(found), total)
    return found


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
