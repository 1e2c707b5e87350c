"""One patch file a phase, to be applied one after the other with `git apply` or `patch -p1`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import portkit
from portkit import diffs
from portkit.errors import UsageError
from portkit.files import write_atomically
from portkit.finding import Phase
from portkit.migrate import FileChange, Plan


def name_of(phase: Phase) -> str:
    """The name of a phase's patch file; names sort in the order in which they are applied."""
    return f"portkit-{phase.rank + 1}-{phase.value}.patch"


def write(plan: Plan, folder: Path) -> list[Path]:
    """Write the patches of a plan to a folder, and remove those of an earlier run that no longer hold.

    Returns the files, in order.  Raises UsageError where they can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The folder cannot be made: {(error.strerror or str(error)).lower()}.",
            place=str(folder),
            remedy="Choose another place.",
        ) from None
    written = []
    for phase in Phase:
        file = folder / name_of(phase)
        text = b"".join(_lines(plan, phase))
        if text:
            write_atomically(file, text)
            written.append(file)
        else:
            file.unlink(missing_ok=True)
    return written


def _lines(plan: Plan, phase: Phase) -> Iterator[bytes]:
    if not plan.options.phase.includes(phase):
        return
    hunks = [line for change in plan.changes for line in _of_file(change, phase)]
    if not hunks:
        return
    done = [item for change in plan.changes for item in change.done if item.phase is phase]
    yield f"portkit {portkit.__version__}, phase {phase.value}: {len(done)} rewrites.\n".encode()
    if phase.rank:
        yield b"It is for the tree as the phases before leave it.\n"
    for rule, count in sorted(Counter(item.rule for item in done).items()):
        yield f"  {count:4d}  {rule}\n".encode()
    yield b"\n"
    yield from hunks


def phases(plan: Plan) -> list[Phase]:
    """The phases that change something, and so have a patch."""
    return [phase for phase in Phase if any(_states(change, phase) for change in plan.changes)]


def _of_file(change: FileChange, phase: Phase) -> Iterator[bytes]:
    """The diff of what a phase changes in a file, given that the phases before it are done."""
    states = _states(change, phase)
    if states is not None:
        yield from diffs.diff(change.path, *states)


def _states(change: FileChange, phase: Phase) -> tuple[bytes | None, bytes] | None:
    """A file before and after a phase; None if the phase leaves it alone."""
    before = change.before
    for stage, data in change.stages:
        if stage is phase:
            return (before, data) if data != before else None
        before = data
    return None
