"""Findings → a migrated repository, worked out file by file; nothing is written here."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from portkit import companions, engine
from portkit.engine import Progress
from portkit.finding import Finding, Phase, Unparsed
from portkit.layers import Layer
from portkit.links import NONE, Links
from portkit.rounds import Decide, Options, Rewritten, comments, open_findings, rewrite
from portkit.rule import Rule
from portkit.source import Kind, Unreadable, load, read
from portkit.spread import spread


@dataclass(frozen=True)
class FileChange:
    """One file before and after."""

    path: str  # relative to the root, with forward slashes
    kind: Kind
    before: bytes | None  # None: the migration creates the file
    after: bytes
    done: tuple[Finding, ...]
    layers: tuple[Layer, ...] = ()  # how `after` came from `before`; patches name edits by index in `done`
    waits: tuple[tuple[int, ...], ...] = ()  # for each of `done`: those that it may not stand without
    stages: tuple[tuple[Phase, bytes], ...] = ()  # the file as each phase leaves it
    notes: tuple[Finding, ...] = ()  # what got a comment; numbered behind `done` in the layers


@dataclass
class Plan:
    """Everything that a migration of a tree would do, and what it leaves."""

    root: Path
    options: Options
    changes: list[FileChange] = field(default_factory=list)
    left: list[tuple[Finding, str]] = field(default_factory=list)
    unparsed: list[Unparsed] = field(default_factory=list)
    files: int = 0  # looked at
    found: list[Finding] = field(default_factory=list)  # before
    rest: list[Finding] = field(default_factory=list)  # and after


def plan(
    path: str | Path,
    options: Options,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    decide: Decide | None = None,
) -> Plan:
    """Scan a file or a tree and work out its migration; writes nothing.

    `progress` is told of files scanned, then of files rewritten.  `decide` says which rewrites to leave; it
    is asked in this process, file by file.  Raises UsageError for a path that does not exist.
    """
    result = engine.scan([path], options.config, jobs=jobs, progress=progress)
    made = Plan(result.root, options, unparsed=list(result.unparsed), files=result.files)
    made.found = list(result.findings)
    by_path: dict[str, list[Finding]] = {}
    for finding in result.findings:
        by_path.setdefault(finding.location.path, []).append(finding)
    work = _Work(result.root, options, result.rules, decide)
    tasks = _tasks(by_path, options, result, made.unparsed)
    done = spread(work, tasks, 1 if decide else jobs, progress)
    outcomes = dict(zip([task.name for task in tasks], done, strict=True))
    for name, findings in by_path.items():
        outcome = outcomes.get(name)
        if outcome is None:
            if not any(
                _concerns(finding, options) for finding in findings
            ):  # else a link to a file that is done
                made.left += [(finding, "") for finding in open_findings(findings)]
            made.rest += findings
            continue
        made.left += outcome.left
        made.rest += outcome.rest if outcome.rest is not None else findings
        made.changes += [outcome.change] if outcome.change else []
        made.unparsed += [outcome.unparsed] if outcome.unparsed else []
    made.changes += [added for change in made.changes if (added := _beside(made.root, change)) is not None]
    return made


def _beside(root: Path, change: FileChange) -> FileChange | None:
    """The file for machines with CUDA that takes the lines which a requirements file loses."""
    if change.kind is not Kind.REQUIREMENTS or not change.done or change.before is None:
        return None
    path = companions.beside(change.path)
    try:
        old = load(change.before, change.path, change.kind)
        there = read(root / path, path, change.kind) if (root / path).exists() else None
        new = load(change.after, change.path, change.kind)
        text = companions.requirements(change.path, old.text, new.text, there.text if there else None)
        if text is None:
            return None
        after = (there or old).encode(text)
    except (Unreadable, UnicodeEncodeError):
        return None
    stages = ((Phase.FULL_MODEL, after),)
    return FileChange(path, change.kind, there.data if there else None, after, (), stages=stages)


@dataclass(frozen=True)
class _Task:
    """A file to migrate."""

    name: str  # as it was found
    path: str  # of the file itself, where that was a link
    findings: tuple[Finding, ...]
    links: Links  # what it takes from other modules


@dataclass(frozen=True)
class _Outcome:
    """What became of one file."""

    change: FileChange | None = None
    left: tuple[tuple[Finding, str], ...] = ()
    unparsed: Unparsed | None = None
    rest: tuple[Finding, ...] | None = None  # every finding afterwards; None: as before


def _tasks(
    by_path: dict[str, list[Finding]],
    options: Options,
    result: engine.ScanResult,
    unparsed: list[Unparsed],
) -> list[_Task]:
    """The files that have something to change; a link stands for the file that it leads to, once."""
    tasks: dict[str, _Task] = {}
    root = result.root
    for name, findings in sorted(by_path.items(), key=lambda item: (root / item[0]).is_symlink()):
        if not any(_concerns(finding, options) for finding in findings):
            continue
        path = name
        if (root / name).is_symlink():
            path = os.path.relpath(os.path.realpath(root / name), os.path.realpath(root)).replace(os.sep, "/")
            if path.startswith("../"):
                unparsed.append(Unparsed(name, "is a link out of the tree: left as it is"))
                continue
        tasks.setdefault(path, _Task(name, path, tuple(findings), result.links.get(name, NONE)))
    return list(tasks.values())


def _concerns(finding: Finding, options: Options) -> bool:
    """Whether something is to be done about a finding: rewritten, or commented on."""
    return options.takes(finding) or (options.annotate and options.leaves(finding))


@dataclass(frozen=True)
class _Work:
    """What is the same for all files; it travels to other processes."""

    root: Path
    options: Options
    rules: tuple[type[Rule], ...]
    decide: Decide | None = None

    def __call__(self, task: _Task) -> _Outcome:
        """Migrate one file."""
        try:
            source = read(self.root / task.path, task.path)
            done = rewrite(
                source, self.options, task.findings, rules=self.rules, decide=self.decide, links=task.links
            )
            noted = comments(source, self.options, done, self.rules)
            after = source.encode(noted.text)
            stages = tuple((phase, source.encode(text)) for phase, text in done.stages[:-1])
        except Unreadable as error:
            return _Outcome(unparsed=Unparsed(task.path, error.reason, error.line))
        except UnicodeEncodeError as error:
            reason = f"its encoding ({error.encoding}) cannot hold the rewritten text"
            return _Outcome(left=tuple((finding, reason) for finding in open_findings(task.findings)))
        if after == source.data:
            return _Outcome(left=done.left)
        change = FileChange(
            path=task.path,
            kind=source.kind,
            before=source.data,
            after=after,
            done=done.done,
            layers=(*done.layers, *noted.layers),
            waits=done.waits,
            stages=(*stages, (self.options.phase, after)),
            notes=noted.done,
        )
        return _Outcome(change, done.left, rest=done.rest)


__all__ = ["FileChange", "Options", "Plan", "Rewritten", "plan", "rewrite"]
