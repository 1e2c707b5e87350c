"""Half precision asked for by method."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule


class HalfPrecision(Rule):
    """A tensor or module is converted to float16.

    What: `x.half()` on any receiver.
    Why: float16 is what NVIDIA's tensor cores are fast in. The CPU computes most operators in it as well, but
    slowly, and rounds more than in float32.
    Instead: nothing has to change for the program to run. bfloat16 is faster on most CPUs, and has the range
    of float32.
    Safety: nothing is rewritten: another precision gives other results.
    """

    id = "PK123"
    name = "half_precision"
    phase = Phase.OPERATOR
    triggers = (b".half(",)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr != "half" or node.args or node.keywords:
            return
        if "torch" not in ctx.text or ctx.resolve(function) is not None:
            return
        yield ctx.finding(
            self,
            node,
            ".half() asks for float16, which the CPU computes slowly",
            support=Support.PORTABLE,
            remedy="It works on every device; measure bfloat16 or float32 on the CPU.",
        )
