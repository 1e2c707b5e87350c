"""What is portable already: portkit's runtime, and torch's own accelerator API."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule, named

_PACKAGES = ("portkit.runtime.", "torch.accelerator.")
_WITHIN_KERNELS = ("portkit.runtime.tile.", "portkit.runtime.triton.")  # the kernel as a whole counts once
_PHASES = {
    "portkit.runtime.ops": Phase.OPERATOR,
    "portkit.runtime.jit": Phase.OPERATOR,
    "portkit.runtime.nn": Phase.MODULE,
    "portkit.runtime.amp": Phase.MODULE,
}


class PortableDeviceCall(Rule):
    """A call follows the device of the machine, whatever it is.

    What: names of `portkit.runtime` and of `torch.accelerator`, but not what stands inside a tile kernel.
    Why: a migrated repository is to show what has been resolved, not only what is left.
    Instead: nothing; these are counted as portable, in the phase that they belong to.
    Safety: reports only.
    """

    id = "PK002"
    name = "portable_device_call"
    phase = Phase.FULL_MODEL
    triggers = (b"portkit", b"accelerator")

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        yield from self._name(node, ctx)

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        yield from self._name(node, ctx)

    def _name(self, node: ast.Attribute | ast.Name, ctx: Context) -> Iterable[Finding]:
        if not isinstance(node.ctx, ast.Load) or isinstance(ctx.parent(node), ast.Attribute):
            return
        name = ctx.resolve(node)
        if name is None or not name.startswith(_PACKAGES) or name.startswith(_WITHIN_KERNELS):
            return
        area = ".".join(name.split(".")[:3])
        yield ctx.finding(
            self,
            node,
            f"{name} runs on every device",
            support=Support.PORTABLE,
            remedy="Nothing is left to do here.",
            phase=_PHASES.get(area, self.phase),
            qualified_name=name,
        )
