"""Plain integers that are used as CUDA devices."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import Edit, Finding, Phase, Replace, Support
from portkit.rewriters import _devices, _index, _ordinals, _references
from portkit.rule import Context, Rule
from portkit.scopes import walk

_INTEGERS = frozenset(
    {"torch.distributed.get_rank", "torch.distributed.get_node_local_rank", "torch.cuda.current_device"}
    | {"portkit.runtime.current_device"}
)
_NAMES = frozenset({"rank", "local_rank", "ddp_local_rank", "global_rank", "gpu_id"})
_GPUS = frozenset({"gpu", "gpu_idx", "gpu_index", "gpu_num", "cuda_id", "cuda_device_id", "gpus"})
_KNOWN = ("transformers.", "sentence_transformers.")
_NOTE = "If it is None, nothing was moved; now the accelerator is used."


class CudaOrdinalDevice(Rule):
    """A plain integer is used as a device.

    What: `x.to(0)`, `torch.zeros(3, device=rank)`, `torch.device(0)`, and `device = rank %
    torch.cuda.device_count()`, where it is sure that the value is an integer; `x.to(args.gpu)`, after a
    review; `y.to(x.get_device())`; `x.get_device()` elsewhere, which is portable.
    Why: an integer means a CUDA ordinal in old torch, the current accelerator in new torch, and is an
    error on a CPU-only build.
    Instead: `pk.device(rank)`: where the variable is made, if it is only used as a device; else where it
    is used. `x.device` for `x.get_device()`.
    Safety: the same device on CUDA; the CPU on a CPU-only build. Needs torch 2.6.
    """

    id = "PK316"
    name = "cuda_ordinal_device"
    phase = Phase.FULL_MODEL
    triggers = (b"rank", b"gpu", b"cuda", b".to(", b"device=", b"get_device")

    def visit_Assign(self, node: ast.Assign, ctx: Context) -> Iterable[Finding]:
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if _devices.is_device_name(name) and _tensor_asked(node.value, ctx) is not None:
                if _ordinals.only_device(name, node, ctx):
                    yield self._device_of(node.value, ctx)
            elif (
                _devices.is_device_name(name)
                and _is_integer(node.value, ctx)
                and _ordinals.only_device(name, node, ctx)
            ):
                yield self._wrapped(node.value, ctx, "An ordinal is kept as a device")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if "torch" not in ctx.text:
            return  # other libraries have a method `to` as well
        if not _may_concern(node, ctx):
            return
        for value in (leaf for argument in _device_arguments(node, ctx) for leaf in _branches(argument)):
            if _is_asked(value, node, ctx):
                continue  # the rule of that function makes a device of it
            if _tensor_asked(value, ctx) is not None:
                yield self._device_of(value, ctx)
                continue
            if _is_ordinal(value, ctx):
                yield self._wrapped(value, ctx, "A plain integer is used as a device")
            elif _devices.identifier(value) in _GPUS and not _assigned_device(value, ctx):
                yield self._wrapped(value, ctx, "A GPU's number may be used as a device", _NOTE)
        yield from self._passed(node, ctx)
        yield from self._asked(node, ctx)

    def _passed(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """`f(device=0)` of a function that is not torch's."""
        callee = ctx.resolve(node.func) or ""
        for keyword in node.keywords:
            plain = isinstance(keyword.value, ast.Constant) and type(keyword.value.value) is int
            if keyword.arg != "device" or not plain or keyword.value in _device_arguments(node, ctx):
                continue
            if callee.startswith(_KNOWN):
                yield self._wrapped(keyword.value, ctx, "A plain integer is used as a device")
            else:
                yield ctx.finding(
                    self,
                    keyword.value,
                    "A plain integer is passed as a device",
                    support=Support.UNKNOWN,
                    remedy="If it is a CUDA ordinal, pass pk.device(i).",
                )

    def _asked(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """`x.get_device()`, which is the ordinal of a tensor's device."""
        if _tensor_asked(node, ctx) is None or _becomes_device(node, ctx):
            return
        yield ctx.finding(
            self,
            node,
            "A tensor is asked for the ordinal of its device",
            support=Support.PORTABLE,
            remedy="It is -1 on the CPU; x.device says the same with the type of the device.",
        )

    def _device_of(self, node: ast.expr, ctx: Context) -> Finding:
        """`y.to(x.get_device())`, which the CPU's -1 makes fail."""
        tensor = _tensor_asked(node, ctx)
        assert tensor is not None
        source = f"{ctx.source(tensor)}.device"
        return ctx.finding(
            self,
            node,
            "The ordinal of a tensor's device is used as a device: it is -1 on the CPU",
            support=Support.REVIEW,
            remedy=f"Use {source}.",
            note="If it is no tensor that is asked, see whether it has a device.",
            edits=[Replace(ctx.span(node), source)],
        )

    def _wrapped(self, node: ast.expr, ctx: Context, message: str, note: str = "") -> Finding:
        text, imports = _references.spell(ctx, "pk.device")
        source = f"{text}({ctx.source(node)})"
        parent = ctx.parent(node)
        whole: ast.AST = node
        if isinstance(parent, ast.Call) and ctx.resolve(parent.func) == "torch.device":
            whole = parent
        edits: list[Edit] = [Replace(ctx.span(whole), source), *imports]
        support = Support.REVIEW if note else Support.AUTO
        return ctx.finding(
            self, node, message, support=support, remedy=f"Use {source}.", note=note, edits=edits
        )


def _may_concern(node: ast.Call, ctx: Context) -> bool:
    """Whether a call may have to do with devices; most have not."""
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr in ("to", "get_device"):
        return True
    return any(item.arg == "device" for item in node.keywords) or ctx.resolve(function) == "torch.device"


def _tensor_asked(node: ast.expr, ctx: Context) -> ast.expr | None:
    """The tensor of `x.get_device()`, if it may be one."""
    function = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else None
    if not isinstance(function, ast.Attribute) or function.attr != "get_device":
        return None
    own = isinstance(function.value, ast.Name) and function.value.id in ("self", "cls")
    if own or ctx.resolve(function) is not None or "def get_device" in ctx.text:
        return None
    return function.value


def _becomes_device(node: ast.Call, ctx: Context) -> bool:
    """Whether an ordinal that a tensor is asked for goes straight into a device's place."""
    child: ast.AST = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.Call):
            leaves = (leaf for value in _device_arguments(parent, ctx) for leaf in _branches(value))
            return any(leaf is node for leaf in leaves)
        if isinstance(parent, ast.Assign):
            target = parent.targets[0]
            return (
                child is parent.value
                and len(parent.targets) == 1
                and isinstance(target, ast.Name)
                and child is node
                and _devices.is_device_name(target.id)
                and _ordinals.only_device(target.id, parent, ctx)
            )
        if not isinstance(parent, (ast.IfExp, ast.keyword)):
            return False
        child = parent
    return False


def _device_arguments(call: ast.Call, ctx: Context) -> Iterator[ast.expr]:
    """Arguments of a call that are surely devices."""
    callee = ctx.resolve(call.func) or ""
    is_move = isinstance(call.func, ast.Attribute) and call.func.attr == "to" and not _is_own(call.func, ctx)
    if (is_move or callee == "torch.device") and call.args and not (len(call.args) > 1 and callee):
        yield call.args[0]
    for keyword in call.keywords:
        if keyword.arg == "device" and (is_move or callee.startswith("torch.")):
            yield keyword.value


def _is_own(function: ast.Attribute, ctx: Context) -> bool:
    """Whether a method is one that a class of the file defines: its arguments may mean something else."""
    owners = _index.classes_of(function.value, ctx)
    return any(_index.defines(owner, function.attr) for owner in owners)


def _is_asked(value: ast.expr, call: ast.Call, ctx: Context) -> bool:
    """Whether a value is `torch.cuda.current_device()`, elsewhere than in `torch.device(...)`."""
    if not isinstance(value, ast.Call) or ctx.resolve(value.func) != "torch.cuda.current_device":
        return False
    return ctx.resolve(call.func) != "torch.device"


def _branches(node: ast.expr) -> Iterator[ast.expr]:
    """The values that a conditional expression can have; of any other expression, itself."""
    if isinstance(node, ast.IfExp):
        yield from _branches(node.body)
        yield from _branches(node.orelse)
    else:
        yield node


def _is_ordinal(node: ast.expr, ctx: Context) -> bool:
    """Whether a value in a device's place is surely an integer that nothing has wrapped yet."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Attribute):
        values = _index.kept_in_object(node, ctx)
        return all(_is_integer(value, ctx) for value in values) if values else node.attr in _NAMES
    if not isinstance(node, ast.Name):
        return _is_integer(node, ctx)
    values = _ordinals.assignments(node, ctx)
    if not values:
        return node.id in _NAMES
    if not all(_is_integer(value, ctx) for value in values):
        return False
    holder = ctx.parent(values[0])
    return not (
        isinstance(holder, ast.Assign)
        and _devices.is_device_name(node.id)
        and len(values) == 1
        and _ordinals.only_device(node.id, holder, ctx)
    )


def _is_integer(node: ast.expr, ctx: Context) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.FloorDiv)):
        return _counts_devices(node.right, ctx) or (
            _is_integer(node.left, ctx) and _is_integer(node.right, ctx)
        )
    if isinstance(node, ast.Call):
        return (isinstance(node.func, ast.Name) and node.func.id == "int") or ctx.resolve(
            node.func
        ) in _INTEGERS
    return isinstance(node, (ast.Name, ast.Attribute)) and _devices.identifier(node) in _NAMES


def _counts_devices(node: ast.AST, ctx: Context) -> bool:
    return any(
        isinstance(item, ast.Call) and (ctx.resolve(item.func) or "").endswith(".device_count")
        for item in walk(node)
    )


def _assigned_device(node: ast.expr, ctx: Context) -> bool:
    """Whether a name like `gpu` holds a device already: `gpu = torch.device(...)`, `gpu = pk.device(...)`."""
    if not isinstance(node, ast.Name):
        return False
    values = _ordinals.assignments(node, ctx)
    return any(isinstance(value, ast.Call) and not _is_integer(value, ctx) for value in values)
