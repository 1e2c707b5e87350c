"""The gate: each check passes and fails for its reason; wrong settings are named; JUnit is well formed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from datetime import date
from pathlib import Path

import pytest

from portkit import cli, config, gate, gate_output, policy, suppress
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
    return gate.run(folder, config.load(folder)).checks


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
        ('parity = { modul = ["a.json"] }', "gate.parity names no phase: modul"),
        ("parity = { module = [] }", "gate.parity.module names no file"),
        ('parity = { module = "a.json" }', "gate.parity.module must be a list of files"),
        ("baseline = 3", "gate.baseline must be the name of a file"),
        ("max-slowdown = 0", "gate.max-slowdown must be a number above 0"),
        ("max-slowdown = 1.1", "gate.max-slowdown needs the times of a parity report"),
        ("max_slowdown = 1.1", "no setting gate.max_slowdown"),
    ],
)
def test_wrong_settings_are_named(tmp_path, settings, message):
    repository(tmp_path, settings)
    with pytest.raises(ConfigError, match=message) as caught:
        checks(tmp_path)
    assert caught.value.place == f"{tmp_path / 'portkit.toml'}:3"


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
    assert list(policy.read(config.load(tmp_path), tmp_path).coverage) == [Phase.FULL_MODEL, Phase.OPERATOR]


# --- no new findings ----------------------------------------------------------------------------------


def test_new_findings_fail_the_gate_and_are_listed(tmp_path, capsys):
    repository(tmp_path, 'baseline = "known.jsonl"')
    assert cli.run(["scan", str(tmp_path), "--write-baseline", str(tmp_path / "known.jsonl")]) == 0
    assert [check.passed for check in checks(tmp_path)] == [True]
    (tmp_path / "more.py").write_text("import torch\n\ny = torch.ones(2).cuda()\n")
    (check,) = checks(tmp_path)
    assert not check.passed
    assert check.places[0].startswith("more.py:3:")
    assert "--write-baseline known.jsonl" in check.remedy


def test_a_part_of_the_project_is_compared_with_the_baseline_of_all(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "inner.py").write_text(CODE)
    repository(tmp_path, 'baseline = "known.jsonl"')
    assert cli.run(["scan", str(tmp_path), "--write-baseline", str(tmp_path / "known.jsonl")]) == 0
    (check,) = gate.run(folder, config.load(folder)).checks
    assert check.passed
    assert "can be taken out" not in check.detail


def test_resolved_findings_are_said_to_be_gone(tmp_path):
    repository(tmp_path, 'baseline = "known.jsonl"')
    assert cli.run(["scan", str(tmp_path), "--write-baseline", str(tmp_path / "known.jsonl")]) == 0
    (tmp_path / "train.py").write_text("import torch\n")
    (check,) = checks(tmp_path)
    assert check.passed
    assert "can be taken out" in check.detail


def test_a_missing_or_broken_baseline_is_a_usage_error(tmp_path, capsys):
    repository(tmp_path, 'baseline = "known.jsonl"')
    assert cli.run(["gate", str(tmp_path)]) == 2
    assert "The baseline cannot be read" in capsys.readouterr().err
    (tmp_path / "known.jsonl").write_text("{\n")
    assert cli.run(["gate", str(tmp_path)]) == 2
    assert "known.jsonl:1" in capsys.readouterr().err


# --- parity per phase, and speed ----------------------------------------------------------------------


def training_file(folder: Path, status: str = "pass", seconds: tuple[float, float] = (1.0, 1.2)) -> None:
    sides = [{"losses": [], "norms": [], "error": "", "seconds": one} for one in seconds]
    training = {
        "script": "train.py",
        "status": status,
        "reason": "",
        "original": sides[0],
        "migrated": sides[1],
    }
    data = {"schema_version": 1, "kind": "portkit-parity", "rows": [], "training": training}
    (folder / "run.json").write_text(json.dumps(data))


def test_parity_of_a_phase_asks_for_verdicts_of_that_phase(tmp_path):
    names = '["parity.json", "run.json"]'
    repository(tmp_path, f"parity = {{ operator = {names}, module = {names}, full-model = {names} }}")
    parity_file(tmp_path, "pass")
    training_file(tmp_path, "fail")
    operator, module, full = checks(tmp_path)
    assert operator.passed
    assert not module.passed
    assert "nothing was compared" in module.detail
    assert not full.passed
    assert "training train.py: fail" in full.detail


@pytest.mark.parametrize(("most", "passed"), [(1.25, True), (1.1, False)])
def test_slow_down(tmp_path, most, passed):
    repository(tmp_path, f'parity = ["run.json"]\nmax-slowdown = {most}')
    training_file(tmp_path)
    check = checks(tmp_path)[1]
    assert check.passed is passed
    assert "1.20 times as long (run.json: train.py)" in check.detail


@pytest.mark.parametrize("seconds", [(0.0, 1.0), (1.0, float("nan"))])
def test_a_run_that_was_not_timed_is_not_fast(tmp_path, seconds):
    repository(tmp_path, 'parity = ["run.json"]\nmax-slowdown = 9')
    training_file(tmp_path, seconds=seconds)
    assert [check.passed for check in checks(tmp_path)] == [True, False]


@pytest.mark.parametrize(
    "damage",
    [
        {"rows": None},
        {"rows": [{"operator": "softmax"}]},
        {"training": {"script": "x.py"}},
        {"training": []},
        {"modules": [3]},
    ],
)
def test_a_damaged_parity_report_fails_the_gate(tmp_path, damage):
    repository(tmp_path, 'parity = ["parity.json"]')
    data = {"schema_version": 1, "kind": "portkit-parity", "rows": [], "training": None} | damage
    (tmp_path / "parity.json").write_text(json.dumps(data))
    (check,) = checks(tmp_path)
    assert not check.passed
    assert "damaged" in check.detail


def test_without_parity_only_the_code_is_checked(tmp_path, capsys):
    repository(tmp_path, 'coverage = { full-model = 0 }\nparity = ["no.json"]\nmax-slowdown = 2')
    assert cli.run(["gate", str(tmp_path)]) == 1
    capsys.readouterr()
    assert cli.run(["gate", str(tmp_path), "--no-parity"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


# --- suppressions that end ----------------------------------------------------------------------------

LINE = "import torch\n\nx = torch.zeros(3).cuda()  # portkit: ignore {} the driver comes in June\n"


@pytest.mark.parametrize("end", ["until 2026-06-30", "until: 2026-06-30", "- until 2026-6-30"])
@pytest.mark.parametrize(("day", "passed"), [(date(2026, 6, 30), True), (date(2026, 7, 1), False)])
def test_a_suppression_holds_to_the_end_of_its_last_day(tmp_path, monkeypatch, end, day, passed):
    monkeypatch.setattr(suppress, "today", lambda: day)
    repository(tmp_path, "coverage = { full-model = 0 }", LINE.format(end))
    outcome = gate.run(tmp_path, config.load(tmp_path))
    assert len(outcome.result.suppressed) == passed
    assert bool(outcome.failed) is not passed
    if not passed:
        (check,) = outcome.failed
        assert "the driver comes in June" in check.places[0]
        assert {item.rule for item in outcome.result.findings} >= {"PK003", "PK302"}
    else:
        assert outcome.result.suppressed[0].reason == "the driver comes in June"


@pytest.mark.parametrize("end", ["until 2026-02-30", "until 30.06.2099", "until 2099/06/30", "until 2099-06"])
def test_an_end_that_is_no_date_suppresses_nothing(tmp_path, end):
    repository(tmp_path, "coverage = { full-model = 0 }", LINE.format(end))
    (check,) = gate.run(tmp_path, config.load(tmp_path)).failed
    assert "no date like" in check.places[0]


@pytest.mark.parametrize(
    "reason", ["until torch 2.9", "until 12.4.1 is out", "it holds until 2001-01-01", "untilX"]
)
def test_other_words_are_the_reason(tmp_path, reason):
    repository(tmp_path, "coverage = { full-model = 0 }", LINE.format(reason))
    outcome = gate.run(tmp_path, config.load(tmp_path))
    assert not outcome.failed
    assert outcome.result.suppressed[0].reason.startswith(reason)


def test_results_that_were_kept_are_not_of_another_day(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text(LINE.format("until 2026-06-30"))
    seen = []
    for day in (date(2026, 6, 30), date(2026, 7, 1)):
        monkeypatch.setattr(suppress, "today", lambda day=day: day)
        assert cli.run(["scan", str(tmp_path / "code"), "--format", "json"]) == 0
        seen.append("PK003" in capsys.readouterr().out)
    assert seen == [False, True]


# --- what is written ----------------------------------------------------------------------------------


def test_sarif_holds_the_findings_and_the_checks(tmp_path):
    repository(tmp_path, 'coverage = { full-model = 100 }\nbaseline = "known.jsonl"\nparity = ["no.json"]')
    (tmp_path / "known.jsonl").write_text('{"portkit_baseline": 1}\n')
    file = tmp_path / "gate.sarif"
    assert cli.run(["gate", str(tmp_path), "--sarif", str(file)]) == 1
    scan, own = json.loads(file.read_text())["runs"]
    assert {item["baselineState"] for item in scan["results"] if item["level"] != "none"} == {"new"}
    rules = [rule["id"] for rule in own["tool"]["driver"]["rules"]]
    assert rules == ["gate/coverage-of-full-model", "gate/no-new-findings", "gate/parity-in-no-json"]
    assert [item["ruleId"] for item in own["results"]] == rules[1:]
    assert all(rules[item["ruleIndex"]] == item["ruleId"] for item in own["results"])
    places = [item["locations"][0]["physicalLocation"] for item in own["results"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {"portkit.toml"}
    assert [place["region"]["startLine"] for place in places] == [4, 5]


def test_junit_holds_names_of_any_bytes():
    check = gate.Check("parity in a\x00\udcff.json", False, "\x1b[31m & <b>", "Do it.", ("a\x07.py:1",))
    case = xml.fromstring(gate_output.junit([check])).find("testsuite/testcase")
    assert case is not None
    assert case.attrib["name"] == "parity in a\ufffd\ufffd.json"
    assert case.find("failure").text == "a\ufffd.py:1\nDo it."


def test_a_target_that_cannot_be_written_is_said_before_the_work(tmp_path, capsys):
    repository(tmp_path, "coverage = { full-model = 0 }")
    assert cli.run(["gate", str(tmp_path), "--sarif", str(tmp_path / "no" / "x.sarif")]) == 2
    assert "pass" not in capsys.readouterr().out
