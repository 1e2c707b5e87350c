"""A process that has torch loaded and forks for every run: `python -m portkit.parity._warm`.

It reads one job a line (JSON: module, arguments, folder, settings, errors) and answers with two lines: the
number of the process that runs it, and the exit code.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

_NEEDED = (
    "torch",
    "torch._dynamo",  # what optimizers load at their first step
    "torch.utils.data",
    "portkit.parity._observe",
    "portkit.parity._standin",
    "portkit.runtime.ops",
    "portkit.runtime.tile.jit",
)


def _run(job: Mapping[str, Any]) -> NoReturn:
    """Do a job in this process, as `python -m MODULE ARGUMENTS` would, and end it."""
    code = 1
    try:
        os.setsid()
        _redirect(str(job["errors"]))
        os.chdir(job["folder"])
        os.environ["PORTKIT_PARITY"] = job["settings"]
        code = importlib.import_module(job["module"]).main(list(job["arguments"]))
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def _redirect(errors: str) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    file = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for target, source in ((0, nothing), (1, nothing), (2, file)):
        os.dup2(source, target)


def main() -> None:
    """Serve until there are no more jobs."""
    sys.dont_write_bytecode = True  # a file that changes within a second would be taken for the old one
    for name in _NEEDED:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run(job)
        print(json.dumps({"pid": pid}), flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
