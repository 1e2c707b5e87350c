"""The report in SARIF 2.1.0, for code scanning and editors: findings as results, rules with their help."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import portkit
from portkit import rulebook, ruleset
from portkit.engine import ScanResult
from portkit.finding import Finding, Location, Support, Unparsed
from portkit.reports import _places
from portkit.reports.json import finding_data
from portkit.rule import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"
_FINGERPRINT = "portkitFinding/v1"
_UNPARSED = "not-parsed"
# said elsewhere in a result; all others are properties
_SAID = frozenset(
    ("id", "rule", "path", "line", "column", "end_line", "end_column", "message", "remedy", "scope", "new")
)


def render(result: ScanResult, *, verbose: bool = False, colour: bool = False, width: int = 100) -> str:
    """SARIF text; `verbose`, `colour` and `width` change nothing."""
    return json.dumps(as_data(result), indent=2, ensure_ascii=False)


def as_data(result: ScanResult) -> dict[str, Any]:
    """The report as plain data: no times, and no path of this machine."""
    engine = [rule for rule in ruleset.documented() if rule.id in ruleset.ENGINE_RULES]
    rules = [*engine, *result.rules]
    index = {rule.id: number for number, rule in enumerate(rules)}
    results = [_result(item, result, index) for item in result.findings]
    for item in result.suppressed:
        found = _result(item.finding, result, index)
        found["suppressions"] = [{"kind": "inSource", "status": "accepted"}]
        if item.reason:
            found["suppressions"][0]["justification"] = item.reason
        results.append(found)
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(rules)},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the project."}}},
                "invocations": [_invocation(result)],
                "results": results,
            }
        ],
    }


def _driver(rules: list[type[Rule]]) -> dict[str, Any]:
    return {
        "name": "portkit",
        "semanticVersion": portkit.__version__,
        "shortDescription": {"text": "Finds what ties training code to CUDA."},
        "rules": [_rule(rule) for rule in rules],
        "notifications": [
            {"id": _UNPARSED, "shortDescription": {"text": "A file could not be read or parsed."}}
        ],
    }


def _rule(rule: type[Rule]) -> dict[str, Any]:
    page = inspect.cleandoc(rule.__doc__ or "")
    text = rulebook.summary(rule) or rule.name
    return {
        "id": rule.id,
        "name": rule.__name__,
        "shortDescription": {"text": text},
        "fullDescription": {"text": _what(page) or text},
        "help": {"text": page or text, "markdown": _markdown(page) or text},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"phase": rule.phase.value, "tags": ["portability", "cuda", rule.phase.value]},
    }


def _what(page: str) -> str:
    """The paragraph of a rule's docstring that says what it finds."""
    after = page.partition("\nWhat:")[2]
    for heading in rulebook.HEADINGS:
        after = after.partition(f"\n{heading}")[0]
    return " ".join(after.split())


def _markdown(page: str) -> str:
    """A rule's docstring with its headings set off; it is Markdown otherwise."""
    for heading in rulebook.HEADINGS:
        page = page.replace(f"\n{heading}", f"\n\n**{heading.rstrip(':')}:**")
    return page


def _result(item: Finding, result: ScanResult, index: Mapping[str, int]) -> dict[str, Any]:
    data, new = finding_data(item), result.is_new(item)
    found = {
        "ruleId": item.rule,
        "ruleIndex": index[item.rule],
        "kind": "informational" if item.support is Support.PORTABLE else "fail",
        "level": _places.LEVELS[item.support],
        "message": {"text": _places.said(item)},
        "locations": [_location(item, result)],
        "partialFingerprints": {_FINGERPRINT: item.id},
        "properties": {k: v for k, v in data.items() if k not in _SAID and v not in (None, "", [])},
    }
    if new is not None:
        found["baselineState"] = "new" if new else "unchanged"
    return found


def _location(item: Finding, result: ScanResult) -> dict[str, Any]:
    where = item.location
    physical: dict[str, Any] = {"artifactLocation": artifact(where.path)}
    region = _region(where, result)
    if region:
        physical["region"] = region
    location: dict[str, Any] = {"physicalLocation": physical}
    if item.scope:
        name = item.scope.rpartition(".")[2]
        location["logicalLocations"] = [{"name": name, "fullyQualifiedName": item.scope}]
    return location


def _region(where: Location, result: ScanResult) -> dict[str, int]:
    lines = _places.lines(where, result.root)
    if lines is None:
        return {}
    region = {"startLine": lines[0], "endLine": lines[1]}
    if where.cell is None:  # columns inside a cell are not those of the JSON text
        region |= {"startColumn": where.column, "endColumn": where.end_column}
    return region


def artifact(path: str) -> dict[str, str]:
    """A path as a relative URI; the bytes of names that are not UTF-8 stay what they are."""
    uri = quote(os.fsencode(path), safe="/")
    return {"uri": uri} if path == _places.STDIN else {"uri": uri, "uriBaseId": ROOT}


def _invocation(result: ScanResult) -> dict[str, Any]:
    found: dict[str, Any] = {"executionSuccessful": True}
    if result.unparsed:
        found["toolExecutionNotifications"] = [_notification(item) for item in result.unparsed]
    return found


def _notification(item: Unparsed) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": artifact(item.path)}
    if item.line:
        physical["region"] = {"startLine": item.line}
        if item.column:
            physical["region"]["startColumn"] = item.column
    return {
        "descriptor": {"id": _UNPARSED, "index": 0},
        "level": "warning",
        "message": {"text": f"{item.path} {item.reason}. It counts as not converted."},
        "locations": [{"physicalLocation": physical}],
    }
