"""The record in `.portkit/`: what each migration changed, by which rule, and the bytes to undo it.

.portkit/manifest.json    the runs, oldest first
.portkit/undo/SHA256.gz   the original bytes of every changed file, named by their hash
    .portkit/.gitignore       keeps undo/ out of version control
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import portkit
from portkit.errors import PortkitError, UsageError
from portkit.files import write_atomically
from portkit.finding import Finding
from portkit.layers import Layer, Patch

SCHEMA_VERSION = 1
FOLDER = ".portkit"
_IGNORE = ".gitignore"


class ManifestError(PortkitError):
    """The record of past migrations is damaged, or written by another version."""


@dataclass(frozen=True)
class EditRecord:
    """One rewrite that was carried out."""

    rule: str
    finding: str
    phase: str
    line: int  # in the text as it was when the rule saw it
    column: int
    cell: int | None
    message: str
    needs: tuple[int, ...] = ()  # edits of the same file, by index, that it may not stand without
    comment: bool = False  # whether it only says what a person has to do


@dataclass(frozen=True)
class LeftRecord:
    """One finding that the migration left to a person."""

    rule: str
    finding: str
    phase: str
    support: str
    path: str
    line: int
    column: int
    cell: int | None
    message: str
    remedy: str
    reason: str  # why a rewrite was refused; empty if there was none


@dataclass(frozen=True)
class FileRecord:
    """One file that a run changed or created."""

    path: str  # relative to the root, with forward slashes
    kind: str
    sha256_before: str | None  # None: the run created the file
    sha256_after: str
    mode: int | None
    edits: tuple[EditRecord, ...]
    layers: tuple[Layer, ...] = ()  # how the text came about; empty: it can be taken back as a whole only


@dataclass(frozen=True)
class Run:
    """One migration."""

    portkit: str  # version
    phase: str
    operators: str
    unsafe: bool
    files: tuple[FileRecord, ...]
    left: tuple[LeftRecord, ...] = ()


@dataclass
class Manifest:
    """All migrations of one tree."""

    root: Path
    runs: list[Run] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.root / FOLDER

    def blob(self, digest: str) -> Path:
        """Where the bytes with this hash are kept."""
        return self.folder / "undo" / f"{digest}.gz"

    def keep(self, data: bytes) -> str:
        """Keep bytes for undo; returns their hash.  Raises UsageError where they can't be written."""
        digest = sha256(data)
        file = self.blob(digest)
        if not file.exists():
            _make_folder(file.parent)
            write_atomically(self.folder / _IGNORE, b"undo/\n")
            write_atomically(file, gzip.compress(data, mtime=0))
        return digest

    def original(self, digest: str) -> bytes:
        """The bytes with this hash.  Raises ManifestError if they are lost or damaged."""
        file = self.blob(digest)
        try:
            data = gzip.decompress(file.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(file, f"cannot be read ({error})") from None
        if sha256(data) != digest:
            raise _damaged(file, "does not hold what its name says")
        return data

    def save(self) -> None:
        """Write the record.  Raises UsageError where it can't be written."""
        _make_folder(self.folder)
        runs = [_table_of(run) for run in self.runs]
        table = {"schema_version": SCHEMA_VERSION, "portkit": portkit.__version__, "runs": runs}
        text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        write_atomically(self.folder / "manifest.json", text.encode())

    def last_hashes(self) -> dict[str, str]:
        """Path → hash of what the last run that changed the file left there."""
        return {record.path: record.sha256_after for run in self.runs for record in run.files}

    def forget_last(self) -> None:
        """Take the last run out of the record, and away what only it needed."""
        self.runs.pop()
        self.tidy()

    def tidy(self) -> None:
        """Write the record, without bytes that no run needs; remove it altogether if no run is left."""
        self.runs = [run for run in self.runs if run.files]
        kept = {record.sha256_before for run in self.runs for record in run.files}
        undo = self.folder / "undo"
        for file in sorted(undo.glob("*.gz")):
            if file.stem not in kept:
                file.unlink()
        if self.runs:
            self.save()
            return
        for name in ("manifest.json", _IGNORE):
            (self.folder / name).unlink(missing_ok=True)
        for folder in (undo, self.folder):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def sha256(data: bytes) -> str:
    """Hash of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def edit_record(finding: Finding, needs: Sequence[int] = (), *, comment: bool = False) -> EditRecord:
    """The record of a rewrite that was carried out; `needs` are indices of others of the same file."""
    at = finding.location
    return EditRecord(
        finding.rule,
        finding.id,
        finding.phase.value,
        at.line,
        at.column,
        at.cell,
        finding.message,
        tuple(needs),
        comment,
    )


def left_record(finding: Finding, reason: str) -> LeftRecord:
    """The record of a finding that was left."""
    at = finding.location
    return LeftRecord(
        finding.rule,
        finding.id,
        finding.phase.value,
        finding.support.value,
        at.path,
        at.line,
        at.column,
        at.cell,
        finding.message,
        finding.remedy,
        reason,
    )


def exists(root: Path) -> bool:
    """Whether a migration of this tree is recorded."""
    return (root / FOLDER / "manifest.json").is_file()


def read(root: Path) -> Manifest:
    """The record of a tree; an empty one if there is none.  Raises ManifestError if it is damaged."""
    file = root / FOLDER / "manifest.json"
    if not file.exists():
        return Manifest(root)
    try:
        table = json.loads(file.read_bytes())
        if table["schema_version"] != SCHEMA_VERSION:
            raise ManifestError(
                f"The record of past migrations has version {table['schema_version']}, not {SCHEMA_VERSION}.",
                place=str(file),
                remedy="Use the version of portkit that wrote it.",
            )
        return Manifest(root, [_run(item) for item in table["runs"]])
    except OSError as error:
        raise _damaged(file, f"cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(file, f"is damaged ({type(error).__name__}: {error})") from None


def _table_of(run: Run) -> dict[str, Any]:
    """A run as plain data; a patch is a list, for there are many."""
    table = asdict(run)
    for data, file in zip(table["files"], run.files, strict=True):
        data["layers"] = [
            {
                "cell": layer.cell,
                "imports": layer.imports,
                "patches": [[p.start, p.end, p.text, p.edit] for p in layer.patches],
            }
            for layer in file.layers
        ]
    return table


def _layer(table: dict[str, Any]) -> Layer:
    return Layer(tuple(Patch(*item) for item in table["patches"]), table["imports"], table["cell"])


def _edit(table: dict[str, Any]) -> EditRecord:
    return EditRecord(**{**table, "needs": tuple(table.get("needs", ()))})


def _run(table: dict[str, Any]) -> Run:
    files = tuple(_file(item) for item in table["files"])
    left = tuple(LeftRecord(**item) for item in table["left"])
    return Run(**{**table, "files": files, "left": left})


def _file(table: dict[str, Any]) -> FileRecord:
    edits = tuple(_edit(item) for item in table["edits"])
    layers = tuple(_layer(item) for item in table.get("layers", ()))
    record = FileRecord(**{**table, "edits": edits, "layers": layers})
    parts = PurePosixPath(record.path).parts
    hashes = [digest for digest in (record.sha256_before, record.sha256_after) if digest is not None]
    if not parts or PurePosixPath(record.path).is_absolute() or ".." in parts:
        raise ValueError(f"a path out of the tree: {record.path}")
    if not all(len(digest) == 64 and digest.isalnum() for digest in hashes):
        raise ValueError("a hash that is none")
    return record


def _damaged(file: Path, what: str) -> ManifestError:
    return ManifestError(
        f"The record of past migrations {what}.",
        place=str(file),
        remedy="Restore the file, or remove the folder .portkit and undo with your version control.",
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The folder cannot be made: {(error.strerror or str(error)).lower()}.",
            place=str(folder),
            remedy="Make the tree writable, or migrate a copy of it with --output DIR.",
        ) from None


def runs_of(root: Path) -> Sequence[Run]:
    """The recorded runs of a tree, oldest first."""
    return read(root).runs
