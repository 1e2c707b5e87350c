"""Files of every odd kind: what is found, how it decodes, what becomes of a notebook."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path

import pytest

from portkit import engine, reports
from portkit.cells import neutralise
from portkit.config import Config
from portkit.discover import discover
from portkit.errors import UsageError
from portkit.parity import document, timeline
from portkit.source import Kind, Unreadable, kind_of, load


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("train.py", Kind.PYTHON),
        ("setup.py", Kind.PYTHON),
        ("demo.ipynb", Kind.NOTEBOOK),
        ("requirements.txt", Kind.REQUIREMENTS),
        ("requirements-dev.txt", Kind.REQUIREMENTS),
        ("dev_requirements.in", Kind.REQUIREMENTS),
        ("constraints.txt", Kind.REQUIREMENTS),
        ("environment.yml", Kind.REQUIREMENTS),
        ("environment-gpu.yaml", Kind.REQUIREMENTS),
        ("conda_env.yml", Kind.REQUIREMENTS),
        ("configs/train.yaml", Kind.YAML),
        ("ds_config.json", Kind.JSON),
        ("pyproject.toml", Kind.TOML),
        ("run.sh", Kind.SHELL),
        ("model.args", Kind.SHELL),
        ("Dockerfile", Kind.DOCKERFILE),
        ("Dockerfile.gpu", Kind.DOCKERFILE),
        ("gpu.Dockerfile", Kind.DOCKERFILE),
        ("kernel.cu", Kind.CUDA),
        ("kernel.cuh", Kind.CUDA),
        ("bind.cpp", Kind.CPP),
        ("op.h", Kind.CPP),
        ("notes.txt", Kind.OTHER),
        ("README.md", Kind.OTHER),
        ("weights.bin", Kind.OTHER),
    ],
)
def test_kind_by_name(name: str, kind: Kind) -> None:
    assert kind_of(name) is kind


def test_kind_by_first_line() -> None:
    assert kind_of("launch", b"#!/usr/bin/env bash\n") is Kind.SHELL
    assert kind_of("tool", b"#!/usr/bin/python3\n") is Kind.PYTHON
    assert kind_of("tool", b"\x7fELF") is Kind.OTHER


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"x = 1\r\ny = 2\r\n", "utf-8"),
        (b"x = 1\ry = 2", "utf-8"),
        (b"\xef\xbb\xbfx = 1\n\x0c\ny = 2", "utf-8"),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "iso-8859-1"),
        ("# coding: shift_jis\nx = '日本'\n".encode("shift_jis"), "shift_jis"),
        ("x = 'ä'   \n  ".encode(), "utf-8"),
        (b"", "utf-8"),
    ],
)
def test_every_byte_comes_back(data: bytes, encoding: str) -> None:
    source = load(data, "a.py")
    assert source.encoding == encoding
    assert source.encode(source.text) == data
    assert not source.text.startswith("\ufeff")


@pytest.mark.parametrize(
    ("data", "newline"), [(b"a\r\nb\r\nc\n", "\r\n"), (b"a\nb\n", "\n"), (b"a\rb\r", "\r"), (b"a", "\n")]
)
def test_newline_is_the_most_frequent(data: bytes, newline: str) -> None:
    assert load(data, "a.py").newline == newline


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x = 1\0", "null bytes"),
        (b"x = '\xe9'\n", "not valid utf-8"),
        (b"# coding: klingon\n", "encoding is not known"),
    ],
)
def test_undecodable_python_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        load(data, "a.py")
    assert reason in caught.value.reason


def test_other_text_falls_back_to_latin_1_and_comes_back() -> None:
    data = "# Größe\ndevice: cuda\n".encode("latin-1")
    source = load(data, "a.yaml")
    assert source.encode(source.text) == data
    utf16 = "device: cuda\n".encode("utf-16")
    source = load(utf16, "a.yaml")
    assert source.text == "device: cuda\n"
    assert source.encode(source.text) == utf16


# --- notebooks ---------------------------------------------------------------------------------------


def notebook(*cells: str, language: str = "python") -> bytes:
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    made.insert(0, {"cell_type": "markdown", "source": "cuda"})
    return json.dumps({"cells": made, "metadata": {"kernelspec": {"language": language}}}).encode()


@pytest.mark.parametrize(
    "cell",
    [
        "%matplotlib inline\nx = 1",
        "!pip install torch\nx = 1",
        "!pip install \\\n  torch \\\n  numpy\nx = 1",
        "if a:\n    !nvidia-smi\nx = 1",
        "if a:\n    %cd ..\n    y = 2\nx = 1",
        "x?\nx = 1",
        "?x\nx = 1",
        "torch.cuda??\nx = 1",
        "files = !ls\nx = 1",
        "t = %time f()\nx = 1",
        "%time x = 1",
        "%timeit -n 3 x.cuda()",
        "%%time\nx = 1",
        "%%timeit -r 2\nx = 1",
        "text = '''\n%matplotlib\n'''\nx = 1",
        "ü = 'ä'\n!ls äöü\nx = 1",
        "!a",
        "!\nx = 1",
        "x = (1\n % 2)",
        "await f()",
    ],
)
def test_magics_keep_every_character_in_its_place(cell: str) -> None:
    python = neutralise(cell)
    assert python is not None
    assert len(python) == len(cell)
    assert [len(line) for line in python.split("\n")] == [len(line) for line in cell.split("\n")]
    ast.parse(python)
    for before, after in zip(cell.split("\n"), python.split("\n"), strict=True):
        if before.strip() == "x = 1":
            assert after == before


@pytest.mark.parametrize(
    "cell", ["%%bash\nls", "%%writefile a.py\nx = 1", "%%html\n<b>", "%%javascript\nf()"]
)
def test_cells_in_other_languages_are_not_python(cell: str) -> None:
    assert neutralise(cell) is None


def test_units_are_the_code_cells() -> None:
    source = load(notebook("x = 1\ny = 2", "%%bash\nls", "!ls"), "a.ipynb")
    assert [unit.cell for unit in source.units] == [0, 1, 2]
    assert source.units[0].text == "x = 1\ny = 2"
    assert source.units[1].python is None
    assert [unit.python for unit in load(notebook("x <- 1", language="R"), "r.ipynb").units] == [None]


def test_old_notebooks_have_worksheets() -> None:
    data = json.dumps({"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = 1"]}]}]}).encode()
    assert load(data, "a.ipynb").units[0].text == "x = 1"


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}", b'{"cells": 3}', b"", b"[" * 200_000])
def test_broken_notebooks_say_why(data: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        load(data, "a.ipynb")
    assert "notebook" in caught.value.reason or "JSON" in caught.value.reason


# --- discovery ---------------------------------------------------------------------------------------


def names(folder: Path, config: Config | None = None) -> list[str]:
    _, found, bad = discover([folder], config or Config())
    assert not bad
    return [item.path for item in found]


def make(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")


def test_junk_folders_and_unknown_kinds_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "b/c.yaml", "node_modules/x.py", ".venv/y.py", "__pycache__/z.py", "notes.txt")
    assert names(tmp_path) == ["a.py", "b/c.yaml"]


def test_git_decides_in_a_checkout(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    make(tmp_path, "a.py", "new.py", "ignored/b.py", "gone.py", "sub/c.py")
    (tmp_path / ".gitignore").write_text("ignored/\n")
    subprocess.run(["git", "-C", str(tmp_path), "add", "a.py", "gone.py"], check=True)
    (tmp_path / "gone.py").unlink()
    assert names(tmp_path) == ["a.py", "new.py", "sub/c.py"]
    assert names(tmp_path / "sub") == ["c.py"]
    assert names(tmp_path / "ignored") == ["b.py"], "a folder that is named is looked at"


def test_links_out_and_loops_are_not_followed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    make(tree, "a.py")
    make(tmp_path, "outside.py")
    os.symlink(tree, tree / "loop")
    os.symlink(tmp_path / "outside.py", tree / "out.py")
    os.symlink(tree / "self.py", tree / "self.py")
    os.symlink(tree / "gone.py", tree / "dangling.py")
    os.symlink(tree / "a.py", tree / "alias.py")
    assert names(tree) == ["a.py", "alias.py"]


def test_include_and_exclude(tmp_path: Path) -> None:
    make(tmp_path, "src/a.py", "src/deep/b.py", "tests/c.py", "d.py")
    assert names(tmp_path, Config(exclude=("tests", "*/deep"))) == ["d.py", "src/a.py"]
    assert names(tmp_path, Config(include=("src/**",))) == ["src/a.py", "src/deep/b.py"]


def test_reports_of_our_own_are_no_code(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"device": "cuda"}')
    assert len(engine.scan([tmp_path], Config()).findings) == 1
    run = {"device": "cuda", "lanes": ["cuda"], "names": ["cuda"], "events": [[0, 0, "step", 0, 0.0, 1.0]]}
    (tmp_path / "scan.json").write_text(reports.render("json", engine.scan([tmp_path], Config())))
    (tmp_path / "parity.json").write_text(json.dumps(document.build((), None), indent=2))
    (tmp_path / "perfetto.json").write_text(json.dumps(timeline.perfetto(run, "cuda")))
    assert [item.path for item in discover([tmp_path], Config())[1]] == ["run.json"]


def test_a_missing_path_is_an_error_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        discover([tmp_path / "nothing"], Config())
    assert "nothing" in str(caught.value)


def test_a_file_of_unknown_kind_that_is_named_is_reported(tmp_path: Path) -> None:
    make(tmp_path, "data.bin")
    _, found, bad = discover([tmp_path / "data.bin"], Config())
    assert not found
    assert [item.path for item in bad] == ["data.bin"]


def test_paths_are_relative_to_what_all_have_in_common(tmp_path: Path) -> None:
    make(tmp_path, "one/a.py", "two/b.py")
    root, found, _ = discover([tmp_path / "one", tmp_path / "two" / "b.py"], Config())
    assert root == tmp_path
    assert [item.path for item in found] == ["one/a.py", "two/b.py"]


def test_a_submodule_without_its_files_is_empty(tmp_path: Path) -> None:
    """Git names the folder itself when it is asked for what is in it."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    make(tmp_path, "a.py")
    commit = "160000," + "1" * 40 + ",sub"
    subprocess.run([*git, "update-index", "--add", "--cacheinfo", commit], check=True)
    (tmp_path / "sub").mkdir()
    assert names(tmp_path) == ["a.py"]
    assert names(tmp_path / "sub") == []
