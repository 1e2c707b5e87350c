"""The files below the paths that a user names: known kinds only, nothing that git ignores, no link out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from portkit import git, gitignore
from portkit.config import Config
from portkit.errors import UsageError
from portkit.finding import Unparsed
from portkit.source import Kind, kind_of

JUNK = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", ".portkit", ".ipynb_checkpoints"}
    | {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    | {"node_modules", "site-packages", "build", "dist"}
)
_HEAD = 200  # bytes in which a `#!` line is looked for, or what says that a report is ours
_OURS = re.compile(rb'"(tool|kind)": "portkit(-[a-z]+)?"')


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
            for file in _Walk(root, bad, config.respect_gitignore).below(path):
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
    kind = kind_of(name)
    if kind is Kind.OTHER and "." not in file.name:
        kind = kind_of(name, _head(file))
    if kind is Kind.OTHER or (kind is Kind.JSON and _OURS.search(_head(file))):
        return None
    return Found(file, name, kind)


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_HEAD)
    except OSError:
        return b""  # reading it in earnest will say why


class _Walk:
    """The files below folders, in order."""

    def __init__(self, root: Path, bad: list[Unparsed], gitignore: bool) -> None:
        self._root = root
        self._bad = bad  # takes what cannot be listed
        self._gitignore = gitignore

    def below(self, folder: Path) -> Iterator[Path]:
        """Those that git tracks or would; or, where git cannot say, those that no `.gitignore` names."""
        listed = _listed_by_git(folder) if self._gitignore else None
        if listed is None:
            yield from self._walked(folder)
            return
        top = os.path.realpath(folder)
        for name in listed:
            file = folder / name
            if file.is_symlink() and not _inside(file, top):
                continue
            if file.is_dir():  # a submodule, perhaps without its files, or another checkout inside this one
                if not file.is_symlink() and not JUNK.intersection(Path(name).parts):
                    own = (file / ".git").exists()  # else git would list the same folder again
                    yield from self.below(file) if own else self._walked(file)
            elif file.is_file() and not JUNK.intersection(Path(name).parts[:-1]):
                yield file

    def _walked(self, folder: Path) -> Iterator[Path]:
        top = os.path.realpath(folder)
        levels = {os.fspath(folder): self._levels_above(folder)}
        for place, folders, files in os.walk(folder, onerror=self._unlisted):  # does not enter links
            held, path = levels.pop(place), self._name(Path(place))
            folders[:] = [
                name
                for name in sorted(folders)
                if name not in JUNK and not gitignore.is_ignored(held, path + os.fsencode(name), True)
            ]
            for name in sorted(files):
                file = Path(place, name)
                if gitignore.is_ignored(held, path + os.fsencode(name), False):
                    continue
                if (not file.is_symlink() or _inside(file, top)) and file.is_file():
                    yield file
            for name in list(folders):
                inner = Path(place, name)
                if self._gitignore and (inner / ".git").exists() and not inner.is_symlink():
                    folders.remove(name)  # another checkout: git knows what is in it
                    yield from self.below(inner)
                else:
                    levels[os.path.join(place, name)] = self._with(held, inner)

    def _levels_above(self, folder: Path) -> list[gitignore.Level]:
        """The `.gitignore` files from the root, or that of the checkout, down to a folder."""
        chain = [Path(os.path.abspath(folder))]
        top = Path(os.path.abspath(self._root))
        while chain[-1] != top and not (chain[-1] / ".git").exists() and top in chain[-1].parents:
            chain.append(chain[-1].parent)
        held: list[gitignore.Level] = []
        for place in reversed(chain):
            if gitignore.is_ignored(held, self._name(place)[:-1], True):
                held = []  # the user named an ignored folder: it is looked at
            held = self._with(held, place)
        return held

    def _with(self, held: list[gitignore.Level], folder: Path) -> list[gitignore.Level]:
        """The levels that hold inside a folder."""
        level = gitignore.level(folder, self._name(folder)) if self._gitignore else None
        return [*held, level] if level is not None else held

    def _name(self, folder: Path) -> bytes:
        """A folder's path from the root, with forward slashes and one at the end; empty for the root."""
        path = _relative(folder, self._root)
        return b"" if path == "." else os.fsencode(path) + b"/"

    def _unlisted(self, error: OSError) -> None:
        name = _relative(Path(error.filename), self._root)
        self._bad.append(Unparsed(name, f"cannot be listed: {(error.strerror or str(error)).lower()}"))


def _listed_by_git(folder: Path) -> list[str] | None:
    """Names below `folder` that git tracks or would; None if this is no checkout (or there is no git)."""
    resolved = folder.resolve()
    if not any((place / ".git").exists() for place in (resolved, *resolved.parents)):
        return None
    try:
        listed = git.run(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    except git.GitFailed:
        return None
    names = {os.fsdecode(name) for name in listed.split(b"\0") if name}
    return sorted(names) if names else None  # a folder that is ignored as a whole is walked instead


def _inside(file: Path, top: str) -> bool:
    """Whether a link leads to a place below `top`; a loop leads nowhere."""
    try:
        return os.path.commonpath([os.path.realpath(file, strict=True), top]) == top
    except (OSError, ValueError):
        return False
