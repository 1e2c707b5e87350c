"""Which uses of tensor operators are counted, which are only perhaps ones, and which are none."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from portkit import coverage, engine, inventory, tensors
from portkit.inventory import Seen
from portkit.names import Names
from portkit.parsing import parse
from portkit.scopes import Tree

ROOT = Path(__file__).parent.parent
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport numpy as np\n"


def found(code: str) -> dict[str, list[str]]:
    """What is seen of each operator, by name without torch's own."""
    tree = Tree(parse(HEAD + code), inventory.NODES)
    uses: dict[str, list[str]] = {}
    for use in inventory.uses(tree, Names(tree), None):
        uses.setdefault(use.name.removeprefix("torch."), []).append(use.seen.value)
    return uses


SURE = [
    ("torch.softmax(x, 0)", "softmax"),
    ("from torch import matmul as mm\nmm(a, b)", "matmul"),
    ("from torch.nn.functional import gelu\ngelu(x)", "nn.functional.gelu"),
    ("F.relu(x)", "nn.functional.relu"),
    ("nn.Linear(3, 4)", "nn.Linear"),
    ("torch.nn.modules.linear.Linear(3, 4)", "nn.Linear"),
    ("import functools\nnorm = functools.partial(nn.LayerNorm, eps=1e-6)\nnorm(8)", "nn.LayerNorm"),
    ("torch.zeros(3).softmax(0)", "Tensor.softmax"),
    ("x = torch.randn(3)\nx = x.view(-1)\nx.sum()", "Tensor.sum"),
    ("def f(x: torch.Tensor):\n    return x.mean()", "Tensor.mean"),
    ("def f(x: 'torch.Tensor | None' = None):\n    return x.unsqueeze(0).mean()", "Tensor.mean"),
    ("def f(x):\n    x = F.relu(x)\n    return x.mean()", "Tensor.mean"),
    ("def f(a, b):\n    a = F.relu(a)\n    return a @ b", "matmul"),
    ("class M(nn.Module):\n    def forward(self, x):\n        return x.mean(1)", "Tensor.mean"),
    (
        "class M(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(1, 2)\n"
        "    def go(self, x):\n        return self.fc(x).split(2)",
        "Tensor.split",
    ),
    (
        "class M(nn.Module):\n    def __init__(self):\n        self.register_buffer('mask', f())\n"
        "    def go(self):\n        return self.mask.sum()",
        "Tensor.sum",
    ),
    ("for a in torch.ones(3, 3):\n    a.mean()", "Tensor.mean"),
    ("a, b = torch.randn(4).chunk(2)\nb.mean()", "Tensor.mean"),
    ("y = torch.from_numpy(np.zeros(3)).max()", "Tensor.max"),
]


@pytest.mark.parametrize(("code", "name"), SURE)
def test_visible_uses_are_sure(code: str, name: str) -> None:
    seen = found(code)
    assert name in seen
    assert {Seen(word) for word in seen[name]} & inventory.SURE


NONE = [
    "np.matmul(a, b)",
    "np.zeros(3).sum()",
    "x = np.zeros(3)\nx.mean()\nx @ x",
    "import pandas as pd\nframe = pd.read_csv('a')\nframe.softmax()\nframe['a'].mean()\nframe.max().sum()",
    "torch.zeros(3).numpy().sum()",
    "x.detach().cpu().numpy().mean()",
    "from .layers import Linear\nLinear(3, 4)",
    "class Linear:\n    def __init__(self, n):\n        self.n = n\nLinear(3)",
    "class Stats:\n    def mean(self):\n        return 1\ns = Stats()\ns.mean()",
    "class M(nn.Module):\n    def norm(self):\n        return 1\n    def go(self):\n        self.norm()",
    "class M(nn.Module):\n    def sum(self):\n        return super().sum()",
    "'a,b'.split(',')\nname.split(',')\nvalues.sort()\nd.copy()",
    "torch.zeros(3)\ntorch.save(x, 'a')\ntorch.manual_seed(1)\nx.cuda()\nx.view(-1)\nx.size(0)",
    "isinstance(m, nn.Linear)\nisinstance(m, (nn.Linear, nn.Conv2d))\nx: nn.Linear",
    "import math\nmath.exp(2)\nmath.log(3)",
    "m = torch.fx.Tracer()\nm.trace(1)",
    "def f(x: np.ndarray):\n    return x.mean() + (x > 0).all()",
    "def f(x: str):\n    return x.index_select()",
    "import tensorflow as tf\ntf.nn.softmax(x)\ntf.zeros(3).sum()",
    "def softmax(x):\n    return x\nsoftmax(3)",
]


@pytest.mark.parametrize("code", NONE)
def test_what_is_no_tensor_operator_is_not_counted(code: str) -> None:
    assert found(code) == {}


PERHAPS = [
    ("x.mean()", "Tensor.mean", "unknown"),
    ("a @ b", "matmul", "unknown"),
    ("def f(x):\n    return x.sum()", "Tensor.sum", "unknown"),
    ("if c:\n    x = np.ones(3)\nelse:\n    x = torch.ones(3)\nx.sum()", "Tensor.sum", "unknown"),
    ("p.data.normal_(0, 1)", "Tensor.normal_", "method"),
    ("out['logits'].log_softmax(-1)", "Tensor.log_softmax", "method"),
    ("Block(norm=nn.LayerNorm)", "nn.LayerNorm", "passed"),
    ("def f(act=F.gelu):\n    pass", "nn.functional.gelu", "passed"),
    ("acts = {'relu': nn.ReLU}", "nn.ReLU", "passed"),
]


@pytest.mark.parametrize(("code", "name", "seen"), PERHAPS)
def test_what_cannot_be_told_is_kept_apart(code: str, name: str, seen: str) -> None:
    assert found(code)[name] == [seen]


def test_a_method_that_only_tensors_have_counts_unless_the_project_defines_one(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\nx.masked_fill(m, 0)\ny.log_softmax(0)\n")
    (tmp_path / "b.py").write_text(
        "import torch\nclass Boxes:\n    def log_softmax(self, dim):\n        pass\n"
    )
    every = {item.name: item for item in engine.scan([tmp_path]).operators.every}
    sure, other = every["torch.Tensor.masked_fill"], every["torch.Tensor.log_softmax"]
    assert (sure.calls, sure.unknown, sure.places) == (1, 0, (coverage.Place("a.py", 2),))
    assert (other.calls, other.unknown, other.places) == (0, 1, ())


def test_uncertain_uses_count_in_no_share(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\ntorch.softmax(x, 0)\nf(torch.nn.GELU)\n" + "y.mean()\n" * 9)
    counted = engine.scan([tmp_path]).operators
    assert (counted.calls, counted.unknown, counted.passed) == (1, 9, 1)
    assert counted.share("portable", calls=True) == 100.0


def test_files_without_torch_have_no_operators(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("device = 'cuda'\nx.cuda()\ny.mean()\na @ b\n")
    assert engine.scan([tmp_path]).operators.every == ()


def test_cells_share_names_and_say_where_they_are(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": text} for text in ("import torch\nx = torch.ones(3)", "\nx.sum()")
    ]

    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    (one,) = engine.scan([tmp_path]).operators.used
    assert one.places == (coverage.Place("a.ipynb", 2, 1),)


# --- the tables --------------------------------------------------------------------------------------


def test_the_tables_hold_what_torch_has() -> None:
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("build_operators", ROOT / "scripts" / "build_operators.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["build_operators"] = script
    spec.loader.exec_module(script)
    compute, made = script.tables()
    assert compute <= tensors.operators(), sorted(compute - tensors.operators())
    assert made <= tensors.makers(), sorted(made - tensors.makers())


def test_the_tables_share_no_name_and_are_sorted() -> None:
    assert not tensors.operators() & tensors.makers()
    for name in ("operators.txt", "tensors.txt"):
        lines = (ROOT / "portkit" / name).read_text(encoding="ascii").split()
        assert lines == sorted(set(lines))


def test_what_torch_is_replaced_in_is_an_operator_of_torch() -> None:
    for name in coverage.kernels():
        if name.startswith("torch."):
            assert name in tensors.operators() or name.startswith("torch.nn.modules."), name


def test_methods_that_only_tensors_have_are_methods_of_no_array() -> None:
    np = pytest.importorskip("numpy")
    for kind in (np.ndarray, str, bytes, list, dict, set, int, float, Path):
        assert not tensors.only_methods() & set(dir(kind)), kind
