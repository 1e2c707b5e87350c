"""Keys of a gradient scaler's state, which has none while the scaler is off."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Replace, Support
from portkit.rewriters import _devices, _sites
from portkit.rule import Context, Rule

_KEY, _OFF = "scale", "1.0"  # what `get_scale()` answers while the scaler is off


class ScalerStateKey(Rule):
    """The scale is read out of a gradient scaler's state.

    What: `scaler.state_dict()["scale"]`, where the name speaks of a scaler.
    Why: without CUDA the scaler is off, its state is empty, and the key is missing.
    Instead: `scaler.state_dict().get("scale", 1.0)`: the number that `get_scale()` answers while it is off.
    Safety: the same wherever the scaler is on; 1.0 instead of a KeyError where it is off.
    """

    id = "PK210"
    name = "scaler_state_key"
    phase = Phase.MODULE
    triggers = (b"scaler",)

    def visit_Subscript(self, node: ast.Subscript, ctx: Context) -> Iterable[Finding]:
        call = node.value
        key = node.slice
        if not isinstance(key, ast.Constant) or key.value != _KEY or not isinstance(node.ctx, ast.Load):
            return
        if not isinstance(call, ast.Call) or call.args or call.keywords:
            return
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "state_dict":
            return
        name = _devices.identifier(call.func.value)
        if not _sites.words(name) & {"scaler", "gradscaler"}:
            return
        text = f"{ctx.source(call)}.get({ctx.source(key)}, {_OFF})"
        yield ctx.finding(
            self,
            node,
            "The state of a gradient scaler has no scale where it is off, as it is without an accelerator",
            support=Support.AUTO,
            remedy=f"Use {text}.",
            edits=[Replace(ctx.span(node), text)],
        )
