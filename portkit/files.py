"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from portkit.errors import UsageError


def write_atomically(file: Path, data: bytes) -> None:
    """Write through a temporary file beside `file` and a rename; keeps the mode of a file that is there.

    A device or a pipe is written to as it is.  Raises UsageError where the folder does not exist or cannot be
    written.
    """
    if _is_special(file):
        return _write_through(file, data)
    try:
        mode = file.stat().st_mode & 0o7777 if file.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise _unwritable(file, error) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(name, mode)
        os.replace(name, file)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise _unwritable(file, error) from None


def target(name: str) -> Path:
    """The file that a user names for output, which can be written.

    A link to a file stays a link.  Raises UsageError at once where writing after much work would fail.
    """
    file = Path(name)
    if file.is_symlink() and file.is_file():
        file = Path(os.path.realpath(file))
    check_writable(file)
    return file


def check_writable(file: Path) -> None:
    """Raises UsageError where a file could not be written."""
    if _is_special(file):
        return
    if file.is_dir():
        raise _unwritable(file, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not file.parent.is_dir():
        code = errno.ENOTDIR if file.parent.exists() else errno.ENOENT
        raise _unwritable(file, OSError(code, os.strerror(code)))
    if not os.access(file.parent, os.W_OK):
        raise _unwritable(file, OSError(errno.EACCES, os.strerror(errno.EACCES)))


def _is_special(file: Path) -> bool:
    """Whether a path leads to a device, a pipe or a socket, which a rename would do away with."""
    return file.exists() and not file.is_file() and not file.is_dir()


def _write_through(file: Path, data: bytes) -> None:
    try:
        with file.open("wb") as stream:
            stream.write(data)
    except OSError as error:
        raise _unwritable(file, error) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unwritable(file: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(
        f"The file cannot be written: {reason}.", place=str(file), remedy="Choose another place."
    )
