"""Random edits over the standard library: the result means what was asked, the other lines are the same."""

from __future__ import annotations

import ast
import random
import sysconfig
import tokenize
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from portkit.apply import apply
from portkit.applying.tree import Lines
from portkit.finding import (
    DropArgument,
    DropStatement,
    Edit,
    Finding,
    InsertArgument,
    Location,
    NameArgument,
    Phase,
    RenameAttribute,
    RenameKeyword,
    Replace,
    SetArgument,
    Support,
    Wrap,
)

STDLIB = Path(sysconfig.get_path("stdlib"))
FOLDERS = (
    "",
    "asyncio",
    "email",
    "json",
    "unittest",
    "logging",
    "concurrent/futures",
    "xml/dom",
    "importlib",
)
TEXTS = (
    "zq",
    "zq(1)",
    "a if b else c",
    "a or b",
    "lambda: z",
    "-1",
    "a @ b",
    "not a",
    "(yield_)",
    "{'a': 1}",
    "3",
)

# One random edit of a node: the edit, and the same change made to the tree (the oracle).
Mutation = tuple[Edit, Callable[[], None]]


def parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def assign(holder: ast.AST, name: str, old: ast.AST, new: ast.AST) -> None:
    """Put `new` in the place of `old`, in a field or in a list that is a field."""
    value = getattr(holder, name)
    if isinstance(value, list):
        value[next(i for i, item in enumerate(value) if item is old)] = new
    else:
        setattr(holder, name, new)


def sites(module: ast.Module) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Every node with its holder, field and index; what is inside f-strings and patterns is left out."""
    stack: list[ast.AST] = [module]
    while stack:
        node = stack.pop()
        for name, value in ast.iter_fields(node):
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(child, ast.AST) or type(child).__name__.startswith(("match", "Match")):
                    continue
                yield node, name, index, child
                if not isinstance(child, ast.JoinedStr):
                    stack.append(child)


def replacement(
    lines: Lines, site: tuple[ast.AST, str, int | None, ast.AST], rng: random.Random
) -> Mutation | None:
    holder, name, _, node = site
    loads = isinstance(
        node, ast.Name | ast.Attribute | ast.Call | ast.BinOp | ast.Constant | ast.Tuple | ast.Compare
    )
    if (
        not loads
        or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        or isinstance(holder, ast.JoinedStr)
    ):
        return None
    span = lines.span(node)
    if rng.random() < 0.3:
        source = lines.text[span.start : span.end]
        new = ast.parse("w(None, k=1)", mode="eval").body
        assert isinstance(new, ast.Call)
        if source.startswith("(") and isinstance(holder, ast.Call) and isinstance(node, ast.GeneratorExp):
            return None
        new.args[0] = node  # type: ignore[assignment]
        return Wrap(span, "w(", ", k=1)"), lambda: assign(holder, name, node, new)
    text = rng.choice(TEXTS)
    value = ast.parse(text, mode="eval").body
    return Replace(span, text), lambda: assign(holder, name, node, value)


def argument(lines: Lines, node: ast.AST, rng: random.Random) -> Mutation | None:
    if not isinstance(node, ast.Call):
        return None
    span, one = lines.span(node), ast.Constant(1)
    names = [keyword.arg for keyword in node.keywords if keyword.arg]
    args, keywords = list(node.args), list(node.keywords)
    kind = rng.randrange(5)
    if kind == 0:
        return SetArgument(span, "zk", "1"), lambda: node.keywords.append(ast.keyword("zk", one))
    if kind == 1 and names:
        old = rng.choice(names)
        found = next(keyword for keyword in keywords if keyword.arg == old)
        if rng.random() < 0.5:
            return RenameKeyword(span, old, "zz"), lambda: setattr(found, "arg", "zz")
        return DropArgument(span, keyword=old), lambda: node.keywords.remove(found)
    if kind == 2 and args:
        at = rng.randrange(len(args))
        return DropArgument(span, at), lambda: node.args.remove(args[at])
    if kind == 3 and args and not isinstance(args[-1], ast.Starred):

        def name_it() -> None:
            node.args.remove(args[-1])
            node.keywords.insert(0, ast.keyword("zn", args[-1]))

        return NameArgument(span, len(args) - 1, "zn"), name_it
    if kind == 4:
        at = rng.randrange(len(args) + 1)
        before = args[at] if at < len(args) else None

        def insert() -> None:
            node.args.insert(node.args.index(before) if before in node.args else len(node.args), one)

        return InsertArgument(span, at, "1"), insert
    return None


def attribute(lines: Lines, node: ast.AST, rng: random.Random) -> Mutation | None:
    if not isinstance(node, ast.Attribute):
        return None
    return RenameAttribute(lines.span(node), "zattr"), lambda: setattr(node, "attr", "zattr")


def statement(
    lines: Lines, site: tuple[ast.AST, str, int | None, ast.AST], rng: random.Random
) -> Mutation | None:
    holder, name, index, node = site
    if index is None or not isinstance(
        node, ast.Expr | ast.Assign | ast.Return | ast.If | ast.With | ast.FunctionDef
    ):
        return None
    body: list[ast.AST] = getattr(holder, name)

    def drop() -> None:
        body.remove(node)
        if not body and not isinstance(holder, ast.Module):
            body.append(ast.Pass())

    return DropStatement(lines.span(node)), drop


def mutations(
    text: str, module: ast.Module, rng: random.Random, count: int
) -> Iterator[tuple[int, Mutation]]:
    lines = Lines(text)
    found = list(sites(module))
    for site in rng.sample(found, min(len(found), count)):
        makers = [
            lambda site=site: replacement(lines, site, rng),
            lambda site=site: argument(lines, site[3], rng),
            lambda site=site: attribute(lines, site[3], rng),
            lambda site=site: statement(lines, site, rng),
        ]
        made = rng.choice(makers)()
        if made is not None:
            yield site[3].lineno, made  # type: ignore[attr-defined]


def read(path: Path) -> str:
    with tokenize.open(path) as file:
        encoding = file.encoding
    return path.read_bytes().decode(encoding)


def check(path: Path, seed: int, count: int) -> tuple[int, int, int]:
    text, rng = read(path), random.Random(f"{path.name}{seed}")
    module = parse(text)
    todo: dict[int, Callable[[], None]] = {}
    findings: list[Finding] = []
    for number, (line, (edit, change)) in enumerate(mutations(text, module, rng, count)):
        where = Location(path.name, line, number + 1, line, number + 2)
        findings.append(Finding("PK000", Phase.OPERATOR, Support.AUTO, where, "", "", edits=(edit,)))
        todo[number + 1] = change
    result = apply(text, findings, python=True)
    for finding in sorted(result.done, key=lambda f: -size(f.edits[0])):
        todo[finding.location.column]()
    assert ast.dump(parse(result.text)) == ast.dump(module), path
    if len(result.done) == 1:
        same_outside(text, result.text, result.done[0].edits[0])
    return len(result.done), len(result.deferred), len(result.refused)


def size(edit: Edit) -> int:
    span = edit.span  # type: ignore[union-attr]
    return span.end - span.start


def same_outside(text: str, new: str, edit: Edit) -> None:
    """Check that every line above and below the edited node is the same."""
    lines, span = Lines(text), edit.span  # type: ignore[union-attr]
    head, tail = lines.start(span.start), lines.end(span.end)
    if isinstance(edit, DropStatement):
        head = text.rfind("@", 0, span.start) if text[:head].rstrip().endswith(")") else head
        head = 0 if head < 0 else head
    assert text[:head] == new[: len(text[:head])]
    assert new.endswith(text[tail:])


def paths() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((STDLIB / folder).glob("*.py"))]
    return [path for path in found if path.stat().st_size < 60_000]


@pytest.mark.parametrize("seed", range(3))
def test_random_edits_mean_what_they_say(seed: int) -> None:
    files = random.Random(seed).sample(paths(), 12)
    totals = [check(path, seed, 40) for path in files]
    assert sum(done for done, _, _ in totals) > 50


@pytest.mark.parametrize("seed", range(2))
def test_a_single_edit_changes_no_other_line(seed: int) -> None:
    files = random.Random(100 + seed).sample(paths(), 25)
    totals = [check(path, seed + more, 1) for path in files for more in range(3)]
    assert sum(done for done, _, _ in totals) > 5
