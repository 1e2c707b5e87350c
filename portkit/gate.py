"""The gate: minimum coverage per phase, and parity reports without a failure, as checks that CI can run."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portkit import coverage, engine, history, tomlfile
from portkit.config import Config
from portkit.engine import ScanResult
from portkit.errors import ConfigError, PortkitError, UsageError
from portkit.finding import Phase
from portkit.parity import document


@dataclass(frozen=True)
class Check:
    """One condition: what it is about, whether it holds, what was found, and what to do if it does not."""

    name: str
    passed: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Demands:
    """What [tool.portkit.gate] asks for."""

    coverage: Mapping[Phase, float]  # minimum in percent
    parity: tuple[Path, ...]  # reports of `portkit parity`, all of which must hold


def demands(config: Config, folder: Path) -> Demands:
    """The gate of a configuration; paths are relative to its file, or else to `folder`.

    Raises ConfigError for a wrong value and UsageError where no gate is configured.
    """
    file = config.file or folder
    if not config.gate:
        raise UsageError(
            "No gate is configured.",
            place=str(file),
            remedy="`portkit init` writes one from today's coverage.",
        )
    base = config.file.parent if config.file else folder
    return Demands(
        coverage=dict(_minima(config.gate.get("coverage", {}), file)),
        parity=tuple(base / name for name in _names(config.gate.get("parity", []), file)),
    )


def _minima(value: Any, file: Path) -> Iterator[tuple[Phase, float]]:
    keys = ("gate", "coverage")
    if not isinstance(value, Mapping):
        raise tomlfile.wrong(file, keys, "must be a table of phase = percent")
    known = {phase.value: phase for phase in Phase}
    for name, minimum in value.items():
        if name not in known:
            place = tomlfile.place(file, *keys, name)
            remedy = f"Phases: {', '.join(known)}."
            raise ConfigError(f"gate.coverage names no phase: {name}.", place=place, remedy=remedy)
        number = isinstance(minimum, (int, float)) and not isinstance(minimum, bool)
        if not number or not 0 <= minimum <= 100:
            raise tomlfile.wrong(file, (*keys, name), "must be a number from 0 to 100")
        yield known[name], float(minimum)


def _names(value: Any, file: Path) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise tomlfile.wrong(file, ("gate", "parity"), "must be a list of files")
    return value


def run(path: Path, config: Config) -> list[Check]:
    """Every check of the gate of `path`, in the order of the configuration.

    Raises UsageError or ConfigError, as `demands` does.
    """
    if not path.exists():
        raise UsageError("There is no such file or folder.", place=str(path), remedy="Check the path.")
    wanted = demands(config, path if path.is_dir() else path.parent)
    result = engine.scan([path], config)
    checks = [_coverage(result, phase, minimum) for phase, minimum in wanted.coverage.items()]
    if result.unparsed and wanted.coverage:
        checks.append(_unparsed(result))
    checks += [_parity(file) for file in wanted.parity]
    passed = sum(check.passed for check in checks)
    history.note(path, "gate", result.findings, f"{passed} of {len(checks)} passed")
    return checks


def _coverage(result: ScanResult, phase: Phase, minimum: float) -> Check:
    counted = coverage.dependencies(result.findings, phase)
    name = f"coverage of {phase.value}"
    if counted.percent is None:
        return Check(name, True, f"no dependency, at least {minimum:g} % asked for")
    seen = f"{counted.percent:g} % of {counted.total} ({counted.lossy} seen in part)"
    return Check(
        name,
        counted.percent >= minimum,
        f"{seen}, at least {minimum:g} % asked for",
        "`portkit scan --verbose` lists what is left; a new dependency can be rewritten with "
        f"`portkit migrate --phase {phase.value} --write`.",
    )


def _unparsed(result: ScanResult) -> Check:
    """A file that cannot be read may hold any dependency: its share of the coverage is not known."""
    first = result.unparsed[0]
    return Check(
        "all files read",
        False,
        f"{len(result.unparsed)} not, first {first.path}: {first.reason}",
        "Mend the file, or leave it out with `exclude` in [tool.portkit].",
    )


def _parity(file: Path) -> Check:
    name = f"parity in {file.name}"
    try:
        found = document.read(file)
    except PortkitError as error:
        return Check(name, False, error.message, error.remedy)
    bad = document.failures(found)
    passed = sum(status == "pass" for _, status, _ in document.verdicts(found))
    if bad:
        return Check(
            name, False, f"{len(bad)} not passed, first {bad[0]}", "Run `portkit parity` and mend it."
        )
    remedy = "Install torch where `portkit parity` runs, or name operators with --operator."
    return Check(name, passed > 0, f"{passed} passed" if passed else "nothing was compared", remedy)


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """The checks for a person, with what to do under each that failed."""
    for check in checks:
        yield f"{'pass' if check.passed else 'FAIL'}  {check.name}: {check.detail}"
        if not check.passed and check.remedy:
            yield f"      {check.remedy}"


def junit(checks: Sequence[Check]) -> bytes:
    """The checks as a JUnit XML file."""
    failures = sum(not check.passed for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0"}
    root = xml.Element("testsuites", counts)
    suite = xml.SubElement(root, "testsuite", {"name": "portkit gate", **counts})
    for check in checks:
        case = xml.SubElement(suite, "testcase", {"classname": "portkit.gate", "name": check.name})
        if check.passed:
            xml.SubElement(case, "system-out").text = check.detail
        else:
            xml.SubElement(case, "failure", {"message": check.detail}).text = check.remedy
    xml.indent(root)
    text: bytes = xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
