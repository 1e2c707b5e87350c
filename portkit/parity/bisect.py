"""Which edits of a migration make it differ: copies of the migrated tree without some of them are tried."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from portkit import copying, manifest
from portkit.errors import PortkitError
from portkit.manifest import EditRecord
from portkit.partial import Choice, undo_part

Holds = Callable[[Path], bool]  # whether a tree computes what the original does


@dataclass(frozen=True, order=True)
class Edit:
    """One recorded rewrite; several of one rule at one place are one."""

    path: str
    line: int
    column: int
    rule: str
    finding: str
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass(frozen=True)
class Culprits:
    """The edits without which the migrated tree computes what the original does."""

    edits: tuple[Edit, ...]
    tried: int
    why: str = ""  # why none are named, or not with certainty


class _OutOfTime(Exception):
    """The time for looking is over."""


def edits(root: Path) -> list[Edit]:
    """Every recorded edit of a tree that changes what Python runs, in order of files and lines."""
    found = {
        _edit(file.path, edit)
        for run in manifest.read(root).runs
        for file in run.files
        if file.path.endswith(".py") and file.sha256_before is not None
        for edit in file.edits
        if not edit.comment
    }
    return sorted(found)


def _edit(path: str, record: EditRecord) -> Edit:
    return Edit(path, record.line, record.column, record.rule, record.finding, record.message)


@dataclass(frozen=True)
class _Exactly(Choice):
    """A choice of single edits."""

    edits: frozenset[Edit] = frozenset()

    def is_everything(self) -> bool:
        return False

    def takes(self, path: str, edit: EditRecord) -> bool:
        return _edit(path, edit) in self.edits

    def takes_file(self, path: str) -> bool:
        return False


def find(
    root: Path, holds: Holds, *, site: str = "", seconds: float = 300.0, progress: Callable[[str], None]
) -> Culprits:
    """The edits at fault: the fewest that have to go for `holds` to be true of what is left.

    `site` (file:line of the migrated tree) says where to look first.  The tree itself is not touched.
    """
    try:
        every = edits(root)
    except PortkitError as error:
        return Culprits((), 0, error.message)
    if not every:
        return Culprits((), 0, "no migration of this tree is recorded, so no edit can be taken back")
    search = _Search(root, holds, time.monotonic() + seconds, progress)
    try:
        return search.run(every, site)
    except _OutOfTime:
        named = tuple(sorted(search.best or ()))
        why = f"looking for the edit ended after {seconds:g} s"
        return Culprits(
            named, search.tried, why if not named else f"{why}; not all of these need be at fault"
        )
    except OSError as error:
        return Culprits((), search.tried, f"no copy can be made: {error.strerror or error}")


@dataclass
class _Search:
    root: Path
    holds: Holds
    end: float
    progress: Callable[[str], None]
    tried: int = 0
    best: frozenset[Edit] | None = None  # the smallest set whose removal helps, as far as is known
    known: dict[frozenset[Edit], bool] | None = None

    def run(self, every: Sequence[Edit], site: str) -> Culprits:
        nearest = sorted(every, key=lambda edit: _distance(edit, site))
        files: dict[str, list[Edit]] = {}
        for edit in nearest:
            files.setdefault(edit.path, []).append(edit)
        if site and nearest[0].path == site.rpartition(":")[0]:
            for group in ([nearest[0]], nearest[1:2], files[nearest[0].path]):
                if group and self.helps(frozenset(group)):
                    return self._smallest(group)
        if not self.helps(frozenset(every)):
            return Culprits((), self.tried, "it differs also without any of the recorded edits")
        needed = self._fewest(list(files.values()))
        return self._smallest([edit for group in needed for edit in group])

    def _smallest(self, group: Sequence[Edit]) -> Culprits:
        left = self._fewest([[edit] for edit in group])
        return Culprits(tuple(sorted(edit for part in left for edit in part)), self.tried)

    def _fewest(self, left: list[list[Edit]]) -> list[list[Edit]]:
        """Delta debugging: halves of a list that helps, then their complements, then finer parts."""
        parts = 2
        while len(left) > 1:
            size = -(-len(left) // parts)
            pieces = [left[i : i + size] for i in range(0, len(left), size)]
            smaller = next((piece for piece in pieces if self._help(piece)), None)
            if smaller is not None:
                left, parts = smaller, 2
                continue
            rests = ([part for part in left if part not in piece] for piece in pieces)
            rest = next((rest for rest in rests if len(pieces) > 2 and self._help(rest)), None)
            if rest is not None:
                left, parts = rest, max(2, parts - 1)
            elif parts >= len(left):
                break
            else:
                parts = min(len(left), 2 * parts)
        return left

    def _help(self, groups: Sequence[Sequence[Edit]]) -> bool:
        return self.helps(frozenset(edit for group in groups for edit in group))

    def helps(self, taken: frozenset[Edit]) -> bool:
        """Whether the tree without these edits computes what the original does."""
        self.known = self.known if self.known is not None else {}
        if taken not in self.known:
            if time.monotonic() > self.end:
                raise _OutOfTime
            self.tried += 1
            self.progress(f"bisecting: without {len(taken)} edit{'' if len(taken) == 1 else 's'}")
            self.known[taken] = self._try(taken)
        if self.known[taken] and (self.best is None or len(taken) < len(self.best)):
            self.best = taken
        return self.known[taken]

    def _try(self, taken: frozenset[Edit]) -> bool:
        with tempfile.TemporaryDirectory(prefix="portkit-") as folder:
            copy = Path(folder) / "tree"
            copying.copy_tree(self.root, copy)
            shutil.copytree(self.root / manifest.FOLDER, copy / manifest.FOLDER, dirs_exist_ok=True)
            try:
                done = undo_part(copy, _Exactly(edits=taken))
            except PortkitError:
                return False  # others stand on them: they can't go alone
            return not done.failed and self.holds(copy)


def _distance(edit: Edit, site: str) -> tuple[bool, int, Edit]:
    path, _, line = site.rpartition(":")
    near = abs(edit.line - int(line)) if line.isdigit() else 0
    return edit.path != path, near, edit
