"""Loops: unrolled over constants, or `for` and `while` operations that carry the names their body assigns."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend import promotion
from portkit.runtime.tile.frontend.context import Context, Undefined
from portkit.runtime.tile.frontend.control import Execute, condition, flatten, merge, rebuild, settle
from portkit.runtime.tile.frontend.expressions import evaluate
from portkit.runtime.tile.frontend.semantics import constant, describe, is_number

_HINTS = {
    "num_stages",
    "loop_unroll_factor",
    "disallow_acc_multi_buffer",
    "flatten",
    "warp_specialize",
    "disable_licm",
}


def for_loop(ctx: Context, node: ast.For, execute: Execute) -> None:
    """Emit a `for` over range, tl.range, tl.static_range or a constant tuple."""
    if node.orelse:
        raise KernelError("portkit does not support `else` on a loop")
    if not isinstance(node.iter, ast.Call):
        return _unroll(ctx, node, evaluate(ctx, node.iter), execute)
    function = evaluate(ctx, node.iter.func)
    name = getattr(function, "__name__", "")
    if name == "static_range":
        return _unroll(ctx, node, range(*_constants(ctx, node.iter)), execute)
    if function is range or name == "range":
        return _range(ctx, node, node.iter, execute)
    return _unroll(ctx, node, evaluate(ctx, node.iter), execute)


def _bounds(ctx: Context, call: ast.Call, hints: bool) -> list[Any]:
    found: dict[str, Any] = {}
    args: list[Any] = []
    for arg in call.args:
        value = evaluate(ctx, arg.value if isinstance(arg, ast.Starred) else arg)
        args += value if isinstance(arg, ast.Starred) else [value]
    for keyword in call.keywords:
        found[str(keyword.arg)] = evaluate(ctx, keyword.value)
    unknown = [
        name for name in found if name not in ("arg1", "arg2", "step") and not (hints and name in _HINTS)
    ]
    if unknown:
        raise KernelError(f"a range has no argument `{unknown[0]}`")
    for name in ("arg1", "arg2"):
        if name in found:
            args.append(found[name])
    if not 1 <= len(args) <= 3:
        raise KernelError(f"a range takes 1 to 3 arguments, not {len(args)}")
    lower, upper = (0, args[0]) if len(args) == 1 or args[1] is None else (args[0], args[1])
    step = args[2] if len(args) == 3 else found.get("step")
    return [lower, upper, 1 if step is None else step]


def _constants(ctx: Context, call: ast.Call) -> list[int]:
    known = [constant(bound) for bound in _bounds(ctx, call, hints=False)]
    if any(not isinstance(k, int) for k in known):
        raise KernelError(
            "tl.static_range needs constants",
            remedy="Use range for bounds that are known at run time only, or mark them tl.constexpr.",
        )
    return known


def _unroll(ctx: Context, node: ast.For, items: Any, execute: Execute) -> None:
    if not isinstance(items, (tuple, list, range)):
        raise KernelError(
            f"a kernel can't loop over {describe(items)}", remedy="Loop over range or tl.static_range."
        )
    if not isinstance(node.target, ast.Name):
        raise KernelError("a loop in a kernel has one name as its variable")
    with _inside(ctx):
        for item in items:
            ctx.frame.names[node.target.id] = item
            execute(ctx, node.body)


class _inside:
    """While a loop's body is read: a `return` there is refused."""

    def __init__(self, ctx: Context) -> None:
        self.frame = ctx.frame

    def __enter__(self) -> None:
        self.frame.inside_loop += 1

    def __exit__(self, *exc: object) -> None:
        self.frame.inside_loop -= 1


# --- what a loop carries ---------------------------------------------------------------------------


def assigned(body: Sequence[ast.AST]) -> Iterator[str]:
    """Names that statements assign, in order of appearance."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _only_constexpr(body: Sequence[ast.AST]) -> set[str]:
    marked, plain = set(), set()
    for statement in body:
        skip: set[int] = set()
        for node in ast.walk(statement):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                pass
            elif ast.unparse(node.annotation).split(".")[-1].strip("'\"") == "constexpr":
                marked.add(node.target.id)
                skip.add(id(node.target))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in skip:
                plain.add(node.id)
    return marked - plain


class _Carried:
    """The names that a loop's body assigns and that exist before it, with their values at the start."""

    def __init__(self, ctx: Context, body: Sequence[ast.AST], exclude: str = "") -> None:
        names = ctx.frame.names
        skip = {exclude, *_only_constexpr(body)}
        self.start: dict[str, Any] = {}
        self.before = dict(names)
        for name in dict.fromkeys(assigned(body)):
            value = names.get(name)
            if name in skip or name not in names or isinstance(value, Undefined):
                continue
            if is_number(value) or flatten(value):
                self.start[name] = settle(ctx, value)
        self.leaves = [leaf for value in self.start.values() for leaf in flatten(value)]

    @property
    def types(self) -> list[ir.Type]:
        return [leaf.type for leaf in self.leaves]

    def arguments(self) -> list[ir.Value]:
        """Fresh block arguments, one for each carried value."""
        return [ir.Value(leaf.type, leaf.name) for leaf in self.leaves]

    def rename(self, names: dict[str, Any], leaves: Sequence[ir.Value]) -> None:
        """Bind the carried names to new values."""
        rest = list(leaves)
        for name, value in self.start.items():
            names[name] = rebuild(value, rest)
            for leaf in flatten(names[name]):
                leaf.name = leaf.name or name

    def yields(self, ctx: Context, names: dict[str, Any]) -> list[ir.Value]:
        """The carried values at the end of the body; raises KernelError when a type has changed."""
        out: list[ir.Value] = []
        for name, value in self.start.items():
            after = settle(ctx, names[name])
            merged = merge(value, after, f"the values of `{name}` before the loop and after one iteration")
            if isinstance(after, Undefined):
                merged = after
            if isinstance(merged, Undefined):
                raise KernelError(
                    merged.message,
                    remedy=f"Give `{name}` its final type before the loop, e.g. with tl.zeros or .to().",
                )
            out += flatten(after)
        return out

    def close(self, ctx: Context, body_names: dict[str, Any], line: int, exclude: str = "") -> None:
        """Forget names that only the body assigns: it may never run."""
        for name, value in body_names.items():
            if name in self.start or self.before.get(name, self) is value:
                continue
            if name in self.before and name != exclude:
                continue
            ctx.frame.names[name] = Undefined(
                f"`{name}` is assigned only inside the loop at line {line}, which may not run",
                f"Give `{name}` a value before the loop.",
            )


# --- for -------------------------------------------------------------------------------------------


def _range(ctx: Context, node: ast.For, call: ast.Call, execute: Execute) -> None:
    if not isinstance(node.target, ast.Name):
        raise KernelError("a loop in a kernel has one name as its variable")
    lower, upper, step = _bounds(ctx, call, hints=True)
    known_step = constant(step)
    if known_step == 0:
        raise KernelError("the step of a range can't be 0")
    backwards = isinstance(known_step, (int, float)) and known_step < 0
    dtype = _index_type(ctx, [lower, upper, step])
    bounds = [ctx.sem.cast(ctx.sem.value(v), dtype) for v in (lower, upper, step)]
    if backwards:  # counts 0, |step|, ... below lower - upper, and runs from `lower` downwards
        distance = ctx.sem.value(ctx.sem.binary("-", bounds[0], bounds[1]))
        first = bounds[0]
        bounds = [ctx.sem.const(0, dtype), distance, ctx.sem.const(-known_step, dtype)]
    carried = _Carried(ctx, node.body, node.target.id)
    index = ir.Value(ir.Type(dtype), node.target.id)
    block = ir.Block([index, *carried.arguments()])
    names = dict(ctx.frame.names)
    loc = ctx.builder.loc

    def body() -> None:
        names[node.target.id] = ctx.sem.binary("-", first, index) if backwards else index  # type: ignore[attr-defined]
        carried.rename(names, block.args[1:])
        with _inside(ctx):
            execute(ctx, node.body)
        ctx.builder.loc = loc
        ctx.builder.add("yield", carried.yields(ctx, names), [])

    ctx.in_block(block, names, body)
    ctx.builder.loc = loc
    op = ctx.builder.add("for", [*bounds, *carried.leaves], carried.types, [block])
    carried.rename(ctx.frame.names, op.results)
    carried.close(ctx, names, ctx.frame.source.loc(node).line, node.target.id)


def _index_type(ctx: Context, bounds: list[Any]) -> ir.DType:
    dtype: ir.DType | None = None
    for bound in bounds:
        value = bound if isinstance(bound, ir.Value) else None
        if value is None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise KernelError(f"the bounds of a range are integers, not {describe(bound)}")
        if value is not None and (value.type.is_tile or value.type.is_pointer or not value.type.dtype.is_int):
            raise KernelError(f"the bounds of a range are scalar integers, not {describe(value)}")
        own = value.type.dtype if value is not None else promotion.literal_type(bound)
        dtype = own if dtype is None else promotion.promote_integers(dtype, own)
    assert dtype is not None
    return dtype


# --- while -----------------------------------------------------------------------------------------


def while_loop(ctx: Context, node: ast.While, execute: Execute) -> None:
    """Emit a `while`; a constant false condition emits nothing."""
    if node.orelse:
        raise KernelError("portkit does not support `else` on a loop")
    loc, line = ctx.builder.loc, ctx.frame.source.loc(node).line
    carried = _Carried(ctx, [node.test, *node.body])
    blocks = [ir.Block(carried.arguments()), ir.Block(carried.arguments())]
    names = dict(ctx.frame.names)

    def test() -> None:
        carried.rename(names, blocks[0].args)
        value = condition(ctx, evaluate(ctx, node.test))
        ctx.builder.add("yield", [value, *carried.yields(ctx, names)], [])

    def body() -> None:
        carried.rename(names, blocks[1].args)
        with _inside(ctx):
            execute(ctx, node.body)
        ctx.builder.loc = loc
        ctx.builder.add("yield", carried.yields(ctx, names), [])

    ctx.in_block(blocks[0], names, test)
    ctx.in_block(blocks[1], names, body)
    ctx.builder.loc = loc
    op = ctx.builder.add("while", carried.leaves, carried.types, blocks)
    carried.rename(ctx.frame.names, op.results)
    carried.close(ctx, names, line)
