"""The gate: the conditions of a policy, each with what was found and what to do where it does not hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from portkit import baseline, coverage, discover, engine, history, policy, suppress
from portkit.config import Config
from portkit.engine import ScanResult
from portkit.errors import PortkitError, UsageError
from portkit.finding import Finding, Phase
from portkit.parity import document
from portkit.policy import Policy, Proof

_NAMED = 5  # findings that a check lists


@dataclass(frozen=True)
class Check:
    """One condition: what it is about, whether it holds, what was found, and what to do if it does not."""

    name: str
    passed: bool
    detail: str
    remedy: str = ""
    places: tuple[str, ...] = ()  # what stands against it, one line each
    line: int = 1  # of the settings


@dataclass(frozen=True)
class Outcome:
    """What a gate came to."""

    policy: Policy
    result: ScanResult
    checks: list[Check]

    @property
    def failed(self) -> list[Check]:
        return [check for check in self.checks if not check.passed]


def run(path: Path, config: Config, *, parity: bool = True) -> Outcome:
    """Every check of the gate of `path`, in the order of the policy; without `parity`, of the code alone.

    Raises UsageError or ConfigError, as `policy.read` does.
    """
    if not path.exists():
        raise UsageError("There is no such file or folder.", place=str(path), remedy="Check the path.")
    wanted = policy.read(config, path if path.is_dir() else path.parent)
    if not parity:
        wanted = replace(wanted, parity=(), max_slowdown=None)
    if wanted.baseline is not None:
        baseline.read(wanted.baseline)  # a bad one is said before the work
    result = engine.scan([path], config, root=discover.project_root([path], config))
    if wanted.baseline is not None:
        result.baseline = baseline.compare(result, wanted.baseline)
    outcome = Outcome(wanted, result, list(_checks(wanted, result)))
    passed = len(outcome.checks) - len(outcome.failed)
    history.note(path, "gate", result.findings, f"{passed} of {len(outcome.checks)} passed")
    return outcome


def _checks(wanted: Policy, result: ScanResult) -> Iterator[Check]:
    for phase, minimum in wanted.coverage.items():
        yield _coverage(result, phase, minimum, wanted.line("coverage", phase.value))
    if result.baseline is not None:
        yield _baseline(result, result.baseline, wanted.line("baseline"))
    if result.unparsed and (wanted.coverage or wanted.baseline):
        yield _unparsed(result)
    expired = [item for item in result.findings if item.rule == suppress.ExpiredSuppression.id]
    if expired:
        yield _expired(expired)
    for proof in wanted.parity:
        yield _parity(proof, wanted.line("parity", *([proof.phase.value] if proof.phase else [])))
    if wanted.max_slowdown is not None:
        yield _slowdown(wanted, wanted.max_slowdown)


def _coverage(result: ScanResult, phase: Phase, minimum: float, line: int) -> Check:
    counted = coverage.dependencies(result.findings, phase)
    name = f"coverage of {phase.value}"
    if counted.percent is None:
        return Check(name, True, f"no dependency, at least {minimum:g} % asked for", line=line)
    seen = f"{counted.percent:g} % of {counted.total} ({counted.lossy} seen in part)"
    return Check(
        name,
        counted.percent >= minimum,
        f"{seen}, at least {minimum:g} % asked for",
        "`portkit scan --verbose` lists what is left; a new dependency can be rewritten with "
        f"`portkit migrate --phase {phase.value} --write`.",
        line=line,
    )


def _baseline(result: ScanResult, compared: baseline.Compared, line: int) -> Check:
    new = [item for item in result.findings if item.id in compared.new and baseline.counts(item)]
    gone = f"; {len(compared.gone)} of it are resolved and can be taken out" if compared.gone else ""
    return Check(
        "no new findings",
        not new,
        f"{len(new)} new, {len(compared.known)} known in {compared.file.name}{gone}",
        "Resolve them, or accept them with `portkit scan . --write-baseline "
        f"{compared.file.name}`, or with a comment `# portkit: ignore[ID] until DATE reason`.",
        _listed(new),
        line,
    )


def _listed(items: Sequence[Finding]) -> tuple[str, ...]:
    rows = [f"{_at(item)}: {item.rule} {item.message}" for item in items[:_NAMED]]
    more = len(items) - len(rows)
    return (*rows, f"and {more} more") if more else tuple(rows)


def _at(item: Finding) -> str:
    where = item.location
    cell = f"cell {where.cell}:" if where.cell is not None else ""
    return f"{where.path}:{cell}{where.line}:{where.column}"


def _unparsed(result: ScanResult) -> Check:
    """A file that cannot be read may hold any dependency: its share of the coverage is not known."""
    first = result.unparsed[0]
    return Check(
        "all files read",
        False,
        f"{len(result.unparsed)} not, first {first.path}: {first.reason}",
        "Mend the file, or leave it out with `exclude` in [tool.portkit].",
    )


def _expired(items: Sequence[Finding]) -> Check:
    return Check(
        "suppressions within their time",
        False,
        f"{len(items)} {'is' if len(items) == 1 else 'are'} over, and what they cover counts again",
        "Resolve what they cover and remove the comments, or agree on another date.",
        _listed(items),
    )


# --- parity -------------------------------------------------------------------------------------------


def _parity(proof: Proof, line: int) -> Check:
    files = ", ".join(file.name for file in proof.files)
    name = f"parity of {proof.phase.value}" if proof.phase else f"parity in {files}"
    level = proof.phase.value if proof.phase else None
    passed, bad = 0, []
    for file in proof.files:
        try:
            found = document.read(file)
        except PortkitError as error:
            return Check(name, False, f"{file.name}: {error.message}", error.remedy, line=line)
        passed += sum(status == "pass" for _, status, _ in document.verdicts(found, level))
        bad += document.failures(found, level)
    if bad:
        detail = f"{len(bad)} not passed, first {bad[0]}"
        return Check(name, False, detail, "Run `portkit parity` and mend it.", tuple(bad[1:_NAMED]), line)
    if not passed:
        return Check(name, False, f"nothing was compared in {files}", _HOW[level], line=line)
    return Check(name, True, f"{passed} passed", line=line)


_OPERATORS = "Install torch where `portkit parity` runs, or name operators with --operator."
_HOW: dict[str | None, str] = {
    None: _OPERATORS,
    Phase.OPERATOR.value: _OPERATORS,
    Phase.MODULE.value: "Compare modules, and write the result to this file.",
    Phase.FULL_MODEL.value: "Compare a run: `portkit parity --training SCRIPT --format json --output FILE`.",
}


def _slowdown(wanted: Policy, most: float) -> Check:
    """The slowest of the runs that the parity reports timed."""
    times: list[tuple[float, str]] = []
    for file in wanted.reports:
        try:
            found = document.read(file)
        except PortkitError:
            continue  # a check of its own says so
        times += [(ratio, f"{file.name}: {script}") for ratio, script in _ratios(found)]
    line = wanted.line("max-slowdown")
    if not times:
        remedy = _HOW[Phase.FULL_MODEL.value]
        return Check("slow-down", False, "no run was timed", remedy, line=line)
    worst, where = max(times)
    return Check(
        "slow-down",
        worst <= most,
        f"a step takes {worst:.2f} times as long ({where}), at most {most:g} times asked for",
        "`portkit report --parity FILE` shows the times; measure again on a machine that does nothing else.",
        line=line,
    )


def _ratios(found: dict[str, Any]) -> Iterator[tuple[float, str]]:
    report = found.get("training") or {}
    before, after = (_seconds(report.get(side)) for side in ("original", "migrated"))
    if before is not None and after is not None:
        yield after / before, str(report["script"])


def _seconds(side: Any) -> float | None:
    """How long a step of a run took; None where that was not measured."""
    seconds = side.get("seconds") if isinstance(side, dict) else None
    return seconds if isinstance(seconds, (int, float)) and 0 < seconds < float("inf") else None
