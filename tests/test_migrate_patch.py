"""Patch files: one a phase, taken by `git apply` and by `patch`, whatever the files are like."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from migration_rules import RULES
from test_migrate import TRAIN, git, snapshot, tree

from portkit import ruleset
from portkit.cli import run
from portkit.finding import Phase

FILES: dict[str, str | bytes] = {
    "a.py": TRAIN,
    "crlf.py": b"import torch\r\nx = torch.load(m.cuda())\r\n",
    "no newline.py": "import torch.nn.functional as F\nx = F.softmax(y.cuda())",
    'b/ü "q" \\.py': b"\xef\xbb\xbfx.cuda()\n",
    "latin.py": b"# -*- coding: latin-1 -*-\n# \xe9\nx.cuda()\n",
    "wide.py": "\ufeffx.cuda()\n".encode("utf-16-le"),
    "d.yaml": "device: cuda",
    "bare.py": b"import torch\rx = y.cuda()\r",
    "untouched.py": "y = 1\n",
}
FULL = ("--phase", "full-model", "--unsafe")


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "all_rules", lambda: RULES)


def files(root: Path) -> dict[str, bytes]:
    return {name: data for name, (data, _) in snapshot(root).items() if not name.startswith(".portkit")}


@pytest.mark.parametrize("tool", ["git", "patch"])
def test_each_phase_is_a_patch(tool: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"there is no {tool}")
    root, other = tree(tmp_path / "root", FILES), tree(tmp_path / "other", FILES)
    folder = tmp_path / "patches"
    assert run(["migrate", str(root), *FULL, "--patch", str(folder)]) == 0
    out, err = capfd.readouterr()
    names = [f"portkit-{number}-{phase.value}.patch" for number, phase in enumerate(Phase, start=1)]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert out.splitlines() == [f"wrote {folder / name}" for name in names]
    assert f"git apply {folder / names[0]} {folder / names[1]} {folder / names[2]}" in err
    assert files(root) == {
        name: data if isinstance(data, bytes) else data.encode() for name, data in FILES.items()
    }
    git(root, "init", "-q")
    for phase, name in zip(Phase, names, strict=True):
        if tool == "git":
            git(root, "apply", str(folder / name))
        else:
            command = ["patch", "-p1", "--binary", "-s", "-i", str(folder / name)]
            subprocess.run(command, cwd=root, check=True, capture_output=True)
        assert run(["migrate", str(other), "--phase", phase.value, "--unsafe", "--write"]) == 0
        assert files(root) == files(other)
    assert b"rename" not in b"".join(path.read_bytes() for path in folder.iterdir())


def test_a_patch_that_no_longer_holds_goes(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", {"a.py": TRAIN})
    folder = tree(tmp_path / "patches", {"mine.patch": "", "portkit-3-full-model.patch": "old"})
    assert run(["migrate", str(root), "--phase", "operator", "--patch", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["mine.patch", "portkit-1-operator.patch"]


def test_what_patch_excludes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = tree(tmp_path / "root", {"a.py": TRAIN})
    for other in (["--write"], ["--check"], ["--output", "x"]):
        assert run(["migrate", str(root), *FULL, "--patch", "p", *other]) == 2
        assert "exclude each other" in capfd.readouterr().err
    assert run(["migrate", str(root), *FULL, "--patch", str(root / "a.py")]) == 2
    assert "cannot be made" in capfd.readouterr().err
