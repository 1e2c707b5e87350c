"""Which parameters a kernel writes through: what a read-only array must not be passed for."""

from __future__ import annotations

from collections.abc import Iterable

from portkit.runtime.tile import ir

WRITES = frozenset({"store", *ir.ATOMICS})


def stored_params(func: ir.Function) -> frozenset[int]:
    """Indices in `func.params` of the pointers that some operation may store through."""
    origin: dict[ir.Value, frozenset[int]] = {p: frozenset((i,)) for i, p in enumerate(func.params)}
    ops = list(func.walk())
    changed = True
    while changed:  # loops carry pointers round
        changed = False
        for op in ops:
            changed |= _flow(op, origin)
    nowhere: frozenset[int] = frozenset()
    written = [origin.get(op.operands[0], nowhere) for op in ops if op.opcode in WRITES]
    return nowhere.union(*written) if written else nowhere


def _flow(op: ir.Op, origin: dict[ir.Value, frozenset[int]]) -> bool:
    """Let what is known of an operation's pointers reach its results and blocks; whether that was news."""
    sources = [*op.operands, *(v for region in op.regions for v in _yielded(region))]
    targets = [*op.results, *(a for region in op.regions for a in region.args)]
    known: frozenset[int] = frozenset().union(
        *(origin.get(v, frozenset()) for v in sources if v.type.is_pointer)
    )
    news = False
    for target in targets:
        if target.type.is_pointer and not known <= origin.get(target, frozenset()):
            origin[target] = origin.get(target, frozenset()) | known
            news = True
    return news


def _yielded(region: ir.Block) -> Iterable[ir.Value]:
    last = region.ops[-1] if region.ops else None
    return last.operands if last is not None and last.opcode == "yield" else ()
