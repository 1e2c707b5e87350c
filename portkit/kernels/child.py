"""The process that compiles the kernels of a file: reads a request, writes one verdict a line."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TextIO


def main() -> None:
    """Answer the request on stdin."""
    from portkit.errors import UsageError
    from portkit.kernels.checking import verdicts
    from portkit.runtime.tile import as_triton

    request = json.load(sys.stdin)
    answers, sys.stdout = sys.stdout, sys.stderr  # what a kernel prints while compiling is no answer
    with as_triton():
        given, target = request["given"], request["target"]
        try:
            for verdict in verdicts(Path(request["path"]), request["names"], given, target):
                _answer(answers, asdict(verdict))
        except UsageError as error:
            _answer(answers, {"usage": error.message, "remedy": error.remedy})


def _answer(answers: TextIO, facts: dict[str, object]) -> None:
    answers.write(json.dumps(facts) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
