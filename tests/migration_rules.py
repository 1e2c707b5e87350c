"""Small rules for the tests of migration, so that these do not depend on what the real rules do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from portkit.finding import (
    DropImport,
    Finding,
    InsertArgument,
    Phase,
    RenameAttribute,
    Replace,
    Span,
    Support,
)
from portkit.rule import Context, Rule
from portkit.source import Kind


class CudaMethod(Rule):
    """`.cuda()` → `.to(pk.device())`."""

    id, name, phase, triggers = "PK901", "cuda_method", Phase.FULL_MODEL, (b".cuda",)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda" and not node.args:
            local, needs = ctx.use("portkit.runtime")
            yield ctx.finding(
                self,
                node,
                "It moves to CUDA",
                support=Support.AUTO,
                remedy="Move it to the device.",
                edits=[
                    RenameAttribute(ctx.span(node.func), "to"),
                    InsertArgument(ctx.span(node), 0, f"{local}.device()"),
                    *needs,
                ],
            )


class Softmax(Rule):
    """`F.softmax` → `pk.ops.softmax`; the import goes when nothing uses it any more."""

    id, name, phase, triggers = "PK902", "softmax", Phase.OPERATOR, (b"softmax",)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if ctx.resolve(node.func) == "torch.nn.functional.softmax":
            local, needs = ctx.use("portkit.runtime")
            edits = [Replace(ctx.span(node.func), f"{local}.ops.softmax"), *needs, DropImport("F")]
            yield ctx.finding(
                self, node, "It has a kernel", support=Support.AUTO, remedy="Use the kernel.", edits=edits
            )


class Load(Rule):
    """`torch.load(x)` → `torch.load((x))`-like rewrite that is only for `--unsafe`."""

    id, name, phase, triggers = "PK903", "load", Phase.MODULE, (b"torch.load",)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if ctx.resolve(node.func) == "torch.load":
            yield ctx.finding(
                self,
                node,
                "It loads to CUDA",
                support=Support.REVIEW,
                remedy="Load it elsewhere.",
                note="Then it is elsewhere.",
                edits=[Replace(ctx.span(node.func), "portable_load")],
            )


class Profiler(Rule):
    """For a person to do."""

    id, name, phase, triggers = "PK904", "profiler", Phase.FULL_MODEL, (b"profiler",)

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        if node.attr == "profiler":
            yield ctx.finding(
                self, node, "It profiles CUDA", support=Support.MANUAL, remedy="Profile it all."
            )


class Swap(Rule):
    """Two rewrites that undo each other: `ping` → `pong` → `ping`."""

    id, name, phase, triggers = "PK905", "swap", Phase.OPERATOR, (b"ping", b"pong")

    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        other = {"ping": "pong", "pong": "ping"}.get(node.id)
        if other:
            edits = [Replace(ctx.span(node), other)]
            yield ctx.finding(self, node, "It swaps", support=Support.AUTO, remedy="Swap it.", edits=edits)


class Broken(Rule):
    """A rewrite that does not make an expression."""

    id, name, phase, triggers = "PK906", "broken", Phase.OPERATOR, (b"broken",)

    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        if node.id == "broken":
            edits = [Replace(ctx.span(node), "= =")]
            yield ctx.finding(self, node, "It breaks", support=Support.AUTO, remedy="Mend it.", edits=edits)


class DeviceInYaml(Rule):
    """`device: cuda` → `device: auto`."""

    id, name, phase, triggers = "PK907", "device_in_yaml", Phase.FULL_MODEL, (b"cuda",)
    text_kinds = frozenset({Kind.YAML})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        for match in re.finditer(r"(?m)^device: (cuda)\b", ctx.text):
            span = Span(match.start(1), match.end(1))
            edits = [Replace(span, "auto")]
            yield ctx.finding(self, span, "It is CUDA", support=Support.AUTO, remedy="Ask.", edits=edits)


class Nested(Rule):
    """A rewrite that gives another one its turn: `wrapped(x.cuda())`, one argument a round."""

    id, name, phase, triggers = "PK908", "nested", Phase.MODULE, (b"wrapped",)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.func, ast.Name) and node.func.id == "wrapped":
            inner = ", ".join(ctx.source(item) for item in node.args)
            edits = [Replace(ctx.span(node), f"unwrapped({inner})")]
            yield ctx.finding(self, node, "It wraps", support=Support.AUTO, remedy="Unwrap.", edits=edits)


RULES: tuple[type[Rule], ...] = (
    CudaMethod,
    Softmax,
    Load,
    Profiler,
    Swap,
    Broken,
    DeviceInYaml,
    Nested,
)
