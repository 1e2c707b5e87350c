"""A copy of a tree to migrate, so that the original stays as it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from portkit import manifest
from portkit.discover import JUNK
from portkit.errors import PortkitError, UsageError
from portkit.files import write_atomically
from portkit.finding import Unparsed

_LIST = "copy.json"  # in the copy's .portkit: what we put there, by hash
_SKIPPED = JUNK - {"build", "dist", "site-packages"}  # names that may hold the user's own files


def copy_tree(root: Path, target: Path, *, only: str = "", force: bool = False) -> list[Unparsed]:
    """Copy a tree (or `only` one file of it), or refresh a copy that we made before.

    Version control, caches and junk are left out.  Returns what could not be copied.  Raises UsageError if
    `target` holds anything that is not ours, or that was changed since we copied it (unless `force`, which
    overwrites it).
    """
    _check_apart(root, target)
    ours = _listed(target)
    if ours is None and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(
            "The folder for the copy is not empty.",
            place=str(target),
            remedy="Name a new or an empty folder.",
        )
    changed = [name for name, digest in (ours or {}).items() if _hash(target / name) not in (digest, "")]
    if changed and not force:
        raise UsageError(
            f"Changed since the copy was made: {', '.join(sorted(changed)[:5])}.",
            place=str(target),
            remedy="Name another folder, or overwrite these files with --force.",
        )
    return _copy(root, target, ours or {}, only)


def list_copy(target: Path, names: Iterator[str] | list[str]) -> None:
    """Note what the copy holds, so that the next run can tell our files from the user's."""
    table = {name: _hash(target / name) for name in sorted(names)}
    folder = target / manifest.FOLDER
    folder.mkdir(exist_ok=True)
    write_atomically(folder / _LIST, (json.dumps(table, indent=1) + "\n").encode())


def listed(target: Path) -> list[str]:
    """The files of a copy that we made."""
    return sorted(_listed(target) or {})


def _listed(target: Path) -> dict[str, str] | None:
    try:
        table = json.loads((target / manifest.FOLDER / _LIST).read_bytes())
    except (OSError, ValueError):
        return None
    return {str(name): str(digest) for name, digest in table.items()} if isinstance(table, dict) else None


def _check_apart(root: Path, target: Path) -> None:
    one, other = os.path.realpath(root), os.path.realpath(target)
    if os.path.commonpath([one, other]) == other:
        raise UsageError(
            "The copy would overwrite the original.", place=str(target), remedy="Name a folder outside of it."
        )


def _hash(file: Path) -> str:
    try:
        return manifest.sha256(file.read_bytes())
    except OSError:
        return ""


def _copy(root: Path, target: Path, ours: dict[str, str], only: str) -> list[Unparsed]:
    bad: list[Unparsed] = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in ours:
            (target / name).unlink(missing_ok=True)
        shutil.rmtree(target / manifest.FOLDER, ignore_errors=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"The copy cannot be written: {reason}.", place=str(target), remedy="Choose another folder."
        ) from None
    names = []
    for name in [only] if only else _names(root, target, bad):
        reason = _copy_one(root, target, name)
        if reason:
            bad.append(Unparsed(name, reason))
        else:
            names.append(name)
    list_copy(target, names)
    return bad


def _names(root: Path, target: Path, bad: list[Unparsed]) -> Iterator[str]:
    """Every file and every link below `root`, but no junk and nothing of `target`."""
    aside = os.path.realpath(target)

    def unlisted(error: OSError) -> None:
        name = os.path.relpath(error.filename, root).replace(os.sep, "/")
        bad.append(Unparsed(name, f"cannot be listed: {(error.strerror or str(error)).lower()}"))

    for place, folders, files in os.walk(root, onerror=unlisted):
        kept = [name for name in sorted(folders) if name not in _SKIPPED]
        links = [name for name in kept if Path(place, name).is_symlink()]
        folders[:] = [
            name for name in kept if name not in links and os.path.realpath(Path(place, name)) != aside
        ]
        for name in sorted([*files, *links]):
            if name not in _SKIPPED:
                yield Path(os.path.relpath(Path(place, name), root)).as_posix()


def _copy_one(root: Path, target: Path, name: str) -> str:
    """Copy a file with its mode, or a link; returns why that is not possible, or nothing."""
    source, copy = root / name, target / name
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            copy.symlink_to(_link_text(root, source))
        elif not source.is_file():
            return "is neither a file nor a link: not copied"
        else:
            shutil.copyfile(source, copy)
            shutil.copystat(source, copy)
    except (OSError, PortkitError, shutil.Error) as error:
        return f"cannot be copied: {str(getattr(error, 'strerror', '') or error).lower()}"
    return ""


def _link_text(root: Path, link: Path) -> str:
    """Where the copy of a link leads: to the same place, in the copy if it lies in the tree."""
    text = os.readlink(link)
    if os.path.isabs(text):
        return text
    top = os.path.realpath(root)
    leads = os.path.normpath(os.path.join(os.path.realpath(link.parent), text))
    return text if os.path.commonpath([leads, top]) == top else leads
