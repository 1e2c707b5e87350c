"""Facts about text: rows of a table, each a pattern, what it says of CUDA, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from portkit import tables
from portkit.analyzers._lines import Line
from portkit.finding import Effort, Finding, Phase, Span, Support
from portkit.rule import Context, Rule
from portkit.source import Kind


@dataclass(frozen=True)
class Pattern:
    """One row: `expression` matches what is reported (its group `value`, if it has one)."""

    expression: re.Pattern[str]
    says: str  # the message; {value} is what was matched
    instead: str
    support: Support
    note: str  # what differs, for the support class review
    phase: Phase | None
    minutes: int | None
    group: str  # places with the same one are told as one finding a file; may hold {value}
    kinds: frozenset[Kind]  # empty: all that the rule looks at


@cache
def load(name: str) -> tuple[Pattern, ...]:
    """The rows of the table `name`."""
    return tuple(
        Pattern(
            expression=re.compile(row["pattern"], re.I if row.get("any_case") else 0),
            says=row["says"],
            instead=row["instead"],
            support=Support(row.get("support", Support.MANUAL.value)),
            note=row.get("note", ""),
            phase=Phase(row["phase"]) if "phase" in row else None,
            minutes=row.get("minutes"),
            group=row.get("group", ""),
            kinds=frozenset(Kind(kind) for kind in row.get("kinds", ())),
        )
        for row in tables.load(name)["pattern"]
    )


def find(rule: Rule, ctx: Context, rows: Iterable[Pattern], lines: Iterable[Line]) -> Iterator[Finding]:
    """A finding for each match of a row in a line; where matches overlap, the row that comes first counts."""
    rows = [row for row in rows if not row.kinds or ctx.kind in row.kinds]
    for line in lines:
        taken: list[tuple[int, int]] = []
        for row in rows:
            for match in row.expression.finditer(line.text):
                group: str | int = "value" if "value" in row.expression.groupindex else 0
                start, end = match.span(group)
                if start >= 0 and not any(a < end and start < b for a, b in taken):
                    taken.append((start, end))
                    yield at(rule, ctx, row, line.span(match, group), match[group])


def at(rule: Rule, ctx: Context, row: Pattern, span: Span, value: str) -> Finding:
    """The finding that a row makes of one place."""
    return ctx.finding(
        rule,
        span,
        row.says.format(value=value),
        support=row.support,
        remedy=row.instead.format(value=value),
        note=row.note,
        phase=row.phase,
        effort=Effort(row.minutes, f"rule {rule.id}") if row.minutes is not None else None,
        group=row.group.format(value=value),
    )
