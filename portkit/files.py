"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from portkit.errors import UsageError


def write_atomically(file: Path, data: bytes) -> None:
    """Write through a temporary file beside `file` and a rename; keeps the mode of a file that is there.

    Raises UsageError where the folder does not exist or cannot be written.
    """
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unwritable(file: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(
        f"The file cannot be written: {reason}.", place=str(file), remedy="Choose another place."
    )
