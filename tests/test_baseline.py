"""Baselines: what is known, new and gone; that the file changes with findings only, and merges by lines."""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from portkit.cli import run

CODE = "import torch\n\n\ndef f(x):\n    return x.cuda()\n\n\ndef g(x):\n    torch.cuda.synchronize()\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "portkit.toml").write_text("")
    (folder / "a.py").write_text(CODE)
    (folder / "src/b.py").write_text(CODE)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def scan(capsys: pytest.CaptureFixture[str]) -> Any:
    def scanned(*arguments: str) -> dict[str, Any]:
        assert run(["scan", *arguments, "--format", "json"]) == 0
        data: dict[str, Any] = json.loads(capsys.readouterr().out)
        return data

    return scanned


def test_all_is_known_at_first(project: Path, scan: Any) -> None:
    scan(".", "--write-baseline", "base.jsonl")
    data = scan(".", "--baseline", "base.jsonl")
    found = data["run"]["baseline"]
    assert (found["entries"], found["known"], found["new"], found["gone"]) == (4, 4, 0, [])
    assert {item["new"] for item in data["findings"] if item["support"] != "portable"} == {False}
    assert all(item["new"] is None for item in scan(".")["findings"])


def test_moved_lines_are_known_and_new_ones_are_new(project: Path, scan: Any) -> None:
    scan(".", "--write-baseline", "base.jsonl")
    (project / "a.py").write_text("# a line\n" * 3 + CODE + "    torch.cuda.empty_cache()\n")
    data = scan(".", "--baseline", "base.jsonl")
    assert [(item["path"], item["line"]) for item in data["findings"] if item["new"]] == [("a.py", 13)]
    assert data["run"]["baseline"]["gone"] == []


def test_what_is_gone_is_named(project: Path, scan: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scan(".", "--write-baseline", "base.jsonl")
    (project / "a.py").write_text("import torch\n")
    (project / "src/b.py").unlink()
    gone = scan(".", "--baseline", "base.jsonl")["run"]["baseline"]["gone"]
    assert [item["path"] for item in gone] == ["a.py", "a.py", "src/b.py", "src/b.py"]
    assert run(["scan", ".", "--baseline", "base.jsonl"]) == 0
    out = capsys.readouterr().out
    assert "Baseline base.jsonl: 0 new, 0 known, 4 gone" in out
    assert all(item["id"] in out for item in gone)


def test_what_was_not_looked_at_is_not_gone(project: Path, scan: Any) -> None:
    scan(".", "--write-baseline", "base.jsonl")
    for arguments in (("src",), ("a.py",), (".", "--select", "PK303"), ("a.py", "src/b.py")):
        found = scan(*arguments, "--baseline", "base.jsonl")["run"]["baseline"]
        assert (found["new"], found["gone"]) == (0, [])
        assert found["known"] > 0
    (project / "a.py").write_text(CODE + "print x\n")
    assert scan(".", "--baseline", "base.jsonl")["run"]["baseline"]["gone"] == []


def test_a_suppressed_finding_needs_no_entry(project: Path, scan: Any) -> None:
    scan(".", "--write-baseline", "base.jsonl")
    (project / "a.py").write_text(f"# portkit: ignore-file\n{CODE}")
    found = scan(".", "--baseline", "base.jsonl")["run"]["baseline"]
    assert [item["path"] for item in found["gone"]] == ["a.py", "a.py"]


def test_the_file_is_sorted_and_the_same_each_time(project: Path, scan: Any) -> None:
    scan(".", "--write-baseline", "base.jsonl")
    text = Path("base.jsonl").read_text()
    first, *entries = text.splitlines()
    assert json.loads(first) == {"portkit_baseline": 1}
    keys = [tuple(json.loads(line).values()) for line in entries]
    assert keys == sorted(keys)
    scan("src", "a.py", "--write-baseline", "base.jsonl", "--jobs", "2")
    assert Path("base.jsonl").read_text() == text


def test_two_branches_merge_line_by_line(project: Path, scan: Any, tmp_path: Path) -> None:
    """Both add a finding at places apart: the union of the lines is the baseline of the merged code."""
    files = [f"m{number}.py" for number in range(9)]
    for name in files:
        (project / name).write_text(CODE)
    scan(".", "--write-baseline", str(tmp_path / "base"))
    for side, name in (("ours", files[0]), ("theirs", files[8])):
        (project / name).write_text(CODE + "    torch.cuda.empty_cache()\n")
        scan(".", "--write-baseline", str(tmp_path / side))
        (project / name).write_text(CODE)
    merge = ["git", "merge-file", "-p", *(str(tmp_path / name) for name in ("ours", "base", "theirs"))]
    merged = subprocess.run(merge, capture_output=True, text=True, check=True).stdout
    for name in (files[0], files[8]):
        (project / name).write_text(CODE + "    torch.cuda.empty_cache()\n")
    scan(".", "--write-baseline", str(tmp_path / "both"))
    assert merged == (tmp_path / "both").read_text()


def test_order_and_repetition_of_lines_do_not_matter(project: Path, scan: Any) -> None:
    scan(".", "--write-baseline", "base.jsonl")
    first, *entries = Path("base.jsonl").read_text().splitlines()
    random.Random(1).shuffle(entries)
    Path("base.jsonl").write_text("\n".join([first, *entries, entries[0], "", ""]))
    found = scan(".", "--baseline", "base.jsonl")["run"]["baseline"]
    assert (found["entries"], found["known"], found["new"], found["gone"]) == (4, 4, 0, [])


def test_tightening_reads_the_old_and_writes_the_new(project: Path, scan: Any) -> None:
    scan(".", "--write-baseline", "base.jsonl")
    (project / "a.py").write_text("import torch\n")
    data = scan(".", "--baseline", "base.jsonl", "--write-baseline", "base.jsonl")
    assert len(data["run"]["baseline"]["gone"]) == 2
    assert scan(".", "--baseline", "base.jsonl")["run"]["baseline"]["gone"] == []


HEAD = '{"portkit_baseline": 1}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "base.jsonl: The baseline cannot be read: no such file"),
        ("", "base.jsonl:1: This is no baseline"),
        ('{"portkit_baseline": 2}\n', "base.jsonl:1: This is no baseline of version 1"),
        (HEAD + '{"id": "x"}\n', "base.jsonl:2: An entry has exactly"),
        (HEAD + "[]\n", "base.jsonl:2: An entry has exactly"),
        (HEAD + '{"path": 1, "rule": "a", "id": "b"}\n', "base.jsonl:2: An entry has exactly"),
        (HEAD + '{"path": "a", "rule": "a", "id": "b", "places": 0}\n', "base.jsonl:2: An entry has"),
        (HEAD + "\nnot json\n", "base.jsonl:3: This line is not JSON."),
        (HEAD + "<<<<<<< HEAD\n", "base.jsonl:2: A merge conflict is left here."),
        (b"\xff", "base.jsonl: The baseline is not UTF-8."),
    ],
)
def test_a_broken_baseline_is_one_clear_error(
    project: Path, text: str | bytes | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (project / "base.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert run(["scan", ".", "--baseline", "base.jsonl"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 2


def test_a_baseline_of_a_part_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scan", ".", "--write-baseline", "b", "--diff-base", "HEAD"]) == 2
    assert "Leave one of the two options out." in capsys.readouterr().err
    assert not (project / "b").exists()


def test_other_formats_say_what_is_new(project: Path, scan: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scan(".", "--write-baseline", "base.jsonl")
    (project / "a.py").write_text(CODE + "    torch.cuda.empty_cache()\n")
    said = {}
    for name in ("sarif", "github", "markdown", "csv", "terminal"):
        assert run(["scan", ".", "--baseline", "base.jsonl", "--format", name]) == 0
        said[name] = capsys.readouterr().out
    states = [item.get("baselineState") for item in json.loads(said["sarif"])["runs"][0]["results"]]
    assert (states.count("new"), states.count("unchanged")) == (1, 4)
    assert [line for line in said["github"].splitlines() if line.startswith("::")] == [
        line for line in said["github"].splitlines() if "a.py,line=10," in line
    ]
    assert said["markdown"].count("**new**") == 1
    details = said["markdown"].partition("<details>")[2].splitlines()
    assert "**new**" in next(line for line in details if "<code>" in line), "new ones come first"
    assert [row["line"] for row in csv.DictReader(io.StringIO(said["csv"])) if row["new"] == "true"] == ["10"]
    assert "New since the baseline\n  a.py:10:5: PK303" in said["terminal"]


def test_one_more_place_of_a_group_is_new(project: Path, scan: Any) -> None:
    """Findings that are told once a file count with their places."""
    line = "export CUDA_HOME=/opt/cuda-{}\n"
    (project / "run.sh").write_text("".join(line.format(number) for number in range(3)))

    def new() -> list[str]:
        return [item["path"] for item in scan(".", "--baseline", "base.jsonl")["findings"] if item["new"]]

    scan(".", "--write-baseline", "base.jsonl")
    assert '"places": 3}' in Path("base.jsonl").read_text()
    assert new() == []
    (project / "run.sh").write_text("".join(line.format(number) for number in range(1, 3)))
    assert new() == [], "the first of them went: the others are no news"
    (project / "run.sh").write_text("".join(line.format(number) for number in range(4)))
    assert set(new()) == {"run.sh"}
