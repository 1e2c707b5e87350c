"""Settings of torch's compilers that are for CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rewriters import _calls
from portkit.rule import Context, Rule, named

_COMPILER = "torch._inductor."
_CONFIG = "torch._inductor.config."
_MARKS = frozenset({"torch.compiler.cudagraph_mark_step_begin", "torch._inductor.cudagraph_mark_step_begin"})
_FUSERS = ("torch._C._jit_set_nvfuser", "torch._C._jit_override_can_fuse_on_gpu", "torch._C._jit_nvfuser")
_BOUND = re.compile(r"triton|cuda|cutlass|gpu|autotune", re.I)
_OPTIONS = ("triton.", "cuda.", "max_autotune", "cudagraph", "coordinate_descent")


class InductorSetting(Rule):
    """A setting of torch's compilers is made for CUDA.

    What: members of `torch._inductor.config`, `torch.compile(options={"triton.cudagraphs": ...})`,
    `torch.compiler.cudagraph_mark_step_begin()`, switches of nvFuser, and other names of `torch._inductor`.
    Why: they steer the code that torch generates for NVIDIA's devices: Triton kernels, CUDA graphs, tuning.
    Instead: nothing has to change for the program to run: elsewhere they are accepted and have no effect.
    What else is taken from `torch._inductor` is private to torch; by its name, it may be for CUDA alone.
    Safety: nothing is rewritten. The speed of compiled code has to be measured on each device.
    """

    id = "PK208"
    name = "inductor_setting"
    phase = Phase.MODULE
    triggers = (b"_inductor", b"cudagraph_mark_step", b"_jit_", b"compile")

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        if ctx.resolve(node.value) is not None:
            yield from self._name(node, ctx)

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.ctx, ast.Load) and not ctx.is_shadowed(node.id, node):
            yield from self._name(node, ctx)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        given = _calls.argument(node, None, "options")
        if given is None or ctx.resolve(node.func) != "torch.compile" or not isinstance(given.node, ast.Dict):
            return
        for key in given.node.keys:
            option = ctx.constant(key) if key is not None else None
            if key is not None and isinstance(option, str) and option.startswith(_OPTIONS):
                yield self._setting(key, ctx, f"{_CONFIG}{option}")

    def _name(self, node: ast.expr, ctx: Context) -> Iterable[Finding]:
        if isinstance(ctx.parent(node), ast.Attribute):
            return  # the longer name is what counts
        name = ctx.resolve(node) or ""
        if name.startswith(_CONFIG) or name in _MARKS or name.startswith(_FUSERS):
            yield self._setting(node, ctx, name)
        elif name.startswith(_COMPILER) and name != _CONFIG.rstrip("."):
            bound = _BOUND.search(name) is not None
            yield ctx.finding(
                self,
                node,
                f"{name} is private to torch's compiler",
                support=Support.UNKNOWN if bound else Support.PORTABLE,
                remedy="If it is for CUDA or Triton alone, call it under a test for the device."
                if bound
                else "The compiler has code generators for other devices as well.",
                qualified_name=name,
            )

    def _setting(self, node: ast.expr, ctx: Context, name: str) -> Finding:
        return ctx.finding(
            self,
            node,
            f"{name} is a setting for compiled code on CUDA",
            support=Support.PORTABLE,
            remedy="It has no effect elsewhere.",
            qualified_name=name,
        )
