"""The files below the paths that a user names: known kinds only, nothing that git ignores, no link out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from portkit.config import Config
from portkit.errors import UsageError
from portkit.finding import Unparsed
from portkit.source import Kind, kind_of

JUNK = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", ".portkit", ".ipynb_checkpoints"}
    | {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    | {"node_modules", "site-packages", "build", "dist"}
)
_HEAD = 200  # bytes in which a `#!` line is looked for


@dataclass(frozen=True)
class Found:
    """A file to look at."""

    file: Path
    path: str  # relative to the scanned root, with forward slashes
    kind: Kind


def discover(
    paths: Sequence[str | Path], config: Config, root: Path | None = None
) -> tuple[Path, list[Found], list[Unparsed]]:
    """The root that paths are relative to, the files in order, and what could not be listed.

    The root is `root`, or else the folder that holds all of `paths`.  A file that is named is looked at
    whatever settings say.  Raises UsageError for a path that is not there.
    """
    given = [Path(path) for path in paths if str(path) != "-"]
    for path in given:
        if not path.exists() and not path.is_symlink():
            raise UsageError("There is no such file or folder.", place=str(path), remedy="Check the path.")
    root = root if root is not None else common_folder(given)
    config = config.anchored(root)
    found: dict[str, Found] = {}
    bad: list[Unparsed] = []
    for path in given:
        if path.is_dir():
            for file in _below(path, bad, root):
                name = _relative(file, root)
                if config.wants(name) and (item := _found(file, name)) is not None:
                    found.setdefault(name, item)
            continue
        name = _relative(path, root)
        item = _found(path, name)
        if item is None:
            bad.append(Unparsed(name, "is not a kind of file that portkit knows"))
        else:
            found.setdefault(name, item)
    return root, [found[name] for name in sorted(found)], bad


def project_root(paths: Sequence[str | Path], config: Config) -> Path:
    """The folder that a person means by "the project": the checkout that holds all of `paths`, or else the
    folder of the settings, or else the nearest folder that holds all of `paths`.

    Findings then have the same paths and ids whichever part of the project is scanned.
    """
    common = common_folder([Path(path) for path in paths if str(path) != "-"])
    for place in (common, *common.parents):
        if (place / ".git").exists():
            return place
    settings = os.path.realpath(config.file.parent) if config.file is not None else ""
    return next((item for item in (common, *common.parents) if os.path.realpath(item) == settings), common)


def common_folder(paths: Sequence[Path]) -> Path:
    """The nearest folder that holds all of `paths`; without any, the current one."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    if not folders:
        return Path.cwd()
    return Path(os.path.commonpath([os.path.abspath(folder) for folder in folders]))


def _relative(file: Path, root: Path) -> str:
    return Path(os.path.relpath(os.path.abspath(file), root)).as_posix()


def _found(file: Path, name: str) -> Found | None:
    kind = kind_of(file.name)
    if kind is Kind.OTHER and "." not in file.name:
        kind = kind_of(file.name, _head(file))
    return Found(file, name, kind) if kind is not Kind.OTHER else None


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_HEAD)
    except OSError:
        return b""  # reading it in earnest will say why


def _below(folder: Path, bad: list[Unparsed], root: Path) -> Iterator[Path]:
    listed = _listed_by_git(folder)
    if listed is None:
        yield from _walked(folder, bad, root)
        return
    top = os.path.realpath(folder)
    for name in listed:
        file = folder / name
        if file.is_symlink() and not _inside(file, top):
            continue
        if file.is_dir():  # a submodule, perhaps without its files, or another checkout inside this one
            if not file.is_symlink() and not JUNK.intersection(Path(name).parts):
                own = (file / ".git").exists()  # else git would list the same folder again
                yield from _below(file, bad, root) if own else _walked(file, bad, root)
        elif file.is_file() and not JUNK.intersection(Path(name).parts[:-1]):
            yield file


def _listed_by_git(folder: Path) -> list[str] | None:
    """Names below `folder` that git tracks or would; None if this is no checkout (or there is no git)."""
    resolved = folder.resolve()
    if not any((place / ".git").exists() for place in (resolved, *resolved.parents)):
        return None
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    names = {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}
    return sorted(names) if names else None  # a folder that is ignored as a whole is walked instead


def _walked(folder: Path, bad: list[Unparsed], root: Path) -> Iterator[Path]:
    top = os.path.realpath(folder)

    def unlisted(error: OSError) -> None:
        name = _relative(Path(error.filename), root)
        bad.append(Unparsed(name, f"cannot be listed: {(error.strerror or str(error)).lower()}"))

    for place, folders, files in os.walk(folder, onerror=unlisted):  # does not enter links
        folders[:] = sorted(name for name in folders if name not in JUNK)
        for name in sorted(files):
            file = Path(place, name)
            if file.is_symlink() and not _inside(file, top):
                continue
            if file.is_file():
                yield file


def _inside(file: Path, top: str) -> bool:
    """Whether a link leads to a place below `top`; a loop leads nowhere."""
    try:
        return os.path.commonpath([os.path.realpath(file, strict=True), top]) == top
    except (OSError, ValueError):
        return False
