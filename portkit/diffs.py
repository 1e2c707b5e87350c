"""Unified diffs of files, as bytes, so that `patch` and `git apply` take them whatever the encoding."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from portkit.errors import UsageError

_COLOURS = {b"+": b"\x1b[32m", b"-": b"\x1b[31m", b"@": b"\x1b[36m"}
_BOLD, _END = b"\x1b[1m", b"\x1b[0m"
_NO_NEWLINE = b"\\ No newline at end of file\n"


def diff(path: str, before: bytes | None, after: bytes) -> Iterator[bytes]:
    """Lines of the diff of one file; `before` is None if the file is new."""
    old_name = _quoted(f"a/{path}") if before is not None else b"/dev/null"
    lines = difflib.diff_bytes(
        difflib.unified_diff, _lines(before or b""), _lines(after), old_name, _quoted(f"b/{path}")
    )
    for line in lines:
        yield line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE


def _quoted(name: str) -> bytes:
    """A file name as `git apply` and `patch` read it: quoted where they would take a part of it otherwise."""
    data = os.fsencode(name)
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in data):
        return data + b"\t" if b" " in data else data
    out = bytearray(b'"')
    for byte in data:
        if byte in b'"\\':
            out += b"\\" + bytes([byte])
        elif 0x20 <= byte < 0x7F:
            out.append(byte)
        else:
            out += b"\\%03o" % byte
    return bytes(out + b'"')


def between(before: Path, after: Path) -> list[tuple[str, str]]:
    """Path and diff of each file that is in both trees and differs; folders like `.git` are not read.

    Raises UsageError where there is no such folder, or a file cannot be read.
    """
    for folder in (before, after):
        if not folder.is_dir():
            raise UsageError("There is no such folder.", place=str(folder), remedy="Check the path.")
    found = []
    for file in sorted(path for path in after.rglob("*") if path.is_file()):
        name = file.relative_to(after)
        other = before / name
        if any(part.startswith(".") for part in name.parts[:-1]) or not other.is_file():
            continue
        lines = b"".join(diff(name.as_posix(), _read(other), _read(file)))
        if lines:
            found.append((name.as_posix(), lines.decode("utf-8", "replace")))
    return found


def coloured(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a diff for a terminal."""
    for line in lines:
        head = line.startswith((b"--- ", b"+++ "))
        colour = _BOLD if head else _COLOURS.get(line[:1], b"")
        yield colour + line.rstrip(b"\n") + _END + b"\n" if colour else line


def _lines(data: bytes) -> list[bytes]:
    """Lines that end with a line feed, the last one perhaps without; nothing else ends a line for `patch`."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"The file cannot be read: {reason}.", place=str(file), remedy="Check its permissions."
        ) from None
