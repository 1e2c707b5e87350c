"""Modules side by side: wrong rewrites of minigpt in the module that they are in; specs; bad modules."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from planted import TINY, WRONG, plant

from portkit import cli, demo
from portkit.errors import UsageError
from portkit.parity import launch, modules
from portkit.parity.compare import Status
from portkit.parity.training import Script

pytest.importorskip("torch")
MINIGPT = Path(__file__).parent.parent / "fixtures" / "projects" / "minigpt"
THREADS = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
# the smallest module that is wrong; a scaler is in no module: only a whole run shows it
SMALLEST = {wrong.name: wrong.module.removesuffix(".proj").removesuffix(".down") for wrong in WRONG}
SMALLEST["wrong reduction"] = "(whole model)"


@pytest.fixture(scope="module", autouse=True)
def _ended():
    yield
    launch.close()


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("minigpt") / "migrated"
    demo.migrate(MINIGPT, folder, lambda line: None)
    return folder


def pair(tree: Path, folder: Path, dtype: str = "float32") -> tuple[Script, Script]:
    arguments = (*TINY, "--run_dir", str(folder), "--dtype", dtype)
    return (
        Script(MINIGPT, "train.py", arguments, THREADS, "original", standin=True),
        Script(tree, "train.py", arguments, THREADS, "migrated"),
    )


@pytest.mark.parametrize("wrong", [w for w in WRONG if w.module], ids=lambda wrong: wrong.name)
def test_a_wrong_rewrite_fails_in_the_module_it_is_in(wrong, migrated, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(migrated, tree)
    plant(tree, wrong)
    rows = {row.module: row for row in modules.compare(*pair(tree, tmp_path, wrong.dtype), timeout=120)}
    bad = {name for name, row in rows.items() if row.status is Status.FAIL}
    assert SMALLEST[wrong.name] in bad
    around = {"(whole model)", "blocks.0"}
    assert bad <= {SMALLEST[wrong.name], *around}
    json.dumps([row.to_dict() for row in rows.values()], allow_nan=False)


def test_the_right_migration_passes_and_a_command_says_so(migrated, tmp_path, capsys):
    words = [*TINY, "--run_dir", str(tmp_path)]
    trees = ["--original", str(MINIGPT), "--migrated", str(migrated), "--stand-in", "--format", "json"]
    assert cli.run(["parity", "--level", "module", "train.py", *trees, "--", *words]) == 0
    rows = json.loads(capsys.readouterr().out)["modules"]
    assert len(rows) == 6
    assert all(row["status"] == "pass" and row["controls"] for row in rows)


def test_bisection_names_the_edit_that_a_module_fails_by(migrated, tmp_path):
    wrong = next(w for w in WRONG if w.name == "reversed argument")
    tree = tmp_path / "tree"
    shutil.copytree(migrated, tree)
    plant(tree, wrong)
    rows = modules.compare(*pair(tree, tmp_path), timeout=120, seconds=300)
    failed = [row for row in rows if row.status is Status.FAIL]
    assert [(e.path, e.message) for e in failed[0].culprits.edits] == [(wrong.path, wrong.name)]
    assert "by the edit minigpt/model.py" in failed[0].reason


PLAIN = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
"""


def plain(folder: Path, text: str) -> Script:
    folder.mkdir()
    (folder / "fit.py").write_text(text)
    return Script(folder, "fit.py", (), THREADS, folder.name)


@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        (("", ""), Status.PASS, ""),
        (("Tanh()", "Sigmoid()"), Status.FAIL, "output 0"),
        (("Linear(3, 4)", "Linear(3, 4, bias=False)"), Status.FAIL, "Unexpected key"),
        (("model(", "raise OSError('no data')\n    model("), Status.FAIL, "OSError: no data"),
        (("model(torch.randn(5, 3))", "model[0].weight"), Status.FAIL, "the script calls no module"),
        (("step in range(3)", "step in iter(int, 1)"), Status.PASS, ""),  # one step is enough
        (("for step", "while True: pass\nfor step"), Status.FAIL, "did not end within 5 s"),
    ],
    ids=["right", "wrong", "state", "crash", "no call", "endless", "hang"],
)
def test_a_program_of_torchs_own_modules_is_compared_as_a_whole(change, status, why, tmp_path):
    sides = plain(tmp_path / "original", PLAIN), plain(tmp_path / "migrated", PLAIN.replace(*change))
    (row,) = modules.compare(*sides, timeout=5)
    assert row.status is status, row.reason
    assert why in row.reason
    assert "\n" not in row.reason
    assert "portkit" not in row.reason


# --- specs ------------------------------------------------------------------------------------------------

NETS = """
import torch

class Net(torch.nn.Module):
    def __init__(self, width, *, bias=True):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(width)
        self.drop = torch.nn.Dropout(0.5)
        self.out = torch.nn.Linear(width, 3, bias=bias)

    def forward(self, x, scale):
        return self.drop(self.out(self.norm(x))) * scale

def double(x):
    return 2 * x
"""
SPEC = """
[[module]]
import = "nets:Net"
arguments = [4]
keywords = {bias = false}
inputs = [{shape = [6, 4]}, 0.5]

[[module]]
import = "nets:double"
inputs = [{shape = [2, 3], dtype = "bfloat16"}]
"""


def specified(tmp_path: Path, change: tuple[str, str], text: str = SPEC) -> list[modules.Row]:
    sides = []
    for label, source in (("original", NETS), ("migrated", NETS.replace(*change))):
        (tmp_path / label).mkdir()
        (tmp_path / label / "nets.py").write_text(source)
        sides.append(Script(tmp_path / label, "", (), THREADS, label))
    file = tmp_path / "spec.toml"
    file.write_text(text)
    return modules.compare(*sides, modules.spec(file), timeout=60)


def test_a_spec_builds_modules_and_functions(tmp_path):
    rows = specified(tmp_path, ("", ""))
    assert [(row.module, row.status) for row in rows] == [
        ("nets:Net", Status.PASS),
        ("nets:double", Status.PASS),
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("Dropout(0.5)", "Dropout(0.4)"), "train: output 0"),
        (("BatchNorm1d(width)", "BatchNorm1d(width, momentum=0.2)"), "train: buffer norm.running"),
        (("self.norm(x)", "self.norm(x.detach())"), "train: gradient of input 0 is missing"),
        (("* scale", "* scale if self.training else x"), "eval: output 0"),
        (("* scale", "* scale * float('nan')"), "NaN"),
        (("self.out = ", "self.last = "), "Unexpected key"),
        (("torch.nn.Linear(width, 3, bias=bias)", "torch.nn.Linear(width, 3)"), "Missing key"),
        (("* scale", "* scale.item()"), "AttributeError"),
        (("width, *", "width, depth, *"), "missing a required argument: 'depth'"),
        (("class Net", "class Other"), "can't be imported"),
    ],
    ids=["dropout", "buffer", "gradient", "eval", "nan", "attribute", "state", "crash", "argument", "gone"],
)  # fmt: skip
def test_a_module_that_differs_or_does_not_run_fails_in_one_line(change, why, tmp_path):
    first, second = specified(tmp_path, change)
    assert first.status is Status.FAIL
    assert why in first.reason
    assert "\n" not in first.reason
    assert second.status is Status.PASS


def test_constructor_arguments_that_are_needed_are_named(tmp_path):
    (row,) = specified(tmp_path, ("", ""), '[[module]]\nimport = "nets:Net"\n')
    assert row.status is Status.SKIPPED
    assert "takes (width, *, bias=True): missing a required argument: 'width'" in row.reason


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no module"),
        ("[[module", "can't be read"),
        ("[[module]]\nimport = 'nets'", "needs import"),
        ("[[module]]\nimport = 'nets:Net'\nwidth = 3", "does not know width"),
        ("[[module]]\nimport = 'nets:Net'\ninputs = [{dtype = 'int64'}]", "no shape"),
    ],
)
def test_a_wrong_spec_is_a_usage_error(text, why, tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=why):
        modules.spec(file)
