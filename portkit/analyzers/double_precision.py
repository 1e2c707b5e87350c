"""Double precision on the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule

_WIDE = frozenset({"torch.float64", "torch.double", "torch.complex128", "torch.cdouble"})
_METHODS = frozenset({"double", "cdouble"})
_DEVICE = re.compile(r"""["']cuda\b|\.device\(|device_type\(|current_device\(""")


class DoublePrecision(Rule):
    """Numbers of 64 bits in floating point are put on the device.

    What: `x.double().cuda()`, `x.to("cuda", torch.float64)`, `torch.zeros(3, dtype=torch.complex128,
    device="cuda")`, and the same with the device that migrated code chooses.
    Why: MPS and some NPUs have no float64 and no complex128: there, such a call is an error.
    Instead: nothing has to change for CUDA, XPU and the CPU. For other devices, keep the tensor on the CPU,
    or choose another precision on purpose.
    Safety: nothing is rewritten: a smaller type would silently give other results.
    """

    id = "PK124"
    name = "double_precision"
    phase = Phase.OPERATOR
    triggers = (b"double", b"float64", b"complex128")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if "torch" not in ctx.text or not _widens(node, ctx):
            return
        if not any(_places(call, ctx) for call in (node, *_inner(node), *_outer(node, ctx))):
            return
        yield ctx.finding(
            self,
            node,
            "Numbers of 64 bits are put on the device, which MPS and some NPUs do not have",
            support=Support.PORTABLE,
            remedy="It works on CUDA, XPU and the CPU; elsewhere keep it on the CPU, or choose another type.",
        )


def _widens(node: ast.Call, ctx: Context) -> bool:
    """Whether a call makes its result float64 or complex128."""
    function = node.func
    plain = not node.args and not node.keywords
    if isinstance(function, ast.Attribute) and function.attr in _METHODS and plain:
        return ctx.resolve(function) is None
    given = [item.value for item in node.keywords if item.arg == "dtype"]
    if isinstance(function, ast.Attribute) and function.attr == "to":
        given += node.args
    return any(isinstance(item, ast.Attribute) and ctx.resolve(item) in _WIDE for item in given)


def _places(node: ast.Call, ctx: Context) -> bool:
    """Whether a call puts its result on CUDA, or on the device in use."""
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "cuda":
        return ctx.resolve(function) is None
    given = [item.value for item in node.keywords if item.arg == "device"]
    if isinstance(function, ast.Attribute) and function.attr == "to":
        given += node.args
    return any(_DEVICE.search(ctx.source(item)) for item in given)


def _inner(node: ast.Call) -> Iterator[ast.Call]:
    """The calls that a call is chained to: `f(x).g().h()`."""
    function = node.func
    while isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call):
        yield function.value
        function = function.value.func


def _outer(node: ast.Call, ctx: Context) -> Iterator[ast.Call]:
    """The calls that are chained to it."""
    child: ast.AST = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.Call) and parent.func is child:
            yield parent
        elif not isinstance(parent, ast.Attribute):
            return
        child = parent
