"""Kernels that are registered for CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule, named

_KEY = re.compile(r"(?:Autograd|Autocast|Sparse|SparseCsr|Quantized|Nested[Tt]ensor)?CUDA\Z")
_MAKERS = frozenset({"impl", "Library", "define", "fallthrough", "fallback", "py_impl", "register_kernel"})
_KEYS = "torch._C.DispatchKey."


class CudaDispatchKey(Rule):
    """A kernel is registered with torch for CUDA only.

    What: `torch.library.impl(op, "CUDA")`, `torch.library.Library(ns, "IMPL", "CUDA")`,
    `lib.impl(name, function, "AutogradCUDA")`, `torch._C.DispatchKey.CUDA`.
    Why: the operator fails for tensors on every other device.
    Instead: register a kernel for the other devices as well: "CompositeExplicitAutograd" serves all of them
    with one that is made of torch operators.
    Safety: nothing is rewritten: the kernel that is registered may be CUDA code.
    """

    id = "PK122"
    name = "cuda_dispatch_key"
    phase = Phase.OPERATOR
    minutes = 60
    triggers = (b"cuda",)

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        if not isinstance(node.value, str) or not _KEY.match(node.value):
            return
        call = ctx.parent(node)
        if isinstance(call, ast.keyword):
            call = ctx.parent(call)
        if not isinstance(call, ast.Call):
            return
        name = ctx.resolve(call.func) or ""
        last = call.func.attr if isinstance(call.func, ast.Attribute) else name.rpartition(".")[2]
        if name.startswith("torch.library.") or last in _MAKERS:
            yield self._registered(node, ctx, node.value)

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node) if node.attr.endswith("CUDA") else None
        if name is not None and name.startswith(_KEYS) and _KEY.match(node.attr):
            yield self._registered(node, ctx, node.attr)

    def _registered(self, node: ast.expr, ctx: Context, key: str) -> Finding:
        return ctx.finding(
            self,
            node,
            f"The dispatch key {key} is that of CUDA tensors",
            support=Support.MANUAL,
            remedy="Register a kernel for the other devices as well; the name of this one stays.",
        )
