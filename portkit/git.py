"""What git knows of a checkout, asked without ever changing it, its index included."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from portkit.errors import UsageError

_GITLINK = "160000"  # mode of a submodule
_SLOW = 300  # seconds
# set in hooks, for the checkout and the folder that the hook runs in
_OF_HOOKS = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"})
_SAFE = {"GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"}
_DIFF = (
    *("diff", "--raw", "-z", "--no-abbrev"),
    *("--no-ext-diff", "--no-relative", "--ignore-submodules=none"),
)


class GitFailed(Exception):
    """Git is not there, or said no; the text is what it said."""


@dataclass(frozen=True)
class Entry:
    """A file or a submodule in a commit."""

    mode: str
    sha: str

    @property
    def is_submodule(self) -> bool:
        return self.mode == _GITLINK


def run(folder: Path, *arguments: str, data: bytes = b"", index: Path | None = None) -> bytes:
    """What one git command prints.  `index` takes the place of the checkout's own index."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS} | _SAFE
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, check=False, timeout=_SLOW, env=environment
        )
    except FileNotFoundError:
        raise GitFailed("git is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(str(error)) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise GitFailed(said.partition("\n")[0].removeprefix("fatal: ") or "git failed")
    return done.stdout


def top(folder: Path) -> Path:
    """The root of the checkout around a folder.  Raises UsageError where there is none."""
    try:
        return Path(os.fsdecode(run(folder, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    except GitFailed as error:
        why = "" if str(error).startswith("not a git repo") else f": {error}"
        raise UsageError(
            f"This is not a git checkout{why}.",
            place=str(folder),
            remedy="--diff-base needs one; scan without it.",
        ) from None


def merge_base(checkout: Path, revision: str) -> str:
    """The commit at which the checked-out branch left `revision`.  Raises UsageError."""
    try:
        name = f"{revision}^{{commit}}"
        found = run(checkout, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    except GitFailed:
        raise UsageError(
            f"There is no revision {revision}.",
            place=str(checkout),
            remedy="`git fetch` brings it, if it is that of a remote branch (`origin/main`).",
        ) from None
    try:
        return run(checkout, "merge-base", found.decode().strip(), "HEAD").decode().split()[0]
    except (GitFailed, IndexError):
        raise UsageError(
            f"The checked-out commit and {revision} have no common ancestor.",
            place=str(checkout),
            remedy="A shallow clone may lack it: `git fetch --unshallow` (GitHub Actions: `fetch-depth: 0`).",
        ) from None


def tree(checkout: Path, commit: str) -> dict[str, Entry]:
    """Every file and submodule of a commit, by path."""
    found = {}
    for line in _parts(run(checkout, "ls-tree", "-r", "-z", "--full-tree", commit)):
        about, _, path = line.partition("\t")
        mode, _, sha = about.split(" ")
        found[path] = Entry(mode, sha)
    return found


def changed(checkout: Path, commit: str, matters: Callable[[str], bool]) -> dict[str, Entry | None]:
    """Paths of the working tree that differ from a commit, with what they were there; None: nothing.

    Changes that are not committed, and files that are not tracked, count.  Renames are followed for the paths
    that matter: of others no contents are read, which a partial clone would have to fetch.
    """
    with tempfile.TemporaryDirectory(prefix="portkit-") as folder:
        index = Path(folder) / "index"
        _copy_index(checkout, index)
        found: dict[str, Entry | None] = {}
        ends: dict[str, list[str]] = {"A": [], "D": []}
        for status, path, entry in _differences(
            run(checkout, *_DIFF, "--no-renames", commit, "--", index=index)
        ):
            found[path] = entry
            if status in ends and matters(path):
                ends[status].append(path)
        if all(ends.values()):
            paths = [path for group in ends.values() for path in group]
            raw = run(checkout, *_DIFF, "--find-renames", commit, "--", *paths, index=index)
            found |= {path: entry for status, path, entry in _differences(raw) if status == "R"}
        return found


def _copy_index(checkout: Path, index: Path) -> None:
    """An index of our own in which new files are intended to be added, so that git sees their renames."""
    name = os.fsdecode(run(checkout, "rev-parse", "--git-path", "index").removesuffix(b"\n"))
    if (checkout / name).exists():
        shutil.copyfile(checkout / name, index)
    new = run(checkout, "ls-files", "--others", "--exclude-standard", "-z")
    files = [part for part in new.split(b"\0") if part and not part.endswith(b"/")]  # no other checkouts
    if files:
        names = b"\0".join(files)
        run(
            checkout,
            *("add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul"),
            data=names,
            index=index,
        )


def _differences(raw: bytes) -> Iterator[tuple[str, str, Entry | None]]:
    """What became of each path (the first letter of git's status), and what it was before."""
    parts = iter(_parts(raw))
    for about in parts:
        mode, _, sha, _, status = about.removeprefix(":").split(" ")
        path = next(parts)
        if status[0] in "RC":  # the old name comes first
            path = next(parts)
        exists = sha.strip("0") != ""
        if exists or status[0] != "U":  # a conflict is told twice, once without what was before
            yield status[0], path, Entry(mode, sha) if exists else None


def blobs(checkout: Path, shas: Sequence[str]) -> Mapping[str, bytes]:
    """The contents of files, by hash; those that are not there (a partial clone) are left out."""
    if not shas:
        return {}
    out = run(checkout, "cat-file", "--batch", data="".join(f"{sha}\n" for sha in shas).encode())
    found: dict[str, bytes] = {}
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        words = out[at:end].decode().split()
        at = end + 1
        if len(words) == 3:  # sha, type, size
            size = int(words[2])
            found[words[0]] = out[at : at + size]
            at += size + 1
    return found


def _parts(raw: bytes) -> list[str]:
    return [os.fsdecode(part) for part in raw.split(b"\0") if part]
