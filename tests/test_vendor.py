"""`migrate --vendor`: a copy of the helpers that the code needs, which runs without portkit."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_migrate import snapshot, tree

from portkit import helpers
from portkit.cli import run

FULL = ("--phase", "full-model", "--vendor")
HIDDEN = """
import importlib.abc, sys

class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "portkit":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
"""
TRAIN = """import torch

from lib.model import Net

net = Net().cuda()
torch.cuda.synchronize()
with torch.cuda.amp.autocast(enabled=False):
    print(net(torch.ones(2, 3).cuda()).shape, torch.cuda.memory_allocated() >= 0)
"""
FILES: dict[str, str | bytes] = {
    "train.py": TRAIN,
    "lib/__init__.py": "",
    "lib/model.py": "import torch\n\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n"
    "        super().__init__(3, 4)\n        self.register_buffer('b', torch.zeros(1).cuda())\n",
    "tools/probe.py": "import torch\nimport helper\n\nprint(torch.ones(1).cuda() + helper.ONE)\n",
    "tools/helper.py": "ONE = 1\n",
    "scripts/eval.py": "import torch\n\nprint(torch.ones(1).cuda())\n",
}


def everything() -> list[str]:
    """Every device helper that there is."""
    tree_ = ast.parse((Path(helpers.__file__).parent / "runtime/__init__.py").read_text())
    names = [
        item.name
        for node in tree_.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("portkit.runtime.")
        for item in node.names
    ]
    for space in sorted(helpers.spaces()):
        file = Path(helpers.__file__).parent / "runtime" / f"{space}.py"
        names += [
            f"{space}.{node.name}"
            for node in ast.parse(file.read_text()).body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        ]
    return names


def child(code: str, folder: Path, *arguments: str) -> str:
    """What a script prints with portkit hidden."""
    command = [sys.executable, "-c", HIDDEN + code, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def script(name: str, folder: Path) -> str:
    """A script as `python NAME` runs it: its own folder comes first in the path."""
    pytest.importorskip("torch")
    code = (
        "import os, runpy\nsys.path[0] = os.path.dirname(os.path.abspath(sys.argv[1]))\n"
        "runpy.run_path(sys.argv[1], run_name='__main__')\n"
    )
    return child(code, folder, name)


def test_the_code_runs_without_portkit(tmp_path: Path) -> None:
    root = tree(tmp_path, FILES)
    before = snapshot(root)
    assert run(["migrate", str(root), *FULL, "--write"]) == 0
    files = {
        name: data.decode() for name, (data, _) in snapshot(root).items() if not name.startswith(".portkit")
    }
    assert "\nfrom lib import _portkit as pk\n" in files["lib/model.py"]
    assert "\nimport _portkit as pk\n" in files["train.py"]
    assert "\nimport _portkit as pk\n" in files["tools/probe.py"]
    assert {name for name in files if name.endswith("_portkit.py")} == {
        "_portkit.py",
        "lib/_portkit.py",
        "scripts/_portkit.py",
        "tools/_portkit.py",
    }
    assert "import portkit" not in "".join(files.values())
    assert script("train.py", root) == "torch.Size([2, 4]) True\n"
    assert script("tools/probe.py", root) == "tensor([2.])\n"
    assert script("scripts/eval.py", root) == "tensor([1.])\n"
    again = snapshot(root)
    assert run(["migrate", str(root), "--phase", "full-model", "--write"]) == 0
    assert snapshot(root) == again  # the copies are ours: nothing in them is to be rewritten
    assert run(["undo", str(root)]) == 0
    assert snapshot(root) == before


def test_a_later_migration_renews_the_copy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = tree(tmp_path, {"a.py": "import torch\ntorch.ones(1).cuda()\n"})
    assert run(["migrate", str(root), *FULL, "--write"]) == 0
    err = capfd.readouterr().err
    assert "1 rewrite in 1 file of 1 changed" in err
    assert "The device helpers are in _portkit.py (--vendor)." in err
    small = (root / "_portkit.py").read_text()
    assert "def synchronize" not in small
    with (root / "a.py").open("a") as stream:
        stream.write("torch.cuda.synchronize()\n")
    assert run(["migrate", str(root), "--phase", "full-model", "--write"]) == 0
    assert (root / "a.py").read_text() == (
        "import torch\nimport _portkit as pk\ntorch.ones(1).to(pk.device())\npk.synchronize()\n"
    )
    assert "def synchronize" in (root / "_portkit.py").read_text()
    assert script("a.py", root) == ""
    assert run(["undo", str(root)]) == 0
    assert (root / "_portkit.py").read_text() == small


def test_the_copy_is_no_dependency_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import torch\nx.record_stream(torch.cuda.current_stream())\n"
    root = tree(tmp_path, {"a.py": code, "b.py": "import torch\ntorch.cuda.memory_summary()\n"})
    assert run(["migrate", str(root), *FULL, "--unsafe", "--write"]) == 0
    assert "def record_stream" in (root / "_portkit.py").read_text()
    capfd.readouterr()
    assert run(["scan", str(root), "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)["findings"]
    assert "b.py" in {item["path"] for item in found} <= {"a.py", "b.py"}
    again = snapshot(root)
    assert run(["migrate", str(root), *FULL, "--unsafe", "--write"]) == 0
    assert snapshot(root) == again


def test_parts_are_taken_back_with_their_import(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "import torch\nx = torch.ones(1).cuda()\ntorch.cuda.synchronize()\n"})
    assert run(["migrate", str(root), *FULL, "--write"]) == 0
    table = json.loads((root / ".portkit/manifest.json").read_text())
    rules = sorted({edit["rule"] for one in table["runs"] for file in one["files"] for edit in file["edits"]})
    for rule in rules:
        assert run(["undo", str(root), rule]) == 0
    assert (root / "a.py").read_text() == "import torch\nx = torch.ones(1).cuda()\ntorch.cuda.synchronize()\n"


def test_a_copy_of_the_tree_is_renewed_with_it(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", {"a.py": "import torch\ntorch.ones(1).cuda()\n"})
    target = tmp_path / "copy"
    for _ in range(2):
        assert run(["migrate", str(root), *FULL, "--output", str(target)]) == 0
        assert script("a.py", target) == ""
    assert not (root / "_portkit.py").exists()


def test_folders_without_init_that_others_import(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "run.py": "from nets.unet import one\n\nprint(one())\n",
        "nets/unet.py": "import torch\n\n\ndef one():\n    return torch.ones(1).cuda()\n",
    }
    root = tree(tmp_path, files)
    assert run(["migrate", str(root), *FULL, "--write"]) == 0
    assert "from nets import _portkit as pk" in (root / "nets/unet.py").read_text()
    assert script("run.py", root) == "tensor([1.])\n"


def test_a_notebook_and_a_patch(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["import torch\n", "torch.ones(1).cuda()"], "outputs": []}
    root = tree(tmp_path / "root", {"n/a.ipynb": json.dumps({"cells": [cell], "metadata": {}})})
    folder = tmp_path / "patches"
    assert run(["migrate", str(root), *FULL, "--patch", str(folder)]) == 0
    assert not (root / "n/_portkit.py").exists()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    for patch in sorted(folder.iterdir()):
        subprocess.run(["git", "apply", str(patch)], cwd=root, check=True)
    source = "".join(json.loads((root / "n/a.ipynb").read_text())["cells"][0]["source"])
    assert source == "import torch\nimport _portkit as pk\ntorch.ones(1).to(pk.device())"
    pytest.importorskip("torch")
    assert child(source, root / "n") == ""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import torch.nn.functional as F\nF.softmax(x.cuda(), dim=1)\n", "a.py:3: uses pk.ops, which"),
        ("import portkit.runtime as pk\nx.cuda()\npk.device()\n", "a.py:1: imports portkit.runtime"),
        ("import portkit\nx.cuda()\n", "a.py:1: imports portkit"),
        ("from portkit.runtime import device\nx.cuda()\n", "a.py:1: imports portkit.runtime"),
    ],
)
def test_what_needs_more_than_helpers_is_refused(
    code: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tree(tmp_path, {"a.py": code})
    before = snapshot(root)
    assert run(["migrate", str(root), *FULL, "--write"]) == 2
    err = capfd.readouterr().err
    assert "needs more of portkit than its device helpers" in err
    assert words in err
    assert snapshot(root) == before


def test_cuda_bound_leaves_the_operators_of_torch(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "import torch\ny = torch.ones(1, 2).cuda().softmax(dim=1)\nprint(y)\n"})
    assert run(["migrate", str(root), *FULL, "--operators", "cuda-bound", "--write"]) == 0
    assert script("a.py", root) == "tensor([[0.5000, 0.5000]])\n"


@pytest.mark.parametrize("name", everything())
def test_each_helper_stands_alone(name: str, tmp_path: Path) -> None:
    text = helpers.text([name])
    (tmp_path / "_portkit.py").write_text(text)
    code = (
        f"import _portkit\nassert callable(_portkit.{name})\n"
        "assert not {m.partition('.')[0] for m in sys.modules} & {'torch', 'numpy', 'llvmlite', 'libcst'}\n"
    )
    child(code, tmp_path)
    assert max(map(len, text.splitlines())) <= 110


def test_all_helpers_together_work_on_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "_portkit.py").write_text(helpers.text(everything()))
    code = """
import torch, _portkit as pk
assert pk.device().type == pk.device_type()
x = torch.ones(3, device=pk.device())
states = pk.get_rng_state_all(); pk.set_rng_state_all(states)
with pk.amp.autocast(), pk.ranges.range("a"), pk.stream(pk.Stream()), pk.device_index(0):
    pk.ranges.mark("b")
event = pk.Event(enable_timing=True); event.record(); event.synchronize()
scaler = pk.amp.GradScaler()
free, total = pk.mem_get_info()
assert 0 < free <= total
assert list(range(2)) == [0, 1] and "range" not in vars(pk)
assert pk.ddp_device_ids(None) is None and pk.distributed_backend() and pk.map_location("cpu")
try:
    pk.set_device("not a device")
except pk.UsageError as error:
    assert "Write it as" in str(error)
print(pk.device_name() != "")
"""
    assert child(code, tmp_path) == "True\n"


def test_the_header_says_what_it_is() -> None:
    first, _, licence = helpers.text(["device"]).splitlines()[:3]
    assert first.startswith("# Device helpers from portkit ")
    assert "torch 2.6" in first
    assert licence == "# SPDX-License-Identifier: Apache-2.0"
