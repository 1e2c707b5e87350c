"""Products of 8-bit floating-point numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule, named

_PRODUCTS = frozenset(
    {
        "torch._scaled_mm",
        "torch._scaled_grouped_mm",
        "torch.nn.functional.scaled_mm",
        "torch.nn.functional.scaled_grouped_mm",
    }
)
_INSTEAD = "Use it under a test for the device; elsewhere multiply in float32, times the scales."
_DTYPES = ("torch.float8_", "torch.float4_")


class ScaledMatmul(Rule):
    """Numbers of 8 bits in floating point are multiplied or stored.

    What: `torch._scaled_mm` and its relatives; the dtypes `torch.float8_e4m3fn`, `torch.float8_e5m2` and so
    on.
    Why: the products need tensor cores of compute capability 8.9; newer torch has some of them on the CPU.
    The dtypes can be stored and converted on the CPU; MPS has none of them.
    Instead: keep the product under a test for the device, and multiply in float32 elsewhere.
    Safety: nothing is rewritten. Mentions of a dtype count as portable: what is computed with it counts.
    """

    id = "PK121"
    name = "scaled_matmul"
    phase = Phase.OPERATOR
    minutes = 60
    triggers = (b"scaled_mm", b"scaled_grouped_mm", b"float8_", b"float4_")

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        if ctx.resolve(node.value) is not None:
            yield from self._name(node, ctx)

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.ctx, ast.Load) and not ctx.is_shadowed(node.id, node):
            yield from self._name(node, ctx)

    def _name(self, node: ast.expr, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node) or ""
        base = name.removesuffix(".default").replace("torch.ops.aten.", "torch.")
        if base in _PRODUCTS and not _is_longer(node, ctx):
            yield ctx.finding(
                self,
                node,
                f"{base} needs tensor cores for 8-bit numbers",
                support=Support.MANUAL,
                remedy=_INSTEAD,
                qualified_name=base,
            )
        elif name.startswith(_DTYPES) and not _is_longer(node, ctx):
            yield ctx.finding(
                self,
                node,
                f"{name} is a dtype that few devices compute with",
                support=Support.PORTABLE,
                remedy="It can be stored and converted on the CPU.",
                qualified_name=name,
            )


def _is_longer(node: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(node)
    return isinstance(parent, ast.Attribute) and parent.attr in ("default", "itemsize")
