"""Files that a migration puts beside others: requirements for machines with CUDA."""

from __future__ import annotations

import difflib
import re
from pathlib import PurePosixPath

_OPTIONAL = re.compile(r"(?:^|[-_./])(?:cuda|gpu|nvidia|cu\d{2,3})(?:[-_.]|$)", re.I)


def beside(path: str) -> str:
    """Where the lines of a requirements file go that need CUDA: `requirements-cuda.txt`."""
    file = PurePosixPath(path)
    return str(file.with_name(f"{file.stem}-cuda{file.suffix}"))


def is_optional(path: str) -> bool:
    """Whether a requirements file is for machines with CUDA by its name: `requirements/gpu.txt`."""
    file = PurePosixPath(path)
    folder = file.parent.name if "requirements" in file.parent.name else ""
    return _OPTIONAL.search(f"{folder}/{file.stem}") is not None


def requirements(path: str, before: str, after: str, there: str | None) -> str | None:
    """The text of the file beside a requirements file that lost lines, or parts of lines.

    `there` is its text if it exists: what it lacks is put at its end.  None if nothing has to be added.
    """
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    moved = [line for tag, i, j, *_ in matcher.get_opcodes() if tag != "equal" for line in old[i:j]]
    known = {line.strip() for line in (there or "").splitlines()}
    wanted = [line for line in moved if line.strip() and line.strip() not in known]
    if there is None:
        wanted.insert(0, f"-r {PurePosixPath(path).name}")
    if not moved or not wanted:
        return None
    newline = "\r\n" if "\r\n" in before else "\n"
    text = there or ""
    if text and not text.endswith(("\n", "\r")):
        text += newline
    return text + "".join(f"{line}{newline}" for line in wanted)
