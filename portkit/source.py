"""Files to look at: what kind a file is, its exact decoding, and notebooks split into cells."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import tokenize
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

from portkit.cells import CellError, Unit, split_notebook


class Kind(str, Enum):
    """What a file is, as far as rules care."""

    PYTHON = "python"
    NOTEBOOK = "notebook"
    REQUIREMENTS = "requirements"
    YAML = "yaml"
    JSON = "json"
    TOML = "toml"
    SHELL = "shell"
    DOCKERFILE = "dockerfile"
    CMAKE = "cmake"
    MAKE = "make"
    INI = "ini"
    METADATA = "metadata"  # what a notebook says of itself: no file of its own
    CUDA = "cuda"
    CPP = "cpp"
    OTHER = "other"


_SUFFIXES = {
    ".py": Kind.PYTHON,
    ".pyw": Kind.PYTHON,
    ".pyi": Kind.PYTHON,
    ".ipynb": Kind.NOTEBOOK,
    ".yml": Kind.YAML,
    ".yaml": Kind.YAML,
    ".json": Kind.JSON,
    ".jsonc": Kind.JSON,
    ".toml": Kind.TOML,
    ".sh": Kind.SHELL,
    ".bash": Kind.SHELL,
    ".zsh": Kind.SHELL,
    **dict.fromkeys((".ksh", ".pbs", ".lsf", ".qsub", ".groovy", ".env", ".args"), Kind.SHELL),
    **dict.fromkeys((".cfg", ".ini", ".conf"), Kind.INI),
    ".cmake": Kind.CMAKE,
    **dict.fromkeys((".mk", ".mak"), Kind.MAKE),
    ".def": Kind.DOCKERFILE,
    ".slurm": Kind.SHELL,
    ".sbatch": Kind.SHELL,
    **dict.fromkeys((".sub", ".job"), Kind.SHELL),
    ".cu": Kind.CUDA,
    ".cuh": Kind.CUDA,
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"), Kind.CPP),
}
_NAMES = (
    (
        re.compile(r"(?:.*[-_.])?(?:requirements?|constraints?)(?:[-_.].*)?\.(?:txt|in)", re.I),
        Kind.REQUIREMENTS,
    ),
    (re.compile(r"(?:conda[-_]?)?env(?:ironment)?(?:[-_.].*)?\.ya?ml", re.I), Kind.REQUIREMENTS),
    (
        re.compile(r"(?:meta|recipe)\.ya?ml|.*[-_]env(?:ironment)?\.ya?ml|conda(?:[-_].*)?\.ya?ml", re.I),
        Kind.REQUIREMENTS,
    ),
    (re.compile(r".*\.pbtxt(?:\.\w+)?"), Kind.INI),  # what a model server is told of a model
    (re.compile(r"Pipfile|(?:poetry|uv|pdm|pixi)\.lock"), Kind.TOML),
    (re.compile(r"CMakeLists.*\.txt(?:\.in)?"), Kind.CMAKE),
    (re.compile(r"(?:GNU)?[Mm]akefile(?:\..*)?"), Kind.MAKE),
    (re.compile(r"Jenkinsfile(?:\..*)?|\.env(?:\..*)?"), Kind.SHELL),
    (re.compile(r"Singularity(?:\..*)?"), Kind.DOCKERFILE),
    (re.compile(r"(?:.*\.)?(?:Dockerfile|Containerfile)(?:[-_.].*)?", re.I), Kind.DOCKERFILE),
)
_REQUIREMENT_FOLDERS = frozenset({"requirements", "requirement", "reqs"})
_SHEBANG = re.compile(rb"#!.*\b(python|bash|sh|zsh|ksh)[\d.]*\b")
_COOKIE = re.compile(rb"(?:[^\r\n]*[\r\n]+)?[ \t\f]*#[^\r\n]*coding[:=]")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


MEGABYTE = 1_000_000
LARGEST = 100 * MEGABYTE  # bytes of a file that is looked at at all
LARGEST_CODE = 5 * MEGABYTE  # of Python: a syntax tree takes up to a hundred times as much memory
_INDENTED = re.compile(r"^[ \t]{1000}", re.MULTILINE)


class Unreadable(Exception):
    """A file cannot be decoded; `reason` says why."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True)
class Source:
    """One file: its bytes, how they decode, and its units (the file itself, or the cells of a notebook)."""

    path: str  # relative to the scanned root, with forward slashes
    kind: Kind
    data: bytes
    text: str  # decoded, line ends as they are, without the BOM
    encoding: str
    bom: bytes
    units: tuple[Unit, ...]

    @property
    def newline(self) -> str:
        """The line end that the file uses most; "\\n" if it has none."""
        counts = {end: self.text.count(end) for end in ("\r\n", "\n", "\r")}
        counts["\n"] -= counts["\r\n"]
        counts["\r"] -= counts["\r\n"]
        best = max(counts, key=lambda end: counts[end])
        return best if counts[best] else "\n"

    def encode(self, text: str) -> bytes:
        """The bytes of this file with another text: same encoding, same BOM.

        Raises UnicodeEncodeError if the file's encoding cannot hold the text.
        """
        return self.bom + text.encode(self.encoding)


def kind_of(name: str, head: bytes = b"") -> Kind:
    """The kind of a file, by its name, or by the first line if the name says nothing."""
    base = PurePosixPath(name).name
    if base.endswith((".txt", ".in")) and PurePosixPath(name).parent.name in _REQUIREMENT_FOLDERS:
        return Kind.CMAKE if base == "CMakeLists.txt" else Kind.REQUIREMENTS
    for pattern, kind in _NAMES:
        if pattern.fullmatch(base):
            return kind
    known = _SUFFIXES.get(PurePosixPath(base).suffix.lower())
    if known is not None:
        return known
    found = _SHEBANG.match(head) if "." not in base else None
    if found is None:
        return Kind.OTHER
    return Kind.PYTHON if found[1] == b"python" else Kind.SHELL


def decode(data: bytes, kind: Kind) -> tuple[str, str, bytes]:
    """Text, encoding and BOM of a file.  Raises Unreadable with the reason."""
    bom, encoding = b"", "utf-8"
    for mark, name in _BOMS:
        if data.startswith(mark):
            bom, encoding = mark, name
    body = data[len(bom) :]
    if b"\0" in body and not encoding.startswith("utf-16"):
        raise Unreadable("holds null bytes: binary, or cut off while it was written")
    if kind is Kind.PYTHON and encoding == "utf-8":
        try:
            encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        except SyntaxError as error:
            if _COOKIE.match(data) is not None:
                raise Unreadable(f"its encoding is not known: {error.msg}", 1) from None
        encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    try:
        return body.decode(encoding), encoding, bom
    except UnicodeDecodeError as error:
        if kind is Kind.PYTHON or kind is Kind.NOTEBOOK or bom:
            line = body.count(b"\n", 0, error.start) + 1
            raise Unreadable(f"is not valid {encoding}: byte {body[error.start]:#04x}", line) from None
        return body.decode("latin-1"), "latin-1", b""
    except LookupError:
        raise Unreadable(f"its encoding is not known: {encoding}", 1) from None


def load(data: bytes, path: str, kind: Kind | None = None) -> Source:
    """The source that a file's bytes hold.  Raises Unreadable with the reason."""
    kind = kind_of(path, data[:200]) if kind is None else kind
    if kind is Kind.PYTHON and len(data) > LARGEST_CODE:
        size, most = len(data) // MEGABYTE, LARGEST_CODE // MEGABYTE
        raise Unreadable(f"is too large: {size} MB of generated code or data, where {most} MB are looked at")
    text, encoding, bom = decode(data, kind)
    if kind not in (Kind.PYTHON, Kind.NOTEBOOK) and (deep := _INDENTED.search(text)) is not None:
        raise Unreadable("is nested too deeply to be followed", text.count("\n", 0, deep.start()) + 1)
    units: tuple[Unit, ...] = (Unit(text, text, None),)
    if kind is Kind.NOTEBOOK:
        try:
            units = split_notebook(text)
        except CellError as error:
            raise Unreadable(error.reason, error.line) from None
    return Source(path, kind, data, text, encoding, bom, units)


def read(file: Path, path: str, kind: Kind | None = None) -> Source:
    """Read one file.  Raises Unreadable with the reason."""
    return load(read_bytes(file), path, kind)


def read_bytes(file: Path) -> bytes:
    """The bytes of one file.  Raises Unreadable with the reason."""
    try:
        return _bytes(file)
    except OSError as error:
        raise Unreadable(f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    except MemoryError:
        raise Unreadable("cannot be read: there is not enough memory") from None


def _bytes(file: Path) -> bytes:
    """The bytes of a plain file: a pipe could wait for ever, and a device never end."""
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as stream:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no plain file")
        if status.st_size > LARGEST:
            raise OSError(0, f"its {status.st_size // MEGABYTE} MB are too much")
        return stream.read(LARGEST + 1)[:LARGEST] if status.st_size == 0 else stream.read()
