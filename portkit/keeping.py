"""What both halves keep on disk, in one folder: counted, and removed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portkit import cachedir, kept
from portkit.errors import UsageError
from portkit.runtime.tile import cache

_KINDS = {"kernels": cache.SUFFIX, "tuning": cache.TUNING_SUFFIX, "scans": kept.SUFFIX}


@dataclass(frozen=True)
class Kind:
    """The files of one kind: paths and bytes."""

    name: str
    files: tuple[tuple[Path, int], ...]
    limit: int

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(size for _, size in self.files)


@dataclass(frozen=True)
class Report:
    """Everything that is kept."""

    folder: Path | None
    kinds: tuple[Kind, ...]

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        kinds = {k.name: {"files": len(k.files), "bytes": k.size, "limit": k.limit} for k in self.kinds}
        return {"folder": None if self.folder is None else str(self.folder), "kinds": kinds}

    def rows(self, *, cleared: bool) -> Sequence[str]:
        """For a terminal."""
        found = [f"folder   {self.folder or 'none: there is no home directory'}"]
        said = "removed" if cleared else "kept"
        for kind in self.kinds:
            count = len(kind.files)
            files = f"{count} file{'' if count == 1 else 's'}"
            found.append(f"{kind.name:<8} {files} {said}, {_size(kind.size)} of at most {_size(kind.limit)}")
        return found


def examine(kind: str = "") -> Report:
    """What is kept, of one kind or of all; raises UsageError for a kind that there is not."""
    if kind and kind not in _KINDS:
        raise UsageError(f"Nothing of the kind {kind} is kept.", remedy=f"Kinds: {', '.join(_KINDS)}.")
    folder = cachedir.folder()
    found = []
    for name, suffix in _KINDS.items():
        if kind not in ("", name):
            continue
        limit = cachedir.limit() if name == "scans" else cache.default_limit()
        found.append(Kind(name, tuple(_files(folder, suffix)), limit))
    return Report(folder, tuple(found))


def _files(folder: Path | None, suffix: str) -> list[tuple[Path, int]]:
    found = []
    if folder is not None and folder.is_dir():
        for path in sorted(folder.glob(f"*{suffix}")):
            with contextlib.suppress(OSError):  # another process removed it
                found.append((path, path.lstat().st_size))
    return found


def clear(report: Report) -> list[Path]:
    """Remove the files of a report; gives those that could not be removed.  Other files stay."""
    return [path for kind in report.kinds for path, _ in kind.files if not _removed(path)]


def _removed(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.0f} KiB" if count < 1024**2 else f"{count / 1024**2:.1f} MiB"
