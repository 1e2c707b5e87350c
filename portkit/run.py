"""`python -m portkit.run SCRIPT`: run a program that imports Triton on portkit's tile compiler."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from portkit.errors import UsageError

_USAGE = "usage: python -m portkit.run [-m MODULE | SCRIPT] [ARGUMENTS...]"


def run(arguments: Sequence[str]) -> None:
    """Run a script, or with `-m` a module, as `python` would, with `triton` backed by portkit.

    Raises UsageError when there is no such script.
    """
    from portkit.runtime.tile import as_triton

    before = sys.argv, list(sys.path)
    as_module = arguments[:1] == ["-m"]
    rest = list(arguments[1:] if as_module else arguments)
    if not rest:
        raise UsageError("there is nothing to run", remedy=_USAGE)
    sys.argv = rest
    try:
        with as_triton():
            if as_module:
                sys.path.insert(0, "")
                runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
                return
            script = Path(rest[0])
            if not script.exists():
                raise UsageError(f"there is no file {script}", remedy=_USAGE)
            sys.path.insert(0, str(script.resolve().parent))
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before


def main() -> int:
    """The exit code of the command."""
    if sys.argv[1:2] in ([], ["-h"], ["--help"]):
        print(_USAGE)
        return 0 if sys.argv[1:] else 2
    try:
        run(sys.argv[1:])
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
