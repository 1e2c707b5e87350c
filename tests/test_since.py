"""`--diff-base`: what a change adds, told from what was there, in every shape that a change can have."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from portkit.cli import run

OLD = "import torch\n\n\ndef f(x):\n    return x.cuda()\n"
ADDED = "\n\ndef g(x):\n    torch.cuda.synchronize()\n"


@pytest.fixture(autouse=True)
def _own_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gitconfig").write_text('[user]\nname=a\nemail=a@b\n[protocol "file"]\nallow=always\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x", "--allow-empty")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Two files at the base, and a branch of which main has gone on since."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-qb", "main")
    (folder / "pkg").mkdir()
    (folder / "pkg/a.py").write_text(OLD)
    (folder / "b.py").write_text(OLD)
    commit(folder)
    git(folder, "switch", "-qc", "topic")
    git(folder, "switch", "-q", "main")
    (folder / "b.py").unlink()  # on main only: not what the branch did
    commit(folder)
    git(folder, "switch", "-q", "topic")
    return folder


Added = Callable[..., list[str]]


@pytest.fixture
def added(capsys: pytest.CaptureFixture[str]) -> Added:
    def scan(path: Path, revision: str = "main") -> list[str]:
        assert run(["scan", str(path), "--format", "json", "--diff-base", revision]) == 0
        found = json.loads(capsys.readouterr().out)["findings"]
        return [f"{item['path']}:{item['line']}" for item in found if item["rule"] in ("PK302", "PK303")]

    return scan


def test_nothing_changed(repo: Path, added: Added) -> None:
    assert added(repo) == []


@pytest.mark.parametrize("state", ["worktree", "index", "commit"])
def test_changes_count_whether_committed_or_not(repo: Path, added: Added, state: str) -> None:
    (repo / "pkg/a.py").write_text("# moved down\n" * 5 + OLD + ADDED)
    (repo / "pkg/new.py").write_text(OLD)
    if state != "worktree":
        git(repo, "add", "-A")
    if state == "commit":
        commit(repo)
    before = (git(repo, "status", "--porcelain"), (repo / ".git/index").read_bytes())
    assert added(repo) == ["pkg/a.py:14", "pkg/new.py:5"]
    index = (repo / ".git/index").read_bytes()
    assert (git(repo, "status", "--porcelain"), index) == before, "the user's index is as it was"


@pytest.mark.parametrize("staged", [True, False])
def test_a_renamed_file_keeps_its_old_findings(repo: Path, added: Added, staged: bool) -> None:
    (repo / "pkg/a.py").rename(repo / "pkg/ä b.py")
    with (repo / "pkg/ä b.py").open("a") as stream:
        stream.write(ADDED)
    if staged:
        git(repo, "add", "-A")
    assert added(repo) == ["pkg/ä b.py:9"]


def test_contents_of_other_files_are_not_asked_for(repo: Path, added: Added) -> None:
    """A partial clone may lack them: images that come and go are no renames of what is scanned."""
    (repo / "old.gif").write_bytes(b"GIF89a" * 100)
    commit(repo)
    sha = git(repo, "rev-parse", "HEAD:old.gif").strip()
    (repo / "old.gif").rename(repo / "new.gif")
    (repo / "pkg/a.py").rename(repo / "pkg/c.py")
    (repo / "b.py").write_text(OLD + ADDED)
    commit(repo)
    (repo / ".git/objects" / sha[:2] / sha[2:]).unlink()
    (repo / "new.gif").unlink()
    assert added(repo, "HEAD~1") == ["b.py:9"]


def test_one_more_of_the_same(repo: Path, added: Added) -> None:
    (repo / "b.py").write_text("import torch\n\n\ndef f(x):\n    return x.cuda()\n    return x.cuda()\n")
    assert added(repo) == ["b.py:6"]


def test_one_more_place_of_a_group(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def added(*lines: str) -> int:
        (repo / "run.sh").write_text("".join(f"export CUDA_HOME=/opt/{line}\n" for line in lines))
        assert run(["scan", str(repo), "--format", "json", "--diff-base", "HEAD"]) == 0
        return len(json.loads(capsys.readouterr().out)["findings"])

    assert added("a", "b") == 1
    commit(repo)
    assert added("a", "b") == added("b") == 0
    assert added("c", "a", "b") == 1


def test_a_removed_finding_is_no_addition(repo: Path, added: Added) -> None:
    (repo / "b.py").write_text("import torch\n")
    assert added(repo) == []


@pytest.mark.parametrize("place", ["pkg", "pkg/a.py"])
def test_from_a_folder_or_a_file_below(
    repo: Path, added: Added, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "pkg/a.py").write_text(OLD + ADDED)
    (repo / "b.py").write_text(OLD + ADDED)
    monkeypatch.chdir(repo / "pkg")
    assert added(repo / place) == added(Path(os.path.relpath(repo / place))) == ["pkg/a.py:9"]


def test_settings_of_git_change_nothing(repo: Path, added: Added) -> None:
    (repo / "pkg/a.py").rename(repo / "c.py")
    (repo / "b.py").write_text(OLD + ADDED)
    for setting in ("diff.renames=false", "diff.relative=true", "diff.external=false", "core.quotePath=true"):
        git(repo, "config", *setting.split("="))
    assert added(repo) == ["b.py:9"]
    assert added(repo / "pkg") == []


def test_in_a_hook(repo: Path, added: Added, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git tells hooks its folder and its index, which mean something else elsewhere."""
    (repo / "pkg/a.py").write_text(OLD + ADDED)
    git(repo, "add", "-A")
    monkeypatch.setenv("GIT_DIR", str(repo / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repo / ".git/index"))
    monkeypatch.setenv("GIT_PREFIX", "pkg/")
    assert added(repo / "pkg") == added(repo) == ["pkg/a.py:9"]


def test_line_ends_are_not_a_change(repo: Path, added: Added) -> None:
    (repo / "b.py").write_bytes(OLD.replace("\n", "\r\n").encode())
    assert added(repo) == []


def test_a_suppression_that_goes_away(repo: Path, added: Added) -> None:
    git(repo, "switch", "-q", "main")
    (repo / "s.py").write_text("import torch\n# portkit: ignore\ntorch.cuda.synchronize()\n")
    commit(repo)
    (repo / "s.py").write_text("import torch\n\ntorch.cuda.synchronize()\n")
    assert added(repo, "HEAD") == ["s.py:3"]


def test_files_that_git_does_not_know(repo: Path, added: Added) -> None:
    (repo / ".gitignore").write_text("ignored.py\n")
    (repo / "ignored.py").write_text(OLD)
    assert added(repo / "ignored.py") == ["ignored.py:5"]


def test_a_notebook(repo: Path, added: Added) -> None:
    def notebook(*lines: str) -> str:
        cells = [{"cell_type": "code", "source": line, "outputs": []} for line in lines]
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})

    cells = ("import torch", "torch.cuda.synchronize()")
    (repo / "n.ipynb").write_text(notebook(*cells))
    commit(repo)
    (repo / "n.ipynb").write_text(notebook(*cells, "torch.cuda.empty_cache()"))
    assert added(repo, "HEAD") == ["n.ipynb:1"]


def test_the_base_version_was_unreadable(repo: Path, added: Added) -> None:
    (repo / "b.py").write_bytes(b"\xff\xfe\n")
    commit(repo)
    (repo / "b.py").write_text(OLD)
    assert added(repo, "HEAD") == ["b.py:5"]


def test_unparsed_files_are_told_only_where_the_change_touches_them(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo / "bad.py").write_text("import torch.cuda\nprint x\n")
    commit(repo)
    (repo / "worse.py").write_text("import torch.cuda\nprint x\n")
    assert run(["scan", str(repo), "--format", "json", "--diff-base", "HEAD"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [item["path"] for item in data["scope"]["unparsed"]] == ["worse.py"]
    assert data["run"]["diff_base"]["unchanged"] > 0


def test_submodules(repo: Path, tmp_path: Path, added: Added) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-qb", "main")
    (inner / "i.py").write_text(OLD)
    commit(inner)
    git(repo, "submodule", "add", "-q", str(inner), "sub")
    assert added(repo) == ["sub/i.py:5"], "new as a whole"
    commit(repo)
    assert added(repo, "HEAD") == []
    (repo / "sub/i.py").write_text(OLD + ADDED)
    assert added(repo, "HEAD") == ["sub/i.py:9"], "changed in its working tree"
    commit(repo / "sub")
    assert added(repo, "HEAD") == ["sub/i.py:9"], "moved to another commit"
    assert added(repo / "sub", "HEAD") == []


def test_a_merge_with_conflicts(repo: Path, added: Added) -> None:
    (repo / "pkg/a.py").write_text("y = 1\n" + OLD)
    commit(repo)
    git(repo, "switch", "-q", "main")
    (repo / "pkg/a.py").write_text("z = 1\n" + OLD)
    commit(repo)
    subprocess.run(["git", "-C", str(repo), "merge", "-q", "topic"], capture_output=True, check=False)
    assert git(repo, "ls-files", "--unmerged")
    (repo / "pkg/a.py").write_text("z = 1\ny = 1\n" + OLD + ADDED)
    assert added(repo, "HEAD") == ["pkg/a.py:11"]


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("nowhere", "There is no revision nowhere."),
        ("--all", "no revision --all."),
        ("lone", "no common"),
    ],
)
def test_a_wrong_revision_is_one_clear_error(
    repo: Path, revision: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repo, "switch", "-q", "--orphan", "lone")
    git(repo, "commit", "-qm", "x", "--allow-empty")
    git(repo, "switch", "-q", "topic")
    assert run(["scan", str(repo), f"--diff-base={revision}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 2


def test_no_checkout_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "a.py").write_text(OLD)
    assert run(["scan", str(tmp_path), "--diff-base", "main"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "This is not a git checkout" in err
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["scan", str(tmp_path), "--diff-base", "main"]) == 2
    assert "git is not installed" in capsys.readouterr().err
