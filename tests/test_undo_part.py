"""Undo of a part: a phase, a rule, a file; in any order with migrations and with the user's own changes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from migration_rules import RULES
from test_migrate import TRAIN, snapshot, tree

from portkit import manifest, ruleset, writing
from portkit.cli import run
from portkit.config import Config
from portkit.errors import UsageError
from portkit.finding import Phase
from portkit.migrate import Options, plan
from portkit.partial import Choice, undo_part
from portkit.undo import undo

NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "code", "source": ["import torch\n", "%matplotlib inline\n"], "outputs": []},
            {"cell_type": "markdown", "source": "x.cuda()"},
            {"cell_type": "code", "source": "import torch.nn.functional as F\né = F.softmax(x.cuda())\n"},
        ],
        "metadata": {},
        "nbformat": 4,
    },
    indent=1,
)
FILES: dict[str, str | bytes] = {
    "a.py": TRAIN,
    "b/c.py": b'\xef\xbb\xbf"""Doc."""\r\nimport torch\r\n\r\n\r\ndef f(x):\r\n    torch.load(x).cuda()\r\n',
    "b/d.py": "import torch.nn.functional as F\nx = [F.softmax(y.cuda()) for y in z]; x.cuda()\nF.softmax(x)",
    "d.yaml": "device: cuda",
    "n.ipynb": NOTEBOOK,
    "w.py": "import torch\nq = wrapped(m.cuda(), 1)\nr = m.cuda()\n",
}


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "all_rules", lambda: RULES)


def migrate(root: Path, phase: Phase = Phase.FULL_MODEL, *select: str, ignore: tuple[str, ...] = ()) -> None:
    config = Config(select=select, ignore=ignore)
    assert writing.write(plan(root, Options(phase, config, unsafe=True))) == []


def files(root: Path) -> dict[str, bytes]:
    return {name: data for name, (data, _) in snapshot(root).items() if not name.startswith(".portkit")}


@pytest.mark.parametrize("rule", ["PK901", "PK902", "PK903", "PK907"])
def test_a_rule_goes_as_if_it_had_never_been(rule: str, tmp_path: Path) -> None:
    one, other = tree(tmp_path / "one", FILES), tree(tmp_path / "other", FILES)
    for root in (one, other):
        (root / "w.py").unlink()
    migrate(one)
    migrate(other, ignore=(rule,))
    done = undo_part(one, Choice(rules=(rule,)))
    assert done.edits > 0
    assert files(one) == files(other)
    assert rule not in (one / ".portkit/manifest.json").read_text()
    undo(one, everything=True)
    (tmp_path / "third").mkdir()
    assert files(one) == {
        name: data for name, data in files(tree(tmp_path / "third", FILES)).items() if name != "w.py"
    }


def test_a_phase_and_a_file(tmp_path: Path) -> None:
    one, other = tree(tmp_path / "one", FILES), tree(tmp_path / "other", FILES)
    migrate(one)
    migrate(other, Phase.MODULE)
    (other / "w.py").write_bytes((one / "w.py").read_bytes())
    undo_part(one, Choice(phases=frozenset({"full-model"}), files=("a.py", "b", "d.yaml", "n.ipynb")))
    assert files(one) == files(other)
    undo_part(one, Choice(files=("b",)))
    assert (one / "b/c.py").read_bytes() == FILES["b/c.py"]
    assert (one / "a.py").read_bytes() != TRAIN.encode()


def test_a_rule_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, {"a.py": TRAIN})
    migrate(root)
    monkeypatch.chdir(root)
    assert run(["undo", "cuda_method", "a.py"]) == 0
    assert "pk.ops.softmax(m.cuda(), dim=1)" in (root / "a.py").read_text()
    assert run(["undo", "operator"]) == 0
    assert files(root) == {"a.py": TRAIN.encode()}


def test_an_edit_that_another_stands_on_stays(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = tree(tmp_path, {"w.py": FILES["w.py"]})
    migrate(root, Phase.MODULE)
    migrate(root)
    state = snapshot(root)
    assert run(["undo", str(root), "PK908"]) == 2
    err = capfd.readouterr().err
    assert "1 place can't be taken back" in err
    assert "w.py:2: PK901 was applied on top of it" in err
    assert f"portkit undo {root} PK901 PK908" in err
    assert snapshot(root) == state
    assert run(["undo", str(root), "PK901", "PK908"]) == 0
    assert files(root) == {"w.py": FILES["w.py"].encode()}  # type: ignore[union-attr]
    assert not (root / ".portkit").exists()


def test_lines_that_the_user_changed_stay_and_others_go(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tree(tmp_path, {"a.py": "x = m.cuda()\n\ny = n.cuda()\n", "b.py": "z = o.cuda()\n"})
    migrate(root)
    after = (root / "a.py").read_text()
    (root / "a.py").write_text(after.replace("y = n", "y = mine"))
    state = snapshot(root)
    assert run(["undo", str(root), "PK901"]) == 2
    assert "a.py:5: these lines were changed since" in capfd.readouterr().err
    assert snapshot(root) == state
    (root / "a.py").write_text(after.replace("\n\ny", "\n# mine\n\ny") + "w = 1\n")
    assert run(["undo", str(root), "PK901"]) == 0
    assert files(root) == {
        "a.py": b"x = m.cuda()\n# mine\n\ny = n.cuda()\nw = 1\n",
        "b.py": b"z = o.cuda()\n",
    }


def test_an_import_that_the_user_uses_too_stays(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "import torch\nx = m.cuda()\n"})
    migrate(root)
    with (root / "a.py").open("a") as stream:
        stream.write("pk.synchronize()\n")
    undo_part(root, Choice(rules=("PK901",)))
    assert (root / "a.py").read_text() == (
        "import torch\nimport portkit.runtime as pk\nx = m.cuda()\npk.synchronize()\n"
    )


def test_a_notebook_keeps_its_new_outputs(tmp_path: Path) -> None:
    root = tree(tmp_path, {"n.ipynb": NOTEBOOK})
    migrate(root)
    file = root / "n.ipynb"
    file.write_text(file.read_text().replace('"outputs": []', '"outputs": [{"output_type": "x"}]'))
    undo_part(root, Choice(files=("n.ipynb",)))
    cells = json.loads(file.read_text())["cells"]
    assert cells[0]["outputs"] == [{"output_type": "x"}]
    assert ["".join(cell["source"]) for cell in cells] == [
        "".join(cell["source"]) for cell in json.loads(NOTEBOOK)["cells"]
    ]


def recorded(root: Path, chosen: Choice) -> bool:
    runs = manifest.read(root).runs
    return any(chosen.takes(file.path, edit) for one in runs for file in one.files for edit in file.edits)


ACTIONS = (
    *(("migrate", phase) for phase in Phase),
    *(("select", rule) for rule in ("PK901", "PK902", "PK903", "PK907")),
    *(("undo", Choice(phases=frozenset({phase.value}))) for phase in Phase),
    *(("undo", Choice(rules=(rule,))) for rule in ("PK901", "PK902", "PK903", "PK907", "PK908")),
    *(("undo", Choice(files=(name,))) for name in (*FILES, "b")),
    *(("undo", Choice(rules=("PK901",), files=(name,))) for name in FILES),
    ("last", None),
    ("touch", None),
)


def act(root: Path, action: str, value: object) -> None:
    if action == "migrate":
        assert isinstance(value, Phase)
        migrate(root, value)
    elif action == "select":
        migrate(root, Phase.FULL_MODEL, str(value))
    elif action == "last":
        undo(root)
    elif action == "undo":
        assert isinstance(value, Choice)
        undo_part(root, value)


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_migrations_and_undos_comes_back(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    root = tree(tmp_path, FILES)
    before = files(root)
    for _ in range(12):
        action, value = chance.choice(ACTIONS)
        state = snapshot(root)
        try:
            act(root, action, value)
        except UsageError:
            assert snapshot(root) == state  # refused: nothing is touched
        record = manifest.read(root)
        now = files(root)
        hashes = record.last_hashes()
        for name, data in now.items():
            assert hashes.get(name, manifest.sha256(before[name])) == manifest.sha256(data)
        for one in record.runs:
            assert one.files
            for file in one.files:
                assert file.layers
                assert record.original(str(file.sha256_before))
    for name in FILES:
        if name in manifest.read(root).last_hashes():
            undo_part(root, Choice(files=(name,)))
    assert files(root) == before
    assert not (root / ".portkit").exists()


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_is_what_was_not_taken_back(seed: int, tmp_path: Path) -> None:
    """The bytes depend on which edits stand, not on the way there."""
    chance = random.Random(seed)
    independent = {name: data for name, data in FILES.items() if name != "w.py"}
    root = tree(tmp_path / "root", independent)
    standing = {(name, rule): False for name in independent for rule in ("PK901", "PK902", "PK903", "PK907")}
    for _ in range(8):
        rule = chance.choice(("PK901", "PK902", "PK903", "PK907"))
        if chance.random() < 0.5:
            migrate(root, Phase.FULL_MODEL, rule)
            standing.update({key: True for key in standing if key[1] == rule})
            continue
        names = tuple(chance.sample(sorted(independent), 2))
        chosen = Choice(rules=(rule,), files=names)
        if recorded(root, chosen):
            undo_part(root, chosen)
        standing.update({key: False for key in standing if key[1] == rule and key[0] in names})
    for name, data in independent.items():
        alone = tree(tmp_path / "alone" / name.replace("/", "_"), {name: data})
        rules = tuple(rule for (other, rule), on in standing.items() if other == name and on)
        if rules:
            migrate(alone, Phase.FULL_MODEL, *rules)
        assert (alone / name).read_bytes() == (root / name).read_bytes(), (name, rules)
