"""What a program does where a test for CUDA holds: the branch behind it, or what follows an early way out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from portkit.scopes import walk

ACCELERATORS = frozenset({"mps", "xpu", "npu", "hpu", "mlu", "musa", "xla", "tpu"})  # besides CUDA and ROCm
_NEGATIVE = (ast.NotEq, ast.NotIn, ast.IsNot)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_WORD = re.compile(r"[a-z]+")
_BLOCKS = ("body", "orelse", "finalbody", "handlers")


class Parents(Protocol):
    """Something that knows what holds a node."""

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds `node`."""


def is_negative(test: ast.AST) -> bool:
    """Whether a comparison holds where the device is *not* CUDA: `device.type != "cuda"`."""
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], _NEGATIVE)
        and any(_names_cuda(side) for side in (test.left, *test.comparators))
    )


def senses(test: ast.AST) -> set[bool]:
    """For which outcomes of a whole test the device may be CUDA; both for a mixture."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return {not sense for sense in senses(test.operand)}
    if isinstance(test, ast.BoolOp):
        return {sense for value in test.values for sense in senses(value)}
    return {not is_negative(test)}


def taken(holder: ast.AST, outcome: bool, tree: Parents) -> Sequence[ast.AST]:
    """What runs if the test of an `if`, a conditional expression or an assertion has this outcome.

    After `if test: return`, that is what follows the statement in its block.
    """
    if isinstance(holder, ast.IfExp):
        return [holder.body if outcome else holder.orelse]
    if isinstance(holder, ast.Assert):
        return following(holder, tree) if outcome else []
    if not isinstance(holder, ast.If):
        return []
    branch = holder.body if outcome else holder.orelse
    other = holder.orelse if outcome else holder.body
    if other and isinstance(other[-1], _LEAVES):
        return [*branch, *following(holder, tree)]
    return branch


def guards(node: ast.AST, tree: Parents) -> Iterator[tuple[ast.expr, Sequence[ast.AST]]]:
    """Tests, each with what runs where the device may be CUDA by it: branches, and the rest of an `and`."""
    if isinstance(node, (ast.If, ast.IfExp, ast.Assert)):
        yield node.test, [part for outcome in senses(node.test) for part in taken(node, outcome, tree)]
    elif isinstance(node, ast.BoolOp):
        goes_on = isinstance(node.op, ast.And)  # `not cuda or ...` goes on where it is false
        for index, value in enumerate(node.values[:-1], 1):
            if goes_on in senses(value):
                yield value, node.values[index:]


def following(statement: ast.stmt, tree: Parents) -> list[ast.AST]:
    """What follows a statement in its block."""
    parent = tree.parent(statement)
    for name in _BLOCKS:
        block = getattr(parent, name, [])
        if isinstance(block, list) and statement in block:
            return block[block.index(statement) + 1 :]
    return []


def _names_cuda(node: ast.AST) -> bool:
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return any(_names_cuda(item) for item in node.elts)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda")


# --- chains of branches, one a device -----------------------------------------------------------------


def diverted(holder: ast.If | ast.IfExp) -> ast.expr | None:
    """The test of a later branch for another accelerator, which would no longer be reached.

    A branch that says the same with the name of another device is no loss.
    """
    for test, branch in _chain(holder):
        if names_accelerator(test) and _plain(branch) != _plain(_branch(holder)):
            return test
    return None


def lists_devices(holder: ast.If | ast.IfExp) -> bool:
    """Whether a branch for the CPU follows, and another one for every device that is not expected."""
    rest = list(_chain(holder))
    last = rest[-1][1] if rest else []
    return any(_is_cpu_test(test) for test, _ in rest[:-1]) and bool(last)


def names_accelerator(node: ast.AST) -> bool:
    """Whether an expression is about an accelerator other than CUDA, by the words in it."""
    for item in walk(node):
        text = getattr(item, "id", None) or getattr(item, "attr", None) or getattr(item, "value", None)
        if isinstance(text, str) and ACCELERATORS.intersection(_WORD.findall(text.lower())):
            return True
    return False


def _chain(holder: ast.If | ast.IfExp) -> Iterator[tuple[ast.expr, Sequence[ast.AST]]]:
    """The tests and branches of each `elif`; the last `else` as a branch of a test that holds."""
    always = ast.Constant(value=True)
    if isinstance(holder, ast.IfExp):
        rest: ast.AST = holder.orelse
        while isinstance(rest, ast.IfExp):
            yield rest.test, [rest.body]
            rest = rest.orelse
        yield always, [rest]
        return
    block = holder.orelse
    while len(block) == 1 and isinstance(block[0], ast.If):
        yield block[0].test, block[0].body
        block = block[0].orelse
    yield always, block


def _branch(holder: ast.If | ast.IfExp) -> Sequence[ast.AST]:
    return holder.body if isinstance(holder, ast.If) else [holder.body]


def _plain(nodes: Sequence[ast.AST]) -> str:
    """Code without the names of devices."""
    text = "\n".join(ast.unparse(node) for node in nodes)
    return re.sub(rf"\b(?:cuda(?::\d+)?|{'|'.join(sorted(ACCELERATORS))})\b", "device", text)


def _is_cpu_test(test: ast.AST) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(side, ast.Constant) and side.value == "cpu" for side in (test.left, *test.comparators)
    )
