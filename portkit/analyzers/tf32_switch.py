"""Settings of cuDNN and of CUDA's matrix products."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

from portkit import tables
from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule, named

_MESSAGES = {
    "precision": "{name} sets the precision on CUDA only",
    "speed": "{name} is a setting of cuDNN",
    "portable": "{name} speaks of CUDA only",
    "manual": "{name} speaks of CUDA only",
}
_ADVICE = {
    "precision": "Ignored elsewhere. Compare results with it switched off.",
    "speed": "Ignored elsewhere.",
}
_MODULES = ("torch.backends.cudnn", "torch.backends.cuda.matmul")


class Tf32Switch(Rule):
    """A setting of cuDNN or of CUDA's matrix products.

    What: `torch.backends.cuda.matmul.allow_tf32 = True`, `torch.backends.cudnn.benchmark = True`, and so on,
    set or read, by name or with `setattr`; `torch.backends.cuda.sdp_kernel`,
    `torch.backends.cudnn.version()` and the other functions of both modules.
    Why: they do nothing elsewhere, so that the two machines compute in different precision; some functions
    fail where torch is built without CUDA.
    Instead: nothing has to change for the program to run: the settings are accepted and ignored without CUDA.
    `torch.set_float32_matmul_precision("high")` asks every device for the same.
    Safety: nothing is rewritten: on a CPU, "high" may also lower the precision, which TF32 on CUDA never did
    there. Results with TF32 differ from full precision by about 1e-3: compare with the switch off.
    """

    id = "PK106"
    name = "tf32_switch"
    phase = Phase.OPERATOR
    minutes = 10
    triggers = (b"backends",)

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        parent = ctx.parent(node)
        name = ctx.resolve(node)
        if name is None or not name.startswith("torch.backends."):
            return
        if ctx.resolve(node.value) is None:
            return  # `self.x`, which stands for the name: reported where it is assigned
        if not (isinstance(parent, ast.Attribute) and ctx.resolve(parent) in _known()):
            yield from self._report(node, ctx, name)

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node) if isinstance(node.ctx, ast.Load) else None
        longer = ctx.parent(node)
        if isinstance(longer, ast.Attribute) and ctx.resolve(longer) in _known():
            return
        if name is not None and not ctx.is_shadowed(node.id, node):
            yield from self._report(node, ctx, name)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        """`setattr(torch.backends.cudnn, "benchmark", True)`, and the same with `getattr`."""
        if not isinstance(node.func, ast.Name) or node.func.id not in ("setattr", "getattr"):
            return
        owner = ctx.resolve(node.args[0]) if len(node.args) > 1 else None
        member = ctx.constant(node.args[1]) if owner in _MODULES else None
        if isinstance(member, str):
            yield from self._report(node, ctx, f"{owner}.{member}")

    def _report(self, node: ast.expr, ctx: Context, name: str) -> Iterable[Finding]:
        found = _known().get(name)
        if found is None:
            return
        group, advice = found
        yield ctx.finding(
            self,
            node,
            _MESSAGES[group].format(name=name),
            support=Support.MANUAL if group == "manual" else Support.PORTABLE,
            remedy=advice,
            qualified_name=name,
        )


@cache
def _known() -> dict[str, tuple[str, str]]:
    """Name → its group, and what is to be done."""
    table = tables.load("torch_backends")
    found = {}
    for group, entries in table.items():
        rows = dict.fromkeys(entries["names"], _ADVICE[group]) if group in _ADVICE else entries
        found.update({name: (group, text) for name, text in rows.items()})
    return found
