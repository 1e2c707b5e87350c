"""Calls of the method `cuda`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.analyzers import _flags
from portkit.finding import (
    Edit,
    Finding,
    InsertArgument,
    NameArgument,
    Phase,
    RenameAttribute,
    Replace,
    Support,
)
from portkit.rewriters import _calls, _index, _references, _script, _sites
from portkit.rule import Context, Rule

_SIGNATURE = "device=None, non_blocking=False, memory_format=None"
_UNBOUND = frozenset({"torch.Tensor.cuda", "torch.nn.Module.cuda"})
_SHARING = frozenset({"_share_cuda_", "_new_shared_cuda", "_new_using_cuda_ipc"})
_ORDER = ("device", "non_blocking", "memory_format")


class CudaMethod(Rule):
    """A tensor or module is moved to CUDA by name.

    What: `x.cuda()`, `x.cuda(i)`, `x.cuda(device=i, non_blocking=True)` on any receiver; the method passed
    around, or looked up by its name.
    Why: it fails where there is no CUDA, and moves nothing to another accelerator.
    Instead: `x.to(pk.device())`, `x.to(pk.device(i), non_blocking=...)`.
    Safety: the same on CUDA. On MPS, torch before 2.13 may corrupt data in asynchronous copies, so
    `non_blocking=True` becomes false there. An object of the file's own classes that have `cuda()` but no
    `to()`, `super().cuda()`, and calls with `*args` are left to a person. Needs torch 2.6.
    """

    id = "PK302"
    name = "cuda_method"
    phase = Phase.FULL_MODEL
    minutes = 10
    triggers = (b".cuda", b"_cuda", b'cuda"', b"cuda'")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        yield from self._by_name(node, ctx)
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "cuda" or ctx.resolve(node.func):
            return
        receiver = node.func.value
        if _is_super(receiver) or _in_map_location(node, ctx):
            return  # the override, or the map_location, is what is reported
        bound = _calls.bind(node, _calls.signature(_SIGNATURE))
        reason = bound if isinstance(bound, str) else _refusal(node, ctx)
        if reason or isinstance(bound, str):
            yield ctx.finding(
                self,
                node,
                ".cuda() moves its receiver to CUDA",
                support=Support.MANUAL,
                remedy=f"Move it to pk.device() by hand: {reason}.",
            )
            return
        yield ctx.finding(
            self,
            node,
            ".cuda() moves its receiver to CUDA",
            support=Support.AUTO,
            remedy="Use .to(pk.device()).",
            edits=list(_edits(node, node.func, bound, ctx)),
        )

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        """The method itself, passed around: `apply(model.cuda)`, `map(torch.Tensor.cuda, xs)`."""
        if node.attr in _SHARING:
            yield ctx.finding(
                self,
                node,
                f"{node.attr} shares memory of CUDA between processes",
                support=Support.MANUAL,
                remedy="Share tensors through torch.multiprocessing, or torch.distributed.",
            )
        if node.attr != "cuda" or not isinstance(node.ctx, ast.Load) or _sites.is_called(node, ctx):
            return
        name = ctx.resolve(node)
        if isinstance(ctx.parent(node), ast.Attribute) or _is_super(node.value):
            return
        if name in _UNBOUND:
            yield ctx.finding(
                self,
                node,
                f"{name} moves its argument to CUDA",
                support=Support.MANUAL,
                remedy="Pass a function that calls .to(pk.device()).",
                qualified_name=name,
            )
        elif name is None and isinstance(node.value, ast.Attribute) and node.value.attr == "torch":
            patched = _sites.patched_member(node, ctx)
            yield ctx.finding(
                self,
                node,
                f"torch.cuda.{patched} is patched, as another module has it"
                if patched
                else "torch.cuda is handed on, as another module has it",
                support=Support.MANUAL,
                remedy=_sites.PATCHED
                if patched
                else "What is looked up in it exists on CUDA only: hand on what portkit.runtime has of it.",
            )
        elif name is None and not _flags.is_flag(node, ctx):
            yield ctx.finding(
                self,
                node,
                "It is not visible whether this is the method that moves to CUDA",
                support=Support.UNKNOWN,
                remedy="If it is, call .to(pk.device()) instead; if it is a flag, suppress the finding.",
            )

    def _by_name(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """`getattr(x, "cuda")`, `operator.methodcaller("cuda")`."""
        is_getattr = isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1
        if not is_getattr and ctx.resolve(node.func) != "operator.methodcaller":
            return
        word = node.args[1] if is_getattr else node.args[0] if node.args else None
        if not isinstance(word, ast.Constant) or word.value != "cuda" or ctx.resolve(node) is not None:
            return
        if is_getattr and _flags.is_holder(node.args[0]):
            return  # a flag of the program's options
        yield ctx.finding(
            self,
            node,
            "The method cuda is looked up by its name",
            support=Support.MANUAL,
            remedy="Call .to(pk.device()).",
        )


def _edits(
    node: ast.Call, function: ast.Attribute, bound: dict[str, _calls.Argument], ctx: Context
) -> Iterator[Edit]:
    local, imports = ctx.use(_references.RUNTIME)
    span = ctx.span(node)
    yield from imports
    yield RenameAttribute(ctx.span(function), "to")
    device = bound.get("device")
    if device is None:
        yield InsertArgument(span, 0, f"{local}.device()")
    else:
        yield Replace(ctx.span(device.node), f"{local}.device({_ordinal(device.node, ctx)})")
    for name in _ORDER[1:]:
        given = bound.get(name)
        if given is not None and given.index is not None:
            yield NameArgument(span, given.index, name)
    blocking = bound.get("non_blocking")
    if blocking is not None and not _is_false(blocking.node):
        guard = f'{local}.device_type() != "mps"'
        always = isinstance(blocking.node, ast.Constant)
        loose = isinstance(blocking.node, (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr))
        value = f"({ctx.source(blocking.node)})" if loose else ctx.source(blocking.node)
        text = guard if always else f"{value} and {guard}"
        yield Replace(ctx.span(blocking.node), text)


def _ordinal(node: ast.expr, ctx: Context) -> str:
    return "" if isinstance(node, ast.Constant) and node.value is None else ctx.source(node)


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _in_map_location(node: ast.AST, ctx: Context) -> bool:
    for parent in ctx.parents(node):
        if isinstance(parent, ast.keyword) and parent.arg == "map_location":
            return True
        if isinstance(parent, ast.stmt):
            return False
    return False


def _refusal(node: ast.Call, ctx: Context) -> str:
    """Why a call can't be rewritten; empty if it can."""
    assert isinstance(node.func, ast.Attribute)
    if _script.in_torchscript(node, ctx):
        return "TorchScript compiles this function and can't call portkit"
    for maker in _index.makers(node.func.value, ctx):
        if ctx.has_own_cuda(ctx.resolve(maker.func) or ""):
            return f"the class {ctx.source(maker.func)} defines its own cuda() and no to()"
    for owner in _index.classes_of(node.func.value, ctx):
        methods = {item.name for item in owner.body if isinstance(item, ast.FunctionDef)}
        if "to" in methods and "cuda" in methods:
            return f"the class {owner.name} defines its own cuda() and to(), whose arguments may differ"
        if "to" not in methods and (not owner.bases or "cuda" in methods):
            return f"the class {owner.name} has no to()"
    return ""
