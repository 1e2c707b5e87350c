"""Small rules of the tests' own, so that the engine is tested apart from the real ones."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, RenameAttribute, Span, Support
from portkit.rule import Context, Rule
from portkit.source import Kind


class CudaName(Rule):
    """A name of torch.cuda is used.

    What: any attribute of `torch.cuda`.
    """

    id = "PK901"
    name = "cuda_name"
    phase = Phase.FULL_MODEL
    triggers = (b"cuda",)

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node)
        if name is None or not name.startswith("torch.cuda."):
            return
        if isinstance(ctx.parent(node), ast.Attribute):
            return
        yield ctx.finding(
            self,
            node,
            f"{name} is CUDA only.",
            support=Support.AUTO,
            remedy="Use something else.",
            edits=[RenameAttribute(ctx.span(node), "other")],
            qualified_name=name,
        )


class CudaMethod(Rule):
    """`.cuda()` is called."""

    id = "PK902"
    name = "cuda_method"
    phase = Phase.OPERATOR
    triggers = (b".cuda",)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            yield ctx.finding(
                self, node, "The tensor goes to CUDA.", support=Support.MANUAL, remedy="Use to()."
            )


class CudaText(Rule):
    """A word about CUDA stands in a file that is not Python."""

    id = "PK903"
    name = "cuda_text"
    phase = Phase.FULL_MODEL
    triggers = (b"cuda",)
    text_kinds = frozenset({Kind.YAML, Kind.SHELL, Kind.NOTEBOOK})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        start = ctx.text.find("nvidia-cuda")
        if start >= 0:
            span = Span(start, start + len("nvidia-cuda"))
            yield ctx.finding(self, span, "A package of NVIDIA.", support=Support.REVIEW, remedy="Drop it.")


TOYS = (CudaName, CudaMethod, CudaText)
