"""Automatic mixed precision that names CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import DropArgument, Edit, Finding, NameArgument, Phase, Replace, Support
from portkit.rewriters import _calls, _references, _sites
from portkit.rule import Context
from portkit.scopes import FUNCTIONS

STANDARD = frozenset({"torch.autocast", "torch.amp.autocast"})
_DEVICES = frozenset({"torch.device", "portkit.runtime.device"})
SIGNATURE = "device_type, dtype=None, enabled=True, cache_enabled=None"


class CudaAutocast(_references.ReferenceRule):
    """Mixed precision is switched on for CUDA by name.

    What: `torch.cuda.amp.autocast` as call, context manager, decorator, bare reference or inside a partial,
    with positional or keyword arguments; `torch.autocast("cuda", ...)`; a whole device (`cuda:0`) where
    `torch.autocast` wants its type.
    Why: `torch.cuda.amp.autocast` is deprecated and does nothing elsewhere. Its parameters stand in another
    order than those of `torch.autocast`: a plain rename passes `enabled` as the dtype.
    Instead: `pk.amp.autocast(enabled, dtype, cache_enabled)`, with the defaults of `torch.cuda.amp.autocast`
    (float16), for the accelerator that is there.
    Safety: the same on CUDA; other accelerators cast as CUDA does; no casting on a CPU-only build, as before.
    Needs torch 2.6. `torch.autocast(device_type)` with a variable is portable already and stays.
    """

    id = "PK201"
    name = "cuda_autocast"
    phase = Phase.MODULE
    triggers = (b"autocast", b"cuda.amp")
    what = "{name} casts on CUDA only"

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        yield from super().visit_Call(node, ctx)
        name = ctx.resolve(node.func)
        if name in STANDARD:
            yield from self._standard(node, ctx, name)

    def _type_of(self, node: ast.expr, ctx: Context, name: str) -> Finding:
        torch, imports = ctx.use("torch")
        whole = ctx.source(node) if isinstance(node, ast.Call) else f"{torch}.device({ctx.source(node)})"
        text = f"{whole}.type"
        return ctx.finding(
            self,
            node,
            f"{name} takes a device type, not a device",
            support=Support.AUTO,
            remedy=f"Use {text}.",
            edits=[Replace(ctx.span(node), text), *imports],
            qualified_name=name,
        )

    def _standard(self, node: ast.Call, ctx: Context, name: str) -> Iterator[Finding]:
        device = _calls.argument(node, 0, "device_type")
        if device is None:
            return
        if _is_whole_device(device.node, ctx):
            yield self._type_of(device.node, ctx, name)
            return
        if not isinstance(device.node, ast.Constant):
            return
        value = device.node.value
        if not isinstance(value, str) or value.partition(":")[0] != "cuda":
            return
        bound = _calls.bind(node, _calls.signature(SIGNATURE))
        reason = bound if isinstance(bound, str) else _references.untouchable(node.func, ctx)
        if reason:
            yield ctx.finding(
                self,
                node,
                f"{name} names CUDA",
                support=Support.MANUAL,
                remedy=f"Pass pk.device_type() by hand: {reason}.",
                qualified_name=name,
            )
            return
        yield ctx.finding(
            self,
            node,
            f'{name}("cuda") casts on CUDA only',
            support=Support.AUTO,
            remedy="Use pk.amp.autocast with the same arguments.",
            edits=_without_device(node, ctx, device),
            qualified_name=name,
        )


def _is_whole_device(node: ast.expr, ctx: Context) -> bool:
    """Whether a `torch.device` stands where text is wanted; of most variables that can't be told, and text
    is what they must hold for the program to run."""
    if isinstance(node, ast.Call):
        return ctx.resolve(node.func) in _DEVICES
    if not isinstance(node, ast.Name):
        return False
    functions = (item for item in ctx.parents(node) if isinstance(item, FUNCTIONS))
    for function in functions:
        values = _assigned(node.id, function)
        if values:
            return all(isinstance(v, ast.Call) and ctx.resolve(v.func) in _DEVICES for v in values)
        arguments = function.args
        for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if item.arg == node.id:
                return item.annotation is not None and ctx.resolve(item.annotation) == "torch.device"
    return False


def _assigned(name: str, function: ast.AST) -> list[ast.expr | None]:
    """What a function assigns to a name of its own; None for what can't be told."""
    values: list[ast.expr | None] = []
    stored = 0
    for item in _sites.walk_body(function):
        if isinstance(item, ast.Name) and item.id == name and isinstance(item.ctx, ast.Store):
            stored += 1
        elif isinstance(item, ast.Assign) and [getattr(t, "id", "") for t in item.targets] == [name]:
            values.append(item.value)
    return values if len(values) == stored else [None]


def _without_device(node: ast.Call, ctx: Context, device: _calls.Argument) -> list[Edit]:
    text, imports = _references.spell(ctx, "pk.amp.autocast")
    span = ctx.span(node)
    edits: list[Edit] = [_calls.recallee(ctx, node, text), *imports]
    edits.append(DropArgument(span, index=device.index, keyword=device.keyword))
    names = ("device_type", "dtype", "enabled", "cache_enabled")
    edits.extend(NameArgument(span, i, names[i]) for i in range(1, len(node.args)))
    return edits
