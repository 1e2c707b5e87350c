"""Taking a recorded migration back: every byte and every mode as it was."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from portkit import manifest
from portkit.errors import PortkitError, UsageError
from portkit.files import write_atomically
from portkit.finding import Unparsed
from portkit.manifest import FileRecord, Manifest


@dataclass
class Undone:
    """What undoing did."""

    runs: int = 0  # migrations that were taken back as a whole
    edits: int = 0  # and single edits
    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # files that the migration had created
    failed: list[Unparsed] = field(default_factory=list)


def undo(root: Path, *, everything: bool = False, force: bool = False) -> Undone:
    """Undo the last recorded migration of a tree, or all of them.

    Files that were changed since then are named in a UsageError, and nothing is touched, unless `force`.
    Raises UsageError if no migration is recorded, and ManifestError if the record is damaged.
    """
    record = _record(root)
    done = Undone()
    while record.runs and not done.failed and (everything or not done.runs):
        _undo_last(record, done, force)
    return done


def _record(root: Path) -> Manifest:
    if not root.exists():
        raise UsageError("There is no such folder.", place=str(root), remedy="Check the path.")
    if not root.is_dir():
        root = root.parent
    record = manifest.read(root)
    if not record.runs:
        above = next((str(place) for place in root.resolve().parents if manifest.exists(place)), "")
        remedy = f"One is recorded above it: portkit undo {above}" if above else "There is nothing to undo."
        raise UsageError("No migration of this folder is recorded.", place=str(root), remedy=remedy)
    return record


def _undo_last(record: Manifest, done: Undone, force: bool) -> None:
    run = record.runs[-1]
    changed = [item.path for item in run.files if not _is_ours(record.root, item)]
    if changed and not force:
        names = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        raise UsageError(
            f"Changed since the migration: {names}.",
            place=str(record.root),
            remedy="Nothing was undone. --force restores these files too; what was changed in them is lost.",
        )
    # All bytes are at hand before the first file is touched.
    originals = {
        item.sha256_before: record.original(item.sha256_before)
        for item in run.files
        if item.sha256_before is not None
    }
    for item in run.files:
        reason = _restore(record.root, item, originals.get(item.sha256_before or ""), done)
        if reason:
            done.failed.append(Unparsed(item.path, reason))
    if not done.failed:
        record.forget_last()
        done.runs += 1


def _is_ours(root: Path, item: FileRecord) -> bool:
    """Whether a file is as the run left it, or as it was before."""
    file = root / item.path
    if not file.exists():
        return item.sha256_before is None
    return not leads_out(root, file) and manifest.sha256(file.read_bytes()) in (
        item.sha256_before,
        item.sha256_after,
    )


def leads_out(root: Path, file: Path) -> bool:
    """Whether writing a file would write outside the tree."""
    top = os.path.realpath(root)
    return file.is_symlink() or os.path.commonpath([os.path.realpath(file), top]) != top


def _restore(root: Path, item: FileRecord, data: bytes | None, done: Undone) -> str:
    """Bring one file back; returns why that is not possible, or nothing."""
    if leads_out(root, root / item.path):
        return "is a link out of the tree"
    try:
        _bring_back(root / item.path, item, data, done)
    except PortkitError as error:
        return error.message.rstrip(".").lower()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _bring_back(file: Path, item: FileRecord, data: bytes | None, done: Undone) -> None:
    if data is None:
        if file.exists():
            file.unlink()
            done.removed.append(item.path)
        return
    if not file.exists() or file.read_bytes() != data:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, data)
        done.restored.append(item.path)
    if item.mode is not None:
        file.chmod(item.mode)
