"""The applier: every kind of edit, on odd but legal layouts, changes what it names and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest

from portkit.apply import Applied, apply
from portkit.finding import (
    CallDecorator,
    DropArgument,
    DropImport,
    DropStatement,
    Edit,
    Finding,
    InsertArgument,
    Location,
    NameArgument,
    NeedImport,
    Phase,
    RenameAttribute,
    RenameKeyword,
    Replace,
    SetArgument,
    Span,
    Support,
    Wrap,
)

PK = NeedImport("portkit.runtime", alias="pk")


def finding(*edits: Edit, line: int = 1, rule: str = "PK000") -> Finding:
    where = Location("a.py", line, 1, line, 2)
    return Finding(rule, Phase.OPERATOR, Support.AUTO, where, "message", "remedy", edits=edits)


def at(text: str, piece: str, nth: int = 0) -> Span:
    """Span of the nth occurrence of `piece`."""
    start = -1
    for _ in range(nth + 1):
        start = text.index(piece, start + 1)
    return Span(start, start + len(piece))


def applied(text: str, *edits: Edit) -> str:
    result = apply(text, [finding(*edits)], python=True)
    assert [reason for _, reason in result.refused] == []
    assert len(result.done) == 1
    ast.parse(result.text)
    return result.text


def refusal(text: str, *edits: Edit) -> str:
    result = apply(text, [finding(*edits)], python=True)
    assert result.text == text
    assert not result.done
    return result.refused[0][1]


def case(id: str, before: str, after: str, *edits: object) -> object:
    return pytest.param(before, after, edits, id=id)


def test_one_rewrite_with_everything() -> None:
    text = "import torch\n\ny = x.cuda(non_blocking=True).float()  # move\n"
    call = at(text, "x.cuda(non_blocking=True)")
    edits = (RenameAttribute(at(text, "x.cuda"), "to"), InsertArgument(call, 0, "pk.device()"), PK)
    assert applied(text, *edits) == (
        "import torch\nimport portkit.runtime as pk\n\n"
        "y = x.to(pk.device(), non_blocking=True).float()  # move\n"
    )


@pytest.mark.parametrize(
    ("before", "piece", "new", "after"),
    [
        ("y = -x ** 2\n", "x", "a + b", "y = -(a + b) ** 2\n"),
        ("y = (1, 2)[0]\n", "(1, 2)", "a or b", "y = (a or b)[0]\n"),
        ("y = (x)[0]\n", "x", "a, b", "y = (a, b)[0]\n"),
        ("y = (x)\n", "x", "a, b", "y = (a, b)\n"),
        ("y = x.real\n", "x", "1", "y = (1).real\n"),
        ("y = x.real\n", "x", "a if b else c", "y = (a if b else c).real\n"),
        ("y = (x).real\n", "x", "a if b else c", "y = (a if b else c).real\n"),
        ("y = f(x, 1)\n", "x", "a, b", "y = f((a, b), 1)\n"),
        ("y = f(x, 1)\n", "x", "b := 1", "y = f((b := 1), 1)\n"),
        ("y = x, 1\n", "x, 1", "a, b", "y = a, b\n"),
        ("y = x\n", "x", "a, b", "y = (a, b)\n"),
        ("y = not x\n", "x", "a == b", "y = not a == b\n"),
        ("y = not x\n", "x", "a or b", "y = not (a or b)\n"),
        ("y = a - x\n", "x", "b - c", "y = a - (b - c)\n"),
        ("y = x - a\n", "x", "b - c", "y = b - c - a\n"),
        ("async def g(): x[0]\n", "x", "await z", "async def g(): (await z)[0]\n"),
        ("y = [*x]\n", "x", "a or b", "y = [*(a or b)]\n"),
        ("y = [i for i in x if z]\n", "x", "a if b else c", "y = [i for i in (a if b else c) if z]\n"),
        ("y = lambda: x\n", "x", "a, b", "y = lambda: (a, b)\n"),
        ("return_ = 1\ny = 1 if(x)else 2\n", "x", "a", "return_ = 1\ny = 1 if(a)else 2\n"),
        ("y = 0 if'cuda'else 1\n", "'cuda'", "pk", "y = 0 if pk else 1\n"),
        ("y = f(x)\n", "x", "g(\n    1,\n)", "y = f(g(\n    1,\n))\n"),
        ("y = x\n", "x", "a +\n    b", "y = (a +\n    b)\n"),
        ("y = {k: x}\n", "x", "lambda: 1", "y = {k: lambda: 1}\n"),
        ("y = z[x]\n", "x", "a:b", None),
        ("y = x\n", "x", "a = b", None),
        ("y = x\n", "x", "a  # b", None),
        ("y = x\n", "x", "", None),
        ("y = f'{x}'\n", "x", "g('a')", "y = f'{g(\"a\")}'\n"),
        ("y = f'{x!r:>{w}}'\n", "w", "g(1)", "y = f'{x!r:>{g(1)}}'\n"),
        ("y = f'{x}'\n", "x", "{1: 2}", "y = f'{({1: 2})}'\n"),
        ("y = f'{x}'\n", "x", "lambda: 1", "y = f'{(lambda: 1)}'\n"),
        ("y = f'{x}'\n", "x", '"it\'s"', None),
        ("y = x + 1\n", "x", "a  # b", None),
        ("y = f'{x}'\n", "x", "'\\n'", None),
        ("def f(a: x = 1) -> z: ...\n", "x", "a.b", "def f(a: a.b = 1) -> z: ...\n"),
        ("@x\ndef f(): ...\n", "x", "a.b", "@a.b\ndef f(): ...\n"),
        ("class A(x): ...\n", "x", "B", "class A(B): ...\n"),
        ("with x as y: ...\n", "x", "a if b else c", "with a if b else c as y: ...\n"),
        ("for i in x: ...\n", "x", "a or b", "for i in a or b: ...\n"),
        ("if (n := x) > 1: ...\n", "x", "f(1)", "if (n := f(1)) > 1: ...\n"),
        ("import triton\n", "import triton", "import p.triton as triton", "import p.triton as triton\n"),
        ("import triton, os\n", "triton", "p.triton as triton", "import p.triton as triton, os\n"),
        ("é = 'ü'; y = x\n", "x", "ö", "é = 'ü'; y = ö\n"),
    ],
)
def test_replace(before: str, piece: str, new: str, after: str | None) -> None:
    last = before.count(piece) - 1
    edit = Replace(at(before, piece, last if piece != "w" else 0), new)
    if after is None:
        assert refusal(before, edit)
    else:
        assert applied(before, edit) == after


@pytest.mark.parametrize(
    ("before", "piece", "wrap", "after"),
    [
        ("y = x\n", "x", ("f(", ")"), "y = f(x)\n"),
        ("y = -x ** 2\n", "x", ("a + ", ""), "y = -(a + x) ** 2\n"),
        ("y = a, b\n", "a, b", ("f(", ")"), "y = f((a, b))\n"),
        ("y = a if b else c\n", "a if b else c", ("", ".type"), "y = (a if b else c).type\n"),
        ("y = (a if b\n  else c)\n", "a if b\n  else c", ("f(", ")"), "y = (f(a if b\n  else c))\n"),
        ("y = x.z\n", "x", ("not ", ""), "y = (not x).z\n"),
        ("y = x\n", "x", ("f(", ""), None),
    ],
)
def test_wrap(before: str, piece: str, wrap: tuple[str, str], after: str | None) -> None:
    edit = Wrap(at(before, piece, before.count(piece) - 1), *wrap)
    if after is None:
        assert refusal(before, edit)
    else:
        assert applied(before, edit) == after


MULTI = "f(\n    a,  # about a\n    # about b\n    b=1,  # end of b\n)\n"
HUG = "f(a, b,  # tail\n  c, d=1)\n"


def ask(text: str, kind: str, *values: object) -> Edit:
    """An edit of the call that is the whole text, or its right-hand side."""
    start = text.index("f(")
    span = Span(start, len(text.rstrip()))
    kinds = {
        "set": SetArgument,
        "insert": InsertArgument,
        "name": NameArgument,
        "rename": RenameKeyword,
        "drop": DropArgument,
    }
    if kind == "drop" and isinstance(values[0], str):
        return DropArgument(span, keyword=values[0])
    return kinds[kind](span, *values)


@pytest.mark.parametrize(
    ("before", "edits", "after"),
    [
        ("f()\n", [("set", "k", "1")], "f(k=1)\n"),
        ("f( )\n", [("insert", 0, "x")], "f(x )\n"),
        ("f(  # why\n)\n", [("set", "k", "1")], "f(k=1  # why\n)\n"),
        ("f(a)\n", [("set", "k", "1")], "f(a, k=1)\n"),
        ("f(a, )\n", [("set", "k", "1")], "f(a, k=1, )\n"),
        ("f(a, k = 0)\n", [("set", "k", "1")], "f(a, k = 1)\n"),
        ("f(a, k=(0))\n", [("set", "k", "x or y")], "f(a, k=(x or y))\n"),
        ("f(a, k=(0, 1))\n", [("set", "k", "x, y")], "f(a, k=(x, y))\n"),
        ("f(a, k=0)\n", [("set", "k", "x := y")], "f(a, k=(x := y))\n"),
        ("f(i for i in y)\n", [("set", "k", "1")], "f((i for i in y), k=1)\n"),
        ("f(i for i in y)\n", [("name", 0, "k")], "f(k=(i for i in y))\n"),
        ("f((i for i in y))\n", [("name", 0, "k")], "f(k=(i for i in y))\n"),
        ("f(n := 1)\n", [("name", 0, "k")], "f(k=(n := 1))\n"),
        ("f(a, *b, k=lambda q, r: q, **c)\n", [("set", "m", "1")], "f(a, *b, k=lambda q, r: q, **c, m=1)\n"),
        ("f(a, *b, k=1, **c)\n", [("insert", 2, "x")], "f(a, *b, x, k=1, **c)\n"),
        ("f(a, *b, k=1, **c)\n", [("insert", 1, "x")], "f(a, x, *b, k=1, **c)\n"),
        ("f(k=1)\n", [("insert", 0, "x")], "f(x, k=1)\n"),
        ("f(a, *b, k=1, **c)\n", [("drop", 1)], "f(a, k=1, **c)\n"),
        ("f(a, *b, k=1, **c)\n", [("drop", "k")], "f(a, *b, **c)\n"),
        ("f(a, b)\n", [("drop", 1)], "f(a)\n"),
        ("f(a, b,)\n", [("drop", 1)], "f(a,)\n"),
        ("f(a, b)\n", [("drop", 0), ("drop", 1)], "f()\n"),
        ("f(a, b)\n", [("drop", 0), ("name", 1, "k")], "f(k=b)\n"),
        ("f(a, b)\n", [("drop", 0), ("drop", 1), ("insert", 0, "x"), ("set", "k", "1")], "f(x, k=1)\n"),
        ("f(a, b)\n", [("drop", 0), ("insert", 0, "x")], "f(x, b)\n"),
        ("f(a, b)\n", [("name", 1, "k"), ("set", "k", "9")], "f(a, k=9)\n"),
        ("f(a, k=1, j=2)\n", [("rename", "k", "kk"), ("drop", "j"), ("insert", 0, "x")], "f(x, a, kk=1)\n"),
        ("f((a), (b))\n", [("name", 1, "k")], "f((a), k=(b))\n"),
        ("f((a), (b))\n", [("drop", 0)], "f((b))\n"),
        ("x = f (a)\n", [("set", "k", "1")], "x = f (a, k=1)\n".replace("f (", "f (")),
        (MULTI, [("set", "k", "2")], MULTI.replace("\n)", "\n    k=2,\n)")),
        (MULTI, [("drop", "b")], "f(\n    a,  # about a\n    # about b\n)\n"),
        (MULTI, [("drop", 0)], "f(\n    # about b\n    b=1,  # end of b\n)\n"),
        (
            MULTI,
            [("insert", 1, "x")],
            "f(\n    a,  # about a\n    # about b\n    x,\n    b=1,  # end of b\n)\n",
        ),
        (MULTI, [("insert", 0, "x")], MULTI.replace("    a,", "    x,\n    a,")),
        (MULTI, [("drop", "b"), ("set", "k", "2")], MULTI.replace("b=1", "k=2")),
        ("f(\n    a,\n    b=1  # end\n)\n", [("set", "k", "2")], "f(\n    a,\n    b=1,  # end\n    k=2\n)\n"),
        ("f(\n    a,\n    b=1\n)\n", [("set", "k", "2")], "f(\n    a,\n    b=1,\n    k=2\n)\n"),
        ("f(\n    a,\n    b=1\n)\n", [("drop", "b")], "f(\n    a,\n)\n"),
        ("f(\n    a,  # gone\n)\n", [("drop", 0)], "f()\n"),
        ("f(\n    a,\n    # kept\n)\n", [("drop", 0)], "f(\n    # kept\n)\n"),
        (HUG, [("drop", 1)], "f(a,  # tail\n  c, d=1)\n"),
        (HUG, [("drop", 0)], "f(b,  # tail\n  c, d=1)\n"),
        (HUG, [("drop", "d")], "f(a, b,  # tail\n  c)\n"),
        (HUG, [("set", "k", "1")], "f(a, b,  # tail\n  c, d=1, k=1)\n"),
        ("f(a,\r\n  b)\r\n", [("set", "k", "1"), ("drop", 0)], "f(b, k=1)\r\n"),
        ("f(\r\n  a,\r\n)\r\n", [("set", "k", "1")], "f(\r\n  a,\r\n  k=1,\r\n)\r\n"),
        ("f(\n\ta,\n)\n", [("insert", 0, "x")], "f(\n\tx,\n\ta,\n)\n"),
        ("f(a)\n", [("name", 1, "k")], None),
        ("f(*a)\n", [("name", 0, "k")], None),
        ("f(a, b)\n", [("name", 0, "k")], None),
        ("f(a)\n", [("insert", 2, "x")], None),
        ("f(a)\n", [("insert", 0, "x, y")], "f((x, y), a)\n"),
        ("f(a)\n", [("set", "k", "x, k2=y")], None),
        ("f(a)\n", [("drop", "k")], None),
        ("f(a, k=1)\n", [("rename", "j", "k")], None),
        ("f(a, k=1, j=1)\n", [("rename", "j", "k")], None),
    ],
)
def test_arguments(before: str, edits: Sequence[tuple[object, ...]], after: str | None) -> None:
    before = before.replace("f (", "f(") if "f (" in before else before
    wanted = [ask(before, str(kind), *values) for kind, *values in edits]
    if after is None:
        assert refusal(before, *wanted)
    else:
        assert applied(before, *wanted) == after.replace("f (", "f(")


@pytest.mark.parametrize(
    ("before", "pieces", "after"),
    [
        ("a\nb  # c\nd\n", ["b"], "a\nd\n"),
        ("a\n    \nb", ["b"], "a\n    \n"),
        ("a; b; c\n", ["b"], "a; c\n"),
        ("a; b; c\n", ["c"], "a; b\n"),
        ("a; b; c;  # t\n", ["c", "b"], "a  # t\n"),
        ("a; b; c\n", ["a", "c"], "b\n"),
        ("a; b\n", ["a", "b"], ""),
        ("if x:\n    # why\n    b  # c\n", ["b"], "if x:\n    # why\n    pass  # c\n"),
        ("if x:\n    a\n    b\n", ["a", "b"], "if x:\n    pass\n"),
        ("if x: a; b\n", ["a", "b"], "if x: pass\n"),
        ("if x: a; b\n", ["a"], "if x: b\n"),
        ("if x: a\nelse: b\n", ["b"], "if x: a\nelse: pass\n"),
        ("@d\ndef f():\n    pass\nx\n", ["def f():\n    pass"], "x\n"),
        ("x = [\n  1,\n]  # c\ny\n", ["x = [\n  1,\n]"], "y\n"),
        ("a\r\nb\r\nc\r\n", ["b"], "a\r\nc\r\n"),
    ],
)
def test_drop_statement(before: str, pieces: Sequence[str], after: str) -> None:
    edits = [DropStatement(at(before, piece)) for piece in pieces]
    assert applied(before, *edits) == after


def test_drop_statement_refuses_an_elif() -> None:
    text = "if a: b\nelif c: d\n"
    assert "elif" in refusal(text, DropStatement(at(text, "elif c: d")))


@pytest.mark.parametrize(
    ("before", "need", "after"),
    [
        ("", PK, "import portkit.runtime as pk\n"),
        ("x\n", PK, "import portkit.runtime as pk\n\nx\n"),
        (
            "#!/x\n# -*- coding: utf-8 -*-\nx\n",
            PK,
            "#!/x\n# -*- coding: utf-8 -*-\nimport portkit.runtime as pk\n\nx\n",
        ),
        ('"""d"""\nx\n', PK, '"""d"""\n\nimport portkit.runtime as pk\n\nx\n'),
        ('"""d"""\n\nx\n', PK, '"""d"""\n\nimport portkit.runtime as pk\n\nx\n'),
        ('"""d"""', PK, '"""d"""\n\nimport portkit.runtime as pk'),
        (
            "from __future__ import annotations\nx\n",
            PK,
            "from __future__ import annotations\n\nimport portkit.runtime as pk\n\nx\n",
        ),
        ("import a\nx\nimport b\n", PK, "import a\nimport portkit.runtime as pk\nx\nimport b\n"),
        ("import a; b = 1  # c\nx\n", PK, "import a; b = 1  # c\nimport portkit.runtime as pk\nx\n"),
        ("import a", PK, "import a\nimport portkit.runtime as pk"),
        (
            "import torch\r\nimport b\r\nx\r\n",
            PK,
            "import torch\r\nimport b\r\nimport portkit.runtime as pk\r\nx\r\n",
        ),
        ("import a\r\nx\r\n", PK, "import a\r\nimport portkit.runtime as pk\r\nx\r\n"),
        (
            "try:\n    import a\nexcept ImportError:\n    a = None\nimport b\n",
            PK,
            "try:\n    import a\nexcept ImportError:\n    a = None\nimport b\nimport portkit.runtime as pk\n",
        ),
        (
            "import os\n\nimport torch\nimport numpy\n# ours\n\nfrom mine import x\n",
            PK,
            "import os\n\nimport torch\nimport numpy\nimport portkit.runtime as pk\n"
            "# ours\n\nfrom mine import x\n",
        ),
        (
            "import torch\n\nx\n\nimport os\n",
            PK,
            "import torch\nimport portkit.runtime as pk\n\nx\n\nimport os\n",
        ),
        ("import portkit.runtime as pk\nx\n", PK, None),
        ("from portkit import runtime as pk\nx\n", PK, None),
        (
            "def f():\n    import portkit.runtime as pk\n",
            PK,
            "import portkit.runtime as pk\n\ndef f():\n    import portkit.runtime as pk\n",
        ),
        (
            "from a import (\n    b,\n    c,  # d\n)\n",
            NeedImport("a", "e"),
            "from a import (\n    b,\n    c,\n    e,  # d\n)\n",
        ),
        ("from a import b  # d\n", NeedImport("a", "e", "f"), "from a import b, e as f  # d\n"),
        ("from a import b, e as f\n", NeedImport("a", "e", "f"), None),
        ("from a import *\n", NeedImport("a", "e"), "from a import *\nfrom a import e\n"),
        ("x = e\nfrom a import b\n", NeedImport("a", "e"), "from a import e\n\nx = e\nfrom a import b\n"),
    ],
)
def test_need_import(before: str, need: NeedImport, after: str | None) -> None:
    once = applied(before, need)
    assert once == (before if after is None else after)
    assert applied(once, need) == once


@pytest.mark.parametrize(
    ("before", "local", "after"),
    [
        ("import a\nx\n", "a", "x\n"),
        ("import a\na.b\n", "a", None),
        ("import a, b\nb\n", "a", "import b\nb\n"),
        ("import a, b\na\n", "b", "import a\na\n"),
        ("from m import (\n    a,  # about a\n    b,\n)\n", "a", "from m import (\n    b,\n)\n"),
        ("from m import (\n    a,\n    b,  # about b\n)\n", "b", "from m import (\n    a,  # about b\n)\n"),
        ("from m import a as b, c\n", "b", "from m import c\n"),
        ("from m import a as a\n", "a", None),
        ("from m import a  # noqa: F401\n", "a", None),
        ("from m import a\n__all__ = ['a']\n", "a", None),
        ("from m import a\n__all__ += ['b', 'a']\n", "a", None),
        ("from m import a\ndef f(x: 'a.T'): ...\n", "a", None),
        ("from m import a\ndef f(x) -> 'list[a]': ...\n", "a", None),
        ("from m import a\nx = cast('a', y)\n", "a", None),
        ("from m import a\nx = []  # type: list[a]\n", "a", None),
        ("from m import a\nx = 'a'\n", "a", "x = 'a'\n"),
        ("try:\n    import a\nexcept ImportError:\n    a2 = None\n", "a", None),
        ("if TYPE_CHECKING:\n    import a\n", "a", None),
        ("def f():\n    import a\n", "a", "def f():\n    pass\n"),
        ("def f():\n    global a\n    import a\n", "a", None),
        ("import a.b\nimport a.c\n", "a.b", "import a.c\n"),
        ("import a.b\nimport a.c\na.c\n", "a.b", None),
    ],
)
def test_drop_import(before: str, local: str, after: str | None) -> None:
    assert applied(before, DropImport(local)) == (before if after is None else after)


def test_imports_of_a_package_are_for_others() -> None:
    result = apply("import a\n", [finding(DropImport("a"))], python=True, init=True)
    assert result.text == "import a\n"


def test_call_decorator() -> None:
    text = "@a.custom_bwd\ndef f(): ...\n"
    assert applied(text, CallDecorator(at(text, "a.custom_bwd"), "a.bwd(t='x')")) == (
        "@a.bwd(t='x')\ndef f(): ...\n"
    )


def test_a_chain_over_lines_keeps_its_comments() -> None:
    text = "y = (\n    x  # the input\n    .cuda()  # move\n    .float()  # widen\n    .cuda()\n)\n"
    first, second = at(text, "x  # the input\n    .cuda"), Span(text.index("x  #"), text.rindex(".cuda") + 5)
    findings = [
        finding(
            RenameAttribute(first, "to"), InsertArgument(Span(first.start, first.end + 2), 0, "d"), line=2
        ),
        finding(
            RenameAttribute(second, "to"), InsertArgument(Span(second.start, second.end + 2), 0, "d"), line=3
        ),
    ]
    result = apply(text, findings, python=True)
    assert result.done == findings
    assert result.text == text.replace(".cuda()", ".to(d)")


def test_edits_of_nested_calls_go_together_and_overlapping_ones_wait() -> None:
    text = "y = f(g(x.cuda()), 1)\n"
    inner = finding(RenameAttribute(at(text, "x.cuda"), "to"))
    outer = finding(SetArgument(at(text, "f(g(x.cuda()), 1)"), "k", "2"))
    whole = finding(Replace(at(text, "g(x.cuda())"), "h(x.cuda())"), line=2)
    result = apply(text, [outer, inner, whole], python=True)
    assert result.text == "y = f(g(x.to()), 1, k=2)\n"
    assert result.deferred == [whole]


def test_two_rewrites_of_one_call_take_turns() -> None:
    text = "f(a, b)\n"
    call = at(text, "f(a, b)")
    one, two = finding(NameArgument(call, 1, "k")), finding(NameArgument(call, 0, "j"), line=2)
    result = apply(text, [one, two], python=True)
    assert (result.done, result.deferred) == ([one], [two])


def test_emptying_a_body_takes_turns() -> None:
    text = "if x:\n    a\n    b\n"
    findings = [finding(DropStatement(at(text, "a"))), finding(DropStatement(at(text, "b")), line=2)]
    result = apply(text, findings, python=True)
    assert (result.text, len(result.deferred)) == ("if x:\n    b\n", 1)


def test_one_bad_rewrite_does_not_stop_the_others() -> None:
    text = "a\nb\nc\nd\n"
    findings = [
        finding(Replace(at(text, name), new), line=i)
        for i, (name, new) in enumerate([("a", "A"), ("b", "B"), ("c", "= ="), ("d", "D")], 1)
    ]
    result = apply(text, findings, python=True)
    assert result.text == "A\nB\nc\nD\n"
    assert [f.location.line for f, _ in result.refused] == [3]


def test_all_or_nothing() -> None:
    text = "a\nb\n"
    assert refusal(text, Replace(at(text, "a"), "A"), Replace(at(text, "b"), "= ="))


def test_a_text_that_does_not_parse_is_refused() -> None:
    assert "parsed" in refusal("print 'x'\n", Replace(Span(0, 5), "y"))


@pytest.mark.parametrize("piece", ["x{}", "{}x", "[x]{}", "x{} "], ids=["chain", "unary", "index", "and"])
def test_code_that_is_nested_very_deeply_is_refused(piece: str) -> None:
    more = {"x{}": ".f()", "{}x": "-", "[x]{}": "[0]", "x{} ": " and z"}[piece]
    for count in (450, 5_000):
        text = f"y = {piece.format(more * count)}\n"
        result = apply(text, [finding(Replace(at(text, "x"), "z"))], python=True)
        assert result.text in (text, text.replace("x", "z"))
        assert len(result.done) + len(result.refused) == 1


@pytest.mark.parametrize(
    "text",
    ["a = 1\n\x0cb = x\n   ", "a\r\n\x0c\r\nb = x\r\n", "if 1:\n\ta\n        \nb = x\n", "a = 1\rb = x\r"],
)
def test_odd_whitespace_stays(text: str) -> None:
    assert applied(text, Replace(at(text, "x"), "y")) == text.replace("x", "y")


def test_other_texts_take_span_edits() -> None:
    text = "device: cuda\ngpus: 2\n"
    edits = finding(Replace(at(text, "cuda"), "auto")), finding(Wrap(at(text, "2"), '"', '"'), line=2)
    assert apply(text, edits, python=False).text == 'device: auto\ngpus: "2"\n'
    late = finding(Replace(Span(90, 99), "x"))
    result: Applied = apply(text, [late], python=False)
    assert (result.text, result.refused[0][0]) == (text, late)


def test_magics_are_written_back_and_never_touched() -> None:
    raw = "%time x\ny = x.cuda()\n"
    masked = "pass   \ny = x.cuda()\n"
    result = apply(masked, [finding(RenameAttribute(at(masked, "x.cuda"), "to"), PK)], python=True, raw=raw)
    assert result.text == "import portkit.runtime as pk\n\n%time x\ny = x.to()\n"
    touched = apply(masked, [finding(DropStatement(at(masked, "pass")))], python=True, raw=raw)
    assert touched.text == raw
    assert touched.refused
