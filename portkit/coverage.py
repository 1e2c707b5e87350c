"""The two coverages of a scan: of dependencies (what ties code to CUDA), of operators (what has a kernel).

Sites that the scan saw only in part (lossy), and files that it could not parse, never count as resolved.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from portkit import ruleset
from portkit.finding import Finding, Phase, Support

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_RUNTIME = Path(__file__).parent / "runtime"
_RESOLVED = (Support.PORTABLE, Support.AUTO)


@dataclass(frozen=True)
class Dependencies:
    """Findings of one phase (or of all), counted by how they can be resolved."""

    by_support: Mapping[Support, int]
    lossy: int  # of those, seen only in part
    resolved: int  # portable, or rewritten safely; lossy ones are not among them

    @property
    def total(self) -> int:
        return sum(self.by_support.values())

    @property
    def percent(self) -> float | None:
        """Share of resolved dependencies in percent; None where there are none."""
        return round(100 * self.resolved / self.total, 1) if self.total else None


@dataclass(frozen=True)
class OperatorUse:
    """A tensor operator that the program calls."""

    name: str  # qualified name in torch
    calls: int
    kernel: str | None  # the portable operator that takes its place
    forward: bool
    backward: bool


@dataclass(frozen=True)
class Operators:
    """All tensor operators that the program calls, the most frequent first."""

    used: tuple[OperatorUse, ...]

    def share(self, direction: str, *, calls: bool = False) -> float | None:
        """Percent of operators (or of calls) with a portable kernel, `direction` "forward" or "backward"."""
        weights = [(item.calls if calls else 1, getattr(item, direction)) for item in self.used]
        total = sum(weight for weight, _ in weights)
        return round(100 * sum(weight for weight, has in weights if has) / total, 1) if total else None


def is_dependency(finding: Finding) -> bool:
    """Whether a finding is about CUDA; those of the engine itself (unused suppressions) are not."""
    return finding.rule not in ruleset.ENGINE_RULES


def dependencies(findings: Iterable[Finding], phase: Phase | None = None) -> Dependencies:
    """Coverage of dependencies, of one phase or overall."""
    chosen = [item for item in findings if is_dependency(item) and phase in (None, item.phase)]
    counts = Counter(item.support for item in chosen)
    return Dependencies(
        by_support={support: counts[support] for support in Support},
        lossy=sum(item.lossy for item in chosen),
        resolved=sum(item.support in _RESOLVED and not item.lossy for item in chosen),
    )


def operators(calls: Mapping[str, int]) -> Operators:
    """Coverage of operators, from the calls that a scan counted."""
    table = kernels()
    used = []
    for name, count in calls.items():
        data = table.get(name, {})
        used.append(
            OperatorUse(
                name=name,
                calls=count,
                kernel=data.get("name"),
                forward=bool(data.get("forward", False)),
                backward=bool(data.get("backward", False)),
            )
        )
    return Operators(tuple(sorted(used, key=lambda item: (-item.calls, item.name))))


@cache
def kernels() -> dict[str, dict[str, Any]]:
    """Qualified name → the data of the portable operator or module that has that name, or replaces it."""
    table: dict[str, dict[str, Any]] = {}
    for folder in ("ops", "nn"):
        for file in sorted((_RUNTIME / folder).glob("*.toml")):
            data = {**tomllib.loads(file.read_text(encoding="utf-8")), "operator": file.stem}
            for replaced in data.get("replaces", ()):
                table.setdefault(replaced["name"], data)
                ours = replaced.get("to", data["name"])
                table.setdefault(f"portkit.runtime.{folder}.{ours}", data)
    return table
