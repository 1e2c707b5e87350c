"""The outcome of a gate as lines for a person, as JUnit XML and as SARIF."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import portkit
from portkit.gate import Check, Outcome
from portkit.reports import sarif as findings

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """The checks for a person, with what stands against each that failed, and what to do."""
    for check in checks:
        yield f"{'pass' if check.passed else 'FAIL'}  {check.name}: {check.detail}"
        if check.passed:
            continue
        yield from (f"      {place}" for place in check.places)
        if check.remedy:
            yield f"      {check.remedy}"


def junit(checks: Sequence[Check]) -> bytes:
    """The checks as a JUnit XML file."""
    failures = sum(not check.passed for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0"}
    root = xml.Element("testsuites", counts)
    suite = xml.SubElement(root, "testsuite", {"name": "portkit gate", **counts})
    for check in checks:
        case = xml.SubElement(suite, "testcase", {"classname": "portkit.gate", "name": _legal(check.name)})
        if check.passed:
            xml.SubElement(case, "system-out").text = _legal(check.detail)
            continue
        failure = xml.SubElement(case, "failure", {"message": _legal(check.detail)})
        failure.text = _legal("\n".join(filter(None, [*check.places, check.remedy])))
    xml.indent(root)
    text: bytes = xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _legal(text: str) -> str:
    """Text without what XML cannot hold: control characters, and bytes of names that are not UTF-8."""
    return _NOT_XML.sub("�", text)


def sarif(outcome: Outcome) -> str:
    """The findings as `portkit scan` reports them, with their state against the baseline, and the gate.

    The gate is a run of its own: its rules are the conditions, its results those that do not hold.
    """
    data = findings.as_data(outcome.result)
    data["runs"].append(_run(outcome))
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode() + "\n"


def _run(outcome: Outcome) -> dict[str, Any]:
    checks = outcome.checks
    return {
        "tool": {
            "driver": {
                "name": "portkit gate",
                "semanticVersion": portkit.__version__,
                "rules": [_rule(check) for check in checks],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {findings.ROOT: {"description": {"text": "The root of the project."}}},
        "invocations": [{"executionSuccessful": True}],
        "results": [
            _result(check, number, _settings(outcome))
            for number, check in enumerate(checks)
            if not check.passed
        ],
    }


def _rule(check: Check) -> dict[str, Any]:
    help_ = check.remedy or "Nothing has to be done."
    return {
        "id": _id(check),
        "shortDescription": {"text": check.name},
        "fullDescription": {"text": f"A condition of [tool.portkit.gate]: {check.name}."},
        "help": {"text": help_},
        "defaultConfiguration": {"level": "error"},
    }


def _id(check: Check) -> str:
    return "gate/" + re.sub(r"[^a-z0-9]+", "-", check.name.lower()).strip("-")


def _result(check: Check, number: int, settings: str) -> dict[str, Any]:
    text = "\n".join(filter(None, [f"{check.name}: {check.detail}", *check.places, check.remedy]))
    artifact = findings.artifact(settings)
    return {
        "ruleId": _id(check),
        "ruleIndex": number,
        "kind": "fail",
        "level": "error",
        "message": {"text": text},
        "locations": [
            {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": check.line}}}
        ],
        "partialFingerprints": {"portkitGate/v1": _id(check)},
    }


def _settings(outcome: Outcome) -> str:
    """The file of the policy, from the root of the scan; only its name where it lies elsewhere."""
    file = outcome.policy.file
    path = Path(os.path.relpath(os.path.realpath(file), os.path.realpath(outcome.result.root)))
    return file.name if path.is_absolute() or ".." in path.parts else path.as_posix()
