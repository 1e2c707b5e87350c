"""`migrate --interactive`: what is asked, what each answer does; nothing is written before the end."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from migration_rules import RULES
from test_migrate import TRAIN, git, snapshot, tree

from portkit import manifest, ruleset
from portkit.cli import run
from portkit.finding import Phase

FULL = ("--phase", "full-model", "--unsafe", "--interactive")
FILES: dict[str, str | bytes] = {
    "a.py": TRAIN,
    "b.py": "import torch\nx = y.cuda()\nz = y.cuda()\nw = torch.load(f)\n",
}


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "all_rules", lambda: RULES)


class Talk:
    """A run of the command with answers given."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.root, self.monkeypatch, self.capfd = root, monkeypatch, capfd

    def __call__(self, answers: str, *options: str) -> str:
        self.monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{key}\n" for key in answers.split())))
        assert run(["migrate", str(self.root), *FULL, *options]) == 0
        self.out, err = self.capfd.readouterr()
        return err

    def text(self, name: str) -> str:
        return (self.root / name).read_text()


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Talk:
    return Talk(tree(tmp_path / "root", FILES), monkeypatch, capfd)


def test_each_rewrite_is_shown_and_decided(talk: Talk) -> None:
    err = talk("a s s s a")
    assert "a.py:4:5: PK902 (operator, auto)\nIt has a kernel. Use the kernel.\n@@ -1,4 +1,4 @@\n" in err
    assert "+x = pk.ops.softmax(m.cuda(), dim=1)  # both\n" in err
    assert "b.py:4:5: PK903 (module, review)" in err
    assert "Note: Then it is elsewhere." in err
    assert talk.text("a.py") == (
        "import torch\nimport portkit.runtime as pk\n\nx = pk.ops.softmax(m.cuda(), dim=1)  # both\n"
    )
    assert talk.text("b.py").endswith(
        "import portkit.runtime as pk\nx = y.cuda()\nz = y.to(pk.device())\nw = torch.load(f)\n"
    )
    assert [
        edit.rule for one in manifest.runs_of(talk.root) for file in one.files for edit in file.edits
    ] == [
        "PK902",
        "PK901",
    ]


def test_all_of_a_rule(talk: Talk) -> None:
    err = talk("S A s")
    assert err.count("PK901 (") == 1
    assert "softmax" not in talk.text("a.py").partition("x =")[0].replace("functional", "")
    assert "F.softmax(m.to(pk.device())" in talk.text("a.py")
    assert "x = y.to(pk.device())\nz = y.to(pk.device())\nw = torch.load" in talk.text("b.py")


def test_why_and_help_ask_again(talk: Talk) -> None:
    err = talk("w nonsense ? s s s s s", "--select", "PK901,PK902,PK903")
    assert "F.softmax` → `pk.ops.softmax`" in err
    assert err.count("quit: skip everything else") == 2
    assert snapshot(talk.root) == {name: (str(data).encode(), 0o644) for name, data in FILES.items()}


@pytest.mark.parametrize("answers", ["q", "a q n", "a q", "", "a", "A s q no"])
def test_quit_and_the_end_of_input_write_nothing(answers: str, talk: Talk) -> None:
    before = snapshot(talk.root)
    assert "Nothing was written." in talk(answers)
    assert snapshot(talk.root) == before


def test_quit_asks_whether_to_write_what_was_accepted(talk: Talk) -> None:
    err = talk("a q y")
    assert "Write the 1 accepted rewrite? [y/N]" in err
    assert "pk.ops.softmax(m.cuda()" in talk.text("a.py")
    assert talk.text("b.py") == FILES["b.py"]


def test_with_diff_and_patch_the_accepted_ones_only(talk: Talk, tmp_path: Path) -> None:
    before = snapshot(talk.root)
    talk("a s s s s", "--diff")
    assert talk.out.startswith("--- a/a.py\n")
    assert "b.py" not in talk.out
    talk("s A s", "--patch", str(tmp_path / "p"))
    assert [path.name for path in (tmp_path / "p").iterdir()] == [f"portkit-3-{Phase.FULL_MODEL.value}.patch"]
    assert snapshot(talk.root) == before


def test_a_dirty_tree_is_refused_before_the_first_question(talk: Talk) -> None:
    git(talk.root, "init", "-q")
    git(talk.root, "add", ".")
    git(talk.root, "commit", "-qm", "one")
    (talk.root / "b.py").write_text("x.cuda()\n")
    assert run(["migrate", str(talk.root), *FULL]) == 2
    err = talk.capfd.readouterr().err
    assert "uncommitted changes: b.py" in err
    assert "[a]ccept" not in err


def test_stdin_can_not_be_both(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", "-", *FULL]) == 2
    assert "--interactive needs a file or a folder" in capfd.readouterr().err
