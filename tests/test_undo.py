"""Undo: every byte and mode comes back, and nothing of the user's is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from migration_rules import RULES
from test_migrate import TRAIN, full, snapshot, tree

from portkit import manifest, ruleset, writing
from portkit.errors import UsageError
from portkit.finding import Phase
from portkit.manifest import ManifestError
from portkit.migrate import FileChange, Options, Plan
from portkit.source import Kind
from portkit.undo import undo


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "all_rules", lambda: RULES)


FILES: dict[str, str | bytes] = {
    "a.py": TRAIN,
    "b/c.py": b"\xef\xbb\xbfx.cuda()\r\n",
    "d.yaml": "device: cuda",
    "e.txt": "untouched",
}


def test_everything_comes_back(tmp_path: Path) -> None:
    tree(tmp_path, FILES)
    (tmp_path / "b/c.py").chmod(0o755)
    before = snapshot(tmp_path)
    writing.write(full(tmp_path))
    assert snapshot(tmp_path) != before
    done = undo(tmp_path)
    assert (done.runs, done.restored, done.failed) == (1, ["a.py", "b/c.py", "d.yaml"], [])
    assert snapshot(tmp_path) == before
    assert not (tmp_path / ".portkit").exists()


def test_runs_stack(tmp_path: Path) -> None:
    tree(tmp_path, FILES)
    states = [snapshot(tmp_path)]
    for phase in (Phase.OPERATOR, Phase.FULL_MODEL):
        writing.write(full(tmp_path, phase))
        states.append({name: data for name, data in snapshot(tmp_path).items() if ".portkit" not in name})
    assert len(manifest.runs_of(tmp_path)) == 2
    undo(tmp_path)
    assert {n: d for n, d in snapshot(tmp_path).items() if ".portkit" not in n} == states[1]
    writing.write(full(tmp_path))
    assert undo(tmp_path, everything=True).runs == 2
    assert snapshot(tmp_path) == states[0]


def test_a_mode_that_was_changed_comes_back(tmp_path: Path) -> None:
    tree(tmp_path, FILES)
    before = snapshot(tmp_path)
    writing.write(full(tmp_path))
    (tmp_path / "a.py").chmod(0o600)
    undo(tmp_path)
    assert snapshot(tmp_path) == before


def test_files_that_the_migration_made_go(tmp_path: Path) -> None:
    made = Plan(tmp_path, Options(Phase.OPERATOR))
    made.changes.append(FileChange("new/k.py", Kind.PYTHON, None, b"1\n", ()))
    (tmp_path / "new").mkdir()
    assert writing.write(made) == []
    assert (tmp_path / "new/k.py").read_bytes() == b"1\n"
    assert undo(tmp_path).removed == ["new/k.py"]
    assert not (tmp_path / "new/k.py").exists()


@pytest.mark.parametrize("change", ["edited", "deleted", "linked"])
def test_what_changed_since_is_named_and_kept(tmp_path: Path, change: str) -> None:
    root = tree(tmp_path / "root", FILES)
    before = snapshot(root)
    writing.write(full(root))
    file = root / "a.py"
    outside = tree(tmp_path, {"outside.py": "mine\n"}) / "outside.py"
    if change == "edited":
        file.write_text("mine\n")
    else:
        file.unlink()
        if change == "linked":
            file.symlink_to(outside)
    state = snapshot(root)
    with pytest.raises(UsageError, match=r"Changed since the migration: a\.py"):
        undo(root)
    assert snapshot(root) == state
    done = undo(root, force=True)
    assert outside.read_text() == "mine\n"
    if change == "linked":
        assert [item.path for item in done.failed] == ["a.py"]
        assert file.is_symlink()
        assert len(manifest.runs_of(root)) == 1
    else:
        assert snapshot(root) == before


def test_undo_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    tree(tmp_path, FILES)
    before = snapshot(tmp_path)
    writing.write(full(tmp_path))
    (tmp_path / "a.py").write_text(TRAIN)
    undo(tmp_path)
    assert snapshot(tmp_path) == before


def test_nothing_to_undo(tmp_path: Path) -> None:
    tree(tmp_path, FILES)
    with pytest.raises(UsageError, match="No migration"):
        undo(tmp_path)
    writing.write(full(tmp_path))
    with pytest.raises(UsageError) as caught:
        undo(tmp_path / "b")
    assert f"portkit undo {tmp_path}" in caught.value.remedy
    with pytest.raises(UsageError, match="no such folder"):
        undo(tmp_path / "nothing")


def damage_json(root: Path) -> None:
    (root / ".portkit/manifest.json").write_text("{")


def damage_shape(root: Path) -> None:
    (root / ".portkit/manifest.json").write_text('{"schema_version": 1, "runs": [{"files": []}]}')


def damage_path(root: Path) -> None:
    file = root / ".portkit/manifest.json"
    file.write_text(file.read_text().replace('"a.py"', '"../a.py"'))


def damage_version(root: Path) -> None:
    (root / ".portkit/manifest.json").write_text('{"schema_version": 99, "runs": []}')


def damage_blob(root: Path) -> None:
    next(iter(sorted((root / ".portkit/undo").iterdir()))).write_bytes(b"?")


def swap_blobs(root: Path) -> None:
    one, other, *_ = sorted((root / ".portkit/undo").iterdir())
    one.write_bytes(other.read_bytes())


def lose_blob(root: Path) -> None:
    next(iter(sorted((root / ".portkit/undo").iterdir()))).unlink()


@pytest.mark.parametrize(
    "damage",
    [damage_json, damage_shape, damage_path, damage_version, damage_blob, swap_blobs, lose_blob],
)
def test_a_damaged_record_is_one_error_and_touches_nothing(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    tree(tmp_path, FILES)
    writing.write(full(tmp_path))
    damage(tmp_path)
    state = snapshot(tmp_path)
    with pytest.raises(ManifestError) as caught:
        undo(tmp_path)
    assert caught.value.place
    assert caught.value.remedy
    assert "\n" not in caught.value.message
    assert snapshot(tmp_path) == state


def test_the_record_is_plain_data(tmp_path: Path) -> None:
    tree(tmp_path, FILES)
    writing.write(full(tmp_path))
    table = json.loads((tmp_path / ".portkit/manifest.json").read_text())
    assert table["schema_version"] == 1
    [run] = table["runs"]
    assert run["phase"] == "full-model"
    assert [edit["rule"] for edit in run["files"][0]["edits"]] == ["PK902", "PK901"]
    assert manifest.read(tmp_path).runs[0].files[0].edits[0].phase == "operator"
