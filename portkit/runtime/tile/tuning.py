"""Results of tuning on disk: found by the kernel, its configurations, the key and the machine."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from portkit.runtime.targets import host
from portkit.runtime.tile import cache, threads
from portkit.runtime.tile.jit import JitFunction
from portkit.runtime.tile.language._base import constexpr

MOST_FILES = 4096
_PLAIN = (bool, int, float, str, bytes, type(None))


def wanted(asked: bool) -> bool:
    """Whether results are kept: where the decorator asks for it, or TRITON_CACHE_AUTOTUNING, or a knob."""
    knobs = sys.modules.get("portkit.runtime.triton.knobs")
    if asked or (knobs is not None and knobs.autotuning.cache):
        return True
    return os.environ.get("TRITON_CACHE_AUTOTUNING", "") not in ("", "0")


def key_of(kernel: JitFunction, configs: Sequence[Any], key: Sequence[Any]) -> str:
    """What a result depends on, as one hash."""
    target = host()
    team = threads.current()
    machine = target.triple, target.cpu, target.features, team.kind, str(team.size())
    return cache.key_of("tuning", *_sources(kernel), *map(str, configs), repr(key), *machine)


def _sources(kernel: JitFunction) -> list[str]:
    """The text of a kernel, of all that it calls, and the constants that they use."""
    found: list[str] = []
    seen: set[int] = set()
    todo: list[Any] = [kernel]
    while todo:
        function = todo.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        found.append(function.source)
        for name in sorted(function.fn.__code__.co_names):
            value = function.fn.__globals__.get(name)
            value = value.value if isinstance(value, constexpr) else value
            if isinstance(value, JitFunction):
                todo.append(value)
            elif isinstance(value, _PLAIN):
                found.append(f"{name}={value!r}")
    return found


def get(key: str, count: int) -> tuple[int, list[Any]] | None:
    """The number of the best of `count` configurations and the timings of all, if they are known."""
    path = _path(key)
    if path is None:
        return None
    try:
        facts = json.loads(path.read_bytes())
        best, timings = facts["best"], facts["timings"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    right = facts.get("key") == key and isinstance(best, int) and 0 <= best < count
    if not right or not isinstance(timings, list) or len(timings) != count:
        return None
    return best, timings


def put(key: str, best: int, timings: Sequence[Any]) -> None:
    """Keep a result; where the folder can't be written, nothing is kept."""
    path = _path(key)
    if path is None or cache.default_limit() == 0:
        return
    data = json.dumps({"key": key, "best": best, "timings": list(timings)}).encode()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        cache.write(path.parent, path.name, data)
        _prune(path.parent)


def _path(key: str) -> Path | None:
    folder = cache.default_folder()
    return None if folder is None else folder / f"{key}{cache.TUNING_SUFFIX}"


def _prune(folder: Path) -> None:
    files = sorted(folder.glob(f"*{cache.TUNING_SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in files[:-MOST_FILES]:
        path.unlink(missing_ok=True)
