"""The two coverages of a scan: of dependencies (what ties code to CUDA), of operators (what has a kernel).

Sites that the scan saw only in part (lossy), and files that it could not parse, never count as resolved.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from portkit import ruleset
from portkit.finding import Finding, Phase, Support

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from portkit.inventory import Use

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


class Place(NamedTuple):
    """Where an operator is used."""

    path: str
    line: int
    cell: int | None = None


@dataclass(frozen=True)
class OperatorUse:
    """A tensor operator that the program uses."""

    name: str  # qualified name in torch
    calls: int  # places that are sure to use it
    unknown: int  # calls of a method of this name whose receiver is of unknown type: not among `calls`
    passed: int  # places that pass it on, to be called or made elsewhere: not among `calls`
    places: tuple[Place, ...]  # all of `calls`, in order
    kernel: str | None  # the portable operator that takes its place
    forward: bool
    backward: bool
    devices: tuple[str, ...]  # that the kernel runs on, where its data say so
    dtypes: tuple[str, ...]

    @property
    def portable(self) -> bool:
        """Whether there is a portable kernel, forward and backward."""
        return self.forward and self.backward


@dataclass(frozen=True)
class Operators:
    """All tensor operators that the program uses, the most frequent first."""

    every: tuple[OperatorUse, ...]

    @cached_property
    def used(self) -> tuple[OperatorUse, ...]:
        """Those of which at least one use is sure."""
        return tuple(item for item in self.every if item.calls)

    @property
    def calls(self) -> int:
        return sum(item.calls for item in self.every)

    @property
    def unknown(self) -> int:
        """Calls that may be of a tensor: never counted, and shown beside every share."""
        return sum(item.unknown for item in self.every)

    @property
    def passed(self) -> int:
        return sum(item.passed for item in self.every)

    def share(self, direction: str, *, calls: bool = False) -> float | None:
        """Percent of operators (or calls) with a kernel, `direction` "forward", "backward" or "portable"."""
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


def operators(found: Mapping[str, Sequence[Use]], own_methods: Collection[str] = ()) -> Operators:
    """Coverage of operators, from the uses that a scan found in each file (path → uses).

    A method that only tensors have says that its receiver is one, unless a class of the project has a method
    of that name (`own_methods`).
    """
    places: dict[str, list[Place]] = defaultdict(list)
    unknown: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for path, uses in sorted(found.items()):
        for name, seen, line, cell in uses:
            if seen == "passed":
                passed[name] += 1
            elif seen == "unknown" or (seen == "method" and name.rpartition(".")[2] in own_methods):
                unknown[name] += 1
            else:
                places[name].append(Place(path, line, cell))
    every = [
        _operator(
            name, sorted(places[name], key=lambda at: (at.path, at.cell or 0, at.line)), unknown, passed
        )
        for name in {*places, *unknown, *passed}
    ]
    every.sort(key=lambda item: (-item.calls, -item.unknown, item.name))
    return Operators(tuple(every))


def _operator(name: str, places: Sequence[Place], unknown: Counter[str], passed: Counter[str]) -> OperatorUse:
    data = kernels().get(name, {})
    return OperatorUse(
        name=name,
        calls=len(places),
        unknown=unknown[name],
        passed=passed[name],
        places=tuple(places),
        kernel=data.get("name"),
        forward=bool(data.get("forward", False)),
        backward=bool(data.get("backward", False)),
        devices=tuple(data.get("devices", ())),
        dtypes=tuple(data.get("dtypes", ())),
    )


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
