"""Looking at files one by one: in this process or in several, or not at all where the result is kept."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from portkit import cachedir, fingerprint, imports, kept, requirements, suppress
from portkit.check import Checked, Rules, check_source
from portkit.config import Config
from portkit.discover import Found
from portkit.finding import Unparsed
from portkit.links import NONE, Links
from portkit.rule import Rule
from portkit.source import Kind, Source, Unreadable, load, read_bytes
from portkit.spread import cores

_BATCH = 40  # files that one process takes at a time
_SWEEP = 400  # files after which what may be left in circles is searched for
_ENOUGH = 2_000_000  # bytes of files from which on more processes are worth their start


@dataclass(frozen=True)
class Task:
    """A file to look at, and what is known of others when that is done."""

    found: Found
    links: Links = NONE

    def key(self, data: bytes) -> bytes:
        """Everything that the result depends on, but for what `fingerprint.of_run` covers."""
        day = suppress.day_for(data)
        return fingerprint.of_file(data, self.found.path, self.found.kind.value, repr(self.links), day)


@dataclass
class Looked:
    """What one file gave; plain data, so that it can come from another process, or from the disk."""

    path: str
    kind: Kind
    lines: int = 0
    checked: Checked = field(default_factory=Checked)


def look_at(task: Task, rules: Rules, config: Config, data: bytes) -> Looked:
    """Look at one file, whose bytes are `data`."""
    path, kind = task.found.path, task.found.kind
    looked = Looked(path, kind)
    try:
        source = load(data, path, kind)
    except Unreadable as error:
        looked.checked.unparsed.append(Unparsed(path, error.reason, error.line))
        return looked
    looked.lines = _lines(source)
    looked.checked = check_source(source, rules, config.operators, task.links)
    _add_packages(source, looked.checked)
    return looked


def _unread(task: Task, error: Unreadable) -> Looked:
    looked = Looked(task.found.path, task.found.kind)
    looked.checked.unparsed.append(Unparsed(looked.path, error.reason, error.line))
    return looked


def _add_packages(source: Source, checked: Checked) -> None:
    """What a file imports and requires, as far as looking at it in full did not say."""
    if source.kind is Kind.PYTHON and checked.code is None and not checked.unparsed:
        checked.imports = imports.of_text(source.text)
    checked.requirements += requirements.of_source(source)


def _lines(source: Source) -> int:
    if source.kind is Kind.NOTEBOOK:
        return sum(unit.text.count("\n") + 1 for unit in source.units)
    ends = source.data.count(b"\n") or source.data.count(b"\r")
    return ends + (1 if source.data and not source.data.endswith((b"\n", b"\r")) else 0)


# --- many files --------------------------------------------------------------------------------------


class Looker:
    """Looks at files for one run, and keeps the results if it has a place to keep them."""

    def __init__(
        self,
        rules: Sequence[type[Rule]],
        config: Config,
        jobs: int | None = None,
        store: kept.Kept | None = None,
    ) -> None:
        self._rules = tuple(rules)
        self._config = config
        self._jobs = jobs or min(8, cores())
        self._store = store
        self.keys: dict[str, bytes] = {}  # by path, of what was looked at last; empty without a store

    def look(self, tasks: Sequence[Task]) -> Iterator[Looked]:
        """The result of each task, in their order."""
        known = self._known(tasks)
        left = [task for index, task in enumerate(tasks) if index not in known]
        made = self._made(left)
        for index in range(len(tasks)):
            yield known.pop(index) if index in known else next(made)

    def _known(self, tasks: Sequence[Task]) -> dict[int, Looked]:
        """Results that are kept, by position."""
        found: dict[int, Looked] = {}
        if self._store is None or not len(self._store):
            return found
        for index, task in enumerate(tasks):
            try:
                key = task.key(read_bytes(task.found.file))
            except Unreadable:
                continue
            value = self._store.get(key)
            if isinstance(value, Looked):
                self.keys[task.found.path] = key
                found[index] = value
        return found

    def _made(self, tasks: Sequence[Task]) -> Iterator[Looked]:
        if self._jobs < 2 or not _is_much(tasks):
            rules = Rules(self._rules)
            for number, task in enumerate(tasks, 1):
                if number % _SWEEP == 0:
                    gc.collect(1)
                key, looked = _look(task, rules, self._config)
                if self._store is not None:
                    self._keep(task, key, kept.encode(looked))
                yield looked
            return
        pending = iter(tasks)
        size = max(1, min(_BATCH, len(tasks) // (4 * self._jobs)))
        batches = [tasks[start : start + size] for start in range(0, len(tasks), size)]
        # fork is quick, and safe only while this process has a single thread
        context = multiprocessing.get_context("fork" if _can_fork() else "spawn")
        start = (self._rules, self._config)
        with ProcessPoolExecutor(self._jobs, context, initializer=_start, initargs=start) as pool:
            for batch in pool.map(_work, batches):
                for key, data in batch:
                    made = kept.decode(data)
                    assert isinstance(made, Looked)
                    self._keep(next(pending), key, data)
                    yield made

    def _keep(self, task: Task, key: bytes | None, data: bytes) -> None:
        if self._store is not None and key is not None:
            self._store.put(key, data)
        self.keys[task.found.path] = key or b""  # one that could not be read


def _is_much(tasks: Sequence[Task]) -> bool:
    """Whether there is enough to look at for several processes; sizes are asked for only as far as needed."""
    total = 0
    for task in tasks if len(tasks) > 1 else ():
        with contextlib.suppress(OSError):
            total += task.found.file.stat().st_size
        if total >= _ENOUGH:
            return True
    return False


def store(root: Path, rules: Sequence[type[Rule]], config: Config, what: str = "") -> kept.Kept | None:
    """Where the results of scans of `root` are kept; None where none may be.  `what`: those of all files
    together, not of each."""
    folder, run = cachedir.folder(), fingerprint.of_run(rules, config)
    if folder is None or run is None:
        return None
    place = hashlib.blake2b(os.fsencode(os.path.realpath(root)), digest_size=8).hexdigest()
    return kept.Kept(folder / "scan", f"{place}-{run.hex()}{what}", cachedir.limit())


def _look(task: Task, rules: Rules, config: Config) -> tuple[bytes | None, Looked]:
    """The result, and the key under which it may be kept: one that holds for the very bytes looked at."""
    try:
        data = read_bytes(task.found.file)
    except Unreadable as error:
        return None, _unread(task, error)
    return task.key(data), look_at(task, rules, config, data)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Syntax trees are many objects, and none of them is in a circle: searching for those seldom, and only
    among what is new, saves a quarter of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _can_fork() -> bool:
    return "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1


_seen = {"files": 0}  # since the last search for circles, of a worker process
_state: dict[str, tuple[Rules, Config]] = {}  # of a worker process


def _start(rules: Sequence[type[Rule]], config: Config) -> None:
    gc.disable()
    _state["run"] = (Rules(rules), config)


def _work(batch: Sequence[Task]) -> list[tuple[bytes | None, bytes]]:
    """Encoded once, here: the main process keeps the bytes as they are."""
    rules, config = _state["run"]
    looked = [_look(task, rules, config) for task in batch]
    _seen["files"] += len(batch)
    if _seen["files"] >= _SWEEP:
        _seen["files"] = 0
        gc.collect(1)
    return [(key, kept.encode(one)) for key, one in looked]
