"""Undo of single rules, in any order, on the small repositories that are fixtures, with the real rules."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from test_migrate import full, snapshot

from portkit import manifest, writing
from portkit.errors import UsageError
from portkit.partial import Choice, undo_part

PROJECTS = sorted((Path(__file__).parent.parent / "fixtures/projects").iterdir())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("original", PROJECTS, ids=lambda path: path.name)
def test_rule_by_rule(original: Path, seed: int, tmp_path: Path) -> None:
    root = tmp_path / original.name
    shutil.copytree(original, root, ignore=shutil.ignore_patterns("__pycache__", ".portkit"))
    before = snapshot(root)
    writing.write(full(root, unsafe=True))
    rules = sorted({edit.rule for run in manifest.runs_of(root) for file in run.files for edit in file.edits})
    random.Random(seed).shuffle(rules)
    taken = 0
    for rule in rules:
        state = snapshot(root)
        try:
            taken += undo_part(root, Choice(rules=(rule,))).edits
        except UsageError:
            assert snapshot(root) == state
            continue
        left = manifest.runs_of(root) if manifest.exists(root) else ()
        assert rule not in {edit.rule for run in left for file in run.files for edit in file.edits}
    assert taken
    for name in sorted(manifest.read(root).last_hashes()):
        undo_part(root, Choice(files=(name,)))
    assert snapshot(root) == before
