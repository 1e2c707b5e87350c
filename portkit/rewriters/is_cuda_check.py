"""Tensors that are asked whether they are on CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import DropStatement, Edit, Finding, Phase, Replace, Support
from portkit.rewriters import _index, _references, _script, _sites, _triton, _vendor
from portkit.rule import Context, Rule
from portkit.scopes import FUNCTIONS

_Owner = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class IsCudaCheck(Rule):
    """A tensor is asked whether it is on CUDA, where any accelerator would do.

    What: `x.is_cuda`.
    Why: it is false on every other accelerator, though the code behind it may run there.
    Instead: `pk.is_accelerator(x)`. A branch with something of NVIDIA's in it, and TorchScript, keep the
    test; a function that only answers whether a tensor is on CUDA needs a review. Where a function refuses
    other tensors before it launches a kernel of Triton's that moves to the tile compiler (PK103), itself or
    through a function of the same file, the refusal goes: the kernel runs on the CPU as well.
    Safety: the same on CUDA, on the CPU and for tensors on `meta`.
    """

    id = "PK107"
    name = "is_cuda_check"
    phase = Phase.OPERATOR
    triggers = (b"is_cuda",)
    opens_branch = True

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        """`getattr(x, "is_cuda", False)`."""
        if (
            not isinstance(node.func, ast.Name)
            or node.func.id not in ("getattr", "hasattr")
            or len(node.args) < 2
        ):
            return
        word = node.args[1]
        if isinstance(word, ast.Constant) and word.value == "is_cuda":
            yield ctx.finding(
                self,
                node,
                "is_cuda is looked up by its name",
                support=Support.MANUAL,
                remedy="Use pk.is_accelerator(x), if x is a tensor or a device.",
            )

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        if node.attr != "is_cuda" or not isinstance(node.ctx, ast.Load) or ctx.resolve(node) is not None:
            return
        if any(_index.defines(owner, "is_cuda") for owner in _index.classes_of(node.value, ctx)):
            return  # what the file's own class says of itself
        message = ".is_cuda is false on every accelerator but CUDA"
        refusal = _refusal(node, ctx)
        if refusal is not None:
            yield ctx.finding(
                self,
                node,
                message,
                support=Support.AUTO,
                remedy="Remove the condition: the kernel that is launched here runs on the CPU as well.",
                edits=[refusal],
            )
            return
        if (
            _vendor.guards_vendor(node, ctx)
            or _script.in_torchscript(node, ctx)
            or _sites.is_called(node, ctx)
        ):
            yield ctx.finding(
                self,
                node,
                message,
                support=Support.MANUAL,
                remedy="The code behind it is for CUDA only: add a branch for other devices.",
            )
            return
        local, imports = ctx.use(_references.RUNTIME)
        text = f"{local}.is_accelerator({ctx.source(node.value)})"
        answers = _sites.decides_answer(node, ctx)
        yield ctx.finding(
            self,
            node,
            message,
            support=Support.REVIEW if answers else Support.AUTO,
            remedy=f"Use {text}.",
            note=_sites.ANSWERS if answers else "",
            edits=[Replace(ctx.span(node), text), *imports],
        )


def _refusal(node: ast.Attribute, ctx: Context) -> Edit | None:
    """The edit that lifts a refusal of other tensors, if `node` stands in one before a kernel launch."""
    statement = next(parent for parent in ctx.parents(node) if isinstance(parent, ast.stmt))
    if not _launches(statement, ctx):
        return None
    if _sites.refuses_unless(statement, node, ctx):
        return DropStatement(ctx.span(statement))
    if not isinstance(statement, ast.Assert) or not isinstance(statement.test, ast.BoolOp):
        return None
    test = statement.test
    if not isinstance(test.op, ast.And) or node not in test.values:
        return None
    rest = [ctx.source(value) for value in test.values if value is not node]
    return Replace(ctx.span(test), " and ".join(rest))


def _launches(statement: ast.stmt, ctx: Context) -> bool:
    """Whether the function around a statement, or one of this file that it calls, launches a kernel that the
    tile compiler takes: `kernel[grid](...)`."""
    function = next((item for item in ctx.parents(statement) if isinstance(item, FUNCTIONS)), None)
    *_, module = ctx.parents(statement)
    if function is None or ctx.held or not isinstance(module, ast.Module):
        return False
    defined = {item.name: item for item in module.body if isinstance(item, (*FUNCTIONS, ast.ClassDef))}
    moved = {name for name, item in defined.items() if _triton.has_moved(item, ctx)}
    moving = {name for name, item in defined.items() if _triton.is_kernel(item, ctx)}
    kernels = moved | (set() if moving and _triton.stays(module, ctx) else moving)
    if not kernels:
        return False
    todo: list[ast.AST] = [function]
    seen: set[ast.AST] = set()
    while todo:
        owner = todo.pop()
        if owner in seen:
            continue
        seen.add(owner)
        for item in _sites.walk_body(owner):
            if not isinstance(item, ast.Call):
                continue
            if isinstance(item.func, ast.Subscript) and getattr(item.func.value, "id", "") in kernels:
                return True
            called = _called(item.func, defined)
            todo += [called] if called is not None else []
    return False


def _called(callee: ast.expr, defined: dict[str, _Owner]) -> ast.AST | None:
    """The function of this file that a call runs; that of an autograd function is its `forward`."""
    if isinstance(callee, ast.Name):
        found = defined.get(callee.id)
        return found if isinstance(found, FUNCTIONS) else None
    if not isinstance(callee, ast.Attribute) or callee.attr != "apply":
        return None
    owner = defined.get(getattr(callee.value, "id", ""))
    body = owner.body if isinstance(owner, ast.ClassDef) else []
    return next((item for item in body if isinstance(item, FUNCTIONS) and item.name == "forward"), None)
