"""Where what is worth keeping between runs lies: a folder of the user's, with a limit to its size."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

DEFAULT_LIMIT = 256 * 1024 * 1024  # bytes


def folder() -> Path | None:
    """`$PORTKIT_CACHE_DIR`, or portkit's folder among the user's caches; None when neither can be named.

    The runtime half asks the same in `runtime/tile/cache.py`; the halves share no code.
    """
    chosen = os.environ.get("PORTKIT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        home = Path.home()
    except RuntimeError:  # no home directory
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "portkit"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "portkit" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "portkit"


def limit() -> int:
    """Bytes that results of scans may take: `$PORTKIT_CACHE_SIZE`, or 256 MiB."""
    with contextlib.suppress(KeyError, ValueError):
        return max(0, int(os.environ["PORTKIT_CACHE_SIZE"]))
    return DEFAULT_LIMIT
