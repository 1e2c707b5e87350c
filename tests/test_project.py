"""Names that come from other modules of the program: followed where they are certain, and only there."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from portkit import engine, migrate
from portkit.config import Config
from portkit.finding import Finding, Phase, Support

SYNC = "from torch.cuda import synchronize\n"


def scanned(root: Path, files: dict[str, str]) -> list[Finding]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return engine.scan([root], root=root).findings


def meanings(root: Path, files: dict[str, str], path: str = "train.py") -> list[str | None]:
    """Qualified names of the findings in one file."""
    return [item.qualified_name for item in scanned(root, files) if item.location.path == path]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"compat.py": SYNC, "train.py": "from compat import synchronize\n"}, id="re-export"),
        pytest.param(
            {"compat.py": SYNC, "train.py": "from compat import *\n"},
            id="star",
        ),
        pytest.param(
            {
                "pkg/__init__.py": "from .a import *\n",
                "pkg/a.py": "from ._b import synchronize\n",
                "pkg/_b.py": SYNC,
                "train.py": "from pkg import synchronize\n",
            },
            id="package, star, relative",
        ),
        pytest.param(
            {"src/pkg/__init__.py": SYNC, "train.py": "from pkg import synchronize\n"}, id="src layout"
        ),
        pytest.param(
            {
                "compat.py": f"try:\n    {SYNC}except ImportError:\n    synchronize = None\n",
                "train.py": "from compat import synchronize\n",
            },
            id="guarded",
        ),
        pytest.param(
            {
                "a.py": "from b import *\n" + SYNC,
                "b.py": "from a import *\n",
                "train.py": "from b import synchronize\n",
            },
            id="circular",
        ),
        pytest.param(
            {"compat.py": "__all__ = ['synchronize']\n" + SYNC, "train.py": "from compat import *\n"},
            id="all",
        ),
    ],
)
def test_followed(files: dict[str, str], tmp_path: Path) -> None:
    files["train.py"] += "synchronize()  # torch cuda\n"
    assert meanings(tmp_path, files) == ["torch.cuda.synchronize"]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {"compat.py": "def synchronize(): pass\n", "train.py": "from compat import synchronize\n"},
            id="own",
        ),
        pytest.param(
            {"compat.py": SYNC + "def synchronize(): pass\n", "train.py": "from compat import synchronize\n"},
            id="rebound",
        ),
        pytest.param(
            {"compat.py": SYNC, "train.py": "from compat import synchronize\ndef synchronize(): pass\n"},
            id="shadowed here",
        ),
        pytest.param(
            {
                "compat.py": SYNC,
                "other.py": "import compat\ncompat.synchronize = print  # torch\n",
                "train.py": "from compat import synchronize\n",
            },
            id="patched by another module",
        ),
        pytest.param(
            {
                "a.py": SYNC,
                "b.py": "from mine import synchronize\n",
                "train.py": "from a import *\nfrom b import *\n",
            },
            id="two stars",
        ),
        pytest.param(
            {
                "pkg/__init__.py": SYNC,
                "pkg/synchronize.py": "x = 1\n",
                "train.py": "from pkg import synchronize\n",
            },
            id="module and name",
        ),
        pytest.param(
            {"compat.py": SYNC, "compat/__init__.py": "", "train.py": "from compat import synchronize\n"},
            id="module and package",
        ),
        pytest.param(
            {"compat.py": SYNC, "src/compat/__init__.py": "", "train.py": "from compat import synchronize\n"},
            id="two places",
        ),
        pytest.param(
            {
                "a.py": "from b import synchronize\n",
                "b.py": "from a import synchronize\n",
                "train.py": "from a import synchronize\n",
            },
            id="circle without end",
        ),
        pytest.param(
            {"compat.py": "__all__ = ['other']\n" + SYNC, "train.py": "from compat import *\n"},
            id="not in all",
        ),
        pytest.param(
            {
                "compat.py": "from unknown import *\n",
                "train.py": "from compat import synchronize\n",
            },
            id="through an unknown star",
        ),
    ],
)
def test_not_followed(files: dict[str, str], tmp_path: Path) -> None:
    files["train.py"] += "synchronize()  # torch cuda\n"
    assert meanings(tmp_path, files) == []


def test_one_of_two_by_a_condition_is_reported_and_left_alone(tmp_path: Path) -> None:
    files = {
        "compat.py": f"if new:\n    from mine import synchronize\nelse:\n    {SYNC}",
        "train.py": "from compat import synchronize\nsynchronize()  # cuda\n",
    }
    found = [item for item in scanned(tmp_path, files) if item.location.path == "train.py"]
    assert [(f.support, f.lossy, f.edits) for f in found] == [(Support.UNKNOWN, True, ())]


def test_the_chain_names_every_file(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "from .a import *\n",
        "pkg/a.py": "import os\n" + SYNC,
        "train.py": "from pkg import synchronize as s\ns()  # cuda\n",
    }
    (found,) = [item for item in scanned(tmp_path, files) if item.location.path == "train.py"]
    assert [(step.name, step.path, step.line) for step in found.aliases] == [
        ("s", None, 1),
        ("synchronize", "pkg/__init__.py", 1),
        ("synchronize", "pkg/a.py", 2),
    ]


def test_star_of_own_module_is_certain(tmp_path: Path) -> None:
    files = {"util.py": "import torch\n", "train.py": "from util import *\ntorch.cuda.synchronize()\n"}
    (found,) = [item for item in scanned(tmp_path, files) if item.location.path == "train.py"]
    assert (found.qualified_name, found.lossy) == ("torch.cuda.synchronize", False)


def test_star_of_own_module_without_torch_is_no_guess(tmp_path: Path) -> None:
    files = {"util.py": "import numpy\n", "train.py": "from util import *\ntorch.cuda.synchronize()\n"}
    assert [i for i in scanned(tmp_path, files) if i.qualified_name == "torch.cuda.synchronize"] == []


def test_alias_is_reported_where_it_is_assigned(tmp_path: Path) -> None:
    files = {
        "compat.py": "import torch\nsync = torch.cuda.synchronize\n",
        "train.py": "from compat import sync\nsync()  # cuda\n",
    }
    assert [item.location.path for item in scanned(tmp_path, files)] == ["compat.py"]


@pytest.mark.parametrize(
    ("files", "path", "support"),
    [
        (
            {
                "settings.py": "PLACE = 'cuda'\n",
                "train.py": "from settings import PLACE\nimport torch\nx = torch.ones(3).to(PLACE)\n",
            },
            "settings.py",
            Support.AUTO,
        ),
        (
            {
                "settings.py": "PLACE = 'cuda'\n",
                "train.py": "import settings as s\nimport torch\nx = torch.ones(3, device=s.PLACE)\n",
            },
            "settings.py",
            Support.AUTO,
        ),
        (
            {
                "settings.py": "PLACE = 'cuda'\n",
                "train.py": "from settings import PLACE\nimport torch\nprint(PLACE)\n",
            },
            "settings.py",
            Support.UNKNOWN,
        ),
        (
            {
                "lib.py": "import torch\ndef load(path, device): ...\n",
                "train.py": "from lib import load\nload('a', 'cuda')\n",
            },
            "train.py",
            Support.AUTO,
        ),
        (
            {
                "lib.py": "import torch\nclass Net:\n    def __init__(self, width, device): ...\n",
                "train.py": "import lib\nlib.Net(3, 'cuda')\n",
            },
            "train.py",
            Support.AUTO,
        ),
        (
            {
                "lib.py": "import torch\ndef load(path, device): ...\n",
                "train.py": "from lib import load\nload('cuda', 'a')\n",
            },
            "train.py",
            Support.UNKNOWN,
        ),
    ],
)
def test_texts_are_followed_between_modules(
    files: dict[str, str], path: str, support: Support, tmp_path: Path
) -> None:
    found = scanned(tmp_path, files)
    assert [(f.rule, f.location.path, f.support) for f in found] == [("PK301", path, support)]


def test_migration_keeps_imports_that_others_take_and_is_done_after_once(tmp_path: Path) -> None:
    files = {
        "compat.py": "from torch.cuda.amp import autocast\nwith autocast():\n    pass\n",
        "train.py": "from compat import autocast\nwith autocast():\n    pass  # cuda\n",
        "other.py": "from compat import autocast\n",
    }
    scanned(tmp_path, files)
    options = migrate.Options(Phase.FULL_MODEL, Config())
    plan = migrate.plan(tmp_path, options)
    after = {change.path: change.after.decode() for change in plan.changes}
    assert sorted(after) == ["compat.py", "train.py"]
    assert "from torch.cuda.amp import autocast" in after["compat.py"]
    assert "from compat import autocast" in after["train.py"]
    assert "with pk.amp.autocast()" in after["train.py"]
    for name, text in after.items():
        (tmp_path / name).write_text(text)
    assert migrate.plan(tmp_path, options).changes == []


def test_more_processes_give_the_same(tmp_path: Path) -> None:
    files = {f"m{n}.py": "from compat import synchronize\nsynchronize()  # cuda\n" for n in range(250)}
    one = scanned(tmp_path, {**files, "compat.py": SYNC})
    assert len(one) == 250
    assert engine.scan([tmp_path], root=tmp_path, jobs=2).findings == one


def test_facts_and_links_travel_and_count_as_keys(tmp_path: Path) -> None:
    scanned(
        tmp_path, {"compat.py": SYNC, "train.py": "from compat import synchronize\nsynchronize()  # cuda\n"}
    )
    links = engine.scan([tmp_path], root=tmp_path).links
    assert set(links) == {"compat.py", "train.py"}
    for item in links.values():
        assert pickle.loads(pickle.dumps(item)) == item
        assert hash(item) == hash(pickle.loads(pickle.dumps(item)))


OPTIONS = "import dataclasses as d\n@d.dataclass\nclass Options:\n    {}: str = 'cuda'\n"
USE = "import torch\ndef run(args, x):\n    return x.to(args.where)\n"


@pytest.mark.parametrize(
    ("files", "path", "support"),
    [
        (
            {
                "options.py": "import argparse\np = argparse.ArgumentParser()\n"
                "p.add_argument('--where', default='cuda')\n"
            },
            "options.py",
            Support.AUTO,
        ),
        (
            {"options.py": OPTIONS.format("where")},
            "options.py",
            Support.AUTO,
        ),
        ({"conf/train.yaml": "model:\n  where: cuda\n"}, "conf/train.yaml", Support.MANUAL),
        ({"conf/train.yaml": "model:\n  other: cuda\n"}, "conf/train.yaml", Support.UNKNOWN),
        (
            {"options.py": OPTIONS.format("other")},
            "options.py",
            Support.UNKNOWN,
        ),
    ],
)
def test_settings_are_followed_to_the_file_that_uses_them(
    files: dict[str, str], path: str, support: Support, tmp_path: Path
) -> None:
    found = scanned(tmp_path, {**files, "train.py": USE})
    assert [(f.location.path, f.support) for f in found] == [(path, support)]


def test_an_attribute_of_something_else_is_no_setting(tmp_path: Path) -> None:
    files = {
        "options.py": OPTIONS.format("where"),
        "train.py": "import torch\ndef run(batch, x):\n    return x.to(batch.where)\n",
    }
    assert [f.support for f in scanned(tmp_path, files)] == [Support.UNKNOWN]


def test_a_star_import_below_may_bind_a_name_anew(tmp_path: Path) -> None:
    files = {
        "mine.py": "def synchronize(): pass\n",
        "train.py": SYNC + "from mine import *\nsynchronize()\n",
        "above.py": "from mine import *\n" + SYNC + "synchronize()\n",
    }
    found = scanned(tmp_path, files)
    assert [(f.location.path, f.support) for f in found] == [
        ("above.py", Support.AUTO),
        ("train.py", Support.UNKNOWN),
    ]


def test_a_star_import_below_may_bring_the_same_thing(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/base.py": "import torch\nfrom torch.cuda import synchronize\n",
        "pkg/utils.py": "from pkg.base import *\n",
        "pkg/train.py": "import torch\nfrom .utils import *\ntorch.cuda.synchronize()\n",
        "pkg/other.py": "import torch as synchronize\nfrom .utils import *\nsynchronize.cuda.empty_cache()\n",
    }
    found = scanned(tmp_path, files)
    assert [(f.location.path, f.support) for f in found if f.location.line == 3] == [
        ("pkg/other.py", Support.UNKNOWN),
        ("pkg/train.py", Support.AUTO),
    ]


_TRITON = "import triton\nimport triton.language as tl\n"
_HELPER = f"{_TRITON}@triton.jit\ndef helper(x):\n    return tl.exp(x)\n"
_REFUSED = f"{_TRITON}@triton.jit\ndef helper(x):\n    return tl.inline_asm_elementwise(x)\n"


def _kernel(takes: str, calls: str = "helper") -> str:
    return f"{_TRITON}{takes}\n@triton.jit\ndef kernel(x):\n    tl.store(x, {calls}(tl.load(x)))\n"


@pytest.mark.parametrize(
    ("files", "stay"),
    [
        pytest.param({"a.py": _kernel("from b import helper"), "b.py": _HELPER}, set(), id="both move"),
        pytest.param(
            {"a.py": _kernel("from b import helper"), "b.py": _REFUSED}, {"a.py", "b.py"}, id="callee stays"
        ),
        pytest.param(
            {"a.py": _kernel("import b", "b.helper"), "b.py": _REFUSED},
            {"a.py", "b.py"},
            id="through its module",
        ),
        pytest.param(
            {"a.py": _kernel("from b import *"), "b.py": _REFUSED}, {"a.py", "b.py"}, id="through a star"
        ),
        pytest.param(
            {
                "p/__init__.py": "",
                "p/a.py": _kernel("from .inner import helper"),
                "p/inner/__init__.py": "from .b import helper\n",
                "p/inner/b.py": _REFUSED,
            },
            {"p/a.py", "p/inner/b.py"},
            id="re-exported",
        ),
        pytest.param(
            {
                "a.py": _kernel("from b import middle", "middle"),
                "b.py": _kernel("from c import helper").replace("def kernel", "def middle"),
                "c.py": _REFUSED,
            },
            {"a.py", "b.py", "c.py"},
            id="two files on",
        ),
        pytest.param(
            {
                "a.py": _kernel("from b import helper") + "    tl.inline_asm_elementwise(x)\n",
                "b.py": _HELPER,
                "c.py": _kernel("from b import helper"),
            },
            {"a.py", "b.py", "c.py"},
            id="caller stays",
        ),
        pytest.param(
            {
                "a.py": _kernel("from b import SIZE", "abs") + "def run(x):\n    kernel[(SIZE,)](x)\n",
                "b.py": _REFUSED + "SIZE = 4\n",
            },
            {"b.py"},
            id="only the launch takes something",
        ),
        pytest.param(
            {
                "a.py": _kernel("from b import cached").replace("@triton.jit", "@cached()\n@triton.jit"),
                "b.py": _REFUSED + "def cached():\n    return lambda f: f\n",
            },
            {"a.py", "b.py"},
            id="a decorator",
        ),
    ],
)
def test_kernels_move_with_the_functions_that_they_call(
    files: dict[str, str], stay: set[str], tmp_path: Path
) -> None:
    found = [item for item in scanned(tmp_path, files) if item.rule == "PK103"]
    assert {item.location.path for item in found if item.support is not Support.AUTO} == stay


def test_a_package_that_is_scanned_by_itself_knows_its_name(tmp_path: Path) -> None:
    """Its own `__init__.py` stands in the root: no folder above it is asked for."""
    root = tmp_path / "outer" / "inner"
    root.mkdir(parents=True)
    (tmp_path / "outer" / "__init__.py").touch()
    files = {
        "__init__.py": "",
        "compat.py": SYNC,
        "a.py": "from outer.inner.compat import synchronize\nsynchronize()  # torch cuda\n",
        "b.py": "from inner.compat import synchronize\nimport compat\nsynchronize()  # torch cuda\n",
    }
    found = scanned(root, files)
    called = {item.location.path for item in found if item.qualified_name == "torch.cuda.synchronize"}
    assert called == {"a.py"}


def test_a_library_for_cuda_follows_its_own_names(tmp_path: Path) -> None:
    files = {
        "flash_attn/__init__.py": "",
        "flash_attn/compat.py": SYNC,
        "train.py": "from flash_attn.compat import synchronize\nsynchronize()\n",
    }
    assert "torch.cuda.synchronize" in meanings(tmp_path, files)


def test_a_folder_called_triton_is_no_triton(tmp_path: Path) -> None:
    """The server of that name has its scripts in such folders."""
    files = {
        "triton/metrics.py": "from triton.core.base import Metrics\n",
        "triton/core/base.py": "class Metrics: pass\n",
        "deploy.py": "from triton import metrics\n",
        "kernels.py": "import triton\nimport triton.ops\ntriton.ops.matmul\n",
    }
    found = [item for item in scanned(tmp_path, files) if item.rule == "PK103"]
    assert [(item.location.path, item.support) for item in found] == [("kernels.py", Support.MANUAL)]


def test_a_module_inside_a_package_hides_no_library(tmp_path: Path) -> None:
    """`import causal_conv1d` means the library, though a module beside the importing one is called so."""
    files = {
        "pkg/__init__.py": "",
        "pkg/causal_conv1d.py": "",
        "pkg/mixer.py": "from causal_conv1d import causal_conv1d_fn\n",
        "scripts/causal_conv1d.py": "",
        "scripts/train.py": "from causal_conv1d import causal_conv1d_fn\n",
    }
    found = [item.location.path for item in scanned(tmp_path, files) if item.rule == "PK102"]
    assert found == ["pkg/mixer.py"]


OWN = "class Generator:\n    def cuda(self):\n        return self\n"
MOVING = "import torch\ng = Generator()\ng.cuda()\ntorch.ones(1).cuda()\n"


@pytest.mark.parametrize(
    ("files", "moves"),
    [
        pytest.param({"gen.py": OWN, "train.py": f"from gen import Generator\n{MOVING}"}, False, id="import"),
        pytest.param(
            {
                "pkg/__init__.py": "from .gen import Generator\n",
                "pkg/gen.py": OWN,
                "train.py": "import pkg\n" + MOVING.replace("Generator()", "pkg.Generator()"),
            },
            False,
            id="package",
        ),
        pytest.param(
            {
                "gen.py": OWN,
                "train.py": "import torch\nfrom gen import Generator\n\n\nclass T:\n    def __init__(self):\n"
                "        self.g = Generator()\n\n    def run(self):\n        self.g.cuda()\n"
                "        torch.ones(1).cuda()\n",
            },
            False,
            id="kept in an object",
        ),
        pytest.param(
            {
                "gen.py": f"{OWN}\n    def to(self, device):\n        return self\n",
                "train.py": f"from gen import Generator\n{MOVING}",
            },
            True,
            id="with a to",
        ),
    ],
)
def test_classes_of_other_modules_that_move_themselves(
    files: dict[str, str], moves: bool, tmp_path: Path
) -> None:
    found = [item for item in scanned(tmp_path, files) if item.rule == "PK302"]
    supports = [item.support for item in found if item.location.path == "train.py"]
    assert supports == [Support.AUTO if moves else Support.MANUAL, Support.AUTO]
