"""portkit demo: the whole journey, without torch, and folders that are not its own."""

from __future__ import annotations

import json

import pytest

from portkit import cli, demo
from portkit.errors import UsageError
from portkit.parity import cases


def test_the_whole_journey(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(cases, "used", lambda result: ["silu"])  # the operators have tests of their own
    folder = tmp_path / "demo"
    assert cli.run(["demo", "--output", str(folder), "--steps", "3"]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == str(folder / "report.html")
    for line in ("scan: ", "phase operator: ", "train: 3 steps", "pass: loss ", "parity: ", "Next"):
        assert line in captured.err
    page = (folder / "report.html").read_text()
    for part in ("changes", "parity", "modules", "training", "performance"):
        assert f'id="{part}"' in page
    for part in ("<polyline", "data-timeline", "<circle", "report.tile.perfetto.json"):
        assert part in page
    assert json.loads((folder / "report.tile.perfetto.json").read_text())["traceEvents"]
    found = json.loads((folder / "parity.json").read_text())
    assert len(found["training"]["migrated"]["losses"]) == 3
    assert found["training"]["status"] == "pass"
    assert len(found["modules"]) == 6
    assert all(row["status"] == "pass" for row in found["modules"])
    assert {row["implementation"] for row in found["rows"]} == {"tile", "composite"}
    assert (folder / "migrated" / ".portkit").is_dir()


def test_without_torch_only_the_training_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cases, "torch_installed", lambda: False)
    monkeypatch.setattr(cases, "used", lambda result: ["silu"])
    folder = tmp_path / "demo"
    assert cli.run(["demo", "--output", str(folder)]) == 0
    assert capsys.readouterr().err.count("torch is not installed") == 1
    assert 'id="changes"' in (folder / "report.html").read_text()
    assert json.loads((folder / "parity.json").read_text())["training"] is None


def test_a_foreign_folder_is_refused_and_stays(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert cli.run(["demo", "--output", str(tmp_path)]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert cli.run(["demo", "--output", str(tmp_path / "mine.txt")]) == 2


def test_an_earlier_demo_is_replaced(tmp_path):
    demo.prepare(tmp_path / "demo")
    stale = tmp_path / "demo" / "original" / "stale.py"
    stale.write_text("")
    original = demo.prepare(tmp_path / "demo")
    assert (original / "train.py").is_file()
    assert not stale.exists()


def test_an_empty_folder_is_taken(tmp_path):
    assert (demo.prepare(tmp_path) / "train.py").is_file()


def test_the_repository_is_found_in_an_installed_package(tmp_path, monkeypatch):
    package = tmp_path / "portkit"
    inside = package / "templates" / "minigpt"
    inside.mkdir(parents=True)
    monkeypatch.setattr(demo, "__file__", str(package / "demo.py"))
    with pytest.raises(UsageError, match="missing"):
        demo.source()
    (inside / "train.py").write_text("")
    assert demo.source() == inside
