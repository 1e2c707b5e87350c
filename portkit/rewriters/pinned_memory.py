"""Page-locked memory for copies to CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import Edit, Finding, Phase, Replace, Support
from portkit.rewriters import _calls, _index, _references, _sites
from portkit.rewriters._devices import identifier
from portkit.rule import Context, Rule
from portkit.scopes import parameters, walk


class PinnedMemory(Rule):
    """Memory is page-locked for copies to CUDA.

    What: `pin_memory=True` for a data loader, a new tensor or a function that passes it on, also in a
    dictionary of arguments; `pin_memory_device="cuda"`; `tensor.pin_memory()`; copies with
    `non_blocking=True`, which count as portable.
    Why: without an accelerator a data loader warns, and `tensor.pin_memory()` raises.
    Instead: `pin_memory=torch.accelerator.is_available()`, without `pin_memory_device`, which is
    deprecated; `x.pin_memory() if torch.accelerator.is_available() else x`. Under a test for the device,
    `x.pin_memory()` is fine as it is.
    Safety: the same on CUDA. Needs torch 2.6.
    """

    id = "PK311"
    name = "pinned_memory"
    phase = Phase.FULL_MODEL
    triggers = (b"pin_memory", b"non_blocking")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "pin_memory":
            yield from self._method(node, node.func.value, ctx)
            return
        callee = ctx.resolve(node.func) or ""
        if (callee or identifier(node.func)).endswith("DataLoader"):
            yield from self._loader(node, ctx)
        elif "torch" in ctx.text:
            pin = _calls.argument(node, None, "pin_memory")
            if pin is not None and not isinstance(pin.node, ast.Constant) and not _is_test(pin.node, ctx):
                yield self._passed_on(pin.node, ctx)
            elif pin is not None and _is_true(pin.node):
                yield self._switch(pin.node, ctx, [])
        yield from self._copy(node, ctx)

    def visit_arguments(self, node: ast.arguments, ctx: Context) -> Iterable[Finding]:
        """A default is evaluated when the module is imported, too early to look for devices."""
        for argument, default in parameters(node):
            if argument.arg == "pin_memory" and default is not None and _is_true(default):
                yield self._passed_on(default, ctx)

    def _copy(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """`x.to(device, non_blocking=True)`; of `cuda(non_blocking=True)`, the method is what is reported."""
        given = _calls.argument(node, None, "non_blocking")
        if given is None or not isinstance(node.func, ast.Attribute) or node.func.attr == "cuda":
            return
        if isinstance(given.node, ast.Constant) and not given.node.value:
            return
        yield ctx.finding(
            self,
            given.node,
            "A copy need not be finished when the call returns",
            support=Support.PORTABLE,
            remedy="Devices without such copies ignore it. On MPS, torch 2.13 or newer is needed.",
        )

    def _passed_on(self, node: ast.expr, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            node,
            "Whether memory is page-locked is passed on",
            support=Support.PORTABLE,
            remedy="Without an accelerator, a data loader warns and does not pin.",
        )

    def visit_Dict(self, node: ast.Dict, ctx: Context) -> Iterable[Finding]:
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "pin_memory" and _is_true(value):
                yield self._switch(value, ctx, [])

    def _loader(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        pin = _calls.argument(node, None, "pin_memory")
        place = _calls.argument(node, None, "pin_memory_device")
        dropped: list[Edit] = []
        if (
            place is not None
            and isinstance(place.node, ast.Constant)
            and str(place.node.value).startswith("cuda")
        ):
            dropped = [_calls.drop(ctx, node, place)]
        if pin is not None and _is_true(pin.node):
            yield self._switch(pin.node, ctx, dropped)
            return
        if pin is not None and not isinstance(pin.node, ast.Constant) and not _is_test(pin.node, ctx):
            yield self._passed_on(pin.node, ctx)
        if dropped and place is not None:
            yield ctx.finding(
                self,
                place.node,
                "Memory is page-locked for CUDA by name",
                support=Support.AUTO,
                remedy="Drop pin_memory_device: the accelerator that is there is the default.",
                edits=dropped,
            )

    def _switch(self, node: ast.expr, ctx: Context, more: list[Edit]) -> Finding:
        text, imports = _references.spell(ctx, "torch.accelerator.is_available")
        return ctx.finding(
            self,
            node,
            "Memory is page-locked also where there is no accelerator",
            support=Support.AUTO,
            remedy=f"Use {text}().",
            edits=[Replace(ctx.span(node), f"{text}()"), *imports, *more],
        )

    def _method(self, node: ast.Call, receiver: ast.expr, ctx: Context) -> Iterator[Finding]:
        if _is_chosen(node, ctx) or node.args or node.keywords:
            return
        if any(_index.defines(owner, "pin_memory") for owner in _index.classes_of(receiver, ctx)):
            return  # what the file's own class does is told there
        message = "pin_memory() raises where there is no accelerator"
        if ctx.guard(node) is not None or _sites.under_device_test(node, ctx):
            yield ctx.finding(
                self, node, message, support=Support.PORTABLE, remedy="It stands under a test for the device."
            )
            return
        if not isinstance(receiver, ast.Name):
            yield ctx.finding(
                self,
                node,
                message,
                support=Support.MANUAL,
                remedy="Call it only if torch.accelerator.is_available().",
            )
            return
        text, imports = _references.spell(ctx, "torch.accelerator.is_available")
        whole = f"{ctx.source(node)} if {text}() else {receiver.id}"
        yield ctx.finding(
            self,
            node,
            message,
            support=Support.AUTO,
            remedy="Pin only where there is an accelerator.",
            edits=[Replace(ctx.span(node), whole), *imports],
        )


def _is_test(node: ast.expr, ctx: Context) -> bool:
    """Whether a value asks for a device itself: `pin_memory=torch.cuda.is_available()`."""
    return any(
        isinstance(item, ast.Call)
        and (ctx.resolve(item.func) or "").endswith(("is_available", "device_type"))
        for item in walk(node)
    )


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_chosen(node: ast.Call, ctx: Context) -> bool:
    """Whether a call is already one branch of a conditional expression on an accelerator."""
    parent = ctx.parent(node)
    if not isinstance(parent, ast.IfExp) or parent.body is not node or not isinstance(parent.test, ast.Call):
        return False
    return (ctx.resolve(parent.test.func) or "").endswith("is_available")
