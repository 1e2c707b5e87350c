"""Findings → a migrated repository: rounds of scan and apply to a fixpoint, one phase after the other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from portkit import engine, ruleset
from portkit.applying.units import apply_source
from portkit.cells import Unit, split_notebook
from portkit.config import Config
from portkit.finding import Finding, Phase, Support, Unparsed
from portkit.rule import Rule
from portkit.source import Kind, Source, Unreadable, read
from portkit.spread import spread

_ROUNDS = 60  # more than any real file takes; rewrites that undo each other end here at the latest


@dataclass(frozen=True)
class Options:
    """How far a migration goes."""

    phase: Phase
    config: Config = field(default_factory=Config)  # rules, operators
    unsafe: bool = False  # also what changes behaviour somewhere

    def takes(self, finding: Finding) -> bool:
        """Whether a finding's rewrite is to be carried out."""
        supports = (Support.AUTO, Support.REVIEW) if self.unsafe else (Support.AUTO,)
        return bool(finding.edits) and finding.support in supports and self.phase.includes(finding.phase)


@dataclass(frozen=True)
class Rewritten:
    """What became of one text."""

    text: str
    done: tuple[Finding, ...] = ()
    left: tuple[tuple[Finding, str], ...] = ()  # what still is there, with the reason if it was refused


@dataclass(frozen=True)
class FileChange:
    """One file before and after."""

    path: str  # relative to the root, with forward slashes
    kind: Kind
    before: bytes | None  # None: the migration creates the file
    after: bytes
    done: tuple[Finding, ...]


@dataclass
class Plan:
    """Everything that a migration of a tree would do, and what it leaves."""

    root: Path
    options: Options
    changes: list[FileChange] = field(default_factory=list)
    left: list[tuple[Finding, str]] = field(default_factory=list)
    unparsed: list[Unparsed] = field(default_factory=list)
    files: int = 0  # looked at


def plan(path: str | Path, options: Options, *, jobs: int | None = None) -> Plan:
    """Scan a file or a tree and work out its migration; writes nothing.

    Raises UsageError for a path that does not exist.
    """
    result = engine.scan([path], options.config, jobs=jobs)
    made = Plan(result.root, options, unparsed=list(result.unparsed), files=result.files)
    by_path: dict[str, list[Finding]] = {}
    for finding in result.findings:
        by_path.setdefault(finding.location.path, []).append(finding)
    work = _Work(result.root, options, result.rules)
    tasks = _tasks(by_path, options, result.root, made.unparsed)
    outcomes = dict(zip([task.name for task in tasks], spread(work, tasks, jobs), strict=True))
    for name, findings in by_path.items():
        outcome = outcomes.get(name)
        if outcome is None:
            if not any(options.takes(finding) for finding in findings):  # else a link to a file that is done
                made.left += [(finding, "") for finding in _open(findings)]
            continue
        made.left += outcome.left
        made.changes += [outcome.change] if outcome.change else []
        made.unparsed += [outcome.unparsed] if outcome.unparsed else []
    return made


@dataclass(frozen=True)
class _Task:
    """A file to migrate."""

    name: str  # as it was found
    path: str  # of the file itself, where that was a link
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class _Outcome:
    """What became of one file."""

    change: FileChange | None = None
    left: tuple[tuple[Finding, str], ...] = ()
    unparsed: Unparsed | None = None


def _tasks(
    by_path: dict[str, list[Finding]], options: Options, root: Path, unparsed: list[Unparsed]
) -> list[_Task]:
    """The files that have something to change; a link stands for the file that it leads to, once."""
    tasks: dict[str, _Task] = {}
    for name, findings in sorted(by_path.items(), key=lambda item: (root / item[0]).is_symlink()):
        if not any(options.takes(finding) for finding in findings):
            continue
        path = name
        if (root / name).is_symlink():
            path = os.path.relpath(os.path.realpath(root / name), os.path.realpath(root)).replace(os.sep, "/")
            if path.startswith("../"):
                unparsed.append(Unparsed(name, "is a link out of the tree: left as it is"))
                continue
        tasks.setdefault(path, _Task(name, path, tuple(findings)))
    return list(tasks.values())


@dataclass(frozen=True)
class _Work:
    """What is the same for all files; it travels to other processes."""

    root: Path
    options: Options
    rules: tuple[type[Rule], ...]

    def __call__(self, task: _Task) -> _Outcome:
        """Migrate one file."""
        try:
            source = read(self.root / task.path, task.path)
            done = rewrite(source, self.options, task.findings, rules=self.rules)
            after = source.encode(done.text)
        except Unreadable as error:
            return _Outcome(unparsed=Unparsed(task.path, error.reason, error.line))
        except UnicodeEncodeError as error:
            reason = f"its encoding ({error.encoding}) cannot hold the rewritten text"
            return _Outcome(left=tuple((finding, reason) for finding in _open(task.findings)))
        if after == source.data:
            return _Outcome(left=done.left)
        return _Outcome(FileChange(task.path, source.kind, source.data, after, done.done), done.left)


def _open(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that ask for something to be done."""
    return [
        item
        for item in findings
        if item.support is not Support.PORTABLE and item.rule not in ruleset.ENGINE_RULES
    ]


# --- one file ---------------------------------------------------------------------------------------


def rewrite(
    source: Source,
    options: Options,
    findings: Sequence[Finding] | None = None,
    *,
    rules: Sequence[type[Rule]] | None = None,
) -> Rewritten:
    """Migrate one file: phase after phase, each to a fixpoint, until all of them change nothing.

    `findings` are those of the file as it is, if they are known already.
    """
    return _Rewriter(source, options, rules).run(findings)


class _Rewriter:
    def __init__(self, source: Source, options: Options, rules: Sequence[type[Rule]] | None) -> None:
        self.source = source
        self.options = options
        self.rules = rules if rules is not None else options.config.rules(ruleset.all_rules())
        self.done: list[Finding] = []
        self.refused: dict[tuple[object, ...], str] = {}
        self.seen = {source.text}
        self.banned: set[str] = set()  # rules whose rewrites undo each other in this file
        self.rounds = 0

    def run(self, findings: Sequence[Finding] | None) -> Rewritten:
        """Run all phases until none changes anything."""
        current = list(findings) if findings is not None else self._scan()
        phases = [phase for phase in Phase if self.options.phase.includes(phase)]
        changed = True
        while changed:
            changed = False
            for phase in phases:
                while (new := self._round(current, phase)) is not None:
                    current, changed = new, True
        left = tuple((finding, self.refused.get(_key(finding), "")) for finding in _open(current))
        return Rewritten(self.source.text, tuple(self.done), left)

    def _scan(self) -> list[Finding]:
        source = self.source
        return engine.check_text(source.text, source.path, source.kind, self.options.config, self.rules)

    def _round(self, findings: Sequence[Finding], phase: Phase) -> list[Finding] | None:
        """Apply one phase once: the findings of the new text, or None if nothing changed."""
        chosen = [
            item
            for item in findings
            if item.phase is phase and self.options.takes(item) and item.rule not in self.banned
        ]
        if not chosen or self.rounds >= _ROUNDS:
            return None
        self.rounds += 1
        result = apply_source(self.source, chosen)
        self.refused.update({_key(finding): reason for finding, reason in result.refused})
        if result.text == self.source.text:
            return None
        if result.text in self.seen:
            self.banned |= {finding.rule for finding in result.done}
            self.refused.update(
                {_key(finding): "its rewrite and another undo each other" for finding in result.done}
            )
            return None
        self.seen.add(result.text)
        self.done += result.done
        self.source = _with_text(self.source, result.text)
        return self._scan()


def _with_text(source: Source, text: str) -> Source:
    """The same file with another text."""
    units = split_notebook(text) if source.kind is Kind.NOTEBOOK else (Unit(text, text),)
    return replace(source, text=text, units=units)


def _key(finding: Finding) -> tuple[object, ...]:
    """What stays of a finding when lines move."""
    return finding.rule, finding.location.cell, finding.id or finding.snippet
