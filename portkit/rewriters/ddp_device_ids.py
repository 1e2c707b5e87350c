"""DistributedDataParallel that is told CUDA ordinals."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from portkit.finding import Edit, Finding, Phase, Replace, Support
from portkit.rewriters import _calls, _ordinals, _references, _sites
from portkit.rule import Context, Rule
from portkit.scopes import walk

_DDP = "torch.nn.parallel.DistributedDataParallel"
_GROUP = "torch.distributed.init_process_group"
_OURS = frozenset({"portkit.runtime.ddp_device_ids", "portkit.runtime.process_group_device"})
_CUDA = re.compile(r"\b(?:cuda|nccl)\b")
_BARRIERS = frozenset({"torch.distributed.barrier", "torch.distributed.monitored_barrier"})


class DdpDeviceIds(Rule):
    """A distributed module or barrier is given CUDA ordinals.

    What: `DistributedDataParallel(model, device_ids=[rank], output_device=rank)`,
    `torch.distributed.barrier(device_ids=[rank])`, `init_process_group(backend, device_id=device)`.
    Why: a module on the CPU refuses `device_ids` and `output_device`; only NCCL takes those of a barrier; a
    process group refuses the CPU as its `device_id`.
    Instead: `device_ids=pk.ddp_device_ids(rank)`, which is `[rank]` on an accelerator and None on the CPU;
    `output_device` goes where it repeats `device_ids`, since that is its default.
    `device_id=pk.process_group_device(device)`, which is None on the CPU.
    Safety: the same on CUDA. Several ordinals, a variable, or another `output_device` are left to a person;
    behind a test for an accelerator they count as portable.
    """

    id = "PK308"
    name = "ddp_device_ids"
    phase = Phase.FULL_MODEL
    triggers = (b"device_id", b"output_device", b"distributeddataparallel")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node.func)
        if name == _GROUP:
            yield from self._group(node, ctx)
            return
        if (name != _DDP and name not in _BARRIERS) or _calls.is_starred(node):
            return
        ids = _calls.argument(node, 1 if name == _DDP else None, "device_ids")
        output = _calls.argument(node, 2, "output_device") if name == _DDP else None
        if ids is None and output is None:
            return
        if ids is None or not isinstance(ids.node, ast.List) or len(ids.node.elts) != 1:
            yield from self._other(ids, output, node, ctx)
            return
        index = ctx.source(ids.node.elts[0])
        text, imports = _references.spell(ctx, "pk.ddp_device_ids")
        edits: list[Edit] = [Replace(ctx.span(ids.node), f"{text}({index})"), *imports]
        if output is not None and not _is_none(output.node):
            if ctx.source(output.node) != index:
                yield self._manual(output.node, ("device_ids", "output_device"), ctx)
                return
            edits.append(_calls.drop(ctx, node, output))
        yield ctx.finding(
            self,
            ids.node,
            "Without an accelerator, device_ids are refused",
            support=Support.AUTO,
            remedy=f"Use {text}({index}).",
            edits=edits,
            qualified_name=name,
        )

    def _group(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        """`init_process_group("nccl", device_id=torch.device("cuda", rank))`."""
        given = _calls.argument(node, None, "device_id")
        if given is None or _is_optional(given.node) or not _is_of_cuda(node, given.node, ctx):
            return
        text, imports = _references.spell(ctx, "pk.process_group_device")
        source = f"{text}({ctx.source(given.node)})"
        yield ctx.finding(
            self,
            given.node,
            "Without an accelerator, device_id is refused",
            support=Support.AUTO,
            remedy=f"Use {source}.",
            edits=[Replace(ctx.span(given.node), source), *imports],
            qualified_name=_GROUP,
        )

    def _other(
        self, ids: _calls.Argument | None, output: _calls.Argument | None, node: ast.Call, ctx: Context
    ) -> Iterable[Finding]:
        """Values of which it can't be told that they stand for one ordinal."""
        present = [item for item in (ids, output) if item is not None and not _is_none(item.node)]
        given = [item.node for item in present]
        if given and not any(_is_optional(item) or _is_ours(item, ctx) for item in given):
            named = [
                name for item, name in ((ids, "device_ids"), (output, "output_device")) if item in present
            ]
            yield self._manual(given[0], named, ctx)

    def _manual(self, node: ast.expr, named: Sequence[str], ctx: Context) -> Finding:
        guarded = _sites.is_accelerator_branch(node, ctx)
        return ctx.finding(
            self,
            node,
            f"Without an accelerator, {' and '.join(named)} are refused",
            support=Support.PORTABLE if guarded else Support.MANUAL,
            remedy="They are passed only where there is an accelerator."
            if guarded
            else f"Pass None{' for both' if len(named) > 1 else ''} when the module is on the CPU.",
            qualified_name=_DDP,
        )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_optional(node: ast.expr) -> bool:
    """Whether a value already becomes None in some case: `[rank] if cuda else None`."""
    return isinstance(node, ast.IfExp) and (_is_none(node.body) or _is_none(node.orelse))


def _is_of_cuda(call: ast.Call, device: ast.expr, ctx: Context) -> bool:
    """Whether the device of a process group is CUDA's, or became the device in use by a migration."""
    if _is_none(device) or _is_ours(device, ctx):
        return False
    backend = _calls.argument(call, 0, "backend")
    values = _ordinals.assignments(device, ctx) if isinstance(device, ast.Name) else []
    nodes = [device, *values, *([backend.node] if backend is not None else [])]
    return any(_CUDA.search(ctx.source(node)) for node in nodes) or any(
        (ctx.resolve(item.func) or "").startswith("portkit.runtime.")
        for node in nodes
        for item in walk(node)
        if isinstance(item, ast.Call)
    )


def _is_ours(node: ast.expr, ctx: Context) -> bool:
    return isinstance(node, ast.Call) and ctx.resolve(node.func) in _OURS
