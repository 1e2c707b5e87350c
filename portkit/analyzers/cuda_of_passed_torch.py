"""Uses of `torch.cuda` where `torch` is a name that something else has bound."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule


class CudaOfPassedTorch(Rule):
    """`torch.cuda` is used through a name that no import bound.

    What: `torch.cuda.is_available()`, `torch.version.cuda` and `torch.backends.cudnn` where `torch` is an
    argument, the result of a function that imports it late, or part of a tuple.
    Why: it is most likely torch, but that is not visible here, so that no other rule looks at it.
    Instead: import torch where it is used; the rules about each function then say what to do.
    Safety: nothing is rewritten.
    """

    id = "PK335"
    name = "cuda_of_passed_torch"
    phase = Phase.FULL_MODEL
    minutes = 10
    triggers = (b"torch.cuda", b"torch.version.cuda", b"torch.backends.cu")

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        if node.attr not in ("cuda", "cudnn"):
            return
        owner = node.value
        if isinstance(owner, ast.Attribute) and owner.attr in ("version", "backends"):
            owner = owner.value
        elif node.attr != "cuda":
            return
        if not isinstance(owner, ast.Name) or owner.id != "torch" or ctx.resolve(owner) is not None:
            return
        whole = ctx.parent(node)
        shown = whole if isinstance(whole, ast.Attribute) else node
        name = ctx.source(shown)
        yield ctx.finding(
            self,
            shown,
            f"{name} is used, and it is not visible that torch is the package",
            support=Support.UNKNOWN,
            remedy="Import torch where it is used: then it is known what takes its place.",
            lossy=True,
            group=name,
        )
