"""docs/schema/scan.json says of every key of the JSON report what it means, and real reports follow it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portkit.cli import run
from portkit.config import OPERATORS
from portkit.finding import GuardKind, Phase, Support
from portkit.reports.json import SCHEMA_VERSION
from portkit.source import Kind

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "docs/schema/scan.json").read_text(encoding="utf-8"))
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
NOTES = {"$schema", "$defs", "title", "description"}


def faults(value: Any, schema: dict[str, Any], place: str, seen: set[str]) -> Iterator[str]:
    """Where a value breaks a schema, for the keywords that ours uses; `seen` collects the objects' keys."""
    for keyword, argument in schema.items():
        if keyword in NOTES:
            continue
        check = CHECKS[keyword]  # a keyword that is not checked here fails
        yield from check(value, argument, schema, place, seen)


def _ref(value: Any, target: str, _: Any, place: str, seen: set[str]) -> Iterator[str]:
    yield from faults(value, SCHEMA["$defs"][target.removeprefix("#/$defs/")], place, seen)


def _type(value: Any, names: str | list[str], _: Any, place: str, seen: set[str]) -> Iterator[str]:
    wanted = [names] if isinstance(names, str) else names
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = [
        (number and (name == "number" or isinstance(value, int)))
        if name in ("number", "integer")
        else isinstance(value, TYPES[name])
        for name in wanted
    ]
    if not any(fits):
        yield f"{place}: {value!r} is no {' or '.join(wanted)}"


def _properties(value: Any, known: dict[str, Any], _: Any, place: str, seen: set[str]) -> Iterator[str]:
    for key in value if isinstance(value, dict) else ():
        if key in known:
            seen.add(f"{id(known)}.{key}")
            yield from faults(value[key], known[key], f"{place}.{key}", seen)


def _others(value: Any, allowed: Any, schema: Any, place: str, seen: set[str]) -> Iterator[str]:
    for key in value if isinstance(value, dict) else ():
        if key in schema.get("properties", {}):
            continue
        if allowed is False:
            yield f"{place}.{key} is not in the schema"
        else:
            yield from faults(value[key], allowed, f"{place}.{key}", seen)


def _required(value: Any, keys: list[str], _: Any, place: str, seen: set[str]) -> Iterator[str]:
    yield from (f"{place}.{key} is missing" for key in keys if isinstance(value, dict) and key not in value)


def _items(value: Any, schema: dict[str, Any], _: Any, place: str, seen: set[str]) -> Iterator[str]:
    for number, item in enumerate(value if isinstance(value, list) else ()):
        yield from faults(item, schema, f"{place}[{number}]", seen)


def _names(value: Any, schema: dict[str, Any], _: Any, place: str, seen: set[str]) -> Iterator[str]:
    for key in value if isinstance(value, dict) else ():
        yield from faults(key, schema, f"{place}.{key}", seen)


def _any(value: Any, choices: list[dict[str, Any]], _: Any, place: str, seen: set[str]) -> Iterator[str]:
    found = [list(faults(value, choice, place, seen)) for choice in choices]
    if all(found):
        yield from found[-1]


def _holds(test: Any) -> Any:
    def check(value: Any, argument: Any, _: Any, place: str, seen: set[str]) -> Iterator[str]:
        if not test(value, argument):
            yield f"{place}: {value!r} does not fit {argument!r}"

    return check


CHECKS = {
    "$ref": _ref,
    "type": _type,
    "properties": _properties,
    "additionalProperties": _others,
    "required": _required,
    "items": _items,
    "propertyNames": _names,
    "anyOf": _any,
    "const": _holds(lambda value, argument: value == argument),
    "enum": _holds(lambda value, argument: value in argument),
    "minimum": _holds(lambda value, argument: value is None or value >= argument),
    "maximum": _holds(lambda value, argument: value is None or value <= argument),
    "pattern": _holds(lambda value, argument: re.search(argument, value)),
}


def objects(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside the schema, with its place."""
    if isinstance(schema, dict):
        yield place, schema
        for key, value in schema.items():
            yield from objects(value, f"{place}/{key}")
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value, place)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Reports that show, together, every key: of all fixtures, of a change, of a baseline, of nothing."""
    tmp_path = tmp_path_factory.mktemp("reports")
    repo = tmp_path / "repo"
    repo.mkdir()
    git = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    (repo / "a.py").write_text("import torch\ntorch.cuda.synchronize()\nprint(torch.cat([]))\n")
    (repo / "bad.py").write_text("import torch.cuda\nprint x\n")
    (repo / "portkit.toml").write_text("")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    base = str(tmp_path / "base.jsonl")
    assert run(["scan", str(repo), "--write-baseline", base]) == 0
    (repo / "a.py").write_text("import torch\ntorch.cuda.empty_cache()  # portkit: ignore\n")
    (repo / "b.py").write_text("import torch\ntorch.cuda.synchronize()\n")
    calls = [
        [str(ROOT / "fixtures")],
        [str(repo), "--baseline", base],
        [str(repo), "--diff-base", "HEAD"],
        [str(tmp_path / "empty")],
    ]
    (tmp_path / "empty").mkdir()
    found = []
    for call in calls:
        assert run(["scan", *call, "--format", "json", "--output", str(tmp_path / "out")]) == 0
        found.append(json.loads((tmp_path / "out").read_text(encoding="utf-8")))
    return found


def test_real_reports_follow_the_schema_and_show_every_key(reports: list[Any]) -> None:
    seen: set[str] = set()
    for number, report in enumerate(reports):
        assert list(faults(report, SCHEMA, f"report {number}", seen)) == []
    known = {
        f"{id(schema['properties'])}.{key}": f"{place}/{key}"
        for place, schema in objects(SCHEMA)
        if isinstance(schema.get("properties"), dict)
        for key in schema["properties"]
    }
    assert [place for key, place in known.items() if key not in seen] == [], "keys that no report has"


def test_a_report_that_differs_does_not_follow_the_schema(reports: list[Any]) -> None:
    def broken(change: Any) -> list[str]:
        report = json.loads(json.dumps(reports[0]))
        change(report)
        return list(faults(report, SCHEMA, "", set()))

    assert broken(lambda report: report["findings"][0].update(more=1))
    assert broken(lambda report: report["findings"][0].pop("remedy"))
    assert broken(lambda report: report["findings"][0].update(line=0))
    assert broken(lambda report: report["findings"][0].update(lossy=None))
    assert broken(lambda report: report["findings"][0].update(support="some"))
    assert broken(lambda report: report["findings"][0].update(id="x"))
    assert broken(lambda report: report["scope"]["kinds"].update(other=1))
    assert broken(lambda report: report["run"].update(baseline={}))
    assert broken(lambda report: report.update(schema_version=2))


def test_every_object_is_closed_and_every_key_explained() -> None:
    for place, schema in objects(SCHEMA):
        if not isinstance(schema.get("properties"), dict):
            continue
        assert schema["additionalProperties"] is False, place
        assert schema["required"] == list(schema["properties"]), place
        for key, value in schema["properties"].items():
            target = SCHEMA["$defs"][value["$ref"].rpartition("/")[2]] if "$ref" in value else value
            assert target["description"].endswith("."), f"{place}/{key}"


def test_words_of_the_schema_are_those_of_the_program() -> None:
    finding = SCHEMA["$defs"]["finding"]["properties"]
    assert SCHEMA["properties"]["schema_version"]["const"] == SCHEMA_VERSION
    assert finding["phase"]["enum"] == [phase.value for phase in Phase]
    assert finding["support"]["enum"] == [support.value for support in Support]
    assert finding["guard_kind"]["enum"] == [*(kind.value for kind in GuardKind), None]
    assert SCHEMA["$defs"]["run"]["properties"]["operators"]["enum"] == list(OPERATORS)
    kinds = SCHEMA["$defs"]["scope"]["properties"]["kinds"]["propertyNames"]["enum"]
    assert kinds == [kind.value for kind in Kind if kind not in (Kind.OTHER, Kind.METADATA)]
    assert (
        list(SCHEMA["$defs"]["dependencies"]["properties"]["phases"]["properties"])
        == finding["phase"]["enum"]
    )


def test_findings_are_in_the_order_that_the_schema_promises(reports: list[Any]) -> None:
    keys = ("path", "cell", "line", "column", "end_line", "end_column", "rule")
    found = [[item[key] or 0 for key in keys] for item in reports[0]["findings"]]
    assert found == sorted(found)
