"""Migration of files and trees: phases, rounds, notebooks, writing, copies."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from migration_rules import RULES

from portkit import manifest, ruleset, writing
from portkit.copying import copy_tree, list_copy, listed
from portkit.errors import UsageError
from portkit.finding import Phase
from portkit.migrate import Options, Plan, Rewritten, plan, rewrite
from portkit.source import Kind, load

TRAIN = """import torch
import torch.nn.functional as F

x = F.softmax(m.cuda(), dim=1)  # both
"""


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "all_rules", lambda: RULES)


def tree(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, data in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return root


def full(root: Path, phase: Phase = Phase.FULL_MODEL, *, unsafe: bool = False) -> Plan:
    return plan(root, Options(phase, unsafe=unsafe))


def after(made: Plan) -> dict[str, str]:
    return {change.path: change.after.decode() for change in made.changes}


def rewritten(data: bytes, name: str = "a.py", phase: Phase = Phase.FULL_MODEL, **options: bool) -> Rewritten:
    return rewrite(load(data, name), Options(phase, **options))


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        file.relative_to(root).as_posix(): (file.read_bytes(), stat.S_IMODE(file.stat().st_mode))
        for file in sorted(root.rglob("*"))
        if file.is_file() and ".git/" not in file.as_posix()
    }


# --- one file ---------------------------------------------------------------------------------------


def test_phases_are_cumulative() -> None:
    operator = rewritten(TRAIN.encode(), phase=Phase.OPERATOR)
    assert operator.text == (
        "import torch\nimport portkit.runtime as pk\n\nx = pk.ops.softmax(m.cuda(), dim=1)  # both\n"
    )
    everything = rewritten(TRAIN.encode())
    assert everything.text == operator.text.replace(".cuda()", ".to(pk.device())")
    assert rewritten(operator.text.encode()).text == everything.text


def test_twice_is_once() -> None:
    once = rewritten(TRAIN.encode()).text
    again = rewritten(once.encode())
    assert (again.text, again.done) == (once, ())


def test_overlapping_rewrites_need_more_rounds() -> None:
    done = rewritten(b"y = wrapped(wrapped(x.cuda()), wrapped(y))\n")
    assert done.text == (
        "import portkit.runtime as pk\n\ny = unwrapped(unwrapped(x.to(pk.device())), unwrapped(y))\n"
    )
    assert done.left == ()


def test_rewrites_that_undo_each_other_end() -> None:
    done = rewritten(b"ping\nx.cuda()\n")
    assert "x.to(pk.device())" in done.text
    assert [reason for finding, reason in done.left if finding.rule == "PK905"] == [
        "its rewrite and another undo each other"
    ]


def test_what_is_refused_says_why() -> None:
    done = rewritten(b"broken\nx.cuda()\n")
    assert "broken\nx.to(pk.device())" in done.text
    [(finding, reason)] = done.left
    assert (finding.rule, finding.location.line) == ("PK906", 3)
    assert "not an expression" in reason


def test_review_needs_unsafe() -> None:
    text = b"import torch\nx = torch.load('a')\n"
    assert rewritten(text).text == text.decode()
    assert "portable_load('a')" in rewritten(text, unsafe=True).text


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfx.cuda()\n",
        b"# a\r\nx.cuda()\r\n",
        b"# -*- coding: latin-1 -*-\n# \xe9\nx.cuda()\n",
        b"import a\nx.cuda()",
        b"import a\n\x0c\nx.cuda()\n   ",
        b"import a\rx.cuda()\r",
    ],
    ids=["bom", "crlf", "latin-1", "no-newline", "form-feed", "cr"],
)
def test_encodings_and_newlines_stay(data: bytes, tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": data})
    [change] = full(tmp_path).changes
    ending = b"\r\n" if b"\r\n" in data else b"\r" if b"\r" in data else b"\n"
    line = b"import portkit.runtime as pk"
    assert line in change.after
    without = change.after.replace(line + ending + ending, b"", 1).replace(line + ending, b"", 1)
    assert without == data.replace(b".cuda()", b".to(pk.device())")


def test_a_text_that_its_encoding_cannot_hold_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Arrow(RULES[4]):  # type: ignore[misc, valid-type]
        def visit_Name(self, node, ctx):  # type: ignore[no-untyped-def]
            for finding in super().visit_Name(node, ctx):
                edits = (type(finding.edits[0])(finding.edits[0].span, "'→'"),)
                yield type(finding)(**{**vars(finding), "edits": edits})

    monkeypatch.setattr(ruleset, "all_rules", lambda: (Arrow,))
    tree(tmp_path, {"a.py": b"# coding: latin-1\nping\n"})
    made = full(tmp_path)
    assert made.changes == []
    assert "cannot hold" in made.left[0][1]


# --- trees --------------------------------------------------------------------------------------------


def test_a_tree_with_everything(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "a.py": TRAIN,
            "pkg/b.py": "x.cuda()\n",
            "c.yaml": "device: cuda\nname: cuda\n",
            "old.py": "print 'x'.cuda()\n",
            "bad.ipynb": "{",
            "bin.py": b"\x00\x01.cuda",
            "fine.py": "x = 1\n",
            ".portkit/d.py": "x.cuda()\n",
        },
    )
    made = full(tmp_path)
    assert set(after(made)) == {"a.py", "pkg/b.py", "c.yaml"}
    assert after(made)["c.yaml"] == "device: auto\nname: cuda\n"
    assert {item.path for item in made.unparsed} == {"old.py", "bad.ipynb", "bin.py"}
    assert all(item.reason for item in made.unparsed)


def test_a_package_keeps_its_imports(tmp_path: Path) -> None:
    tree(tmp_path, {"__init__.py": TRAIN})
    assert "import torch.nn.functional as F" in after(full(tmp_path))["__init__.py"]


def test_links_are_followed_inside_the_tree_only(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", {"a.py": "x.cuda()\n"})
    tree(tmp_path, {"out.py": "x.cuda()\n"})
    (root / "inside.py").symlink_to("a.py")
    (root / "outside.py").symlink_to("../out.py")
    (root / "loop.py").symlink_to("loop.py")
    (root / "folder").symlink_to(".")
    made = full(root)
    assert set(after(made)) == {"a.py"}
    assert made.left == []
    assert writing.write(made) == []
    assert (root / "inside.py").is_symlink()
    assert (tmp_path / "out.py").read_text() == "x.cuda()\n"
    named = full(root / "outside.py")
    assert named.changes == []
    assert "link out of the tree" in named.unparsed[0].reason


def test_several_processes_give_the_same(tmp_path: Path) -> None:
    tree(tmp_path, {f"f{i}.py": TRAIN + f"profiler.profiler({i})\nbroken\n" for i in range(5)})
    one, two = (plan(tmp_path, Options(Phase.FULL_MODEL), jobs=jobs) for jobs in (1, 2))
    assert one.changes
    assert (two.changes, two.left) == (one.changes, one.left)


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        full(tmp_path / "nothing")


# --- writing ------------------------------------------------------------------------------------------


def test_write_keeps_modes_and_records(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": TRAIN, "run.py": "#!/usr/bin/env python\nx.cuda()\n"})
    (tmp_path / "run.py").chmod(0o755)
    made = full(tmp_path)
    assert writing.write(made) == []
    assert stat.S_IMODE((tmp_path / "run.py").stat().st_mode) == 0o755
    assert full(tmp_path).changes == []
    [run] = manifest.runs_of(tmp_path)
    assert (run.phase, [record.path for record in run.files]) == ("full-model", ["a.py", "run.py"])
    assert [edit.rule for edit in run.files[0].edits] == ["PK902", "PK901"]
    for record in run.files:
        assert manifest.sha256((tmp_path / record.path).read_bytes()) == record.sha256_after
        assert record.sha256_before is not None
        original = manifest.read(tmp_path).original(record.sha256_before)
        assert manifest.sha256(original) == record.sha256_before
    assert not list(tmp_path.rglob(".*.py.*"))


def test_a_read_only_file_is_left_and_the_others_go_on(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "x.cuda()\n", "b.py": "x.cuda()\n", "c/d.py": "x.cuda()\n"})
    (tmp_path / "a.py").chmod(0o444)
    (tmp_path / "c").chmod(0o555)
    try:
        bad = writing.write(full(tmp_path))
    finally:
        (tmp_path / "c").chmod(0o755)
    assert [(item.path, item.reason.split(":")[0]) for item in bad] == [
        ("a.py", "is read-only"),
        ("c/d.py", "is in a read-only folder"),
    ]
    assert (tmp_path / "a.py").read_text() == "x.cuda()\n"
    assert "pk.device" in (tmp_path / "b.py").read_text()
    assert [record.path for record in manifest.runs_of(tmp_path)[0].files] == ["b.py"]


def test_a_read_only_tree_is_one_error(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "x.cuda()\n"})
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(UsageError, match="read-only"):
            writing.write(full(tmp_path))
    finally:
        tmp_path.chmod(0o755)
    assert snapshot(tmp_path).keys() == {"a.py"}


def test_a_file_that_changed_since_the_scan_is_left(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "x.cuda()\n", "b.py": "x.cuda()\n"})
    made = full(tmp_path)
    (tmp_path / "a.py").write_text("y = 1\n")
    [bad] = writing.write(made)
    assert (bad.path, "changed since" in bad.reason) == ("a.py", True)
    assert (tmp_path / "a.py").read_text() == "y = 1\n"


def test_a_write_that_fails_half_way_leaves_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"a.py": "x.cuda()\n", "b.py": "x.cuda()\n", "c.py": "x.cuda()\n"})
    made = full(tmp_path)
    really = writing.write_atomically

    def fails(file: Path, data: bytes) -> None:
        if file.name == "b.py":
            raise UsageError("The file cannot be written: no space left on device.")
        really(file, data)

    monkeypatch.setattr(writing, "write_atomically", fails)
    [bad] = writing.write(made)
    assert bad.path == "b.py"
    assert (tmp_path / "b.py").read_text() == "x.cuda()\n"
    assert [record.path for record in manifest.runs_of(tmp_path)[0].files] == ["a.py", "c.py"]


def test_writes_that_all_fail_leave_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, {"a.py": "x.cuda()\n"})
    made = full(tmp_path)

    def fails(file: Path, data: bytes) -> None:
        raise UsageError("The file cannot be written: no space left on device.")

    monkeypatch.setattr(writing, "write_atomically", fails)
    assert [item.path for item in writing.write(made)] == ["a.py"]
    assert snapshot(tmp_path).keys() == {"a.py"}
    assert not (tmp_path / ".portkit").exists()


# --- git ----------------------------------------------------------------------------------------------


def git(root: Path, *arguments: str) -> None:
    names = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(root), *names, *arguments], check=True, capture_output=True)


def test_only_uncommitted_work_of_the_user_counts(tmp_path: Path) -> None:
    root = tree(tmp_path / "repo", {"sub/a.py": "x.cuda()\n", "sub/b.py": TRAIN, "ü.py": "y = 1\n"})
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    tree(root, {"sub/notes.txt": "mine"})
    made = full(root / "sub")
    assert writing.uncommitted(root / "sub", made.changes) == []
    writing.write(full(root / "sub", Phase.OPERATOR))
    made = full(root / "sub")
    assert writing.uncommitted(root / "sub", made.changes) == []
    tree(root, {"sub/a.py": "x.cuda() # mine\n", "ü.py": "y = 2\n", "sub/new.py": "x.cuda()\n"})
    made = full(root)
    assert writing.uncommitted(root, made.changes) == ["sub/a.py", "sub/b.py", "sub/new.py", "ü.py"]
    assert writing.uncommitted(root / "sub", full(root / "sub").changes) == ["a.py", "new.py"]


def test_without_git_nothing_is_uncommitted(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "x.cuda()\n"})
    assert writing.uncommitted(tmp_path, full(tmp_path).changes) == []


# --- copies -------------------------------------------------------------------------------------------


def test_a_copy_is_whole_and_migrated(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "root",
        {
            "a.py": TRAIN,
            "data/x.bin": b"\x00",
            "__pycache__/a.pyc": b"1",
            ".git/HEAD": "x",
            "build/k.py": "1\n",
        },
    )
    (root / "data/x.bin").chmod(0o600)
    (root / "link").symlink_to("data/x.bin")
    (root / "up").symlink_to("../root.txt")
    target = tmp_path / "copy"
    assert copy_tree(root, target) == []
    writing.write(full(root), target)
    list_copy(target, listed(target))
    found = snapshot(target)
    assert {name for name in found if not name.startswith(".portkit")} == {
        "a.py",
        "data/x.bin",
        "build/k.py",
        "link",
    }
    assert found["data/x.bin"] == (b"\x00", 0o600)
    assert os.readlink(target / "link") == "data/x.bin"
    assert os.readlink(target / "up") == str(tmp_path / "root.txt")
    assert b"pk.device" in found["a.py"][0]
    assert (root / "a.py").read_text() == TRAIN
    assert copy_tree(root, target) == []
    assert (target / "a.py").read_text() == TRAIN


def test_a_copy_never_overwrites_what_is_not_ours(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", {"a.py": TRAIN})
    full_folder = tree(tmp_path / "full", {"mine.txt": "mine"})
    with pytest.raises(UsageError, match="not empty"):
        copy_tree(root, full_folder)
    for inside in (root, tmp_path):
        with pytest.raises(UsageError, match="overwrite the original"):
            copy_tree(root, inside)
    target = tmp_path / "copy"
    copy_tree(root, target)
    tree(target, {"results/log.txt": "mine"})
    copy_tree(root, target)
    assert (target / "results/log.txt").read_text() == "mine"
    (target / "a.py").write_text("changed\n")
    with pytest.raises(UsageError, match="Changed since the copy was made"):
        copy_tree(root, target)
    copy_tree(root, target, force=True)
    assert (target / "a.py").read_text() == TRAIN


def test_a_copy_inside_the_tree_does_not_hold_itself(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": TRAIN})
    copy_tree(root, root / "out")
    copy_tree(root, root / "out")
    assert not (root / "out/out").exists()


# --- notebooks ----------------------------------------------------------------------------------------


def notebook(*cells: object, indent: int | None = 1, ascii_only: bool = False) -> str:
    made = [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [{"text": ["é cuda\n"]}],
            "source": cell,
        }
        for cell in cells
    ]
    made.insert(1, {"cell_type": "markdown", "metadata": {}, "source": ["# x.cuda()"]})
    table = {
        "cells": made,
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(table, indent=indent, ensure_ascii=ascii_only) + "\n"


@pytest.mark.parametrize("indent", [1, 4, None])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_notebook_changes_in_its_sources_only(indent: int | None, ascii_only: bool) -> None:
    cells = (
        ["%matplotlib inline\n", "import torch\n", "s = 'é'"],
        "!nvidia-smi\nx.cuda()  # é\n",
        ["%%bash\n", "x.cuda()"],
        ["# ü\n", "y = x.cuda()\n", "%timeit y.cuda()"],
        [],
    )
    text = notebook(*cells, indent=indent, ascii_only=ascii_only)
    done = rewritten(text.encode(), "a.ipynb")
    expected = (
        ["%matplotlib inline\n", "import torch\n", "import portkit.runtime as pk\n", "s = 'é'"],
        "!nvidia-smi\nx.to(pk.device())  # é\n",
        cells[2],
        ["# ü\n", "y = x.to(pk.device())\n", "%timeit y.to(pk.device())"],
        [],
    )
    assert done.text == notebook(*expected, indent=indent, ascii_only=ascii_only)
    assert rewritten(done.text.encode(), "a.ipynb").text == done.text


def test_a_notebook_without_imports_gets_them_after_the_cell_magic() -> None:
    done = rewritten(notebook(["%%time\n", "x.cuda()"]).encode(), "a.ipynb")
    assert done.text == notebook(
        ["%%time\n", "\n", "import portkit.runtime as pk\n", "\n", "x.to(pk.device())"]
    )


def test_a_notebook_keeps_imports_that_other_cells_use() -> None:
    first = ["import torch.nn.functional as F\n", "y = F.softmax(x)"]
    assert "as F" in rewritten(notebook(first, ["F.relu(x)"]).encode(), "a.ipynb").text
    assert "as F" in rewritten(notebook(first, ["%time F.relu(x)"]).encode(), "a.ipynb").text
    assert "as F" not in rewritten(notebook(first, ["x"]).encode(), "a.ipynb").text


def test_old_notebooks_too() -> None:
    cells = [{"cell_type": "code", "input": ["x.cuda()"], "language": "python"}]
    text = json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3})
    done = rewritten(text.encode(), "a.ipynb")
    assert done.text == text.replace(
        '["x.cuda()"]', '["import portkit.runtime as pk\\n", "\\n", "x.to(pk.device())"]'
    )


def test_kinds_of_changes(tmp_path: Path) -> None:
    tree(tmp_path, {"a.ipynb": notebook(["x.cuda()"]), "b.yaml": "device: cuda\n"})
    assert [change.kind for change in full(tmp_path).changes] == [Kind.NOTEBOOK, Kind.YAML]
