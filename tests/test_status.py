"""`portkit status` and the history that it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from migration_rules import RULES
from test_migrate import TRAIN, snapshot, tree

from portkit import history, ruleset
from portkit.cli import run

FILES: dict[str, str | bytes] = {
    "a.py": TRAIN,
    "b.py": "import torch\nx = torch.load(f)\nx.profiler\n",
    "c.py": "y = 1\n",
}


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "all_rules", lambda: RULES)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path / "root", FILES)


def status(root: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capfd.readouterr()
    assert run(["status", str(root), "--format", "json"]) == 0
    table: dict[str, Any] = json.loads(capfd.readouterr().out)
    return table


def rows(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / ".portkit" / history.NAME).read_text().splitlines()]


def test_reading_commands_leave_nothing_in_a_foreign_tree(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(root)
    assert run(["scan", str(root)]) == 0
    found = status(root, capfd)
    assert run(["migrate", str(root), "--phase", "full-model"]) == 0
    assert snapshot(root) == before
    assert found["phase"] == "operator"
    assert {name: item["state"] for name, item in found["phases"].items()} == {
        "operator": "not started",
        "module": "not started",
        "full-model": "not started",
    }
    assert found["burn_down"] == []
    assert found["next"] == f"portkit migrate {root} --phase operator --write"


def test_phases_as_they_go(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", str(root), "--phase", "operator", "--write"]) == 0
    found = status(root, capfd)
    assert found["phase"] == "module"
    assert found["phases"]["operator"] == {
        "state": "done",
        "left": {"auto": 0, "review": 0, "manual": 0, "unknown": 0},
        "portable": 0,
        "rewritten": 1,
        "minutes": 0,
    }
    assert run(["migrate", str(root), "--phase", "full-model", "--write"]) == 0
    found = status(root, capfd)
    assert found["phase"] == "module"
    assert found["phases"]["module"]["state"] == "not started"
    assert found["phases"]["module"]["left"]["review"] == 1
    assert found["phases"]["full-model"]["state"] == "in progress"
    assert found["phases"]["full-model"]["left"]["manual"] == 1
    assert [(point["event"], sum(point["left"].values())) for point in found["burn_down"]] == [
        ("scan", 4),
        ("migrate", 3),
        ("migrate", 2),
    ]
    assert sum(found["now"]["left"].values()) == 2
    assert status(root / "a.py", capfd)["burn_down"] == found["burn_down"]


def test_what_each_run_adds(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / ".portkit").mkdir()
    assert run(["scan", str(root)]) == 0
    assert run(["scan", str(root), "--select", "PK901"]) == 0  # does not see everything
    assert run(["scan", str(root / "a.py")]) == 0
    assert run(["migrate", str(root), "--phase", "full-model", "--select", "PK902", "--write"]) == 0
    (root / "portkit.toml").write_text("[tool.portkit.gate.coverage]\noperator = 100\n")
    assert run(["gate", str(root)]) == 0
    assert run(["undo", str(root), "PK902"]) == 0
    found = rows(root)
    assert [row["event"] for row in found] == ["scan", "migrate", "gate", "undo"]
    assert [sum(history._point(json.dumps(row)).open() for _ in "1") for row in found] == [4, 3, 3, 4]  # type: ignore[union-attr]
    assert found[2]["detail"] == "1 of 1 passed"
    assert found[3]["detail"] == f"{root} PK902"
    assert found[0]["minutes"] > found[1]["minutes"]
    assert all(row["time"].endswith("Z") for row in found)


def test_undoing_all_leaves_nothing_where_migration_began_it(root: Path) -> None:
    before = snapshot(root)
    assert run(["migrate", str(root), "--phase", "full-model", "--write"]) == 0
    assert run(["scan", str(root)]) == 0
    assert [row["event"] for row in rows(root)] == ["scan", "migrate", "scan"]
    assert run(["undo", str(root)]) == 0
    assert snapshot(root) == before
    assert not (root / ".portkit").exists()


def test_options_of_one_call_do_not_bend_the_curve(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", str(root), "--phase", "full-model", "--select", "PK901", "--write"]) == 0
    found = status(root, capfd)
    assert [sum(point["left"].values()) for point in found["burn_down"]] == [4, 3]
    assert sum(found["now"]["left"].values()) == 3
    assert run(["undo", str(root)]) == 0
    assert not (root / ".portkit").exists()


def test_damaged_lines_are_left_out_and_counted(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / ".portkit").mkdir()
    assert run(["scan", str(root)]) == 0
    file = root / ".portkit" / history.NAME
    good = file.read_bytes()
    bad = (b"{", b"[1]", b'{"time": 1}', b'{"time": "x", "event": "scan"}', b"\xff\xfe", b'{"time": null}')
    worse = b'{"time": "2026-01-01T00:00:00Z", "event": "scan", "counts": {"operator": 3}}'
    file.write_bytes(good + b"\n".join([*bad, worse]) + b"\n\n<<<<<<< HEAD\n" + good[:-9])
    found = status(root, capfd)
    assert len(found["burn_down"]) == 1
    assert found["damaged_lines"] == 9
    assert run(["status", str(root)]) == 0
    assert "9 damaged lines" in capfd.readouterr().out
    assert run(["scan", str(root)]) == 0
    assert len(status(root, capfd)["burn_down"]) == 2


def test_the_history_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_MOST", 5)
    (root / ".portkit").mkdir()
    for number in range(12):
        history.note(root, "parity", None, str(number))
    assert [row["detail"] for row in rows(root)] == ["0", "8", "9", "10", "11"]


def test_a_history_that_cannot_be_written_stops_nothing(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / ".portkit" / history.NAME).mkdir(parents=True)
    assert run(["scan", str(root)]) == 0
    err = capfd.readouterr().err
    assert err.startswith("portkit: the history was not written: ")
    assert status(root, capfd)["burn_down"] == []


def test_the_table(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", str(root), "--phase", "full-model", "--write"]) == 0
    capfd.readouterr()
    assert run(["status", str(root)]) == 0
    out = capfd.readouterr().out
    assert f"{root}: in phase module\n" in out
    assert "operator    done" in out
    assert "full-model  in progress" in out
    assert "Burn-down: 2 left of 4 at the first scan (50 % done)" in out
    assert "4  ##############################" in out
    assert f"Next: portkit migrate {root} --phase module --unsafe --interactive" in out


@pytest.mark.parametrize(
    ("arguments", "words"), [(["nothing"], "no such folder"), ([".", "--format", "x"], "no format x")]
)
def test_a_wrong_call(arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["status", *arguments]) == 2
    assert words in capfd.readouterr().err
