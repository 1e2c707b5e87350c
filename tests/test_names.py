"""What names mean, which strings are devices, which conditions guard: asked of small pieces of code."""

from __future__ import annotations

import ast
import textwrap

import pytest

from portkit import engine
from portkit.cells import Unit
from portkit.context import UnitContext
from portkit.parsing import parse
from portkit.scopes import Tree
from portkit.source import Kind


def context(code: str) -> tuple[UnitContext, ast.Module]:
    text = textwrap.dedent(code).lstrip("\n")
    module = parse(text)
    return UnitContext("a.py", Kind.PYTHON, Unit(text, text), "compute", Tree(module)), module


def asked(code: str) -> tuple[UnitContext, ast.expr]:
    """The context, and the expression that stands in `HERE(...)`."""
    ctx, module = context(code)
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "HERE":
            return ctx, node.args[0]
    raise AssertionError("no HERE in the code")


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        pytest.param("import torch\nHERE(torch.cuda.amp.autocast)", "torch.cuda.amp.autocast", id="plain"),
        pytest.param("import torch as th\nHERE(th.cuda)", "torch.cuda", id="module alias"),
        pytest.param(
            "import torch.nn.functional as F\nHERE(F.softmax)",
            "torch.nn.functional.softmax",
            id="dotted alias",
        ),
        pytest.param(
            "import torch.cuda.amp\nHERE(torch.cuda.amp.GradScaler)", "torch.cuda.amp.GradScaler", id="dotted"
        ),
        pytest.param("from torch import cuda\nHERE(cuda.Event)", "torch.cuda.Event", id="from"),
        pytest.param(
            "from torch.cuda import amp as a\nHERE(a.autocast)", "torch.cuda.amp.autocast", id="from alias"
        ),
        pytest.param("from numba import cuda\nHERE(cuda.jit)", "numba.cuda.jit", id="numba is not torch"),
        pytest.param(
            "import ctypes\ncuda = ctypes.CDLL('libcuda.so')\nHERE(cuda.cuInit)", None, id="driver handle"
        ),
        pytest.param("from . import cuda\nHERE(cuda.f)", ".cuda.f", id="relative"),
        pytest.param("from .layers import norm\nHERE(norm)", ".layers.norm", id="relative module"),
        pytest.param(
            "def f():\n    import torch\n    return HERE(torch.cuda.Stream)",
            "torch.cuda.Stream",
            id="in function",
        ),
        pytest.param(
            "def f():\n    import torch\nHERE(torch.cuda.Stream)", None, id="another function's import"
        ),
        pytest.param("import torch\ndef f(torch):\n    HERE(torch.cuda)", None, id="parameter shadows"),
        pytest.param(
            "from torch import cuda\ndef f():\n    cuda = 1\n    HERE(cuda)", None, id="local shadows"
        ),
        pytest.param("from torch import cuda\nfor cuda in x: pass\nHERE(cuda)", None, id="loop rebinds"),
        pytest.param(
            "from torch import cuda\ng = [cuda for cuda in x]\nHERE(cuda)", "torch.cuda", id="comprehension"
        ),
        pytest.param(
            "from torch import cuda\nclass A:\n    cuda = 1\n    def f(self): HERE(cuda)",
            "torch.cuda",
            id="class",
        ),
        pytest.param(
            "import torch\nt = torch.cuda\nHERE(t.amp.autocast)", "torch.cuda.amp.autocast", id="value"
        ),
        pytest.param("import torch\nt = torch.cuda\nt = 3\nHERE(t)", None, id="assigned twice"),
        pytest.param("import torch\nHERE(getattr(torch.cuda, 'amp'))", "torch.cuda.amp", id="getattr"),
        pytest.param(
            "import torch\nn = 'amp'\nHERE(getattr(torch.cuda, n, None))",
            "torch.cuda.amp",
            id="getattr by name",
        ),
        pytest.param("import torch\nHERE(getattr(torch.cuda, n))", None, id="getattr unknown"),
        pytest.param(
            "import torch\nfrom functools import partial\nac = partial(torch.autocast, 'cuda')\nHERE(ac)",
            "torch.autocast",
            id="partial",
        ),
        pytest.param(
            "try:\n    from flash_attn import flash_attn_func\nexcept ImportError:\n"
            "    flash_attn_func = None\nHERE(flash_attn_func)",
            "flash_attn.flash_attn_func",
            id="guarded import",
        ),
        pytest.param(
            "try:\n    from apex import FusedLayerNorm\nexcept ImportError:\n    def FusedLayerNorm(): pass\n"
            "HERE(FusedLayerNorm)",
            "apex.FusedLayerNorm",
            id="guarded import with stand-in",
        ),
        pytest.param(
            "try:\n    from torch.amp import autocast\nexcept ImportError:\n"
            "    from torch.cuda.amp import autocast\nHERE(autocast)",
            "torch.amp.autocast",
            id="two tries",
        ),
        pytest.param(
            "if old:\n    from torch.cuda.amp import autocast\nHERE(autocast)",
            "torch.cuda.amp.autocast",
            id="if",
        ),
        pytest.param("from torch.cuda import *\nHERE(Event)", "torch.cuda.Event", id="star"),
        pytest.param("from torch.nn import *\nHERE(print)", None, id="star leaves builtins"),
        pytest.param("from model import *\nHERE(torch.cuda.Event)", "torch.cuda.Event", id="star of our own"),
        pytest.param("HERE(torch.cuda.Event)", None, id="never imported"),
        pytest.param(
            "import torch\nclass T:\n    def __init__(self):\n        self.ctx = torch.cuda.amp.autocast\n"
            "    def run(self):\n        HERE(self.ctx)",
            "torch.cuda.amp.autocast",
            id="member",
        ),
        pytest.param(
            "from torch.cuda.amp.autocast_mode import autocast\nHERE(autocast)",
            "torch.cuda.amp.autocast",
            id="canonical",
        ),
        pytest.param(
            "from torch.nn.modules.normalization import LayerNorm\nHERE(LayerNorm)",
            "torch.nn.LayerNorm",
            id="canonical module",
        ),
        pytest.param(
            "import importlib\nm = importlib.import_module('torch.cuda')\nHERE(m.Event)",
            "torch.cuda.Event",
            id="import_module",
        ),
        pytest.param(
            "import pytest\ntorch = pytest.importorskip('torch', reason='no torch')\nHERE(torch.cuda.Event)",
            "torch.cuda.Event",
            id="importorskip",
        ),
        pytest.param(
            "import importlib\nm = importlib.import_module('.torch', 'mine')\nHERE(m.cuda)",
            None,
            id="import_module of a package's own",
        ),
        pytest.param("a = b\nb = a\nHERE(a)", None, id="a loop of names"),
        pytest.param("import torch\ntorch = torch\nHERE(torch.cuda)", None, id="rebinds itself"),
        pytest.param(
            "def f():\n    global torch\n    import torch\nHERE(torch.cuda)", "torch.cuda", id="global import"
        ),
        pytest.param("import torch\n(c := torch.cuda)\nHERE(c.Event)", "torch.cuda.Event", id="walrus"),
        pytest.param(
            "import torch\na, b = torch.cuda, torch.nn\nHERE(b.Linear)",
            "torch.nn.Linear",
            id="tuple assignment",
        ),
    ],
)
def test_resolve(code: str, meaning: str | None) -> None:
    ctx, node = asked(code)
    assert ctx.resolve(node) == meaning


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("HERE('cuda')", "cuda"),
        ("D = 'cuda'\nHERE(D)", "cuda"),
        ("D = 'cuda'\nHERE(f'{D}:0')", "cuda:0"),
        ("HERE('cuda' + ':' + '1')", "cuda:1"),
        ("HERE('cuda:%d' % 3)", "cuda:3"),
        ("HERE('cuda:%d' % 'x')", None),
        ("HERE(-1)", -1),
        ("HERE(('a', 'b'))", ("a", "b")),
        ("D = 'cuda'\nD = 'cpu'\nHERE(D)", None),
        ("def f(d='cuda'):\n    HERE(d)", None),
        ("for d in ['cuda']:\n    HERE(d)", None),
        ("d = 'a'\nd += 'b'\nHERE(d)", None),
        ("HERE(f'{x}')", None),
        (
            "class A:\n    def __init__(self):\n        self.d = 'cuda'\n"
            "    def f(self):\n        HERE(self.d)",
            "cuda",
        ),
    ],
)
def test_constant(code: str, value: object) -> None:
    ctx, node = asked(code)
    assert ctx.constant(node) == value


SINKS = """
import argparse, dataclasses, os, logging
import torch
import torch.distributed as dist
from torch import nn

x = torch.zeros(3, device="cuda")                       # sink
x = torch.zeros(3, device=f"cuda:{rank}")               # sink
x = torch.zeros(3, device="cuda:%d" % rank)             # sink
x = torch.zeros(3, device="cuda:" + str(rank))          # sink
x = torch.zeros(3, device="cuda:{}".format(rank))       # sink
x.to("cuda")                                            # sink
x.to("cuda", non_blocking=True)                         # sink
d = torch.device("cuda", 0)                             # sink
d = torch.device("cuda" if ok else "cpu")               # sink
torch.load(path, "cuda")                                # sink
torch.load(path, map_location="cuda:0")                 # sink
torch.load(path, map_location=lambda s, l: "cuda")      # sink
torch.load(path, map_location={"cpu": "cuda:1"})        # sink
torch.load(path, map_location={"cuda:1": other})        # no
with torch.autocast("cuda"): pass                       # sink
with torch.autocast(device_type="cuda"): pass           # sink
torch.cuda.set_device("cuda:1")                         # sink
device = "cuda"                                         # sink
cfg.device = "cuda"                                     # sink
self.train_device = "cuda" if ok else "cpu"             # sink
placement = "cuda"                                      # sink
y = x.to(placement)
backend = "cuda"                                        # no
run_dir = "runs/cuda_baseline"                          # no
url = "https://example.org/cuda/model.pth"              # no
log.info("running on cuda")                             # no
print("cuda")                                           # no
state = ckpt["cuda"]                                    # no
state = {"cuda": 1}                                     # no
opts = {"device": "cuda"}                               # sink
opts = dict(device="cuda")                              # sink
kwargs["device_type"] = "cuda"                          # sink
kwargs["backend"] = "cuda"                              # no
os.environ["CONV_BACKEND"] = "cuda"                     # no
p = os.environ.get("DEVICE", "cuda")                    # sink
p = getattr(args, "device", "cuda")                     # sink
if device.type == "cuda": pass                          # sink
if x.device.type in ("cuda", "xpu"): pass               # sink
if "cuda" in device: pass                               # sink
if device.startswith("cuda"): pass                      # sink
if str(device) == "cuda": pass                          # sink
if mode == "cuda": pass                                 # no
if "cuda" in name: pass                                 # no

def bias_act(x, impl="cuda"):                           # no
    assert impl in ["ref", "cuda"]                      # no

def run(x, where="cuda"):                               # sink
    return x.to(where)

def train(model, device): ...
train(m, "cuda")                                        # sink
run(x, "cuda")                                          # sink
run(x, where="cuda")                                    # sink

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")         # sink
parser.add_argument("--mode", default="cuda")           # no
parser.add_argument("--place", default="cuda")          # sink
parser.add_argument("--c", dest="cuda")                 # no
parser.add_argument("--cuda", help="use cuda")          # no
parser.add_argument("--dev", choices=["cuda", "cpu"])   # no
z = torch.ones(2, device=args.place)

@dataclasses.dataclass
class Options:
    device: str = "cuda"                                # sink
    kind: str = "cuda"                                  # no
    other_device: str = dataclasses.field(default="cuda")  # sink

def get_device():
    return "cuda"                                       # sink

def get_name():
    return "cuda"                                       # no

for dev in ["cpu", "cuda"]: pass                        # sink
torch.library.custom_op("a::b", device_types="cuda")    # no
dist.init_device_mesh("cuda", (2,))                     # sink
torch.Generator("cuda")                                 # sink
torch.tensor([1], device=device or "cuda")              # sink
torch.cuda.is_available("cuda")                         # no
match device:
    case "cuda": pass                                   # sink
subprocess.run(["nvcc", "cuda"])                        # no
lib = load(name="my_cuda", sources=["a_cuda.cpp"])      # no
"""


def _texts(code: str) -> list[tuple[UnitContext, ast.expr, str, int]]:
    ctx, module = context(code)
    lines = code.split("\n")
    found = []
    for node in ast.walk(module):
        parts = (
            [value for value in node.values if isinstance(value, ast.Constant)]
            if isinstance(node, ast.JoinedStr)
            else []
        )
        inside = isinstance(ctx.parent(node), (ast.JoinedStr, ast.FormattedValue))
        text = node.value if isinstance(node, ast.Constant) else (parts[0].value if parts else None)
        if isinstance(text, str) and "cuda" in text and not inside:
            found.append((ctx, node, lines[node.lineno - 1], node.lineno))
    return found


@pytest.mark.parametrize(
    ("ctx", "node", "line"),
    [
        pytest.param(c, n, line, id=f"{number}: {line.strip()[:60]}")
        for c, n, line, number in _texts(SINKS[1:])
    ],
)
def test_device_sinks(ctx: UnitContext, node: ast.expr, line: str) -> None:
    expected = line.rpartition("# ")[2].strip()
    assert expected in ("sink", "no"), "each line with a text about CUDA says what it is"
    assert ("sink" if ctx.is_device_sink(node) else "no") == expected


@pytest.mark.parametrize(
    ("code", "guard"),
    [
        ("import torch\nif torch.cuda.is_available():\n    HERE(x)", "torch.cuda.is_available()"),
        (
            "import torch\nif torch.cuda.is_available():\n    pass\nelse:\n    HERE(x)",
            "not torch.cuda.is_available()",
        ),
        ("import torch\ny = HERE(x) if torch.cuda.is_available() else 0", "torch.cuda.is_available()"),
        ("import torch\ny = 0 if torch.cuda.is_available() else HERE(x)", "not torch.cuda.is_available()"),
        ("import torch\nok = torch.cuda.is_available()\nif ok and more:\n    HERE(x)", "ok and more"),
        ("import torch\ntorch.cuda.is_available() and HERE(x)", "torch.cuda.is_available()"),
        (
            "import torch\ndef f():\n    if not torch.cuda.is_available():\n        return\n    HERE(x)",
            "torch.cuda.is_available()",
        ),
        ("import torch\nassert torch.cuda.is_available(), 'x'\nHERE(x)", "torch.cuda.is_available()"),
        ("if device.type == 'cuda':\n    HERE(x)", "device.type == 'cuda'"),
        ("if x.is_cuda:\n    HERE(x)", "x.is_cuda"),
        ("if args.cuda:\n    HERE(x)", "args.cuda"),
        (
            "try:\n    import flash_attn\n    HAS = True\nexcept ImportError:\n    HAS = False\n"
            "if HAS:\n    HERE(x)",
            "HAS",
        ),
        (
            "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n"
            "if amp is not None:\n    HERE(x)",
            "amp is not None",
        ),
        ("try:\n    import apex\n    HERE(x)\nexcept ImportError:\n    pass", "try: import apex"),
        ("if training:\n    HERE(x)", None),
        ("import torch\nif HERE(torch.cuda.is_available()):\n    pass", None),
        ("import torch\nif torch.cuda.is_available():\n    pass\nHERE(x)", None),
        (
            "import torch\nif torch.cuda.is_available():\n    if training:\n        HERE(x)",
            "torch.cuda.is_available()",
        ),
    ],
)
def test_guard(code: str, guard: str | None) -> None:
    ctx, node = asked(code)
    assert ctx.guard(node) == guard


def test_scope_is_the_dotted_name_around() -> None:
    ctx, node = asked("class Trainer:\n    def step(self):\n        f = lambda: HERE(x)")
    assert ctx.scope(node) == "Trainer.step"
    assert ctx.scope(context("x = 1")[1].body[0]) == ""


@pytest.mark.parametrize(
    ("code", "name", "imports"),
    [
        ("import torch", "pk", 1),
        ("import portkit.runtime as pk", "pk", 0),
        ("import portkit.runtime as rt", "rt", 0),
        ("from portkit import runtime", "runtime", 0),
        ("pk = 3", "portkit_runtime", 1),
        ("def f(pk): pass", "portkit_runtime", 1),
        ("for pk in x: pass\nportkit_runtime = 1", "_pk", 1),
        ("from helpers import *\nprint(pk)", "portkit_runtime", 1),
        ("if TYPE_CHECKING:\n    import portkit.runtime as pk", "pk", 1),
        ("try:\n    import portkit.runtime as pk\nexcept ImportError:\n    raise", "pk", 0),
    ],
)
def test_use_never_takes_a_name_of_the_user(code: str, name: str, imports: int) -> None:
    ctx, _ = context(code)
    spelled, needed = ctx.use("portkit.runtime")
    assert (spelled, len(needed)) == (name, imports)
    assert all(item.alias == name and item.module == "portkit.runtime" for item in needed)


def test_use_of_torch_takes_the_spelling_of_the_file() -> None:
    ctx, _ = context("import torch as th")
    assert ctx.use("torch") == ("th", ())
    assert ctx.use("torch.distributed") == ("th.distributed", ())
    assert context("x = 1")[0].use("torch")[1][0].alias is None


def test_local_name_is_only_that_of_imports_at_module_level() -> None:
    ctx, _ = context("import torch as th\ndef f():\n    import numpy")
    assert ctx.local_name("torch.cuda.amp") == "th.cuda.amp"
    assert ctx.local_name("numpy") is None


@pytest.mark.parametrize(
    "text",
    [
        "x = 'ä' + torch.cuda.Event()\n",
        "a = 1\r\nx = torch.cuda.Event()\r\n",
        "a = 1\rx = torch.cuda.Event()\r",
        "a = 1\n\x0c\nx = torch.cuda.Event()\n",
        "a = '''\nü\n''' + torch.cuda.Event()",
        "if a:\n\tx = ('日本', torch.cuda.Event())\n",
    ],
)
def test_spans_are_characters_whatever_the_text(text: str) -> None:
    module = parse(text)
    ctx = UnitContext("a.py", Kind.PYTHON, Unit(text, text), "compute", Tree(module))
    call = next(node for node in ast.walk(module) if isinstance(node, ast.Call))
    assert ctx.source(call) == "torch.cuda.Event()"
    span = ctx.span(call)
    line, column = ctx.lines.position(span.start)
    assert ctx.lines.line(line)[column - 1 :].startswith("torch.cuda.Event()")


def test_shadowed() -> None:
    ctx, node = asked("import torch\ndef f(cuda):\n    HERE(cuda)")
    assert ctx.is_shadowed("cuda", node)
    assert not ctx.is_shadowed("torch", node)


@pytest.mark.parametrize(
    ("other", "sinks"),
    [
        ("class B:\n    def f(self, x): x.to(self.place)", False),
        ("class B(A):\n    def f(self, x): x.to(self.place)", True),
        ("class B:\n    def f(self, x): x.to(self.place)\nclass C(A, B): pass", True),
        ("def f(a, x): x.to(a.place)", True),
        ("class B:\n    def f(self, x): x.to(self.place)\n    def g(self, x): x.to(self.other)", False),
    ],
)
def test_members_are_those_of_the_class(other: str, sinks: bool) -> None:
    code = "class A:\n    def __init__(self):\n        self.place = HERE('cuda')\n" + other
    ctx, node = asked(code.replace("HERE('cuda')", "'cuda' if HERE('cuda') else ''"))
    assert not ctx.is_device_sink(node)
    store = next(item for item in ast.walk(ctx.tree.module) if isinstance(item, ast.IfExp))  # type: ignore[union-attr]
    assert ctx.is_device_sink(store.body) == sinks


def test_values_that_are_passed_around_in_circles_are_followed_once() -> None:
    names = [f"part{number}" for number in range(40)]
    lines = [f"        self.{one} = self.{two} + self.{one} + x" for one in names for two in names[:8]]
    code = "\n".join(["class Text:", "    def add(self, x):", *lines, "Text().part1 = 'cuda'", ""])
    found = engine.check_text(code)
    assert [item.support.value for item in found] == ["unknown"]
