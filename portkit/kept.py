"""Results of earlier scans on disk: one file a scanned root, of records that are checked before use."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import struct
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from enum import Enum
from pathlib import Path

from portkit import cachedir

MAGIC = b"portkit scan 1\n"
SUFFIX = ".scan"
_HEAD = struct.Struct("<16s16sIB")  # key, checksum, length, age
_MOST_AGE = 20  # saves after which a record that nothing asked for is dropped
_LEFTOVER = 3600  # seconds after which the temporary file of a process that died is removed
_PLAIN = {
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "bytearray"): bytearray,
    ("collections", "Counter"): Counter,
    ("collections", "defaultdict"): defaultdict,
    ("builtins", "list"): list,
    ("builtins", "dict"): dict,
}


@dataclass
class _Record:
    data: bytes
    age: int  # saves since it was last used; 0 when it is of use in this run
    new: bool = False


class Kept:
    """The records of one root.  Several processes may read and write them: the last one to finish counts.

    Records are found by a key that holds everything they depend on, so none is ever stale.  One that is
    damaged counts as absent; where the folder can't be written, a warning says so and all else works.
    """

    def __init__(self, folder: Path | None, name: str, limit: int = cachedir.DEFAULT_LIMIT) -> None:
        self.file = folder / f"{name}{SUFFIX}" if folder is not None and limit > 0 else None
        self.limit = limit
        self._records = dict(_read(self.file)) if self.file is not None else {}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: bytes) -> object | None:
        """What was put under `key`; None if there is nothing, or nothing that can be trusted."""
        record = self._records.get(key)
        if record is None:
            return None
        try:
            value = decode(record.data)
        except Exception:  # whatever bytes that are not a pickle of ours may raise
            del self._records[key]
            return None
        record.age = 0
        return value

    def put(self, key: bytes, data: bytes) -> None:
        """Keep what `encode` made of a value."""
        self._records[key] = _Record(data, 0, new=True)

    def save(self) -> None:
        """Write the file if there is something new, and make room if the folder has become too large."""
        if self.file is None:
            return
        try:
            if not any(record.new for record in self._records.values()):
                if self._records:
                    os.utime(self.file)  # keeps what is used from being removed
                return
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(self.file, self._bytes())
            prune(self.file.parent, self.limit)
        except OSError as error:
            warnings.warn(
                f"results are not kept: {self.file.parent} can't be written ({error.strerror or error}); "
                "set PORTKIT_CACHE_DIR to a folder that can, or use --no-cache",
                RuntimeWarning,
                stacklevel=2,
            )

    def _bytes(self) -> bytes:
        """All records, those of this run first, as far as the limit goes."""
        parts, size = [MAGIC], 0
        for key, record in sorted(self._records.items(), key=lambda item: (item[1].age, item[0])):
            size += _HEAD.size + len(record.data)
            if size > self.limit or record.age > _MOST_AGE:
                break
            parts += (_HEAD.pack(key, _checksum(key, record.data), len(record.data), record.age), record.data)
        return b"".join(parts)


def encode(value: object) -> bytes:
    """A value of plain data and dataclasses, as bytes."""
    return pickle.dumps(value, protocol=5)


def decode(data: bytes) -> object:
    """The value that `encode` was given.  Makes nothing but plain data and dataclasses of portkit."""
    return _Unpickler(io.BytesIO(data)).load()


class _Unpickler(pickle.Unpickler):
    """Refuses every class that is no plain data: a file in a cache must not be able to run code."""

    def find_class(self, module: str, name: str) -> object:
        known = _PLAIN.get((module, name))
        if known is None:
            if not module.startswith("portkit.") or "." in name:
                raise pickle.UnpicklingError(f"{module}.{name} is no plain data")
            known = super().find_class(module, name)
            if not isinstance(known, type) or not _is_plain(known):
                raise pickle.UnpicklingError(f"{module}.{name} is no plain data")
            _PLAIN[module, name] = known
        return known


def _is_plain(kind: type) -> bool:
    return (
        is_dataclass(kind) or issubclass(kind, Enum) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )


def _read(file: Path) -> Iterator[tuple[bytes, _Record]]:
    """The undamaged records of a file."""
    try:
        data = file.read_bytes()
    except OSError:
        return
    if not data.startswith(MAGIC):
        return
    at = len(MAGIC)
    while at + _HEAD.size <= len(data):
        key, checksum, length, age = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + length]
        at += _HEAD.size + length
        if len(body) == length and _checksum(key, body) == checksum:
            yield key, _Record(body, age + 1)


def _checksum(key: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, key=key).digest()


def _write(file: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, file)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def prune(folder: Path, limit: int) -> int:
    """Remove the files used longest ago until their size is within the limit; returns how many."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process removed it
            status = path.stat()
            if path.suffix == SUFFIX:
                found.append((status.st_mtime, status.st_size, path))
            elif path.name.startswith(".new-") and time.time() - status.st_mtime > _LEFTOVER:
                path.unlink()
    total = sum(size for _, size, _ in found)
    removed = 0
    for _, size, path in sorted(found):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            removed += 1
        total -= size
    return removed
