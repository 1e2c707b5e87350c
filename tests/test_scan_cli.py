"""The commands scan, rules and explain, as a person calls them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from toy_rules import TOYS

from portkit import reports, ruleset
from portkit.cli import run
from portkit.finding import Phase
from portkit.reports.json import SCHEMA_VERSION


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "all_rules", lambda: TOYS)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("import torch\ntorch.cuda.synchronize()\nx = x.cuda() @ w\n")
    (folder / "bad.py").write_text("x.cuda()\nprint x\n")
    (folder / "run.sh").write_text("pip install nvidia-cuda\n")
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_json_has_its_parts_in_order(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "scan", str(project), "--format", "json")
    data = json.loads(out)
    assert (code, err) == (0, "")
    sections = ("coverage", "dependencies", "operators", "affected", "findings")
    assert list(data) == ["schema_version", "run", "scope", *sections]
    assert data["schema_version"] == SCHEMA_VERSION
    assert [(item["path"], item["rule"]) for item in data["findings"]] == [
        ("a.py", "PK901"),
        ("a.py", "PK902"),
        ("run.sh", "PK903"),
    ]
    assert [item["path"] for item in data["scope"]["unparsed"]] == ["bad.py"]
    assert data["scope"]["files"] == 3
    assert list(data["coverage"]["dependencies"]["phases"]) == [phase.value for phase in Phase]
    assert [item["name"] for item in data["operators"]] == ["torch.matmul"]


def test_json_is_the_same_each_time(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {said(capsys, "scan", str(project), "--format", "json")[1] for _ in range(2)}
    assert len(runs) == 1


def test_terminal_says_what_blocks_and_what_is_next(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, "scan", str(project))
    assert code == 0
    assert "3 files" in out
    assert "What blocks most" in out
    assert "bad.py:2" in out
    assert "1 file not parsed" in out
    assert f"portkit migrate {project} --phase full-model" in out
    assert "\x1b" not in out
    assert "a.py:2:1" not in out


def test_verbose_lists_every_finding(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = said(capsys, "scan", str(project), "--verbose")
    for place in ("a.py:2:1: PK901", "a.py:3:5: PK902", "run.sh:1:13: PK903"):
        assert place in out


def test_strict_ends_with_4_where_a_file_was_not_parsed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "scan", str(project), "--strict")[0] == 4
    (project / "bad.py").unlink()
    assert said(capsys, "scan", str(project), "--strict")[0] == 0


def test_select_and_ignore(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rules(*options: str) -> list[str]:
        out = said(capsys, "scan", str(project), "--format", "json", *options)[1]
        return [item["rule"] for item in json.loads(out)["findings"]]

    assert rules("--select", "PK902") == ["PK902"]
    assert rules("--select", "PK901,PK903") == ["PK901", "PK903"]
    assert rules("--ignore", "PK902") == ["PK901", "PK903"]


def test_output_goes_to_a_file_that_is_whole(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.json"
    code, out, _ = said(capsys, "scan", str(project), "--format", "json", "--output", str(target))
    assert (code, out) == (0, "")
    assert json.loads(target.read_text())["findings"]
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".")] == []


def test_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x.cuda()\n")))
    code, out, _ = said(capsys, "scan", "-", "--format", "json")
    assert code == 0
    assert [item["path"] for item in json.loads(out)["findings"]] == ["<stdin>"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scan", "nothing-here"), "There is no such file or folder."),
        (("scan", ".", "--select", "PK99X"), "There is no rule PK99X."),
        (("scan", ".", "--format", "jsn"), "There is no report format jsn."),
        (("scan", ".", "--config", "nothing.toml"), "There is no such settings file."),
        (("scan", ".", "--output", "nothing/here.txt"), "cannot be written"),
        (("explain", "PK90l"), "Did you mean PK90"),
        (("explain", "cuda_nam"), "Did you mean cuda_name?"),
        (("rules", "--format", "xml"), "There is no format xml"),
    ],
)
def test_wrong_calls_are_one_sentence_and_2(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = said(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_wrong_settings_name_file_and_key(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text("[tool.portkit]\nignore = ['PK90l']\n")
    code, _, err = said(capsys, "scan", str(project))
    assert code == 2
    assert "pyproject.toml" in err
    assert "Did you mean PK90" in err


def test_rules_lists_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = said(capsys, "rules")
    data = json.loads(said(capsys, "rules", "--format", "json")[1])
    assert [item["id"] for item in data] == [*sorted(ruleset.ENGINE_RULES), "PK901", "PK902", "PK903"]
    assert all(item["id"] in out and item["summary"] for item in data)


def test_explain_shows_the_docstring(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("PK901", "pk901", "cuda_name", "cuda-name"):
        code, out, _ = said(capsys, "explain", word)
        assert code == 0
        assert "A name of torch.cuda is used." in out
        assert "any attribute of `torch.cuda`" in out


def test_every_format_renders_an_empty_scan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in reports.formats():
        code, out, err = said(capsys, "scan", str(tmp_path), "--format", name)
        assert (code, err) == (0, ""), name
        assert out.strip()


def test_goes_on_past_a_path_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.py").write_text("import torch\nx = torch.zeros(3).cuda()\n")
    assert run(["scan", str(tmp_path / "gone"), str(tmp_path / "x.py"), "--format", "json"]) == 2
    shown = capsys.readouterr()
    assert "gone: There is no such file or folder." in shown.err
    assert json.loads(shown.out)["scope"]["files"] == 1
