"""How long findings take a person: the figure of one, and the sums that reports show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from portkit import coverage, tables
from portkit.finding import Effort, Finding, Phase, Support
from portkit.rule import Rule


@cache
def _usual(support: Support) -> Effort:
    return Effort(tables.load("effort")[support.value], f"usual for {support.value}")


def of(rule: Rule, support: Support) -> Effort:
    """The effort of a finding of `rule`, from the rule itself or from the table of support classes."""
    if support is Support.MANUAL and rule.minutes is not None:
        return Effort(rule.minutes, f"rule {rule.id}")
    return _usual(support)


@dataclass(frozen=True)
class Left:
    """Minutes that are left to do, of one phase or of all, by support class."""

    by_support: Mapping[Support, int]

    @property
    def minutes(self) -> int:
        return sum(self.by_support.values())


def left(findings: Iterable[Finding], phase: Phase | None = None) -> Left:
    """The effort of the dependencies that are not portable yet."""
    chosen = [item for item in findings if coverage.is_dependency(item) and phase in (None, item.phase)]
    return Left({s: sum(item.effort.minutes for item in chosen if item.support is s) for s in Support})


def spoken(minutes: int) -> str:
    """Minutes as a person says them: "45 min", "3.5 h"."""
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes / 60
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"
