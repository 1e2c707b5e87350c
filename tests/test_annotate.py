"""Comments at what is left to a person: where they stand in each kind of file, once, and gone with undo."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from test_migrate import snapshot, tree

from portkit import manifest, ruleset, writing
from portkit.cli import run
from portkit.finding import Finding, Phase, Span, Support
from portkit.migrate import Options, Plan, plan
from portkit.partial import Choice, undo_part
from portkit.rule import Context, Rule
from portkit.source import Kind
from portkit.undo import undo

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REMEDY = "Say, by hand, what is meant: é → 1 \\"


class Word(Rule):
    """Every `HERE` is for a person; in Python as a name, elsewhere as a word."""

    id, name, phase, triggers = "PK999", "word", Phase.OPERATOR, (b"here",)
    text_kinds = frozenset(Kind) - {Kind.PYTHON, Kind.NOTEBOOK}

    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        if node.id == "HERE":
            yield ctx.finding(self, node, "It is here", support=Support.MANUAL, remedy=REMEDY)

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        for match in re.finditer(r"\bHERE\b", ctx.text):
            span = Span(match.start(), match.end())
            yield ctx.finding(self, span, "It is here", support=Support.MANUAL, remedy=REMEDY)


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset, "all_rules", lambda: (Word,))


def made(root: Path) -> Plan:
    return plan(root, Options(Phase.FULL_MODEL, annotate=True))


MARK = "# portkit: PK999 Say, by hand, what is meant: é → 1"


def marked(text: str, kind: str) -> str:
    """`text` with comments where lines begin with a `>`."""
    sign = MARK.replace("#", "//", 1) if kind in (".cu", ".cpp", ".h") else MARK
    out = []
    for line in text.splitlines(keepends=True):
        if line.startswith(">"):
            line = line[1:]
            end = line[len(line.rstrip("\r\n")) :] or "\n"
            out.append(f"{line[: len(line) - len(line.lstrip())]}{sign}{end}")
        out.append(line)
    return "".join(out)


def bare(text: str) -> str:
    return re.sub(r"(?m)^>", "", text)


CASES = {
    "plain.py": ">HERE\nx = 1\nif x:\n>    y = HERE + HERE\n",
    "several lines.py": ">x = f(\n    1,\n    HERE,  # why\n    [\n        HERE,\n    ],\n)\n",
    "decorated.py": ">@d(HERE)\ndef f(a=1):\n    '''HERE'''\n\n\nclass C:\n>    x: HERE = 2\n",
    "joined.py": ">a = 1; HERE\nif a: b = 2\n>if a: HERE\n",
    "branches.py": "if a:\n    pass\n>elif HERE:\n    pass\nelse:\n    pass\n"
    "try:\n    pass\n>except HERE:\n    pass\n",
    "continued.py": ">x = 1 + \\\n    HERE\n>if x: \\\n    HERE\n",
    "strings.py": 'x = """\nHERE\n"""\n>y = f"""\n{HERE}\n"""\n',
    "tabs.py": "if a:\n\tif b:\n>\t\tHERE\n",
    "first.py": "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n>HERE\n",
    "crlf.py": "if a:\r\n>    HERE\r\n",
    "end.py": "x = 1\n>HERE",
    "shell.sh": "#!/bin/bash\nset -e\nif true; then\n>  python HERE \\\n    --x HERE\nfi\n># HERE's\n"
    ">echo 'a\nHERE\nb'\n>cat <<EOF\nHERE\nEOF\n>x=${1#HERE}\ncat <<< y\n>HERE=1\n",
    "Dockerfile": ">FROM HERE\n>RUN a && \\\n    # HERE, a comment\n    b HERE && \\\n\n    c\n>ENV HERE=1\n",
    "Dockerfile.heredoc": "# escape=`\nFROM x\n>RUN <<EOF\nHERE\nEOF\n>RUN a `\n  HERE\n>COPY a\\ HERE\\\n",
    "requirements.txt": ">HERE\n>a==1 \\\n    --hash=HERE\nb\n",
    "a.yaml": "a:\n>  b: HERE\n>  c: |\n    x\n\n    HERE\n  d: 1\n"
    "  e:\n>  - f: >-\n      HERE\n    g: 1\n>  - HERE\n"
    ">h: [1,\n  HERE]\n>i: one\n  HERE two\n>j: \"x\n  HERE: y\"\nk: 'it''s'\n>HERE: 1\n",
    "environment.yml": "name: x\ndependencies:\n>  - HERE=1\n  - pip:\n>      - HERE\n",
    "a.toml": "[a]\n>b = 'HERE'\n>c = [\n  'HERE', # ]\n  '[',\n]\n>d = '''\nx = HERE\n'''\n"
    ">e = {f = [\n 'HERE']}\n>[HERE]\n",
    "k.cu": "#include <a>\n>#define X HERE \\\n    HERE\n\n/* a\n b */\n"
    ">__global__ void k(int a,\n    int HERE)\n"
    '{\n>  int HERE = 1;\n>  k<<<1,\n     HERE>>>(a);\n  // x\n>  const char *s = "(HERE" "(";\n'
    '>  f(a,\n    g(\'(\'), HERE);\n>  auto r = R"x(\n HERE ( )" )x";\n>  HERE();\n}\n',
    "Makefile": ">X = HERE \\\n  HERE\n>all: x\n\techo HERE\n\techo x\nb:\n\tls\n>HERE:\n",
    "CMakeLists.txt": 'a(b)\n>f(x "(" # (\n  HERE\n)\n>HERE()\n',
    "setup.cfg": "[a]\n>b =\n    HERE\n    c\n>d = HERE\n>[HERE]\n",
    "a.cpp": ">template <typename T>\nHERE f();\n",
}


@pytest.mark.parametrize("name", CASES)
def test_where_a_comment_stands(name: str, tmp_path: Path) -> None:
    text = CASES[name]
    root = tree(tmp_path, {name: bare(text)})
    before = snapshot(root)
    assert writing.write(made(root)) == []
    after = (root / name).read_bytes().decode()
    assert after == marked(text, Path(name).suffix)
    assert made(root).changes == []  # once is enough
    check_same_meaning(name, bare(text), after, tmp_path)
    undo(root)
    assert snapshot(root) == before


def check_same_meaning(name: str, before: str, after: str, folder: Path) -> None:
    if name.endswith(".py"):
        assert ast.dump(ast.parse(before)) == ast.dump(ast.parse(after))
    elif name.endswith(".toml"):
        assert tomllib.loads(before) == tomllib.loads(after)
    elif name.endswith((".yaml", ".yml")):
        yaml = pytest.importorskip("yaml")
        assert yaml.safe_load(before) == yaml.safe_load(after)
    elif name.endswith(".sh") and shutil.which("bash"):
        subprocess.run(["bash", "-n"], input=after, text=True, check=True)


def test_a_notebook(tmp_path: Path) -> None:
    cells = ["%%time\nx = 1\nHERE", "%matplotlib inline\nif 1:\n    HERE\n", "%%bash\nHERE\n", "%%time\nHERE"]
    book = {"cells": [{"cell_type": "code", "source": cell} for cell in cells], "metadata": {}}
    root = tree(tmp_path, {"n.ipynb": json.dumps(book)})
    before = snapshot(root)
    writing.write(made(root))
    found = [cell["source"] for cell in json.loads((root / "n.ipynb").read_text())["cells"]]
    assert found == [
        f"%%time\nx = 1\n{MARK}\nHERE",
        f"%matplotlib inline\nif 1:\n    {MARK}\n    HERE\n",
        cells[2],
        f"%%time\n{MARK}\nHERE",
    ]
    assert made(root).changes == []
    undo(root)
    assert snapshot(root) == before


def test_json_and_lock_files_never(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.json": '{"a": "HERE"}\n', "uv.lock": "a = 'HERE'\n"})
    assert made(root).changes == []


def test_an_encoding_that_cannot_hold_it(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": b"# -*- coding: latin-1 -*-\n# \xe9\nHERE\n"})
    writing.write(made(root))
    assert b"# portkit: PK999 Say, by hand, what is meant: \xe9 ? 1\nHERE" in (root / "a.py").read_bytes()


def test_an_encoding_cookie_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "REMEDY", "Set its coding: ascii")
    root = tree(tmp_path, {"a.py": "HERE\nx = 'é'\n\nHERE\n"})
    writing.write(made(root))
    assert (root / "a.py").read_text() == ("HERE\nx = 'é'\n\n# portkit: PK999 Set its coding: ascii\nHERE\n")


def test_a_comment_that_would_be_a_finding_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "REMEDY", "Look HERE")
    root = tree(tmp_path, {"a.sh": "HERE\n", "a.py": "HERE\n"})
    writing.write(made(root))
    assert (root / "a.sh").read_text() == "HERE\n"
    assert (root / "a.py").read_text() == "# portkit: PK999 Look HERE\nHERE\n"


def test_comments_are_taken_back_by_rule_and_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = tree(tmp_path, {"a.py": "HERE\n", "b.sh": "HERE\n"})
    assert run(["migrate", str(root), "--phase", "operator", "--annotate", "--write"]) == 0
    assert "2 comments written at places that are for a person." in capfd.readouterr().err
    [one] = manifest.runs_of(root)
    assert [edit.comment for file in one.files for edit in file.edits] == [True, True]
    undo_part(root, Choice(files=("b.sh",)))
    assert (root / "b.sh").read_text() == "HERE\n"
    (root / "a.py").write_text((root / "a.py").read_text() + "# mine\n")
    undo_part(root, Choice(rules=("PK999",)))
    assert (root / "a.py").read_text() == "HERE\n# mine\n"


def test_later_phases_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Word, "phase", Phase.FULL_MODEL)
    root = tree(tmp_path, {"a.py": "HERE\n"})
    assert plan(root, Options(Phase.MODULE, annotate=True)).changes == []
    assert plan(root, Options(Phase.FULL_MODEL)).changes == []
