"""Whole projects through every phase with the real rules: sound, stable, and undone to the byte."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest
from test_migrate import full, snapshot

from portkit import writing
from portkit.finding import Phase
from portkit.undo import undo

FOLDER = Path(__file__).parent.parent / "fixtures/projects"
PROJECTS = sorted(path for path in FOLDER.iterdir() if path.is_dir())


def sources(root: Path) -> dict[str, bytes]:
    return {name: data for name, (data, _) in snapshot(root).items() if not name.startswith(".portkit/")}


def check_sound(files: dict[str, bytes]) -> None:
    for name, data in files.items():
        if name.endswith(".py"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(data, name, "exec")
        elif name.endswith(".ipynb"):
            json.loads(data)


@pytest.fixture(params=PROJECTS, ids=lambda path: path.name)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / "project"))


@pytest.mark.parametrize("unsafe", [False, True])
def test_phase_by_phase(project: Path, unsafe: bool) -> None:
    states = [snapshot(project)]
    for phase in Phase:
        made = full(project, phase, unsafe=unsafe)
        assert made.changes
        assert writing.write(made) == []
        again = full(project, phase, unsafe=unsafe)
        assert [change.path for change in again.changes] == []
        assert [reason for _, reason in again.left if reason] == []
        check_sound(sources(project))
        states.append(snapshot(project))
    undo(project, everything=True)
    assert snapshot(project) == states[0]


def test_all_at_once_is_the_same_as_phase_by_phase(project: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(project, tmp_path / "other"))
    for phase in Phase:
        writing.write(full(project, phase))
    writing.write(full(other))
    assert sources(other) == sources(project)
