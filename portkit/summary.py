"""What a migration says when it is done: how much changed, what is left, and what to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from portkit import patches
from portkit.finding import Finding, Phase, Support, Unparsed
from portkit.migrate import Plan
from portkit.source import Kind

_SHOWN = 10  # places of one kind, unless all are asked for
_LEFT = (
    ("refused", "rewrites that could not be carried out"),
    ("review", "rewrites that change behaviour somewhere: --unsafe applies them"),
    ("manual", "for a person to do"),
    ("unknown", "perhaps a dependency"),
    ("later", "belong to a later phase"),
)


@dataclass(frozen=True)
class Where:
    """The path that the user gave, and the folder of the copy, if one was asked for."""

    path: str
    copy: str = ""
    patches: str = ""  # folder of the patch files, if they were asked for


def lines(plan: Plan, mode: str, where: Where, *, verbose: bool = False) -> Iterator[str]:
    """The lines of the summary; `mode` is "diff", "check" or "write"."""
    done = [finding for change in plan.changes for finding in change.done]
    verb = "changed" if mode == "write" else "would change"
    files = sum(bool(change.done) for change in plan.changes)
    what = f"{_count(len(done), 'rewrite')} in {_count(files, 'file')} of {plan.files}"
    yield f"Phase {plan.options.phase.value}: {what} {verb}." if done else _nothing(plan)
    for rule, count in sorted(Counter(finding.rule for finding in done).items()):
        example = next(finding for finding in done if finding.rule == rule)
        yield f"  {count:4d}  {rule}  {example.message}"
    notes = sum(len(change.notes) for change in plan.changes)
    if notes:
        verb = "written" if mode == "write" else "would be written"
        yield f"{_count(notes, 'comment')} {verb} at places that are for a person."
    added = [change for change in plan.changes if not change.done and not change.notes]
    verb = "are" if mode == "write" else "would be"
    if helpers := [change.path for change in added if change.kind is Kind.PYTHON]:
        yield f"The device helpers {verb} in {', '.join(helpers)} (--vendor)."
    if lists := [change.path for change in added if change.kind is Kind.REQUIREMENTS]:
        verb = "is" if mode == "write" else "would be"
        yield f"What only machines with CUDA install {verb} in {', '.join(lists)}."
    for kind, title in _LEFT:
        found = [(finding, reason) for finding, reason in plan.left if _kind(plan, finding, reason) == kind]
        if found:
            yield f"{len(found)} left, {title}:"
            yield from _places(found, verbose)
    yield from problems(plan.unparsed)
    yield from _next(plan, mode, where)


def problems(unparsed: Sequence[Unparsed]) -> Iterator[str]:
    """One line for every file that could not be read, parsed or written."""
    for item in unparsed:
        place = ":".join(str(part) for part in (item.path, item.line, item.column) if part is not None)
        yield f"{place}: {item.reason}"


def _nothing(plan: Plan) -> str:
    if not plan.files:
        return "No file that portkit knows was found."
    return f"Phase {plan.options.phase.value}: nothing to change in {_count(plan.files, 'file')}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _kind(plan: Plan, finding: Finding, reason: str) -> str:
    if not plan.options.phase.includes(finding.phase):
        return "later"
    if reason or finding.support is Support.AUTO:
        return "refused"
    return str(finding.support.value)


def _places(found: Sequence[tuple[Finding, str]], verbose: bool) -> Iterator[str]:
    shown = found if verbose else found[:_SHOWN]
    for finding, reason in shown:
        yield f"  {finding.location}: {finding.rule} {finding.message}"
        yield f"      {f'{reason}. ' if reason else ''}{finding.note or finding.remedy}"
    if len(shown) < len(found):
        yield f"  and {len(found) - len(shown)} more (--verbose lists them)"


def _next(plan: Plan, mode: str, where: Where) -> Iterator[str]:
    """The next command to type."""
    phase = plan.options.phase
    command = f"portkit migrate {shlex.quote(where.path)} --phase {phase.value}"
    extra = " --unsafe" if plan.options.unsafe else ""
    if mode == "patch":
        names = [patches.name_of(item) for item in patches.phases(plan)]
        files = [shlex.quote(str(Path(where.patches, name))) for name in names]
        if files:
            yield f"Next, in {shlex.quote(where.path)}: git apply {' '.join(files)}"
        return
    if mode != "write":
        if plan.changes:
            yield f"Next: {command}{extra} --write"
        return
    place = shlex.quote(where.copy or where.path)
    if plan.changes:
        yield f"To take it back: portkit undo {place}"
    later = list(Phase)[phase.rank + 1 :]
    yield f"What is left: portkit status {place}"
    if later:
        yield f"Next: run it, then: portkit migrate {place} --phase {later[0].value} --write"
    else:
        yield f"Next: portkit parity {place}"
