"""What a change adds: findings that the version of the same file before it did not have.

The change is everything between the commit at which the branch left a revision and the files as they are now.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from portkit import git
from portkit.check import Rules, check_source
from portkit.config import Config
from portkit.engine import ScanResult
from portkit.errors import UsageError
from portkit.finding import Finding
from portkit.links import NONE, Links
from portkit.source import Kind, Unreadable, kind_of, load

_WITHOUT = "Mend it, or scan without --diff-base."


@dataclass(frozen=True)
class Since:
    """With what a scan was compared, and how much of it was there before."""

    revision: str  # as the user named it
    commits: tuple[str, ...]  # where each checkout left it
    unchanged: int  # findings that are not shown, since the base has them, too


@dataclass(frozen=True)
class _Base:
    """One checkout and its state at the base.  Paths are relative to its root."""

    checkout: Path
    commit: str
    tree: dict[str, git.Entry]
    changed: dict[str, git.Entry | None]

    def before(self, path: str) -> git.Entry | None:
        """What a file was at the base; None if it was not there."""
        return self.changed[path] if path in self.changed else self.tree.get(path)


def base(paths: Sequence[str | Path], revision: str) -> list[_Base]:
    """The state at the base of every checkout that holds one of `paths`.  Raises UsageError."""
    folders = [Path(path) for path in paths if str(path) != "-"] or [Path()]
    tops = {git.top(folder if folder.is_dir() else folder.parent): None for folder in folders}
    commits = [(top, git.merge_base(top, revision)) for top in tops]
    try:
        return [state for top, commit in commits for state in _state(top, commit)]
    except git.GitFailed as error:
        raise UsageError(f"git cannot compare with {revision}: {error}.", remedy=_WITHOUT) from None


def _state(checkout: Path, commit: str) -> list[_Base]:
    """A checkout, and the submodules in it that the change moves or touches."""
    state = _Base(checkout, commit, git.tree(checkout, commit), git.changed(checkout, commit, _matters))
    inner: list[_Base] = []
    for path, entry in state.changed.items():
        folder = checkout / path
        if entry is not None and entry.is_submodule and (folder / ".git").exists():
            try:
                inner += _state(folder, entry.sha)
            except git.GitFailed:  # it was not fetched: nothing in it can be known to be old
                inner.append(_Base(folder, entry.sha, {}, {}))
    return [state, *inner]


def narrow(result: ScanResult, revision: str, bases: Sequence[_Base]) -> None:
    """Leave in `result` only what the change adds; files that it does not touch are not reported unparsed."""
    try:
        old = _Old(result, bases)
    except git.GitFailed as error:
        raise UsageError(f"git cannot show {revision}: {error}.", remedy=_WITHOUT) from None
    before = len(result.findings)
    result.findings = [item for item in result.findings if not old.has(item)]
    result.suppressed = [item for item in result.suppressed if not old.has(item.finding)]
    result.unparsed = [item for item in result.unparsed if not old.is_same(item.path)]
    commits = tuple(state.commit for state in bases)
    result.since = Since(revision, commits, before - len(result.findings))


def _matters(path: str) -> bool:
    """Whether a file may be one that is scanned; without a suffix, its first line would tell."""
    name = PurePosixPath(path).name
    return kind_of(name) is not Kind.OTHER or "." not in name


class _Old:
    """The findings at the base, file by file."""

    def __init__(self, result: ScanResult, bases: Sequence[_Base]) -> None:
        self._root = result.root
        self._bases = sorted(bases, key=lambda item: -len(item.checkout.parts))  # submodules first
        named = [*result.findings, *(item.finding for item in result.suppressed)]
        paths = {item.location.path for item in named} | {item.path for item in result.unparsed}
        self._places = {path: self._place(path) for path in paths}
        self._links = result.links  # of now: an unchanged name keeps its meaning, and its finding its id
        self._ids = self._scan(Rules(result.rules), result.config)

    def has(self, item: Finding) -> bool:
        """Whether the base has this finding."""
        path = item.location.path
        return self.is_same(path) or item.occurrences <= self._ids.get(path, {}).get(item.id, 0)

    def is_same(self, path: str) -> bool:
        """Whether the change leaves a file as it was."""
        state, name = self._places[path]
        if state is None or name in state.changed:
            return False
        folders = map(str, PurePosixPath(name).parents)
        inside = [folder for folder in folders if folder in state.tree and state.tree[folder].is_submodule]
        if inside:  # the submodule of the base, unless it is among the changes
            return inside[0] not in state.changed
        return name in state.tree

    def _place(self, path: str) -> tuple[_Base | None, str]:
        """The checkout that a file is in, and its path there."""
        real = Path(os.path.realpath(self._root / path))
        for state in self._bases:
            top = Path(os.path.realpath(state.checkout))
            if top in real.parents:
                return state, real.relative_to(top).as_posix()
        return None, path

    def _scan(self, rules: Rules, config: Config) -> dict[str, dict[str, int]]:
        """The ids of the findings in the base version of every file that changed, with their places."""
        wanted = []
        for path, (state, name) in self._places.items():
            entry = state.before(name) if state is not None and name in state.changed else None
            if state is not None and entry is not None and not entry.is_submodule:
                wanted.append((path, state, entry.sha))
        contents: dict[str, bytes] = {}
        for state in self._bases:
            contents |= git.blobs(state.checkout, [sha for _, owner, sha in wanted if owner is state])
        found = {}
        for path, _, sha in wanted:
            if sha in contents:
                findings = _findings(contents[sha], path, rules, config, self._links.get(path, NONE))
                found[path] = {item.id: item.occurrences for item in findings}
        return found


def _findings(data: bytes, path: str, rules: Rules, config: Config, links: Links) -> Iterable[Finding]:
    """The findings of a text under the name that the file has now, so that ids are comparable."""
    kind = kind_of(path, data[:200])
    if kind is Kind.OTHER:
        return ()
    try:
        return check_source(load(data, path, kind), rules, config.operators, links).findings
    except Unreadable:
        return ()
