"""Calls of torch.cuda that any accelerator could answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from portkit.finding import Edit, Finding, Phase, Replace, Support
from portkit.rewriters import (
    _counts,
    _devices,
    _ordinals,
    _references,
    _script,
    _sinks,
    _sites,
    _vendor,
    nccl_backend,
)
from portkit.rule import Context

_ROOT = "torch.cuda"
_ASKED = frozenset({"torch.cuda.is_available", "torch.cuda.device_count"})
_PRIVATE = "torch._C._cuda"  # functions of the extension module behind torch.cuda
_OLD = "caffe2."
_ELSEWHERE = frozenset({"torch.cuda.amp", "torch.cuda.amp.common"})  # modules: their members are looked at
_PROPERTIES = "torch.cuda.get_device_properties"
# property → function, what follows its call, what differs
_WANTED = {
    "name": ("pk.device_name", "", ""),
    "total_memory": ("pk.mem_get_info", "[1]", "The driver may count a little less than the device has."),
}
_PATH = re.compile(r"(?:^|\.)torch\.cuda(?:\.\w+)*\Z")
_DEVICE_KEYWORDS = frozenset({"device", "device_id"})


class CudaRuntimeCall(_references.ReferenceRule):
    """The program asks CUDA for what every accelerator knows.

    What: `torch.cuda.is_available`, `device_count`, `current_device`, `set_device`, `synchronize`,
    `empty_cache`, `memory_allocated`, `get_device_name`, `device` (the context manager) and so on, called
    or passed around, under any alias; members that nothing corresponds to are reported.
    Why: they answer for CUDA only. The same names in `torch.accelerator` raise on a CPU-only build where
    those of `torch.cuda` quietly do nothing; `torch.accelerator.device_index` takes no `torch.device`.
    Instead: `torch.accelerator.is_available()` and `device_count()`; the others from `portkit.runtime`,
    which do nothing, or answer 0, where there is no accelerator. A number of devices that something is
    divided by, or that says how many processes to start, becomes `max(1, ...)`; an ordinal that is used
    as a device becomes `pk.device(...)`.
    Of `get_device_properties(i)`, the name and, after a review, the memory have a portable form.
    Safety: the same answers on CUDA; no error on a CPU-only build. On MPS, `is_available` is now true.
    Needs torch 2.6.
    """

    id = "PK303"
    name = "cuda_runtime_call"
    phase = Phase.FULL_MODEL
    triggers = (b"cuda",)
    opens_branch = True
    what = "{name} asks CUDA only"

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        """A test that patches torch.cuda by its path would patch what migrated code no longer calls."""
        if not isinstance(node.value, str) or not _PATH.search(node.value):
            return
        call = ctx.parent(node)
        if not isinstance(call, ast.Call) or _devices.identifier(call.func) not in _sites.PATCHERS:
            yield from self._path(node, ctx)
            return
        yield ctx.finding(
            self,
            node,
            f"{node.value} is patched by its path",
            support=Support.MANUAL,
            remedy=_sites.PATCHED,
        )

    def _path(self, node: ast.Constant, ctx: Context) -> Iterator[Finding]:
        """`sys.modules["torch.cuda"]`, tables of functions by name."""
        place = ctx.parent(node)
        name = str(node.value)
        whole = name.startswith(_ROOT) and not name.endswith("Tensor")
        if whole and isinstance(place, (ast.Subscript, ast.List, ast.Tuple, ast.Set, ast.Dict)):
            yield ctx.finding(
                self,
                node,
                f"{name} is named in a string",
                support=Support.UNKNOWN,
                remedy="If it is looked up, name what the migrated code calls instead.",
            )

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        yield from super().visit_Call(node, ctx)
        if ctx.resolve(node.func) == "importlib.import_module":
            yield from self.reference(node, ctx)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name != "hasattr" or len(node.args) != 2 or ctx.resolve(node.args[0]) != "torch":
            return
        if ctx.constant(node.args[1]) == "cuda":
            yield ctx.finding(
                self,
                node,
                "torch is asked whether it has torch.cuda",
                support=Support.PORTABLE,
                remedy="It is true for every build of torch.",
            )

    def about(self, name: str) -> bool:
        return name == _ROOT or name.startswith((f"{_ROOT}.", _PRIVATE, _OLD))

    def reference(self, node: ast.expr, ctx: Context) -> Iterator[Finding]:
        """Also report members of torch.cuda that the table does not know."""
        name = ctx.resolve(node)
        if name is None or not self.about(name):
            return
        asks = name == _sites.AVAILABLE and not self.skip(node, ctx, name) and _is_for_nvidia(node, ctx)
        if asks or (name in _ASKED and _vendor.skips_for_nvidia(node, ctx)):
            yield ctx.finding(
                self,
                node,
                f"{name} asks CUDA only",
                support=Support.PORTABLE,
                remedy="It guards something of NVIDIA's, so the question is right.",
                qualified_name=name,
            )
        elif name == _sites.AVAILABLE and _is_mixed(node, ctx):
            yield ctx.finding(
                self,
                node,
                f"{name} asks CUDA only",
                support=Support.MANUAL,
                remedy="Its answer chooses NVIDIA's software and more: ask pk.is_available() for the rest.",
                qualified_name=name,
            )
        elif name == _PROPERTIES and _property(node, ctx) is not None:
            yield self._one_property(node, ctx)
        elif self.handles(name):
            yield from super().reference(node, ctx)
        elif not name.startswith(_OLD) and self._is_unknown(node, ctx, name):
            patched = _sites.patched_member(node, ctx)
            yield ctx.finding(
                self,
                node,
                f"{name}.{patched} is patched" if patched else _described(name),
                support=Support.MANUAL,
                remedy=_sites.PATCHED
                if patched
                else 'Keep it under `if device.type == "cuda"`, with another way beside it.',
                qualified_name=name,
            )

    def _one_property(self, node: ast.expr, ctx: Context) -> Finding:
        """`torch.cuda.get_device_properties(i).name`: the one property that is wanted."""
        whole = _property(node, ctx)
        assert whole is not None
        assert isinstance(whole.value, ast.Call)
        target, after, note = _WANTED[whole.attr]
        text, imports = _references.spell(ctx, target)
        arguments = ", ".join(ctx.source(item) for item in whole.value.args)
        text = f"{text}({arguments}){after}"
        return ctx.finding(
            self,
            whole,
            f"{_PROPERTIES} asks CUDA only",
            support=Support.REVIEW if note else Support.AUTO,
            remedy=f"Use {text}.",
            note=note,
            edits=[Replace(ctx.span(whole), text), *imports],
            qualified_name=_PROPERTIES,
        )

    def _is_unknown(self, node: ast.expr, ctx: Context, name: str) -> bool:
        if isinstance(ctx.parent(node), ast.Attribute) or _references.is_alias(node, ctx):
            return False
        parent = ctx.parent(node)
        if isinstance(parent, ast.Call) and parent.func is not node and ctx.resolve(parent) is not None:
            return False  # getattr(torch.cuda, "name"): the name is what counts
        if isinstance(node, ast.Name) and name == _ROOT and ctx.is_shadowed(node.id, node):
            return False
        prefixes = {name.rsplit(".", i)[0] for i in range(name.count("."))}
        if (prefixes - _references.MODULES) & _references.known() or name in _references.known():
            return False
        return name not in _ELSEWHERE and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)

    def skip(self, node: ast.expr, ctx: Context, name: str) -> bool:
        """Tests that belong to a choice of device or back end, or refuse to run, have rules of their own."""
        call = _sites.is_called(node, ctx)
        if name != _sites.AVAILABLE or call is None:
            return False
        if _sites.is_refusal(call, ctx) is not None:
            return True
        around = ctx.parent(call)
        if isinstance(around, ast.UnaryOp):
            around = ctx.parent(around)
        return around is not None and (
            _devices.choice(around, ctx) is not None or nccl_backend.is_choice(around, ctx)
        )

    def replacement(self, node: ast.expr, ctx: Context, name: str, target: str) -> list[Edit]:
        """Replace the callee, or the whole call where its place asks for more."""
        call = _sites.is_called(node, ctx)
        text, imports = _references.spell_at(node, ctx, target)
        if call is not None and not call.args and not call.keywords:
            if name == "torch.cuda.device_count" and _counts.at_least_one(call, ctx):
                return [Replace(ctx.span(call), f"max(1, {text}())"), *imports]
            if name == "torch.cuda.current_device" and _is_device(call, ctx):
                device, more = _references.spell(ctx, "pk.device")
                return [Replace(ctx.span(call), f"{device}({text}())"), *imports, *more]
        return _references.replace_name(ctx, node, target)


def _described(name: str) -> str:
    if name == _ROOT:
        return f"{name} is used as a whole"
    if name.startswith(_PRIVATE) or "._" in name:
        return f"{name} is private to torch"
    return f"{name} has no portable counterpart"


def _property(node: ast.expr, ctx: Context) -> ast.Attribute | None:
    """The access to one property of a device, where portkit has a function for it."""
    call = _sites.is_called(node, ctx)
    whole = ctx.parent(call) if call is not None else None
    if call is None or not isinstance(whole, ast.Attribute) or whole.attr not in _WANTED:
        return None
    plain = not call.keywords and not any(isinstance(item, ast.Starred) for item in call.args)
    return whole if plain and not _script.in_torchscript(node, ctx) else None


def _is_for_nvidia(node: ast.expr, ctx: Context) -> bool:
    """Whether `torch.cuda.is_available()` is asked for the sake of something that only NVIDIA has."""
    call = _sites.is_called(node, ctx)
    if call is None:
        return False
    parent = ctx.parent(call)
    if isinstance(parent, ast.keyword) and parent.arg == "fused":
        return True
    vendor, others = _vendor.through_flag(call, ctx)
    if vendor and not others:
        return True
    return _vendor.is_vendor(call, ctx) and not _vendor.is_speed(call, ctx)


def _is_mixed(node: ast.expr, ctx: Context) -> bool:
    """Whether the answer is kept in a name that guards NVIDIA's software in one place, more in another."""
    call = _sites.is_called(node, ctx)
    vendor, others = _vendor.through_flag(call, ctx) if call is not None else (0, 0)
    return bool(vendor and others)


def _is_device(call: ast.Call, ctx: Context) -> bool:
    """Whether an ordinal is passed where a device is meant."""
    child: ast.AST = call
    for parent in ctx.parents(call):
        if isinstance(parent, ast.keyword):
            return parent.arg in _DEVICE_KEYWORDS
        if isinstance(parent, ast.Dict):
            return "device" in _sinks.holders(child, parent, ctx)
        if isinstance(parent, ast.Call):
            return _devices.identifier(parent.func) == "to" and parent.args[:1] == [child]
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and child is not call:
            # `device = device or torch.cuda.current_device()`
            return isinstance(parent.targets[0], ast.Name) and _ordinals.is_only_device(parent, ctx)
        if not isinstance(parent, (ast.IfExp, ast.BoolOp)) or child is getattr(parent, "test", None):
            return False
        child = parent
    return False
