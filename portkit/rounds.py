"""One file, migrated: rounds of scan and apply to a fixpoint, one phase after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from portkit import engine, ruleset
from portkit.annotate import Annotated, annotate
from portkit.apply import Applied, Step
from portkit.applying.units import apply_source
from portkit.cells import Unit, split_notebook
from portkit.config import Config
from portkit.finding import Finding, Phase, Support
from portkit.layers import Layer, layers_of
from portkit.links import NONE, Links
from portkit.rule import Rule
from portkit.source import Kind, Source

_ROUNDS = 60  # more than any real file takes; rewrites that undo each other end here at the latest


@dataclass(frozen=True)
class Options:
    """How far a migration goes."""

    phase: Phase
    config: Config = field(default_factory=Config)  # rules, operators
    unsafe: bool = False  # also what changes behaviour somewhere
    annotate: bool = False  # put the remedy as a comment where a person has to act

    def takes(self, finding: Finding) -> bool:
        """Whether a finding's rewrite is to be carried out."""
        supports = (Support.AUTO, Support.REVIEW) if self.unsafe else (Support.AUTO,)
        return bool(finding.edits) and finding.support in supports and self.phase.includes(finding.phase)

    def leaves(self, finding: Finding) -> bool:
        """Whether a finding, as it is, is for a person to do in this phase."""
        return self.phase.includes(finding.phase) and (
            finding.support in (Support.MANUAL, Support.UNKNOWN)
            or (finding.support is Support.REVIEW and not self.unsafe)
        )


@dataclass(frozen=True)
class Rewritten:
    """What became of one text."""

    text: str
    done: tuple[Finding, ...] = ()
    left: tuple[tuple[Finding, str], ...] = ()  # what still is there, with the reason if it was refused
    rest: tuple[Finding, ...] = ()  # every finding of the new text
    layers: tuple[Layer, ...] = ()
    waits: tuple[tuple[int, ...], ...] = ()  # for each of `done`: indices of those that it needs
    stages: tuple[tuple[Phase, str], ...] = ()  # the text as each phase leaves it


def comments(
    source: Source, options: Options, done: Rewritten, rules: Sequence[type[Rule]] | None = None
) -> Annotated:
    """The rewritten file with comments at what is left to a person, if they are asked for."""
    if not options.annotate:
        return Annotated(done.text)
    new = _with_text(source, done.text)
    chosen = rules if rules is not None else options.config.rules(ruleset.all_rules())
    left = [
        item
        for item, reason in done.left
        if item.rule not in ruleset.ENGINE_RULES
        and (options.leaves(item) or (reason and options.takes(item)))
    ]
    return annotate(
        new,
        left,
        lambda text: engine.check_text(text, source.path, source.kind, options.config, chosen),
        len(done.done),
    )


class Decide(Protocol):
    """Somebody who says which rewrites are carried out."""

    def __call__(self, source: Source, findings: Sequence[Finding]) -> Collection[int]:
        """The positions in `findings` of those to leave alone; `source` is the file as it is now."""


def open_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that ask for something to be done."""
    return [
        item
        for item in findings
        if item.support is not Support.PORTABLE and item.rule not in ruleset.ENGINE_RULES
    ]


def rewrite(
    source: Source,
    options: Options,
    findings: Sequence[Finding] | None = None,
    *,
    rules: Sequence[type[Rule]] | None = None,
    decide: Decide | None = None,
    links: Links = NONE,
) -> Rewritten:
    """Migrate one file: phase after phase, each to a fixpoint, until all of them change nothing.

    `findings` are those of the file as it is, if they are known already; `links` what it takes from others.
    """
    return _Rewriter(source, options, rules, decide, links).run(findings)


_Place = tuple[str, int, int]  # rule, cell, offset of the first edit in the unit


class _Rewriter:
    def __init__(
        self,
        source: Source,
        options: Options,
        rules: Sequence[type[Rule]] | None,
        decide: Decide | None,
        links: Links,
    ) -> None:
        self.source = source
        self.links = links
        self.options = options
        self.rules = rules if rules is not None else options.config.rules(ruleset.all_rules())
        self.decide = decide
        self.done: list[Finding] = []
        self.waits: list[tuple[int, ...]] = []
        self.layers: list[Layer] = []
        self.refused: dict[tuple[object, ...], str] = {}
        self.seen = {source.text}
        self.banned: set[str] = set()  # rules whose rewrites undo each other in this file
        self.skipped: set[_Place] = set()  # what the user decided to leave
        self.allowed: set[_Place] = set()  # and what not
        self.rounds = 0

    def run(self, findings: Sequence[Finding] | None) -> Rewritten:
        """Run all phases until none changes anything."""
        current = list(findings) if findings is not None else self._scan()
        phases = [phase for phase in Phase if self.options.phase.includes(phase)]
        stages: list[tuple[Phase, str]] = []
        for last in phases:
            current = self._settle(current, phases[: phases.index(last) + 1])
            stages.append((last, self.source.text))
        left = tuple((finding, self.refused.get(_key(finding), "")) for finding in open_findings(current))
        return Rewritten(
            self.source.text,
            tuple(self.done),
            left,
            tuple(current),
            tuple(self.layers),
            tuple(self.waits),
            tuple(stages),
        )

    def _settle(self, current: list[Finding], phases: Sequence[Phase]) -> list[Finding]:
        """The findings that are left when these phases change nothing any more."""
        changed = True
        while changed:
            changed = False
            for phase in phases:
                while (new := self._round(current, phase)) is not None:
                    current, changed = new, True
        return current

    def _scan(self) -> list[Finding]:
        source = self.source
        config = self.options.config
        return engine.check_text(source.text, source.path, source.kind, config, self.rules, self.links)

    def _round(self, findings: Sequence[Finding], phase: Phase) -> list[Finding] | None:
        """Apply one phase once: the findings of the new text, or None if nothing changed."""
        chosen = self._chosen(findings, phase)
        if not chosen or self.rounds >= _ROUNDS:
            return None
        self.rounds += 1
        result = self._apply(chosen)
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
        self._record(result)
        self.source = _with_text(self.source, result.text)
        return self._scan()

    # --- which ---------------------------------------------------------------------------------------

    def _chosen(self, findings: Sequence[Finding], phase: Phase) -> list[Finding]:
        chosen = self._together(
            [
                item
                for item in findings
                if item.phase is phase
                and self.options.takes(item)
                and item.rule not in self.banned
                and _place(item) not in self.skipped
            ],
            findings,
        )
        fresh = [item for item in chosen if _place(item) not in self.allowed]
        if self.decide is None or not fresh:
            return chosen
        leave = set(self.decide(self.source, fresh))
        self.skipped |= {_place(fresh[index]) for index in leave}
        self.allowed |= {_place(item) for index, item in enumerate(fresh) if index not in leave}
        return self._together([item for item in chosen if _place(item) not in self.skipped], findings)

    def _together(self, chosen: list[Finding], findings: Sequence[Finding]) -> list[Finding]:
        """Without the tests for CUDA whose branch holds a rewrite that is not carried out, or only later."""
        outstanding = {item.sort_key: item for item in findings}
        going = {item.sort_key for item in chosen}
        kept = []
        for item in chosen:
            missing = next((key for key in item.needs if key in outstanding and key not in going), None)
            if missing is None:
                kept.append(item)
                continue
            other = outstanding[missing]
            self.refused[_key(item)] = (
                f"the branch behind it needs {other.rule} in line {other.location.line}, which was left"
            )
        return kept

    def _apply(self, chosen: list[Finding]) -> Applied:
        """Carry out what can be; a test waits where a rewrite that it needs was put off or refused."""
        while True:
            result = apply_source(self.source, chosen)
            failed = {item.sort_key for item, _ in result.refused}
            failed |= {item.sort_key for item in result.deferred}
            early = {id(item) for item in result.done if failed.intersection(item.needs)}
            if not early:
                return result
            chosen = [item for item in chosen if id(item) not in early]

    # --- the record ----------------------------------------------------------------------------------

    def _record(self, result: Applied) -> None:
        first = len(self.done)
        numbers = {id(finding): first + index for index, finding in enumerate(result.done)}
        keys = {finding.sort_key: first + index for index, finding in enumerate(result.done)}
        self.done += result.done
        self.waits += [tuple(keys[key] for key in finding.needs if key in keys) for finding in result.done]
        self.layers += layers_of(result.steps, lambda owner: numbers[id(owner)])
        for step in result.steps:
            self.skipped = _moved(self.skipped, step)
            self.allowed = _moved(self.allowed, step)


def _moved(places: set[_Place], step: Step) -> set[_Place]:
    """Places as they are after a step; one that was rewritten itself is forgotten."""
    moved = set()
    for rule, cell, offset in places:
        if cell != (step.cell or 0):
            moved.add((rule, cell, offset))
            continue
        inside = any(patch.start < offset < patch.end for patch in step.patches)
        shift = sum(len(p.text) - (p.end - p.start) for p in step.patches if p.end <= offset)
        if not inside:
            moved.add((rule, cell, offset + shift))
    return moved


def _place(finding: Finding) -> _Place:
    spans = [edit.span.start for edit in finding.edits if hasattr(edit, "span")]
    return finding.rule, finding.location.cell or 0, min(spans, default=-1)


def _with_text(source: Source, text: str) -> Source:
    """The same file with another text."""
    units = split_notebook(text) if source.kind is Kind.NOTEBOOK else (Unit(text, text),)
    return replace(source, text=text, units=units)


def _key(finding: Finding) -> tuple[object, ...]:
    """What stays of a finding when lines move."""
    return finding.rule, finding.location.cell, finding.id or finding.snippet
