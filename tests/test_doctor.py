"""`portkit doctor`: what it reports, also where torch, the compiler or a writable cache is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from portkit import cli
from portkit.runtime import checkup, targets
from portkit.runtime.tile import threads


def problems(report):
    return {problem["severity"]: problem["message"] for problem in report["problems"]}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path / "cache"))


def test_json_is_the_whole_report(capsys):
    assert cli.run(["doctor", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["processor"]["target"] == targets.host().name
    assert set(report["targets"]) == set(targets.targets())
    assert all(target["emits"] for target in report["targets"].values())
    assert report["kernels"]["result_is_right"]
    assert report["cache"]["writable"]
    assert report["threads"]["threads"] >= 1


def test_text_has_every_part(capsys):
    assert cli.run(["doctor"]) == 0
    text = capsys.readouterr().out
    for part in ("software", "processor", "targets", "torch", "threads", "cache", "kernels"):
        assert f"\n{part}\n" in f"\n{text}"
    assert targets.host().cpu in text


def test_without_torch_it_says_what_still_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(threads, "_CHOSEN", [])
    report = checkup.examine()
    assert report["torch"] == {"version": None, "devices": []}
    assert "torch is not installed" in problems(report)["info"]
    assert report["kernels"]["result_is_right"]


def test_a_cache_that_cannot_be_written_is_a_problem_with_a_remedy(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    report = checkup.examine()
    assert not report["cache"]["writable"]
    assert ["PORTKIT_CACHE_DIR" in p["remedy"] for p in report["problems"] if "kept" in p["message"]] == [
        True
    ]


def test_old_torch_is_an_error(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "__version__", "2.5.1+cu121")
    assert cli.run(["doctor"]) == 1
    assert "torch 2.5.1+cu121 is too old" in capsys.readouterr().out


def test_a_part_that_fails_ends_nothing(monkeypatch):
    def broken():
        raise OSError("libLLVM.so: cannot open shared object file")

    monkeypatch.setattr(targets, "host", broken)
    report = checkup.examine()
    assert "libLLVM.so" in report["processor"]["error"]
    assert "libLLVM.so" in problems(report)["error"]
    assert report["cache"]["writable"]


def test_a_wrong_setting_is_reported_with_its_remedy(monkeypatch):
    monkeypatch.setenv("PORTKIT_NUM_THREADS", "lots")
    monkeypatch.setattr(threads, "_CHOSEN", [])
    report = checkup.examine()
    assert "PORTKIT_NUM_THREADS" in report["threads"]["error"]


def test_unknown_format_is_a_usage_error(capsys):
    assert cli.run(["doctor", "--format", "xml"]) == 2
    assert "Formats: json, terminal" in capsys.readouterr().err


def test_the_interpreter_is_named_as_a_reason_for_slowness():
    environment = {**os.environ, "PORTKIT_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "portkit", "doctor", "--format", "json"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["kernels"] == {"interpreted": True, "result_is_right": True}
    assert "interpreter" in problems(report)["warning"]
