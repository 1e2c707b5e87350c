"""Object code on disk: found by what it was made from, and checked before it is trusted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import portkit

MAGIC = b"portkit object 1\n"
SUFFIX = ".pkobj"
TUNING_SUFFIX = ".pktune"
DEFAULT_LIMIT = 512 * 1024 * 1024
PRUNE_EVERY = 32  # writes between two looks at the folder's size


@dataclass(frozen=True)
class Entry:
    """Object code for one kernel: the symbol to call and the scratch memory that each thread needs."""

    code: bytes
    symbol: str
    scratch_bytes: int


def default_folder() -> Path | None:
    """`$PORTKIT_CACHE_DIR`, or portkit's folder among the user's caches; None when neither can be named."""
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


def default_limit() -> int:
    """Bytes that the cache may take: `$PORTKIT_CACHE_SIZE` or 512 MiB."""
    with contextlib.suppress(ValueError):
        return (
            max(0, int(os.environ["PORTKIT_CACHE_SIZE"]))
            if "PORTKIT_CACHE_SIZE" in os.environ
            else DEFAULT_LIMIT
        )
    return DEFAULT_LIMIT


@lru_cache(maxsize=1)
def compiler_hash() -> str:
    """A hash of the compiler itself: its version and every source file that shapes the code it makes."""
    root = Path(__file__).parent
    digest = hashlib.sha256(portkit.__version__.encode())
    for path in sorted([*root.rglob("*.py"), *(root.parent / "targets").rglob("*.py")]):
        digest.update(path.relative_to(root.parent).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(*parts: str) -> str:
    """The key for code made from these texts by this compiler."""
    digest = hashlib.sha256(compiler_hash().encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part.encode())
    return digest.hexdigest()


class Cache:
    """A folder of object files.

    A file that is damaged, cut short or of another key counts as absent.  Where the folder can't be written,
    one warning says so and everything else works.
    """

    def __init__(self, folder: Path | None, limit: int = DEFAULT_LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self._writes = 0
        self._warned = False

    def get(self, key: str) -> Entry | None:
        """The entry of that key, or None."""
        if self.folder is None:
            return None
        path = self.folder / f"{key}{SUFFIX}"
        try:
            entry = decode(key, path.read_bytes())
        except OSError:
            return None
        if entry is not None:
            with contextlib.suppress(OSError):  # keeps what is used from being evicted
                os.utime(path)
        return entry

    def put(self, key: str, entry: Entry) -> None:
        """Write an entry: whole, or not at all."""
        if self.folder is None or self.limit == 0:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write(self.folder, f"{key}{SUFFIX}", encode(key, entry))
        except OSError as error:
            self._complain(error)
            return
        self._writes += 1
        if self._writes % PRUNE_EVERY == 1:
            self.prune()

    def files(self) -> list[tuple[Path, int, float]]:
        """(path, bytes, time of last use) of every entry, oldest first."""
        found = []
        if self.folder is not None and self.folder.is_dir():
            for path in self.folder.glob(f"*{SUFFIX}"):
                with contextlib.suppress(OSError):  # another process removed it
                    status = path.stat()
                    found.append((path, status.st_size, status.st_mtime))
        return sorted(found, key=lambda item: (item[2], item[0].name))

    def prune(self) -> int:
        """Remove the entries used longest ago until the size is within the limit; returns how many."""
        files = self.files()
        total = sum(size for _, size, _ in files)
        removed = 0
        for path, size, _ in files:
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                removed += 1
            total -= size
        return removed

    def _complain(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"compiled kernels are not kept: {self.folder} can't be written ({error.strerror or error}); "
                "set PORTKIT_CACHE_DIR to a folder that can",
                RuntimeWarning,
                stacklevel=2,
            )


def encode(key: str, entry: Entry) -> bytes:
    """The bytes of a cache file: a line of magic, a checksum, a line of facts, the object code."""
    facts = json.dumps({"key": key, "symbol": entry.symbol, "scratch": entry.scratch_bytes}, sort_keys=True)
    body = facts.encode() + b"\n" + entry.code
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decode(key: str, data: bytes) -> Entry | None:
    """The entry in a cache file, or None when anything about it is not as it was written."""
    if not data.startswith(MAGIC):
        return None
    checksum, _, body = data[len(MAGIC) :].partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        return None
    head, _, code = body.partition(b"\n")
    try:
        facts = json.loads(head)
        owner, symbol, scratch = facts["key"], str(facts["symbol"]), int(facts["scratch"])
    except (ValueError, KeyError, TypeError):
        return None
    return Entry(code, symbol, scratch) if owner == key else None


def write(folder: Path, name: str, data: bytes) -> None:
    """Write a file: whole, or not at all."""
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, folder / name)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


_SHARED: dict[tuple[Path | None, int], Cache] = {}


def shared() -> Cache:
    """The cache that this process uses now."""
    place = (default_folder(), default_limit())
    return _SHARED.setdefault(place, Cache(*place))
