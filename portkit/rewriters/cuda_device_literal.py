"""Strings that name a CUDA device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from portkit.analyzers import _texts
from portkit.finding import Edit, Finding, Phase, Replace, Support
from portkit.rewriters import _calls, _devices, _script, _sinks, _sites
from portkit.rewriters._sinks import Goal
from portkit.rule import Context, Rule

_OPTION = re.compile(r"(?:--?[\w-]*device[ =]|\bdevice=)['\"]?cuda\b")
# `rank:0/cuda:0` of torch.distributed's sharded tensors, `cuda fp16` of loaders of models
_PLACEMENT = re.compile(r"(?:rank:\S+/cuda(?::\S+)?|cuda(?::\d+)? (?:fp|bf|i|int|float|bfloat)\d+\S*.*)\Z")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_EARLY = (
    "The device is chosen when the module is imported, and this file sets CUDA_VISIBLE_DEVICES: "
    "setting it afterwards has no effect any more."
)
_COMPARED = "Where there is no accelerator, both are the CPU: the comparison holds there now."
_REFUSED = {
    Goal.KERNEL: (
        Support.MANUAL,
        "A kernel is registered for CUDA only",
        "Register a kernel for the other devices as well; the name of this one stays.",
    ),
    Goal.PARSED: (
        Support.MANUAL,
        "A device name is taken apart as text",
        "Take the type and index of torch.device(name): other devices have other names.",
    ),
    Goal.SEVERAL: (
        Support.MANUAL,
        "CUDA stands in a list of devices",
        "Decide which devices belong there; pk.device_type() names the accelerator.",
    ),
    Goal.WAY: (
        Support.UNKNOWN,
        "One of several ways to compute is called cuda",
        "If it stands for kernels of CUDA, choose another one where there is no CUDA; the name stays.",
    ),
    Goal.UNKNOWN: (
        Support.UNKNOWN,
        "It is not visible whether this string becomes a device",
        "If it does, use pk.device_type(); if it is a name of something else, suppress the finding.",
    ),
}


class CudaDeviceLiteral(Rule):
    """A CUDA device is named by a string.

    What: `"cuda"`, `"cuda:1"`, `f"cuda:{i}"`, `"cuda:%d" % i`, `"cuda:" + str(i)` and
    `"cuda:{}".format(i)` that flow into a device: `device=`, `.to()`, `torch.device()`, a variable,
    default, command-line option, or dictionary entry that is a device; `"cuda" if
    torch.cuda.is_available() else "cpu"`; `"cuda" if "cuda" in device else "cpu"`.
    Why: the program asks for a device that other machines do not have.
    Instead: `pk.device()` or `pk.device(i)` where a `torch.device` is wanted; `pk.device_type()` or
    `str(pk.device(i))` where the value may be used as a string; `torch.device(device).type`. Strings that
    are no devices (paths, keys, names of implementations, patterns of `match`) are never touched; those
    of which it can't be told are listed as unknown.
    Safety: the same device on CUDA; the CPU on a CPU-only build. Needs torch 2.6. Defaults of functions
    are evaluated when the module is imported: where the file sets `CUDA_VISIBLE_DEVICES`, that needs a
    review. So does `device == torch.device("cuda")`, which becomes true on the CPU.
    """

    id = "PK301"
    name = "cuda_device_literal"
    phase = Phase.FULL_MODEL
    minutes = 10
    triggers = (b"cuda",)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if ctx.resolve(node.func) == "torch.device":
            yield from self._device_call(node, ctx)
        else:
            yield from self._literal(node, ctx)

    def visit_IfExp(self, node: ast.IfExp, ctx: Context) -> Iterable[Finding]:
        found = _devices.choice(node, ctx)
        parent = ctx.parent(node)
        if found is not None and not (
            isinstance(parent, ast.Call) and ctx.resolve(parent.func) == "torch.device"
        ):
            as_text = not isinstance(node.body, ast.Call) or _devices.spelling(node.body, ctx) is not None
            text, edits = _devices.portable(ctx, found, as_text=as_text)
            yield self._replaced(node, ctx, text, edits, "The choice is between CUDA and the CPU only")
        looked = _sinks.substring(node, ctx)
        if looked is not None:
            torch, imports = ctx.use("torch")
            text = f"{torch}.device({ctx.source(looked)}).type"
            yield self._replaced(
                node, ctx, text, list(imports), "The device type can only be CUDA or the CPU"
            )

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        parent = ctx.parent(node)
        if not isinstance(node.value, str) or isinstance(parent, (ast.JoinedStr, ast.FormattedValue)):
            return
        if node.value == "cuda:" and _sinks.goal(node, ctx) is Goal.PARSED:
            support, message, remedy = _REFUSED[Goal.PARSED]
            yield ctx.finding(self, node, message, support=support, remedy=remedy)
        yield from self._literal(node, ctx)
        yield from self._command(node, node.value, ctx)

    def _command(self, node: ast.expr, text: str, ctx: Context) -> Iterator[Finding]:
        """A command with a device in it (`train.py --device cuda`), or a placement (`rank:0/cuda:0`)."""
        if _PLACEMENT.match(text) and not _texts.is_shown(node, ctx):
            yield ctx.finding(
                self,
                node,
                "A placement or strategy names a CUDA device",
                support=Support.MANUAL if text.startswith("rank:") else Support.UNKNOWN,
                remedy="Put pk.device_type() in the place of cuda, if it is read as a device.",
            )
        if _OPTION.search(text) and _texts.is_command(node, ctx):
            yield ctx.finding(
                self,
                node,
                "A command names a CUDA device",
                support=Support.MANUAL,
                remedy="Put pk.device_type() into the command.",
            )

    def visit_Dict(self, node: ast.Dict, ctx: Context) -> Iterable[Finding]:
        """A table with an entry for each type of device."""
        for key in node.keys:
            if _sinks.is_cuda_entry(key, node):
                assert key is not None
                yield ctx.finding(
                    self,
                    key,
                    "A table of device types has an entry for CUDA",
                    support=Support.UNKNOWN,
                    remedy="If it is asked for the device in use, give it entries for the others.",
                )

    def visit_JoinedStr(self, node: ast.JoinedStr, ctx: Context) -> Iterable[Finding]:
        yield from self._literal(node, ctx)
        text = "".join(str(item.value) if isinstance(item, ast.Constant) else "0" for item in node.values)
        yield from self._command(node, text, ctx)

    def visit_BinOp(self, node: ast.BinOp, ctx: Context) -> Iterable[Finding]:
        yield from self._literal(node, ctx)

    def _device_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        kind = _calls.argument(node, 0, "type") or _calls.argument(node, 0, "device")
        if kind is None or _calls.is_starred(node):
            return
        if _devices.choice(ctx.parent(node), ctx) is not None:
            return  # a branch of the choice, which is replaced as a whole
        if _is_type_compared(node, ctx):
            return  # the rule of comparisons
        found = _devices.spelling(kind.node, ctx) or _devices.choice(kind.node, ctx)
        if found is None:
            return
        index = _calls.argument(node, 1, "index")
        if index is not None:
            if found.index is not None:
                return
            found = _devices.Spelling(_devices.ordinal(index.node, ctx))
        text, edits = _devices.portable(ctx, found, as_text=False)
        yield self._replaced(node, ctx, text, edits, "The device is CUDA")

    def _literal(self, node: ast.expr, ctx: Context) -> Iterator[Finding]:
        found = _devices.spelling(node, ctx)
        if found is None:
            return
        goal = _sinks.goal(node, ctx)
        if goal is Goal.ELSEWHERE:
            return
        if goal is Goal.CHOICES:
            yield self._choices(node, ctx)
            return
        if goal in _REFUSED:
            support, message, remedy = _REFUSED[goal]
            yield ctx.finding(self, node, message, support=support, remedy=remedy)
            return
        text, edits = _devices.portable(ctx, found, as_text=goal is Goal.TEXT)
        yield self._replaced(node, ctx, text, edits, "The device is CUDA")

    def _replaced(self, node: ast.expr, ctx: Context, text: str, edits: list[Edit], message: str) -> Finding:
        if _script.in_torchscript(node, ctx):
            return ctx.finding(
                self,
                node,
                message,
                support=Support.MANUAL,
                remedy="TorchScript compiles this function and can't call portkit: pass the device in.",
            )
        early = _VISIBLE in ctx.text and _sites.at_import_time(node, ctx)
        compared = _devices.is_compared(node, ctx)
        return ctx.finding(
            self,
            node,
            message,
            support=Support.REVIEW if early or compared else Support.AUTO,
            remedy=f"Use {text}.",
            note=_EARLY if early else _COMPARED if compared else "",
            edits=[Replace(ctx.span(node), text), *edits],
        )

    def _choices(self, node: ast.expr, ctx: Context) -> Finding:
        local, imports = ctx.use("portkit.runtime")
        holder = ctx.parent(node)
        assert isinstance(holder, (ast.List, ast.Tuple, ast.Set))
        elements = ", ".join(ctx.source(item) for item in holder.elts)
        text = f"list(dict.fromkeys([{elements}, {local}.device_type()]))"  # keeps the order, drops repeats
        return ctx.finding(
            self,
            node,
            "The option accepts CUDA and the CPU only",
            support=Support.AUTO,
            remedy="Accept the accelerator of this machine as well.",
            edits=[Replace(ctx.span(holder), text), *imports],
        )


def _is_type_compared(node: ast.Call, ctx: Context) -> bool:
    """Whether only the type of a device is asked for, to compare it: `torch.device("cuda").type`."""
    outer = ctx.parent(node)
    if not isinstance(outer, ast.Attribute) or outer.attr != "type":
        return False
    return isinstance(ctx.parent(outer), ast.Compare) and _devices.named(node, ctx) is not None
