"""portkit init: what it writes passes its own gate, and nothing that is there is overwritten."""

from __future__ import annotations

import subprocess

import pytest

from portkit import cli, config, gate, policy
from portkit.finding import Phase

CODE = "import torch\nimport torch.nn.functional as F\n\ny = F.softmax(torch.zeros(3).cuda(), dim=-1)\n"


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "train.py").write_text(CODE)
    return tmp_path


def test_settings_hold_todays_coverage(repository):
    assert cli.run(["init", str(repository)]) == 0
    demands = policy.read(config.load(repository), repository)
    assert set(demands.coverage) == set(Phase)
    found = gate.run(repository, config.load(repository))
    assert all(check.passed for check in found.checks if check.name.startswith("coverage"))
    assert [path.name for path in demands.reports] == ["portkit-parity.json"]
    assert not (repository / ".github").exists()


def test_a_repository_without_operators_gets_no_parity(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n\ntorch.cuda.synchronize()\n")
    assert cli.run(["init", str(tmp_path), "--ci", "github"]) == 0
    assert policy.read(config.load(tmp_path), tmp_path).parity == ()
    assert "portkit parity" not in (tmp_path / ".github/workflows/portkit.yml").read_text()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_settings_are_added_to_a_pyproject(repository, newline):
    before = f'[project]{newline}name = "x"'.encode()
    (repository / "pyproject.toml").write_bytes(before)
    assert cli.run(["init", str(repository)]) == 0
    after = (repository / "pyproject.toml").read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == after.count(newline.encode())
    assert config.load(repository).gate
    assert not (repository / "portkit.toml").exists()


def test_settings_that_are_there_stay(repository, capsys):
    text = '[tool.portkit]\noperators = "all"\n'
    (repository / "portkit.toml").write_text(text)
    assert cli.run(["init", str(repository), "--ci", "github", "--force"]) == 0
    assert (repository / "portkit.toml").read_text() == text
    assert "kept" in capsys.readouterr().err


def test_workflow_runs_scan_parity_and_gate_on_the_branch(repository):
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(repository)], check=True)
    assert cli.run(["init", str(repository), "--ci", "github"]) == 0
    text = (repository / ".github/workflows/portkit.yml").read_text()
    for command in ("portkit scan .", "portkit parity .", "portkit gate . --junit"):
        assert command in text
    assert 'branches: ["trunk"]' in text
    assert "{{" not in text
    assert "\t" not in text


@pytest.mark.parametrize(
    ("options", "message"), [(["--ci", "gitlub"], "Did you mean gitlab?"), (["missing"], "no such folder")]
)
def test_wrong_calls(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["init", *options]) == 2
    assert message in capsys.readouterr().err
