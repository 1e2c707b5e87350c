"""Optimizers that ask for the fused implementation."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Replace, Support
from portkit.rewriters import _calls, _references
from portkit.rule import Context, Rule
from portkit.scopes import walk

_WHAT = {"fused": "a fused implementation", "capturable": "graphs to capture it in"}


class FusedOptimizer(Rule):
    """An optimizer insists on its fused implementation.

    What: `torch.optim.AdamW(..., fused=True)` and the other optimizers that take `fused`; `capturable=True`;
    a variable in their place, of which the value is not visible; `dict(lr=..., fused=True)`.
    Why: devices without a fused implementation raise.
    Instead: `fused=pk.device_type() == "cuda"`, so that other devices take torch's default.
    Safety: the same on CUDA. Elsewhere the same steps, unfused. Needs torch 2.6.
    """

    id = "PK105"
    name = "fused_optimizer"
    phase = Phase.OPERATOR
    triggers = (b"fused", b"capturable")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node.func) or ""
        optimizer = name.startswith("torch.optim.")
        settings = isinstance(node.func, ast.Name) and node.func.id == "dict" and _has_rate(node)
        for keyword in ("fused", "capturable") if optimizer or settings else ():
            given = _calls.argument(node, None, keyword)
            if given is None or (isinstance(given.node, ast.Constant) and not given.node.value):
                continue
            if isinstance(given.node, ast.Constant):
                yield self._insisted(given.node, keyword, name, ctx)
            elif not _asks(given.node, ctx):
                yield self._passed_on(given.node, keyword, ctx)

    def _insisted(self, node: ast.expr, keyword: str, name: str, ctx: Context) -> Finding:
        local, imports = ctx.use(_references.RUNTIME)
        text = f'{local}.device_type() == "cuda"'
        return ctx.finding(
            self,
            node,
            f"{name or 'An optimizer'}({keyword}=True) raises on devices without {_WHAT[keyword]}",
            support=Support.AUTO,
            remedy=f"Use {keyword}={text}.",
            edits=[Replace(ctx.span(node), text), *imports],
            qualified_name=name or None,
        )

    def _passed_on(self, node: ast.expr, keyword: str, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            node,
            f"It is not visible whether {keyword} is true here",
            support=Support.UNKNOWN,
            remedy=f'If it can be, add `and pk.device_type() == "cuda"`: others have not {_WHAT[keyword]}.',
        )


def _has_rate(node: ast.Call) -> bool:
    """Whether a dictionary holds arguments of an optimizer."""
    return bool({"lr", "betas", "weight_decay"} & {keyword.arg for keyword in node.keywords})


def _asks(node: ast.expr, ctx: Context) -> bool:
    """Whether a value asks for the device itself."""
    for item in walk(node):
        if isinstance(item, ast.Call) and (ctx.resolve(item.func) or "").endswith(
            ("is_available", "device_type")
        ):
            return True
        if isinstance(item, ast.Constant) and item.value in ("cuda", "cpu"):
            return True
    return False
