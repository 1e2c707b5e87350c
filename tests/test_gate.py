"""The gate: each check passes and fails for its reason; wrong settings are named; JUnit is well formed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

from portkit import cli, config, gate
from portkit.errors import ConfigError, UsageError
from portkit.finding import Phase

CODE = "import torch\n\nx = torch.zeros(3).cuda()\ntorch.cuda.synchronize()\n"
ROW = {"operator": "softmax", "implementation": "tile", "dtype": "float32", "reason": ""}


def repository(folder: Path, settings: str, code: str = CODE) -> Path:
    (folder / "train.py").write_text(code)
    (folder / "portkit.toml").write_text(f"[tool.portkit]\n[tool.portkit.gate]\n{settings}\n")
    return folder


def parity_file(folder: Path, *statuses: str, name: str = "parity.json") -> None:
    rows = [{**ROW, "status": status} for status in statuses]
    data = {"schema_version": 1, "kind": "portkit-parity", "rows": rows, "training": None}
    (folder / name).write_text(json.dumps(data))


def checks(folder: Path) -> list[gate.Check]:
    return gate.run(folder, config.load(folder))


def test_coverage_passes_and_fails_at_its_minimum(tmp_path):
    repository(tmp_path, "coverage = { full-model = 100 }")
    assert [check.passed for check in checks(tmp_path)] == [True]
    (tmp_path / "more.py").write_text("import torch\n\ntorch.nn.DataParallel(torch.nn.Linear(3, 3))\n")
    (check,) = checks(tmp_path)
    assert not check.passed
    assert "at least 100 %" in check.detail
    assert "portkit scan" in check.remedy


def test_a_phase_without_dependencies_passes(tmp_path):
    repository(tmp_path, "coverage = { module = 100 }")
    assert checks(tmp_path)[0].passed


def test_a_file_that_cannot_be_read_fails_the_gate(tmp_path):
    repository(tmp_path, "coverage = { full-model = 0 }")
    (tmp_path / "old.py").write_text("import torch\nprint 'cuda'\n")
    assert [check.passed for check in checks(tmp_path)] == [True, False]


@pytest.mark.parametrize(
    ("statuses", "passed", "detail"),
    [
        (["pass", "skipped"], True, "1 passed"),
        (["pass", "fail"], False, "softmax (tile, float32): fail"),
        (["pass", "blind"], False, "blind"),
        (["skipped"], False, "nothing was compared"),
        ([], False, "nothing was compared"),
    ],
)
def test_parity_reports(tmp_path, statuses, passed, detail):
    repository(tmp_path, 'parity = ["parity.json"]')
    parity_file(tmp_path, *statuses)
    (check,) = checks(tmp_path)
    assert check.passed is passed
    assert detail in check.detail


def test_a_missing_parity_report_fails_and_says_how_to_make_it(tmp_path):
    repository(tmp_path, 'parity = ["parity.json"]')
    (check,) = checks(tmp_path)
    assert not check.passed
    assert "--format json --output" in check.remedy


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("coverage = 90", "gate.coverage must be a table"),
        ("coverage = { modul = 90 }", "no phase: modul"),
        ("coverage = { module = 101 }", "gate.coverage.module must be a number"),
        ("coverage = { module = true }", "gate.coverage.module must be a number"),
        ('parity = "parity.json"', "gate.parity must be a list"),
    ],
)
def test_wrong_settings_are_named(tmp_path, settings, message):
    repository(tmp_path, settings)
    with pytest.raises(ConfigError, match=message):
        checks(tmp_path)


def test_no_gate_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="No gate"):
        gate.run(tmp_path, config.Config())


def test_a_missing_path_is_a_usage_error(tmp_path, capsys):
    assert cli.run(["gate", str(tmp_path / "missing")]) == 2
    assert "no such file or folder" in capsys.readouterr().err


def test_command_prints_each_check_and_writes_junit(tmp_path, capsys):
    repository(tmp_path, 'coverage = { full-model = 100, module = 50 }\nparity = ["parity.json"]')
    parity_file(tmp_path, "pass")
    file = tmp_path / "junit.xml"
    assert cli.run(["gate", str(tmp_path), "--junit", str(file)]) == 0
    assert capsys.readouterr().out.count("pass  ") == 3
    root = xml.parse(file).getroot()
    assert root.attrib == {"tests": "3", "failures": "0", "errors": "0"}
    assert len(root.findall("testsuite/testcase")) == 3


def test_command_ends_with_1_and_says_what_to_do(tmp_path, capsys):
    repository(tmp_path, 'parity = ["parity.json"]')
    parity_file(tmp_path, "fail")
    assert cli.run(["gate", str(tmp_path), "--junit", str(tmp_path / "j.xml")]) == 1
    captured = capsys.readouterr()
    assert "FAIL  parity in parity.json" in captured.out
    assert "1 of 1 checks" in captured.err
    failure = xml.parse(tmp_path / "j.xml").getroot().find("testsuite/testcase/failure")
    assert "softmax" in failure.attrib["message"]


def test_the_order_of_phases_is_that_of_the_settings(tmp_path):
    repository(tmp_path, "coverage = { full-model = 1, operator = 1 }")
    assert list(gate.demands(config.load(tmp_path), tmp_path).coverage) == [Phase.FULL_MODEL, Phase.OPERATOR]
