"""Options, flags and arguments that switch CUDA on or count GPUs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from portkit.analyzers import _flags, _texts
from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule

_TRAINERS = ("pytorch_lightning.", "lightning.", "lightning_fabric.", "ignite.")
_PROVIDERS = frozenset(
    {"CUDAExecutionProvider", "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"}
)
_PASSED = re.compile(  # in a command line, as scripts for shells have them
    r"(?:^|\s)(?P<value>--(?:use[-_])?cuda(?=\s|$)"
    r"|--(?![\w.-]*(?:name|out|output|dir|path|file|log|logs|tag|branch|label|trace|title|project|group)[= ])"
    r"[\w.-]+[= ]cuda(?::\d+)?(?=\s|$)"
    r"|--(?!no[-_]|without[-_]|disable[-_]|skip[-_])(?:[a-z0-9]+[-_])+cuda(?:[-_][a-z0-9]+)*(?=[=\s]|$))"
)
_STAYS = "The name is part of the program's interface and stays; it now means the accelerator that is there."
_ORDINAL = "Turn each value into a device with pk.device(i), and count devices with pk.device_count()."


class GpuOption(Rule):
    """An option, flag or argument is about CUDA or GPUs.

    What: `add_argument("--gpu")`, `--gpus`, `--gpu_ids`, `--cuda`, `--no-cuda`, `--use_gpu`; fields of
    classes with such names; reads of `args.cuda`; arguments such as `gpus=2`, `num_gpus=8`, `use_cuda=True`,
    `accelerator="gpu"`, `providers=["CUDAExecutionProvider"]`; options in commands that the program runs.
    Why: what hangs on them decides whether the program uses an accelerator, and which.
    Instead: the names stay, since users type them. Values become devices with `pk.device(i)`;
    `accelerator="auto"`, where a trainer takes it.
    Safety: nothing is rewritten. Switches, and values that are only passed on, count as portable: the places
    where they choose a device have findings of their own.
    """

    id = "PK331"
    name = "gpu_option"
    phase = Phase.FULL_MODEL
    minutes = 10
    triggers = (b"cuda", b"gpu", b"executionprovider")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if _flags.is_option(node):
            yield from self._option(node, ctx)
            return
        for keyword in node.keywords:
            yield from self._keyword(node, keyword, ctx)

    def _option(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        for given in (*node.args, *(item.value for item in node.keywords if item.arg == "name")):
            if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
                continue
            name = given.value.partition("/")[0]
            if _flags.is_switch(name) and _is_switch(node):
                yield self._fine(given, ctx, f"The option {name} switches CUDA on or off", _STAYS)
                return
            if _flags.is_count(name) or _flags.is_switch(name):
                yield ctx.finding(
                    self,
                    given,
                    f"The option {name} chooses or counts CUDA devices",
                    support=Support.MANUAL,
                    remedy=f"The option stays. {_ORDINAL}",
                )
                return

    def _keyword(self, call: ast.Call, keyword: ast.keyword, ctx: Context) -> Iterator[Finding]:
        name, value = keyword.arg or "", keyword.value
        callee = ctx.resolve(call.func) or ""
        if name == "accelerator" and isinstance(value, ast.Constant) and value.value in ("gpu", "cuda"):
            yield from self._accelerator(value, callee, ctx)
        elif _flags.is_switch(name):
            yield from self._switch(keyword, ctx)
        elif _flags.is_count(name):
            yield from self._count(keyword, callee, ctx)

    def _accelerator(self, value: ast.Constant, callee: str, ctx: Context) -> Iterator[Finding]:
        known = callee.startswith(_TRAINERS)
        yield ctx.finding(
            self,
            value,
            f"The accelerator is asked for as {value.value!r}",
            support=Support.MANUAL if known else Support.UNKNOWN,
            remedy='Use accelerator="auto".' if known else 'Use "auto", if the callee takes it.',
            qualified_name=callee or None,
        )

    def _switch(self, keyword: ast.keyword, ctx: Context) -> Iterator[Finding]:
        value = keyword.value
        if isinstance(value, ast.Constant) and (value.value in (False, None, 0) or keyword.arg == "is_cuda"):
            return  # `is_cuda=True` says of a stand-in for a tensor what it is
        if isinstance(value, ast.Constant) and value.value is True:
            yield ctx.finding(
                self,
                value,
                f"{keyword.arg} is switched on",
                support=Support.UNKNOWN,
                remedy="If the callee moves something to CUDA then, pass pk.is_available().",
            )
        elif not isinstance(value, (ast.Constant, ast.Attribute)):
            yield self._fine(value, ctx, f"{keyword.arg} is passed on", "The place where it is made counts.")

    def _count(self, keyword: ast.keyword, callee: str, ctx: Context) -> Iterator[Finding]:
        value = keyword.value
        if isinstance(value, ast.Constant) and value.value in (0, None, False, ""):
            return
        literal = isinstance(value, (ast.Constant, ast.List, ast.Tuple))
        if not literal:
            yield self._fine(value, ctx, f"{keyword.arg} is passed on", "The place where it is made counts.")
            return
        known = callee.startswith(_TRAINERS)
        yield ctx.finding(
            self,
            value,
            f"{keyword.arg} chooses or counts GPUs",
            support=Support.MANUAL if known else Support.UNKNOWN,
            remedy='Use accelerator="auto" and devices=...' if known else f"If it means devices: {_ORDINAL}",
            qualified_name=callee or None,
        )

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        """`providers=["CUDAExecutionProvider"]` of ONNX Runtime; options in a command."""
        if isinstance(node.value, str) and " " in node.value:
            yield from self._command(node, node.value, ctx)
        if node.value not in _PROVIDERS or isinstance(ctx.parent(node), (ast.Expr, ast.Compare)):
            return
        holder = ctx.parent(node)
        others = holder.elts if isinstance(holder, (ast.List, ast.Tuple)) else []
        falls_back = any(ctx.constant(item) == "CPUExecutionProvider" for item in others)
        yield ctx.finding(
            self,
            node,
            f"{node.value} is ONNX Runtime on CUDA",
            support=Support.PORTABLE if falls_back else Support.MANUAL,
            remedy="Without CUDA the next provider of the list is taken."
            if falls_back
            else 'List "CPUExecutionProvider" after it.',
        )

    def visit_JoinedStr(self, node: ast.JoinedStr, ctx: Context) -> Iterable[Finding]:
        text = "".join(str(item.value) if isinstance(item, ast.Constant) else "0" for item in node.values)
        yield from self._command(node, text, ctx)

    def _command(self, node: ast.expr, text: str, ctx: Context) -> Iterator[Finding]:
        match = _PASSED.search(text)
        if match is None or isinstance(ctx.parent(node), ast.JoinedStr) or not _texts.is_command(node, ctx):
            return
        yield ctx.finding(
            self,
            node,
            f"A command asks for CUDA: {match['value']}",
            support=Support.UNKNOWN,
            remedy="Leave the option out where there is no CUDA.",
        )

    def visit_AnnAssign(self, node: ast.AnnAssign, ctx: Context) -> Iterable[Finding]:
        """A field of a class of settings: `cuda: bool = True`, `num_gpus: int = 1`."""
        if not isinstance(node.target, ast.Name) or not isinstance(ctx.parent(node), ast.ClassDef):
            return
        name = node.target.id
        if _flags.is_switch(name):
            yield self._fine(node.target, ctx, f"The field {name} switches CUDA on or off", _STAYS)
        elif _flags.is_count(name) and node.value is not None:
            yield ctx.finding(
                self,
                node.target,
                f"The field {name} chooses or counts CUDA devices",
                support=Support.UNKNOWN,
                remedy=f"If it means devices: {_ORDINAL}",
            )

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        if not isinstance(node.ctx, ast.Load) or not _flags.is_switch(node.attr):
            return
        if node.attr in ("gpu", "is_cuda") or ctx.resolve(node) is not None or _is_called(node, ctx):
            return
        if _flags.is_flag(node, ctx):
            yield self._fine(node, ctx, f"The flag {node.attr} is read", "It now means the accelerator.")

    def _fine(self, node: ast.expr, ctx: Context, message: str, remedy: str) -> Finding:
        return ctx.finding(self, node, message, support=Support.PORTABLE, remedy=remedy)


def _is_called(node: ast.AST, ctx: Context) -> bool:
    parent = ctx.parent(node)
    return isinstance(parent, ast.Call) and parent.func is node


def _is_switch(node: ast.Call) -> bool:
    """Whether an option takes no value, or a truth value."""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    action = given.get("action")
    if isinstance(action, ast.Constant) and str(action.value).startswith("store_"):
        return True
    if action is not None and not isinstance(action, ast.Constant):
        return True  # argparse.BooleanOptionalAction
    if "is_flag" in given or any(
        isinstance(item, ast.Constant) and "/" in str(item.value) for item in node.args
    ):
        return True
    default = given.get("default")
    if isinstance(default, ast.Constant) and isinstance(default.value, bool):
        return True
    kind = given.get("type")
    name = kind.id if isinstance(kind, ast.Name) else getattr(kind, "attr", "")
    return (
        name == "bool"
        or "bool" in name
        or (isinstance(node.func, ast.Attribute) and node.func.attr == "DEFINE_bool")
    )
