"""Mixed-precision decorators of autograd functions that name CUDA."""

from __future__ import annotations

import ast

from portkit.finding import Phase
from portkit.rewriters._references import ReferenceRule
from portkit.rule import Context


class CustomFwdBwd(ReferenceRule):
    """An autograd function casts under CUDA's autocast only.

    What: `torch.cuda.amp.custom_fwd` and `custom_bwd`, with and without parentheses.
    Why: they are deprecated and look at CUDA's autocast state only; `torch.amp.custom_fwd` needs a keyword
    argument, so that a bare decorator can't simply be renamed.
    Instead: `pk.amp.custom_fwd` and `pk.amp.custom_bwd`, bare or called, for the accelerator that is there.
    Safety: the same on CUDA. Needs torch 2.4. `forward` keeps its form: with `setup_context`, the backward
    decorator would fail.
    """

    id = "PK203"
    name = "custom_fwd_bwd"
    phase = Phase.MODULE
    triggers = (b"custom_fwd", b"custom_bwd")
    what = "{name} looks at the autocast state of CUDA only"

    def refuse(self, node: ast.expr, ctx: Context, name: str) -> str:
        """With `setup_context`, `custom_fwd` leaves out what `custom_bwd` looks for."""
        owner = next((item for item in ctx.parents(node) if isinstance(item, ast.ClassDef)), None)
        methods = {getattr(item, "name", "") for item in owner.body} if owner is not None else set()
        if "setup_context" not in methods:
            return ""
        return "It fails together with setup_context: let forward take ctx, then use pk.amp.custom_fwd."
