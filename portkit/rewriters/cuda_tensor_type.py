"""Tensor types of torch.cuda."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit import tables
from portkit.finding import Edit, Finding, Phase, Replace, SetArgument, Support
from portkit.rewriters import _references, _script
from portkit.rule import Context, Rule, named

_PASSED = "Pass a dtype and a device instead of a tensor type."
_COMPARED = "Compare the dtype, and the type of the device where it matters, instead of the tensor type."
_MESSAGE = "No device but CUDA has this tensor type"
_DEFAULT = "torch.set_default_tensor_type"
_NOTE = (
    "torch.Tensor(...) still makes CPU tensors, and a shuffling DataLoader needs "
    "generator=torch.Generator(device=pk.device())."
)


class CudaTensorType(Rule):
    """A tensor type of torch.cuda is used.

    What: `torch.cuda.FloatTensor(...)` and its relatives, `x.type(torch.cuda.HalfTensor)`,
    `x.type("torch.cuda.LongTensor")`, `torch.set_default_tensor_type(torch.cuda.FloatTensor)`.
    Why: no other device has such types.
    Instead: `torch.empty(sizes, dtype=..., device=pk.device())`, `torch.tensor([...], dtype=...,
    device=...)`, `x.to(device=pk.device(), dtype=...)`. One argument that may be a size or data goes to the
    constructor of the CPU, whose tensor is moved, after a review. Types as keys or in comparisons, and types
    that are passed around are left to a person.
    Safety: the same on CUDA. `torch.set_default_device(pk.device())` is not the same as a default tensor
    type, and needs a review. float64 does not exist on MPS.
    """

    id = "PK104"
    name = "cuda_tensor_type"
    phase = Phase.OPERATOR
    triggers = (b"cuda",)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        dtype = _dtype(node.func, ctx)
        if dtype is not None:
            yield self._constructor(node, dtype, ctx)
        elif ctx.resolve(node.func) == _DEFAULT:
            yield from self._default(node, ctx)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "type" and len(node.args) == 1:
            dtype = _dtype(node.args[0], ctx)
            if dtype is not None:
                yield self._cast(node, node.func.value, dtype, ctx)

    def about(self, name: str) -> bool:
        return name in _table()["manual"] or name in _table()["dtype"]

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        yield from self._mention(node, ctx)

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        yield from self._mention(node, ctx)

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.value, str):
            yield from self._mention(node, ctx)

    def _constructor(self, node: ast.Call, dtype: str, ctx: Context) -> Finding:
        torch, imports = ctx.use("torch")
        device, more = _references.spell(ctx, "pk.device")
        maker = _maker(node)
        if maker is None and not node.keywords and not _script.in_torchscript(node, ctx):
            return self._legacy(node, ctx)
        if maker is None or node.keywords or _script.in_torchscript(node, ctx):
            return self._manual(
                node,
                ctx,
                "Use torch.empty for sizes or torch.tensor for data, with dtype and device=pk.device().",
            )
        span = ctx.span(node)
        edits: list[Edit] = [Replace(ctx.span(node.func), f"{torch}.{maker}"), *imports, *more]
        if not node.args:
            edits = [
                Replace(span, f"{torch}.empty(0, dtype={torch}.{dtype}, device={device}())"),
                *imports,
                *more,
            ]
        else:
            edits += [
                SetArgument(span, "dtype", f"{torch}.{dtype}"),
                SetArgument(span, "device", f"{device}()"),
            ]
        return self._auto(
            node, ctx, f"Use torch.{maker} with dtype=torch.{dtype} and device=pk.device().", edits
        )

    def _legacy(self, node: ast.Call, ctx: Context) -> Finding:
        """One argument, a size or data: the constructor of the CPU takes both, and its tensor is moved."""
        name = ctx.resolve(node.func) or ""
        torch, imports = ctx.use("torch")
        device, more = _references.spell(ctx, "pk.device")
        text = f"{torch}.{name.rpartition('.')[2]}({ctx.source(node.args[0])}).to({device}())"
        return ctx.finding(
            self,
            node,
            _MESSAGE,
            support=Support.REVIEW,
            remedy=f"Use {text}.",
            note="A tensor that is on the device already is refused as argument: use .to(dtype) for it.",
            edits=[Replace(ctx.span(node), text), *imports, *more],
            qualified_name=name,
        )

    def _cast(self, node: ast.Call, receiver: ast.expr, dtype: str, ctx: Context) -> Finding:
        if node.keywords:
            return self._manual(node, ctx, f"Use .to(device=pk.device(), dtype=torch.{dtype}).")
        torch, imports = ctx.use("torch")
        device, more = _references.spell(ctx, "pk.device")
        text = f"{ctx.source(receiver)}.to(device={device}(), dtype={torch}.{dtype})"
        edits: list[Edit] = [Replace(ctx.span(node), text), *imports, *more]
        return self._auto(node, ctx, f"Use .to(device={device}(), dtype={torch}.{dtype}).", edits)

    def _default(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        dtype = _dtype(node.args[0], ctx) if len(node.args) == 1 else None
        if dtype is None:
            return
        if dtype != "float32":
            yield self._manual(
                node, ctx, f"Use torch.set_default_dtype(torch.{dtype}) and set_default_device."
            )
            return
        torch, imports = ctx.use("torch")
        device, more = _references.spell(ctx, "pk.device")
        text = f"{torch}.set_default_device({device}())"
        yield ctx.finding(
            self,
            node,
            "New tensors are made on CUDA by default",
            support=Support.REVIEW,
            remedy=f"Use {text}.",
            note=_NOTE,
            edits=[Replace(ctx.span(node), text), *imports, *more],
            qualified_name=_DEFAULT,
        )

    def _mention(self, node: ast.expr, ctx: Context) -> Iterator[Finding]:
        other = _table()["manual"].get(ctx.resolve(node) or "")
        if other is not None and not _references.is_alias(node, ctx):
            yield self._manual(node, ctx, other)
            return
        if _dtype(node, ctx) is None or _is_part(node, ctx) or _references.is_alias(node, ctx):
            return
        compared = isinstance(ctx.parent(node), ast.Compare)
        yield self._manual(node, ctx, _COMPARED if compared else _PASSED)

    def _auto(self, node: ast.expr, ctx: Context, remedy: str, edits: list[Edit]) -> Finding:
        return ctx.finding(
            self,
            node,
            _MESSAGE,
            support=Support.AUTO,
            remedy=remedy,
            edits=edits,
        )

    def _manual(self, node: ast.expr, ctx: Context, remedy: str) -> Finding:
        return ctx.finding(self, node, _MESSAGE, support=Support.MANUAL, remedy=remedy)


def _dtype(node: ast.expr, ctx: Context) -> str | None:
    """The dtype of a tensor type of torch.cuda, given as a name or as text."""
    if isinstance(node, ast.Constant):
        name = node.value if isinstance(node.value, str) else ""
    else:
        name = ctx.resolve(node) or ""
    dtype: str | None = _table()["dtype"].get(name)
    return dtype


def _table() -> dict[str, dict[str, str]]:
    """The tensor types of torch.cuda: those with a dtype, and those that a person has to replace."""
    table: dict[str, dict[str, str]] = tables.load("torch_cuda")[CudaTensorType.name]
    return table


def _maker(node: ast.Call) -> str | None:
    """Whether the arguments are surely sizes (`empty`) or surely data (`tensor`)."""
    if len(node.args) == 1:
        only = node.args[0]
        if isinstance(only, (ast.List, ast.ListComp)):
            return "tensor"
        if isinstance(only, ast.Starred) or (isinstance(only, ast.Constant) and type(only.value) is int):
            return "empty"
        return None
    return "empty"


def _is_part(node: ast.expr, ctx: Context) -> bool:
    """Whether a mention belongs to a call that is reported as a whole, or to a longer name or text."""
    parent = ctx.parent(node)
    if isinstance(parent, ast.Call):
        if parent.func is node or ctx.resolve(parent.func) == _DEFAULT:
            return True
        return isinstance(parent.func, ast.Attribute) and parent.func.attr == "type" and len(parent.args) == 1
    return isinstance(parent, (ast.Attribute, ast.Expr))
