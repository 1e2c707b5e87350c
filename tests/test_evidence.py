"""What a finding carries beside its message: id, alias chain, guard, when it runs, snippet, effort."""

from __future__ import annotations

import pytest
from test_names import asked, context
from toy_rules import TOYS

from portkit import effort, engine, ruleset, tables
from portkit.finding import Alias, Finding, GuardKind, Phase, Support

TEXT = """import torch
class Trainer:
    def step(self, x):
        torch.cuda.synchronize()  # wait
        x = x.cuda()
        x = x.cuda()
        y = f("a", x.cuda())
"""


def found(text: str, path: str = "a.py") -> list[Finding]:
    return engine.check_text(text, path, rules=TOYS)


def ids(text: str, path: str = "a.py") -> list[str]:
    return [item.id for item in found(text, path)]


# --- ids ---------------------------------------------------------------------------------------------


def test_ids_are_unique() -> None:
    assert len(ids(TEXT)) == len(set(ids(TEXT))) == 4


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param("import os\n\n\n" + TEXT, id="moved down"),
        pytest.param(TEXT.replace("  # wait", ""), id="comment"),
        pytest.param(TEXT.replace('"a"', "'a'"), id="quotes"),
        pytest.param(TEXT.replace("\n    ", "\n        "), id="indentation"),
        pytest.param(TEXT.replace('f("a", x.cuda())', 'f( "a",x.cuda() )'), id="blanks"),
        pytest.param(TEXT.replace("        x = x", "        log(1)\n        x = x"), id="a line between"),
        pytest.param(TEXT + "\ndef later(x):\n    x = x.cuda()\n", id="the same elsewhere"),
        pytest.param(
            TEXT.replace("def step", "def other(self, x):\n        x = x.cuda()\n    def step"), id="s"
        ),
        pytest.param(TEXT.replace("\n", "\r\n"), id="line ends"),
        pytest.param(TEXT.replace("import torch\n", "import torch as th, torch\n"), id="its import"),
    ],
)
def test_ids_survive_edits_elsewhere_and_of_the_layout(changed: str) -> None:
    assert set(ids(TEXT)) <= set(ids(changed))


def test_ids_change_with_the_path_alone() -> None:
    assert not set(ids(TEXT)) & set(ids(TEXT, "b.py"))


def test_the_body_of_a_definition_and_later_lines_of_a_call_are_not_part_of_its_id() -> None:
    one, two = "y = torch.f(\n    a,\n    1).cuda()\n", "y = torch.f(\n    a, b,\n    2, 3).cuda()\n"
    assert ids(one) == ids(two) != []


# --- alias chains ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "chain"),
    [
        ("import torch\nHERE(torch.cuda)", [Alias("torch", "import torch", 1)]),
        (
            "import os, torch.nn.functional as F\nHERE(F.softmax)",
            [Alias("F", "import torch.nn.functional as F", 1)],
        ),
        (
            "from torch import (\n    nn,\n    cuda as c,\n)\nsync = c.synchronize\nHERE(sync)",
            [Alias("sync", "sync = c.synchronize", 5), Alias("c", "from torch import cuda as c", 1)],
        ),
        (
            "import torch\nf = getattr(torch, 'cuda')\nHERE(f.synchronize)",
            [Alias("f", "f = getattr(torch, 'cuda')", 2), Alias("torch", "import torch", 1)],
        ),
        (
            "from functools import partial\nimport torch\nf = partial(torch.load, mmap=True)\nHERE(f)",
            [
                Alias("f", "f = partial(torch.load, mmap=True)", 3),
                Alias("torch", "import torch", 2),
            ],
        ),
        (
            "import torch\nclass A:\n    def __init__(self):\n        self.sync = torch.cuda.synchronize\n"
            "    def f(self):\n        HERE(self.sync)",
            [Alias("self.sync", "self.sync = torch.cuda.synchronize", 4), Alias("torch", "import torch", 1)],
        ),
        ("from torch.nn import *\nHERE(Linear)", [Alias("Linear", "from torch.nn import *", 1)]),
        ("def f(x):\n    HERE(x.cuda)", []),
    ],
)
def test_alias_chain(code: str, chain: list[Alias]) -> None:
    ctx, node = asked(code)
    assert list(ctx.aliases.of(node)) == chain


# --- guards ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "line"),
    [
        ("import torch\nif torch.cuda.is_available():\n    HERE(x)", GuardKind.AVAILABILITY, 2),
        ("import torch\nif not torch.cuda.is_available():\n    quit()\nHERE(x)", GuardKind.AVAILABILITY, 2),
        ("if args.use_cuda:\n    HERE(x)", GuardKind.AVAILABILITY, 1),
        ("if x.is_cuda:\n    HERE(x)", GuardKind.DEVICE, 1),
        ("def f(device):\n    if device.type == 'cuda':\n        HERE(x)", GuardKind.DEVICE, 2),
        ("try:\n    import apex\n    HERE(x)\nexcept ImportError:\n    pass", GuardKind.IMPORT, 1),
        (
            "try:\n    import apex\nexcept ImportError:\n    apex = None\nif apex:\n    HERE(x)",
            GuardKind.IMPORT,
            5,
        ),
        (
            "import torch\nuse = torch.cuda.is_available()\nready = use\nif ready:\n    HERE(x)",
            GuardKind.AVAILABILITY,
            4,
        ),
    ],
)
def test_guard_kind_and_place(code: str, kind: GuardKind, line: int) -> None:
    ctx, node = asked(code)
    guard = ctx.guards.of(node)
    assert guard is not None
    assert (guard.kind, guard.line) == (kind, line)


# --- when it runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "runs"),
    [
        ("x.cuda()", True),
        ("if a:\n    x.cuda()", True),
        ("try:\n    pass\nexcept E:\n    x.cuda()", True),
        ("with a:\n    for i in b:\n        x.cuda()", True),
        ("class A:\n    y = x.cuda()", True),
        ("def f(y=x.cuda()): pass", True),
        ("@d(x.cuda())\ndef f(): pass", True),
        ("@d(x.cuda())\nclass A: pass", True),
        ("class A(x.cuda()): pass", True),
        ("y = [x.cuda() for x in z]", True),
        ("def f(y: x.cuda()): pass", True),
        ("from __future__ import annotations\ndef f(y: x.cuda()): pass", False),
        ("'doc'\nfrom __future__ import annotations\ny: x.cuda() = 1", False),
        ("def f():\n    x.cuda()", False),
        ("async def f():\n    x.cuda()", False),
        ("def f():\n    class A:\n        y = x.cuda()", False),
        ("def f():\n    @d(x.cuda())\n    def g(): pass", False),
        ("class A:\n    def f(self):\n        x.cuda()", False),
        ("f = lambda: x.cuda()", False),
        ("f = lambda y=x.cuda(): y", True),
        ("if __name__ == '__main__':\n    x.cuda()", False),
        ("if '__main__' == __name__:\n    x.cuda()", False),
        ("if __name__ == '__main__':\n    pass\nelse:\n    x.cuda()", True),
        ("if __name__ != '__main__':\n    x.cuda()", True),
        ("if __name__ == '__main__' and a:\n    x.cuda()", False),
        ("if __name__ == '__main__' or a:\n    x.cuda()", True),
        ("if TYPE_CHECKING:\n    x.cuda()", False),
        ("if typing.TYPE_CHECKING:\n    pass\nelse:\n    x.cuda()", True),
        ("if not TYPE_CHECKING:\n    x.cuda()", True),
    ],
)
def test_runs_at_import(code: str, runs: bool) -> None:
    assert [item.import_time for item in found(code)] == [runs]


# --- snippet and effort ------------------------------------------------------------------------------


def test_snippet_holds_all_lines_of_a_call_and_no_body() -> None:
    assert [f.snippet for f in found("y = a.b(\n    1,  \n    2,\n).cuda()\n")] == ["y = a.b( 1, 2, ).cuda()"]
    assert len(found(f"y = f({', '.join(map(str, range(200)))}).cuda()\n")[0].snippet) == 200


def test_effort_is_that_of_the_rule_or_the_usual_one() -> None:
    usual = tables.load("effort")
    for rule in ruleset.all_rules():
        made = effort.of(rule(), Support.MANUAL)
        assert made.minutes == (rule.minutes if rule.minutes is not None else usual["manual"])
        assert (f"rule {rule.id}" == made.basis) == (rule.minutes is not None)
        assert effort.of(rule(), Support.AUTO).minutes == usual["auto"]
    assert set(usual) == {support.value for support in Support}


def test_effort_left_is_the_sum_of_the_phase() -> None:
    items = found(TEXT)
    by_phase = {phase: effort.left(items, phase).minutes for phase in Phase}
    assert by_phase == {Phase.OPERATOR: 90, Phase.MODULE: 0, Phase.FULL_MODEL: 1}
    assert effort.left(items).minutes == 91
    assert effort.left(items).by_support[Support.MANUAL] == 90
    assert [effort.spoken(n) for n in (0, 59, 60, 90, 6000)] == ["0 min", "59 min", "1.0 h", "1.5 h", "100 h"]


def test_qualified_name_is_filled_in_where_the_rule_gives_none() -> None:
    ctx, module = context("import torch\ntorch.cuda.synchronize()")
    rule = TOYS[0]()
    made = ctx.finding(rule, module.body[1].value, "m", support=Support.MANUAL, remedy="r")  # type: ignore[attr-defined]
    assert made.qualified_name == "torch.cuda.synchronize"
