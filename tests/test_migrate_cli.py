"""The migrate and undo commands: modes, exit codes, what goes to which stream, bad input."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from migration_rules import RULES
from test_migrate import TRAIN, git, snapshot, tree

from portkit import ruleset
from portkit.cli import run

FULL = ("--phase", "full-model")


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "all_rules", lambda: RULES)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path / "root", {"a.py": TRAIN, "b.py": "x = profiler\nx.profiler\n", "c.py": "y = 1\n"})


def test_the_default_shows_a_diff_and_changes_nothing(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = snapshot(root)
    assert run(["migrate", str(root), *FULL]) == 0
    out, err = capfd.readouterr()
    assert snapshot(root) == before
    assert out.startswith("--- a/a.py\n+++ b/a.py\n@@ -1,4 +1,4 @@\n import torch\n")
    assert "+x = pk.ops.softmax(m.to(pk.device()), dim=1)  # both\n" in out
    assert "\x1b[" not in out
    assert "2 rewrites in 1 file of 3 would change" in err
    assert "b.py:2:1: PK904 It profiles CUDA" in err
    assert f"Next: portkit migrate {root} --phase full-model --write" in err


def test_the_diff_is_one_that_patch_takes(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.py": TRAIN,
        "b.py": b"# -*- coding: latin-1 -*-\r\n# \xe9\r\nx.cuda()",
        "c.py": "x.cuda()",
    }
    root = tree(tmp_path / "root", files)
    command = [sys.executable, "-c", CHILD, "migrate", str(root), *FULL]
    done = subprocess.run(command, capture_output=True, check=True)
    git(root, "init", "-q")
    (tmp_path / "x.patch").write_bytes(done.stdout)
    git(root, "apply", str(tmp_path / "x.patch"))
    patched = snapshot(root)
    tree(root, files)
    assert run(["migrate", str(root), *FULL, "--write", "--force"]) == 0
    written = {name: data for name, data in snapshot(root).items() if not name.startswith(".portkit")}
    assert written == patched


CHILD = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from migration_rules import RULES
from portkit import ruleset
from portkit.cli import run
ruleset.all_rules = lambda: RULES
sys.exit(run(sys.argv[1:]))
"""


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "x.cuda()  # " + "long " * 10 + "\n" + "x.cuda()\n" * 1_500})
    command = [sys.executable, "-c", CHILD, "migrate", str(root), *FULL]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    with child.stdout, child.stderr:
        child.stdout.readline()
        child.stdout.close()
        err = child.stderr.read()
    assert child.wait() == 0
    assert b"1501 rewrites" in err


def test_write_then_nothing_more_then_undo(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = snapshot(root)
    assert run(["migrate", str(root), *FULL, "--write"]) == 0
    assert "2 rewrites in 1 file of 3 changed" in capfd.readouterr().err
    after = snapshot(root)
    assert run(["migrate", str(root), *FULL, "--write"]) == 0
    assert "nothing to change in 3 files" in capfd.readouterr().err
    assert snapshot(root) == after
    assert run(["undo", str(root)]) == 0
    out, err = capfd.readouterr()
    assert (out, err) == ("restored a.py\n", "Undone: 1 migration, 1 restored, 0 removed.\n")
    assert snapshot(root) == before
    assert run(["undo", str(root)]) == 2


def test_check(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", str(root), *FULL, "--check"]) == 1
    assert capfd.readouterr().out == "would change a.py\n"
    assert run(["migrate", str(root), *FULL, "--check", "--ignore", "PK901,PK902"]) == 0
    assert run(["migrate", str(root), *FULL, "--check", "--select", "PK904"]) == 0
    assert run(["migrate", str(root), "--phase", "operator", "--check"]) == 1


def test_a_copy(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = snapshot(root)
    target = tmp_path / "out"
    for _ in range(2):
        assert run(["migrate", str(root), *FULL, "--output", str(target)]) == 0
        assert snapshot(root) == before
        assert "pk.device" in (target / "a.py").read_text()
        assert (target / "c.py").read_text() == "y = 1\n"
    assert f"portkit undo {target}" in capfd.readouterr().err
    assert run(["undo", str(target)]) == 0
    assert (target / "a.py").read_text() == TRAIN


def test_a_copy_inside_the_tree(root: Path) -> None:
    for _ in range(2):
        assert run(["migrate", str(root), *FULL, "--output", str(root / "out")]) == 0
        assert "pk.device" in (root / "out/a.py").read_text()
        assert not (root / "out/out").exists()


def test_a_copy_of_one_file(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert run(["migrate", str(root / "a.py"), *FULL, "--output", str(target)]) == 0
    assert {name for name in snapshot(target) if ".portkit" not in name} == {"a.py"}
    assert "pk.device" in (target / "a.py").read_text()


def test_stdin(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    give(TRAIN)
    assert run(["migrate", "-", *FULL, "--write"]) == 0
    assert "x = pk.ops.softmax(m.to(pk.device()), dim=1)  # both\n" in capfd.readouterr().out
    give(TRAIN)
    assert run(["migrate", "-", *FULL]) == 0
    assert capfd.readouterr().out.startswith("--- a/<stdin>\n")
    give(TRAIN)
    assert run(["migrate", "-", *FULL, "--check"]) == 1


def test_a_dirty_git_tree_is_refused(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    (root / "c.py").write_text("y = 2\n")
    assert run(["migrate", str(root), *FULL, "--write"]) == 2
    assert "uncommitted changes: c.py" in capfd.readouterr().err
    assert (root / "a.py").read_text() == TRAIN
    assert run(["migrate", str(root), *FULL]) == 0
    assert run(["migrate", str(root / "a.py"), *FULL, "--write"]) == 0
    assert run(["undo", str(root)]) == 0
    assert run(["migrate", str(root), *FULL, "--write", "--force"]) == 0
    assert "pk.device" in (root / "a.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["migrate", "nothing", *FULL], "no such file or folder"),
        (["migrate", ".", "--phase", "all"], "no phase all"),
        (["migrate", ".", *FULL, "--operators", "some"], "no choice of operators some"),
        (["migrate", ".", *FULL, "--select", "PK9999"], "no rule PK9999"),
        (["migrate", ".", *FULL, "--write", "--check"], "exclude each other"),
        (["migrate", ".", *FULL, "--diff", "--output", "x"], "exclude each other"),
        (["migrate", ".", *FULL, "--output", "."], "overwrite the original"),
        (["migrate", ".", *FULL, "--config", "none.toml"], "no such settings file"),
        (["undo", "nothing"], "no such folder"),
        (["undo"], "No migration"),
    ],
)
def test_a_wrong_call_is_one_clear_message(
    arguments: list[str],
    words: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(root)
    before = snapshot(root)
    assert run(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert words in err
    assert err.startswith("portkit: ")
    assert "Traceback" not in err
    assert snapshot(root) == before


def test_bad_files_are_one_line_each_and_the_rest_goes_on(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tree(
        root,
        {
            "two.py": "print 'cuda'\nx.cuda()\n",
            "broken.py": "x.cuda(\n",
            "bad.ipynb": '{"cells": [.cuda',
            "binary.py": b"\x00.cuda()\n",
            "wrong.py": b"x.cuda() # \xff\n",
            "merge.py": "<<<<<<< a\nx.cuda()\n=======\n>>>>>>> b\n",
        },
    )
    (root / "loop").symlink_to("loop")
    bad = ["bad.ipynb", "binary.py", "broken.py", "merge.py", "two.py", "wrong.py"]
    before = snapshot(root)
    assert run(["migrate", str(root), *FULL, "--write"]) == 0
    err = capfd.readouterr().err
    lines = [line for line in err.splitlines() if line.split(":")[0] in bad]
    assert sorted(line.split(":")[0] for line in lines) == bad
    after = snapshot(root)
    assert all(after[name] == before[name] for name in bad)
    assert after["a.py"] != before["a.py"]
    assert run(["migrate", str(root), *FULL, "--strict"]) == 4


def test_a_link_loop_as_the_path(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    assert run(["migrate", str(tmp_path / "loop.py"), *FULL]) in (0, 2)
    err = capfd.readouterr().err
    assert "loop.py" in err
    assert "internal" not in err


def test_files_that_cannot_be_written_are_named(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tree(root, {"d.py": "x.cuda()\n"})
    (root / "a.py").chmod(0o444)
    assert run(["migrate", str(root), *FULL, "--write"]) == 2
    assert "a.py: is read-only: left as it is\n" in capfd.readouterr().err
    assert (root / "a.py").read_text() == TRAIN
    assert "pk.device" in (root / "d.py").read_text()


def test_a_damaged_record(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tree(root, {".portkit/manifest.json": "{"})
    for arguments in (["undo", str(root)], ["migrate", str(root), *FULL, "--write"]):
        assert run(arguments) == 2
        err = capfd.readouterr().err
        assert "manifest.json: The record of past migrations is damaged" in err
    assert (root / "a.py").read_text() == TRAIN


def test_nothing_of_the_runtime_is_imported(root: Path) -> None:
    code = f"{CHILD.replace('sys.exit(run(sys.argv[1:]))', '')}\nrun({['migrate', str(root), *FULL]!r})\n"
    code += "print(sorted({'torch', 'llvmlite', 'numpy'} & set(sys.modules)), file=sys.stderr)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.rstrip().endswith("[]")
