"""`portkit cache`: what is kept is counted by kind, and removed without anything else in the folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from portkit import cli


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "cache"
    found.mkdir()
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(found))
    for name, size in (("a.pkobj", 10), ("b.pkobj", 20), ("c.scan", 3), ("d.pktune", 5), ("mine.txt", 7)):
        (found / name).write_bytes(bytes(size))
    return found


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert cli.run(["cache", "--format", "json", *arguments]) == 0
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


def test_what_is_kept_is_counted_by_kind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = told(capsys)
    counted = {name: (kind["files"], kind["bytes"]) for name, kind in report["kinds"].items()}  # type: ignore[attr-defined]
    assert counted == {"kernels": (2, 30), "tuning": (1, 5), "scans": (1, 3)}
    assert report["folder"] == str(folder)
    assert not report["cleared"]
    assert len(list(folder.iterdir())) == 5


def test_clear_removes_what_is_ours(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--clear")["cleared"]
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    assert told(capsys)["kinds"]["kernels"]["files"] == 0  # type: ignore[index]


def test_one_kind_alone_is_cleared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["cache", "--clear", "--kind", "scans"]) == 0
    assert "scans    1 file removed, 3 bytes" in capsys.readouterr().out
    assert not (folder / "c.scan").exists()
    assert (folder / "a.pkobj").exists()


def test_a_compiled_kernel_is_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    from portkit.runtime.tile.checkup_kernel import double

    x = np.zeros(16, np.float32)
    double.warmup(x, x, 16, 32)
    assert told(capsys)["kinds"]["kernels"]["files"] > 2  # type: ignore[index]


def test_a_folder_that_is_not_there_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path / "none"))
    assert all(kind["files"] == 0 for kind in told(capsys)["kinds"].values())  # type: ignore[attr-defined]


@pytest.mark.parametrize("arguments", [["--kind", "cookies"], ["--format", "xml"]])
def test_a_wrong_call(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["cache", *arguments]) == 2
    assert arguments[1] in capsys.readouterr().err


def test_what_cannot_be_removed_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "e.pkobj").mkdir()
    assert cli.run(["cache", "--clear"]) == 1
    assert "e.pkobj" in capsys.readouterr().err
