"""Object code into this process: linked once, kept for the life of the process."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from portkit.runtime.targets import Target, _llvm, host
from portkit.runtime.tile import cache

_LOCK = threading.Lock()
_COUNT = itertools.count()
_LINKER: list[Any] = []


def link(code: bytes, names: Sequence[str], symbols: Mapping[str, int] | None = None) -> dict[str, int]:
    """Load object code for this machine; the addresses of its functions `names`.

    `symbols` gives addresses that the code needs and the dynamic linker would not find.
    """
    llvm = _llvm.binding()
    with _LOCK:
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol, address in (symbols or {}).items():
            builder.import_symbol(symbol, address)
        for name in names:
            builder.export_symbol(name)
        tracker = builder.link(_linker(llvm), f"portkit-{os.getpid()}-{next(_COUNT)}")
    _keep(tracker)
    return {name: int(tracker[name]) for name in names}


def _linker(llvm: Any) -> Any:
    if not _LINKER:
        # JITLink lays an object's sections out together: the older linker may map code and constants over
        # 2 GB apart in a big process, and then ends it
        made = llvm.create_lljit_compiler(_llvm.target_machine(host(), 3), use_jit_link=True)
        _keep(made)
        _LINKER.append(made)
    return _LINKER[0]


def _keep(thing: Any) -> None:
    """Never free the code: helper threads may still be in it while Python shuts down."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def cached(
    name: str, text: str, names: Sequence[str], symbols: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The addresses of the functions `names` in LLVM IR text, compiled or taken from the cache on disk."""
    target = host()
    key = cache.key_of(name, text, target.triple, target.cpu, target.features, _llvm.versions())
    entry = cache.shared().get(key)
    if entry is None:
        entry = cache.Entry(text_to_code(text, target), names[0], 0)
        cache.shared().put(key, entry)
    return link(entry.code, names, symbols)


def text_to_code(text: str, target: Target) -> bytes:
    """Object code for LLVM IR text."""
    return bytes(target.target_machine().emit_object(_llvm.parse(target, text)))


def _after_fork() -> None:
    global _LOCK
    _LOCK = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
