"""Classes that define a method `cuda`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule


class CudaMethodOverride(Rule):
    """A class defines its own `cuda`.

    What: `def cuda(self, ...)` in a class.
    Why: callers that are migrated call `.to(device)` instead, which the class may not have, or which takes
    other arguments.
    Instead: give the class `to(device)`, and let `cuda` call it.
    Safety: nothing is rewritten.
    """

    id = "PK206"
    name = "cuda_method_override"
    phase = Phase.MODULE
    minutes = 20
    triggers = (b"def cuda",)

    def visit_FunctionDef(self, node: ast.FunctionDef, ctx: Context) -> Iterable[Finding]:
        owner = ctx.parent(node)
        if node.name != "cuda" or not isinstance(owner, ast.ClassDef):
            return
        has_to = any(isinstance(item, ast.FunctionDef) and item.name == "to" for item in owner.body)
        remedy = (
            "Let cuda(...) call to(pk.device(...)), and check that to() takes a device alone."
            if has_to
            else "Give the class to(device), and let cuda(...) call it with pk.device()."
        )
        yield ctx.finding(
            self,
            node,
            f"The class {owner.name} defines its own cuda()",
            support=Support.MANUAL,
            remedy=remedy,
        )
