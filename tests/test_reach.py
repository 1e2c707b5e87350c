"""Which functions come to a finding: through calls, methods, modules and imports, in one file and across."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from portkit import engine, reports
from portkit.engine import ScanResult

BAD = "torch.cuda.memory_snapshot()"  # has no counterpart: a person must act


def scan(folder: Path, **files: str) -> ScanResult:
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import torch\n" + textwrap.dedent(text))
    return engine.scan([folder])


def names(result: ScanResult) -> set[str]:
    """`path:function` of all that is affected."""
    return {f"{item.path.removesuffix('.py')}:{item.function}" for item in result.affects.functions}


def test_callers_are_affected_and_others_are_not(tmp_path: Path) -> None:
    result = scan(
        tmp_path,
        a=f"""
        def low():
            {BAD}
        def middle():
            low()
        def top():
            return middle() + other()
        def other():
            return torch.ones(3)
        def low_too():
            middle.__name__ = "low"
        """,
    )
    assert names(result) == {"a:low", "a:middle", "a:top", "a:low_too"}
    (finding,) = [item for item in result.findings if item.support.value == "manual"]
    reach = result.affects.reach[finding.id]
    assert reach.count == 4
    assert reach.entries == (("a.py", "low_too"), ("a.py", "top"))
    distances = {item.function: item.distance for item in result.affects.functions}
    assert distances == {"low": 0, "middle": 1, "top": 2, "low_too": 2}
    assert all(item.findings == (finding.id,) for item in result.affects.functions)


def test_other_files_by_every_kind_of_import(tmp_path: Path) -> None:
    result = scan(
        tmp_path,
        **{"pkg/__init__": "from .ops import bad as renamed\n"},
        **{"pkg/ops": f"def bad():\n    {BAD}\ndef fine():\n    pass\n"},
        **{"pkg/rel": "from .ops import bad\nfrom . import ops\ndef f(): bad()\ndef g(): ops.bad()\n"},
        **{"pkg/sub/deep": "from ..ops import bad\ndef f():\n    bad()\n"},
        one="import pkg.ops\ndef f():\n    pkg.ops.bad()\ndef g():\n    pkg.ops.fine()\n",
        two="from pkg import renamed\ndef f():\n    renamed()\n",
        three="from pkg.ops import *\ndef f():\n    bad()\n",
        four="def f():\n    from pkg import ops\n    ops.bad()\n",
        five="from elsewhere.ops import bad\ndef f():\n    bad()\n",
    )
    assert names(result) - {"pkg/ops:bad"} == {
        *("pkg/rel:f", "pkg/rel:g", "pkg/sub/deep:f", "one:f", "two:f", "three:f", "four:f")
    }


def test_methods_bases_instances_and_modules(tmp_path: Path) -> None:
    result = scan(
        tmp_path,
        base=f"class Base:\n    def step(self):\n        {BAD}\n    def fine(self):\n        pass\n",
        a="""
        from base import Base
        class Child(Base):
            def run(self):
                self.step()
            def calm(self):
                self.fine()
        class Over(Base):
            def step(self):
                return 1
            def run(self):
                self.step()
            def up(self):
                super().step()
        def made():
            child = Child()
            child.run()
        def calm():
            Child().calm()
        def unknown(child):
            child.run()
        """,
        net=f"""
        from torch import nn
        class Inner(nn.Module):
            def forward(self, x):
                {BAD}
        class Outer(nn.Module):
            def __init__(self):
                self.blocks = nn.Sequential(Inner(), Inner())
            def forward(self, x):
                return self.blocks(x)
        class Calls(nn.Module):
            def __init__(self):
                self.inner = Inner()
            def forward(self, x):
                return self.inner(x)
        def train():
            model = Outer()
            model(1)
        """,
    )
    assert names(result) == {
        *("base:Base.step", "a:Child.run", "a:Over.up", "a:made"),
        *("net:Inner.forward", "net:Outer.forward", "net:Calls.forward", "net:train"),
    }


def test_functions_that_are_passed_on_and_decorators(tmp_path: Path) -> None:
    result = scan(
        tmp_path,
        a=f"""
        import torch.multiprocessing as mp
        def worker(rank):
            {BAD}
        def main():
            mp.spawn(worker, nprocs=2)
        def wrap(function):
            def inner():
                {BAD}
            return inner
        @wrap
        def wrapped():
            pass
        TABLE = {{"worker": worker}}
        def asks():
            return isinstance(1, int)
        if __name__ == "__main__":
            main()
        """,
    )
    assert names(result) == {"a:worker", "a:main", "a:wrap", "a:wrap.inner", "a:wrapped", "a:__main__"}


def test_an_import_that_fails_takes_its_importers_with_it(tmp_path: Path) -> None:
    result = scan(
        tmp_path,
        kernels="import spconv\ndef helper():\n    return 1\n",
        a="import kernels\ndef f():\n    return torch.ones(1)\n",
        b="try:\n    import kernels\nexcept ImportError:\n    kernels = None\ndef f():\n    return 1\n",
        c="def f():\n    import kernels\ndef g():\n    return torch.ones(1)\n",
        d="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import kernels\ndef f():\n    return 1\n",
    )
    assert names(result) == {"kernels:", "kernels:helper", "a:", "a:f", "c:f"}


@pytest.mark.parametrize(
    "code",
    [
        f"def f():\n    if torch.cuda.is_available():\n        {BAD}\n",
        "def f():\n    x.cuda()\n",  # rewritten safely
        "def f():\n    return torch.nn.functional.cross_entropy(x, y, size_average=True)\n",
        "try:\n    import spconv\nexcept ImportError:\n    spconv = None\ndef f():\n    return 1\n",
    ],
)
def test_what_runs_without_cuda_affects_nothing(tmp_path: Path, code: str) -> None:
    assert names(scan(tmp_path, a=code + "def g():\n    f()\n")) == set()


def test_loops_of_calls_and_of_imports_end(tmp_path: Path) -> None:
    result = scan(
        tmp_path,
        a=f"from b import *\nfrom b import g\ndef f():\n    g()\n    {BAD}\nclass A(A):\n    pass\n",
        b="""
        from a import *
        from a import f, A
        class B(A):
            def m(self):
                self.n()
        def g():
            f()
        """,
    )
    assert names(result) == {"a:f", "b:g"}


def test_cells_of_a_notebook_see_each_other(tmp_path: Path) -> None:
    texts = ("import torch", f"def low():\n    {BAD}", "def top():\n    low()", "top()")
    cells = [{"cell_type": "code", "source": text} for text in texts]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    result = engine.scan([tmp_path])
    assert {item.function for item in result.affects.functions} == {"low", "top", ""}


def test_each_function_that_holds_a_place_of_a_grouped_finding_is_affected(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "def f(x):\n    from apex import amp\n    amp.initialize(x)\n\n\n"
        "def g(x):\n    from apex import amp\n    amp.initialize(x)\n\n\ndef h(x):\n    return x\n"
    )
    result = engine.scan([tmp_path])
    found = next(item for item in result.findings if "amp.initialize" in item.message)
    assert found.occurrences == 2
    assert result.affects.reach[found.id].count == 2
    assert all(
        len(set(item.findings)) == item.total == len(item.findings) for item in result.affects.functions
    )


def test_files_that_the_scan_had_no_reason_to_look_at(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "from .inner import (\n    low as renamed,\n    fine,\n)\n",
        "pkg/inner.py": f"import torch\ndef low():\n    {BAD}\ndef fine():\n    pass\n",
        "cli.py": "import pkg\ndef main():\n    pkg.renamed()\ndef calm():\n    pkg.fine()\n",
        "again.py": "from cli import main\nif __name__ == '__main__':\n    main()\n",
        "torchy.py": "import torch\nfrom pkg import renamed\ndef f():\n    renamed()\n",
        "bad.py": "from pkg import renamed\nprint renamed()\n",
        "stub.pyi": "from pkg import renamed\ndef f():\n    renamed()\n",
        "other.py": "import json\ndef renamed():\n    pass\ndef f():\n    renamed()\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    result = engine.scan([tmp_path])
    assert "cli.py" not in result.codes  # nothing in it has to do with torch
    assert names(result) == {"pkg/inner:low", "cli:main", "again:__main__", "torchy:f"}


def test_reports_say_what_blocks_most_functions_first(tmp_path: Path) -> None:
    code = f"def low():\n    {BAD}\ndef top():\n    low()\ndef other():\n    top()\n"
    other = "torch.cuda.nvtx.range_start('a')\ntorch.cuda.nvtx.range_end(1)\n"  # at import: no function
    result = scan(tmp_path, a=code, b=other)
    terminal = reports.render("terminal", result, width=200)
    rows = [line.split()[:3] for line in terminal.splitlines() if line.lstrip()[:1].isdigit()]
    assert rows.index(["1", "3", "PK303"]) < rows.index(["2", "·", "PK314"])
    markdown = reports.render("markdown", result)
    assert markdown.index("| 1 | 3 | <code>PK303</code>") < markdown.index("| 2 | · | <code>PK314</code>")
    data = json.loads(reports.render("json", result))
    affects = {item["rule"]: item["affects"] for item in data["findings"]}
    assert affects["PK303"] == {
        "functions": 3,
        "entry_points": [{"path": "a.py", "function": "other"}],
    }
    assert [item["function"] for item in data["affected"]] == ["low", "other", "top", ""]
