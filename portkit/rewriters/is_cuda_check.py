"""Tensors that are asked whether they are on CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import DropStatement, Edit, Finding, Phase, Replace, Support
from portkit.rewriters import _index, _references, _sites, _vendor
from portkit.rule import Context, Rule


class IsCudaCheck(Rule):
    """A tensor is asked whether it is on CUDA, where any accelerator would do.

    What: `x.is_cuda`.
    Why: it is false on every other accelerator, though the code behind it may run there.
    Instead: `pk.is_accelerator(x)`. A branch with something of NVIDIA's in it, and TorchScript, keep the
    test; a function that only answers whether a tensor is on CUDA needs a review. Where a function refuses
    other tensors before it launches a kernel, the refusal goes: the kernel runs on the CPU as well.
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
        if _vendor.is_vendor(node, ctx) or _sites.in_torchscript(node, ctx) or _sites.is_called(node, ctx):
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
    """Whether the function around a statement launches a kernel: `kernel[grid](...)`."""
    functions = (p for p in ctx.parents(statement) if isinstance(p, (ast.FunctionDef, ast.AsyncFunctionDef)))
    function = next(functions, None)
    if function is None:
        return False
    index = _index.of(function, ctx)
    for item in _sites.walk_body(function):
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Subscript):
            kernel = item.func.value
            # a table of functions is called like this too, but it is assigned
            if not isinstance(kernel, ast.Name) or kernel.id not in index.stored:
                return True
    return False
