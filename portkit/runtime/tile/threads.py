"""The threads that a grid is spread over: torch's own where torch is loaded, a pool of ours otherwise.

Sharing torch's team matters: its threads spin for a while after each region, and a second team beside them
runs at half speed.  After a fork neither team exists in the child, which makes a new pool when it needs one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from portkit.errors import UsageError
from portkit.runtime.targets import host
from portkit.runtime.tile import load, team_ir

KINDS = ("openmp", "pool", "python")


class Team:
    """Threads for launches.

    `run(job)` runs a job (see `team_ir`); `pool` is the address to put in it; `limit` the most threads that a
    job may ask for; `torch` whether torch was loaded when the team was made.
    """

    def __init__(self, kind: str, run: Callable[[bytes], Any], limit: int, pool: int = 0) -> None:
        self.kind = kind
        self.run = run
        self.limit = limit
        self.pool = pool
        self.torch: Any = sys.modules.get("torch")
        self._fixed = chosen_threads()

    def size(self) -> int:
        """Threads for the next job: `PORTKIT_NUM_THREADS`, else torch's setting, else one per processor."""
        if self._fixed is not None or self.torch is None:
            return self.limit
        return max(1, min(self.limit, int(self.torch.get_num_threads())))


def chosen_threads() -> int | None:
    """`PORTKIT_NUM_THREADS`, or None when not set; raises UsageError when it is not a number above 0."""
    text = os.environ.get("PORTKIT_NUM_THREADS")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"PORTKIT_NUM_THREADS is {text!r}", remedy="Set it to a number of threads above 0.")
    return int(text)


def processors() -> int:
    """Number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def openmp_library() -> Any:
    """The OpenMP library that is loaded in this process and can start a team, or None (Linux only)."""
    paths: list[str] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
            path = line.partition("/")[1] + line.partition("/")[2]
            if (
                any(name in Path(path).name for name in ("libgomp", "libomp", "libiomp5"))
                and path not in paths
            ):
                paths.append(path)
    for path in sorted(paths, key=lambda p: "torch" not in p):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(path)
            if library.GOMP_parallel:
                return library
    return None


_CHOSEN: list[Team] = []
_LOCK = threading.Lock()
_FORKED = False


def current() -> Team:
    """The team to launch on now."""
    if _CHOSEN and (_CHOSEN[0].torch is not None or sys.modules.get("torch") is None):
        return _CHOSEN[0]
    with _LOCK:
        team = _choose()
        _CHOSEN[:] = [team]
    return team


def _choose() -> Team:
    wanted = os.environ.get("PORTKIT_THREADS", "")
    if wanted and wanted not in KINDS:
        raise UsageError(f"PORTKIT_THREADS is {wanted!r}", remedy=f"Kinds of threads are {', '.join(KINDS)}.")
    if wanted in ("", "openmp") and sys.modules.get("torch") and not _FORKED:
        library = openmp_library()
        if library is not None:
            return _openmp(library)
    if wanted != "python" and sys.platform == "linux":
        return _pool()
    return _python()


def _openmp(library: Any) -> Team:
    start = ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0
    run = _functions("openmp", ("portkit_run",), {"GOMP_parallel": start})["portkit_run"]
    return Team("openmp", _job_function(run), chosen_threads() or sys.maxsize)


@lru_cache(maxsize=1)
def _pool_functions() -> dict[str, int]:
    return _functions("pool", ("portkit_run", "portkit_start"))


def _pool() -> Team:
    """A team whose helpers are threads of the C library, that start at the first launch."""
    functions = _pool_functions()
    memory = ctypes.create_string_buffer(team_ir.POOL_BYTES + 64)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # helpers look at it until the process ends
    address = (ctypes.addressof(memory) + 63) // 64 * 64
    start = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(functions["portkit_start"])
    helpers = start(address, (chosen_threads() or processors()) - 1)
    return Team("pool", _job_function(functions["portkit_run"]), helpers + 1, address)


def _python() -> Team:
    """A team of Python threads, which let go of the interpreter's lock while a kernel runs."""
    functions = _functions("python", ("portkit_run", "portkit_work"))
    limit = chosen_threads() or processors()
    return Team("python", _PythonRun(functions, limit), limit)


class _PythonRun:
    """Runs a job on a `ThreadPoolExecutor`: the counters beside the job are laid out as in `team_ir`."""

    def __init__(self, functions: dict[str, int], limit: int) -> None:
        self.alone = _job_function(functions["portkit_run"])
        self.work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(functions["portkit_work"])
        self.executor = ThreadPoolExecutor(max(1, limit - 1), thread_name_prefix="portkit")

    def __call__(self, job: bytes) -> None:
        threads = int.from_bytes(job[24:32], sys.byteorder)
        if threads <= 1:
            self.alone(job)
            return
        block = (ctypes.c_int64 * 24)()
        kept = ctypes.c_char_p(job)
        block[0] = ctypes.cast(kept, ctypes.c_void_p).value or 0
        address = ctypes.addressof(block)
        futures = [self.executor.submit(self.work, address) for _ in range(threads - 1)]
        self.work(address)
        for future in futures:
            future.result()


def _job_function(address: int) -> Callable[[bytes], Any]:
    return ctypes.CFUNCTYPE(None, ctypes.c_char_p)(address)


def _functions(kind: str, names: tuple[str, ...], symbols: dict[str, int] | None = None) -> dict[str, int]:
    """The launcher of that kind, compiled or taken from the cache, and linked."""
    return load.cached(kind, team_ir.text(kind, host()), names, symbols)


def _after_fork() -> None:
    """In the child only the forking thread is left: no helpers, no OpenMP team, locks as they were."""
    global _FORKED, _LOCK
    _FORKED = True
    _LOCK = threading.Lock()
    _CHOSEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
