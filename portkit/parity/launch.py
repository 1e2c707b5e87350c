"""Runs modules that run somebody's script, each in a process of its own, within a time limit."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_SHOWN = 300  # characters of an error message
_KEPT = 1 << 16  # bytes of a child's stderr that are looked at
_STARTING = 120.0  # seconds until torch is loaded


@dataclass(frozen=True)
class Job:
    """What a child runs: `python -m module arguments`, with settings in PORTKIT_PARITY."""

    module: str
    arguments: Sequence[str]
    folder: Path
    settings: Mapping[str, Any]
    environment: Mapping[str, str]
    timeout: float
    fork: bool = True  # from a process that has torch loaded; one that may start a device is not forked


def run(job: Job) -> str:
    """Run a job; returns why it failed, or nothing.

    What it prints goes nowhere; when it is over, or its time is, all processes that it started are ended.
    """
    if job.fork and sys.platform.startswith("linux"):
        with suppress(_Gone):
            return _server(job).run(job)
    return _python(job)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """The variables of a child: ours first in the path."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def _python(job: Job) -> str:
    """Run a job in a new Python."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", job.module, *job.arguments],
            cwd=job.folder,
            env={**environment(job.environment), "PORTKIT_PARITY": json.dumps(job.settings)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # so that its workers can be ended with it
        )
        try:
            code = process.wait(job.timeout)
        except subprocess.TimeoutExpired:
            return _late(job)
        finally:
            _end(process.pid)
            process.wait()
        return "" if code == 0 else _why(errors, code)


def _late(job: Job) -> str:
    return f"it did not end within {job.timeout:g} s"


def _end(pid: int) -> None:
    """End a child with all of its own children, also those that it left behind."""
    for kill in (os.killpg, os.kill) if hasattr(os, "killpg") else (os.kill,):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)


def _why(errors: IO[bytes], code: int) -> str:
    """The last line that a child wrote to stderr, or else how it ended."""
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - _KEPT))
    text = errors.read().decode("utf-8", "replace")
    printable = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    lines = [line.strip() for line in printable.splitlines() if line.strip()]
    if code < 0:
        known = {s.value: s.name for s in signal.Signals}
        return f"it was ended by {known.get(-code, f'signal {-code}')}"
    return lines[-1][:_SHOWN] if lines else f"exit code {code}"


# --- a process that forks ---------------------------------------------------------------------------------


class _Gone(Exception):
    """The process that forks is not there any more."""


class _Server:
    """A process with torch loaded; starting a run takes it no time."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "portkit.parity._warm"],
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.buffer = b""

    def run(self, job: Job) -> str:
        """Run a job in a fork.  Raises _Gone."""
        with tempfile.TemporaryDirectory(prefix="portkit-") as folder:
            errors = Path(folder) / "stderr"
            errors.touch()
            self._send(job, errors)
            pid = int(self._answer(_STARTING)["pid"])
            try:
                code = int(self._answer(job.timeout)["code"])
            except TimeoutError:
                _end(pid)
                self._answer(_STARTING)
                return _late(job)
            _end_group(pid)
            with errors.open("rb") as file:
                return "" if code == 0 else _why(file, code)

    def _send(self, job: Job, errors: Path) -> None:
        assert self.process.stdin is not None
        line = {
            "module": job.module,
            "arguments": list(job.arguments),
            "folder": str(job.folder.resolve()),
            "settings": json.dumps(job.settings),
            "errors": str(errors),
        }
        try:
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise _Gone from None

    def _answer(self, timeout: float) -> dict[str, Any]:
        """The next line.  Raises TimeoutError and _Gone."""
        assert self.process.stdout is not None
        file = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            if not select.select([file], [], [], timeout)[0]:
                raise TimeoutError
            data = os.read(file, 4096)
            if not data:
                raise _Gone
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        _end(self.process.pid)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self.process.wait()


_servers: dict[tuple[tuple[str, str], ...], _Server] = {}


def _end_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _server(job: Job) -> _Server:
    """The process for jobs with these variables, some of which count when libraries are loaded."""
    variables = environment(job.environment)
    key = tuple(sorted(variables.items()))
    known = _servers.get(key)
    if known is None or known.process.poll() is not None:
        close()
        _servers[key] = known = _Server(variables)
    return known


@atexit.register
def close() -> None:
    """End every process that waits for jobs."""
    while _servers:
        _servers.popitem()[1].close()
