"""Carrying a plan out on disk: whole files or nothing, recorded first, so that each step can be undone."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import portkit
from portkit import manifest, versions
from portkit.errors import PortkitError, UsageError
from portkit.files import write_atomically
from portkit.finding import Unparsed
from portkit.layers import Layer
from portkit.manifest import FileRecord, Manifest, Run
from portkit.migrate import FileChange, Plan


def write(plan: Plan, root: Path | None = None) -> list[Unparsed]:
    """Write the changes of a plan below `root` (the scanned root if not given) and record them.

    Returns the files that could not be written, with the reason; they are as they were.  Raises UsageError if
    nothing can be written at all, and ManifestError if the record of earlier runs is damaged.
    """
    root = root if root is not None else plan.root
    if not plan.changes:
        return []
    if _is_read_only(root):
        raise UsageError(
            "The folder is read-only.", place=str(root), remedy="Migrate a copy of it with --output DIR."
        )
    record = manifest.read(root)
    bad: list[Unparsed] = []
    ready: list[FileChange] = []
    for change in plan.changes:
        reason = obstacle(root, change)
        if reason:
            bad.append(Unparsed(change.path, reason))
        else:
            ready.append(change)
    _record(record, plan, [_file_record(record, change, root) for change in ready])
    written = []
    for change in ready:
        reason = _write_one(root / change.path, change.after)
        if reason:
            bad.append(Unparsed(change.path, reason))
        else:
            written.append(change)
    if len(written) < len(ready):
        kept = {change.path for change in written}
        run = record.runs.pop()
        files = tuple(item for item in run.files if item.path in kept)
        record.runs += [replace(run, files=files)] if files else []
        record.tidy()
    return bad


def _write_one(file: Path, data: bytes) -> str:
    """Write one file; returns why that is not possible, or nothing."""
    try:
        write_atomically(file, data)
    except PortkitError as error:
        return error.message.rstrip(".").lower()
    return ""


def obstacle(root: Path, change: FileChange) -> str:
    """Why a file must not be written; empty if it may."""
    file = root / change.path
    if not _stays_inside(file, root):
        return "is a link out of the tree: left as it is"
    if change.before is None:
        return "is there already: left as it is" if file.exists() else ""
    try:
        if file.read_bytes() != change.before:
            return "has changed since it was scanned: left as it is"
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    if _is_read_only(file):
        return "is read-only: left as it is"
    if _is_read_only(file.parent):
        return "is in a read-only folder: left as it is"
    return ""


def _stays_inside(file: Path, root: Path) -> bool:
    real, top = os.path.realpath(file), os.path.realpath(root)
    return not file.is_symlink() and os.path.commonpath([real, top]) == top


def _is_read_only(file: Path) -> bool:
    """Whether a file or folder may not be changed; root may change all, but should not change these."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return False  # writing it will say why
    writable = mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return not writable or not os.access(file, os.W_OK)


def _file_record(record: Manifest, change: FileChange, root: Path) -> FileRecord:
    before = record.keep(change.before) if change.before is not None else None
    mode = stat.S_IMODE((root / change.path).stat().st_mode) if change.before is not None else None
    waits = change.waits or ((),) * len(change.done)
    edits = (
        *(manifest.edit_record(item, needs) for item, needs in zip(change.done, waits, strict=True)),
        *(manifest.edit_record(item, comment=True) for item in change.notes),
    )
    after = manifest.sha256(change.after)
    return FileRecord(change.path, change.kind.value, before, after, mode, edits, _layers(change))


def _layers(change: FileChange) -> tuple[Layer, ...]:
    """How the file came about, if that can be gone over again exactly."""
    if change.before is None or not change.layers:
        return ()
    try:
        again = versions.after(versions.of(change.before, change.path, change.kind), change.layers)
    except versions.Unknown:
        return ()
    return change.layers if again == change.after else ()


def _record(record: Manifest, plan: Plan, files: Iterable[FileRecord]) -> None:
    options = plan.options
    run = Run(
        portkit=portkit.__version__,
        phase=options.phase.value,
        operators=options.config.operators,
        unsafe=options.unsafe,
        files=tuple(files),
        left=tuple(manifest.left_record(finding, reason) for finding, reason in plan.left),
    )
    if run.files:
        record.runs.append(run)
        record.save()


# --- the user's own uncommitted work ------------------------------------------------------------------


def uncommitted(root: Path, changes: Iterable[FileChange]) -> list[str]:
    """Files below `root` that git could not bring back if they were lost, as far as it knows the tree.

    Files that the last migration wrote and nobody touched since do not count, nor do untracked files that the
    migration leaves alone.  Empty where there is no git tree.
    """
    status = _git(root, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--", ".")
    prefix = _git(root, "rev-parse", "--show-prefix")
    if status is None or prefix is None:
        return []
    ours = manifest.read(root).last_hashes()
    changed = {change.path for change in changes}
    found = []
    for state, name in _entries(status):
        path = name.removeprefix(os.fsdecode(prefix).rstrip("\n"))
        if path.startswith(f"{manifest.FOLDER}/") or (state == "??" and path not in changed):
            continue
        if path in ours and _hash(root / path) == ours[path]:
            continue
        found.append(path)
    return sorted(found)


def _git(root: Path, *arguments: str) -> bytes | None:
    """What git prints; None where there is no git, or no git tree."""
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            timeout=120,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # do not write to the index
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout


def _entries(output: bytes) -> Iterable[tuple[str, str]]:
    """State and path of every entry of `git status -z`; a rename's old name is left out."""
    fields = iter(output.split(b"\0"))
    for entry in fields:
        if not entry:
            continue
        state = entry[:2].decode()
        yield state, os.fsdecode(entry[3:])
        if "R" in state or "C" in state:
            next(fields, None)


def _hash(file: Path) -> str:
    try:
        return manifest.sha256(file.read_bytes())
    except OSError:
        return ""
