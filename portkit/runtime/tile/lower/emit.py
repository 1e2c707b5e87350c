"""Text of an LLVM function: basic blocks, SSA values, and loops whose invariant parts rise by themselves.

Every value knows the depth of the scope that it lives in.  `Code.op` appends a pure instruction to the scope
of its deepest operand, not to the innermost one, so whatever does not change in a loop is computed before it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class T(NamedTuple):
    """An LLVM type: an element ("float", "i32", "ptr" …) and a number of lanes, 0 for a scalar."""

    elt: str
    lanes: int = 0

    def __str__(self) -> str:
        return _type_text(self.elt, self.lanes)

    @property
    def is_float(self) -> bool:
        return self.elt in FLOATS

    @property
    def bits(self) -> int:
        """Width of an element (a pointer counts 64)."""
        return FLOATS[self.elt] if self.elt in FLOATS else 64 if self.elt == "ptr" else int(self.elt[1:])

    @property
    def suffix(self) -> str:
        """How the type is spelt in the name of an overloaded intrinsic."""
        name = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(self.elt, self.elt)
        return f"v{self.lanes}{name}" if self.lanes else name

    def of(self, elt: str) -> T:
        """The same number of lanes of another element."""
        return T(elt, self.lanes)


@lru_cache(maxsize=4096)
def _type_text(elt: str, lanes: int) -> str:
    return f"<{lanes} x {elt}>" if lanes else elt


FLOATS = {"half": 16, "float": 32, "double": 64}
I1, I32, I64, PTR = T("i1"), T("i32"), T("i64"), T("ptr")


class V(NamedTuple):
    """An SSA value or a constant: its text, type, the depth of its scope, its number if constant."""

    text: str
    type: T
    depth: int = 0
    const: int | float | None = None


@dataclass
class Block:
    """A basic block; the terminator is kept apart, so that code can be added until the end."""

    label: str
    lines: list[str] = field(default_factory=list)
    end: str = ""


@dataclass
class Scope:
    """A loop body or a region: where its code goes now, and what has been computed in it."""

    block: Block
    memo: dict[Hashable, V] = field(default_factory=dict)


class Code:
    """Builds one function; the innermost scope is `scopes[-1]`, and code does not rise above `floor`."""

    def __init__(self) -> None:
        self.blocks = [Block("entry")]
        self.scopes = [Scope(self.blocks[0])]
        self.floor = 0
        self.count = 0
        self.declarations: set[str] = set()

    # --- names and places -----------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1

    def fresh(self, stem: str = "t") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def line(self, text: str, depth: int | None = None) -> None:
        """Append a line to a scope (the innermost one by default)."""
        self.scopes[self.depth if depth is None else depth].block.lines.append("  " + text)

    def new_block(self, stem: str) -> Block:
        block = Block(self.fresh(stem))
        self.blocks.append(block)
        return block

    @contextmanager
    def scope(self, block: Block | None = None) -> Iterator[Scope]:
        """A nested scope; without a block it continues in the current one."""
        inner = Scope(block or self.scopes[-1].block)
        self.scopes.append(inner)
        try:
            yield inner
        finally:
            self.scopes.pop()
            self.scopes[-1].block = inner.block

    @contextmanager
    def barrier(self) -> Iterator[None]:
        """Code of the innermost scope stays in it."""
        before, self.floor = self.floor, self.depth
        try:
            yield
        finally:
            self.floor = before

    # --- constants ------------------------------------------------------------------------------------

    def const(self, value: int | float | bool, type: T) -> V:
        """A number, or a vector filled with it; a float is rounded to its type first."""
        text = _number(value, type)
        number = value if type.is_float else int(value)
        return V(f"splat ({type.elt} {text})" if type.lanes else text, type, 0, number)

    def i64(self, value: int) -> V:
        return V(str(value), I64, 0, value)

    def iota(self, elt: str, lanes: int, start: int = 0) -> V:
        """The vector start, start + 1, …"""
        items = ", ".join(f"{elt} {start + k}" for k in range(lanes))
        return V(f"<{items}>", T(elt, lanes))

    # --- instructions ---------------------------------------------------------------------------------

    def op(self, text: str, type: T, *operands: V) -> V:
        """A pure instruction: `text` has one `{}` for each operand's name."""
        depth = self.floor
        for v in operands:
            depth = max(depth, v.depth)
        return self.at(depth, text.format(*[v.text for v in operands]), type)

    def at(self, depth: int, text: str, type: T) -> V:
        """An instruction in the scope of a given depth."""
        name = self.fresh("%t")
        self.scopes[depth].block.lines.append(f"  {name} = {text}")
        return V(name, type, depth)

    def here(self, text: str, type: T) -> V:
        """An instruction that must stay where it is (memory, traps)."""
        return self.at(self.depth, text, type)

    def bin(self, opcode: str, a: V, b: V) -> V:
        return self.op(f"{opcode} {a.type} {{}}, {{}}", a.type, a, b)

    def cast(self, opcode: str, a: V, elt: str) -> V:
        to = a.type.of(elt)
        return self.op(f"{opcode} {a.type} {{}} to {to}", to, a)

    def compare(self, opcode: str, a: V, b: V) -> V:
        return self.op(f"{opcode} {a.type} {{}}, {{}}", a.type.of("i1"), a, b)

    def select(self, c: V, a: V, b: V) -> V:
        """Lanes of a where c holds, else of b; c may be one bit for all lanes."""
        if c.const is not None:
            return a if c.const else b
        return self.op(f"select {c.type} {{}}, {a.type} {{}}, {b.type} {{}}", a.type, c, a, b)

    def call(self, name: str, type: T, *operands: V, flags: str = "") -> V:
        """A call of a pure intrinsic."""
        self.declare(name, type, *[v.type for v in operands])
        args = ", ".join(f"{v.type} {{}}" for v in operands)
        return self.op(f"call {flags}{type} @{name}({args})", type, *operands)

    def declare(self, name: str, type: T | str, *params: T) -> None:
        self.declarations.add(f"declare {type} @{name}({', '.join(map(str, params))})")

    def splat(self, a: V, lanes: int) -> V:
        """The scalar a in every lane."""
        if a.type.lanes or not lanes:
            return a
        to = T(a.type.elt, lanes)
        if a.const is not None:
            return self.const(a.const, to)
        depth = max(a.depth, self.floor)
        key = ("splat", a.text, lanes)
        memo = self.scopes[depth].memo
        if key not in memo:
            one = self.op(f"insertelement {to} poison, {a.type} {{}}, i64 0", to, a)
            memo[key] = self.op(
                f"shufflevector {to} {{}}, {to} poison, <{lanes} x i32> zeroinitializer", to, one
            )
        return memo[key]

    def extract(self, a: V, lane: int) -> V:
        return self.op(f"extractelement {a.type} {{}}, i64 {lane}", T(a.type.elt), a)

    def shuffle(self, a: V, lanes: Sequence[int]) -> V:
        to = T(a.type.elt, len(lanes))
        picks = ", ".join(f"i32 {k}" for k in lanes)
        return self.op(f"shufflevector {a.type} {{}}, {a.type} poison, <{len(lanes)} x i32> <{picks}>", to, a)

    def join(self, a: V, b: V, lanes: Sequence[int]) -> V:
        """Lanes picked from a and b, those of b counted after those of a."""
        to = T(a.type.elt, len(lanes))
        picks = ", ".join(f"i32 {k}" for k in lanes)
        text = f"shufflevector {a.type} {{}}, {b.type} {{}}, <{len(lanes)} x i32> <{picks}>"
        return self.op(text, to, a, b)

    # --- 64-bit integer arithmetic with folding ---------------------------------------------------------

    def add(self, a: V, b: V) -> V:
        if isinstance(a.const, int) and isinstance(b.const, int) and not a.type.lanes:
            return self.const(a.const + b.const, a.type)
        if a.const == 0:
            return b
        return a if b.const == 0 else self.bin("add", a, b)

    def sub(self, a: V, b: V) -> V:
        if isinstance(a.const, int) and isinstance(b.const, int) and not a.type.lanes:
            return self.const(a.const - b.const, a.type)
        return a if b.const == 0 else self.bin("sub", a, b)

    def mul(self, a: V, b: V) -> V:
        if isinstance(a.const, int) and isinstance(b.const, int) and not a.type.lanes:
            return self.const(a.const * b.const, a.type)
        if a.const == 1:
            return b
        if b.const == 1:
            return a
        return self.const(0, a.type) if 0 in (a.const, b.const) else self.bin("mul", a, b)

    def smin(self, a: V, b: V) -> V:
        if isinstance(a.const, int) and isinstance(b.const, int):
            return a if a.const <= b.const else b
        return self.call(f"llvm.smin.{a.type.suffix}", a.type, a, b)

    def smax(self, a: V, b: V) -> V:
        if isinstance(a.const, int) and isinstance(b.const, int):
            return a if a.const >= b.const else b
        return self.call(f"llvm.smax.{a.type.suffix}", a.type, a, b)

    # --- memory ---------------------------------------------------------------------------------------

    def gep(self, elt: str, p: V, index: V) -> V:
        """The address of element `index` of an array of `elt` at p."""
        if index.const == 0 and not index.type.lanes:
            return p
        to = T("ptr", index.type.lanes or p.type.lanes)
        return self.op(f"getelementptr {elt}, {p.type} {{}}, {index.type} {{}}", to, p, index)

    # --- control flow ---------------------------------------------------------------------------------

    def loop(self, lo: V, hi: V, step: int, inits: list[V], body: Callable[[V, list[V]], list[V]]) -> list[V]:
        """`for i in range(lo, hi, step)` over i64 with carried values; returns the last ones."""
        known = isinstance(lo.const, int) and isinstance(hi.const, int)
        if known and lo.const >= hi.const:  # type: ignore[operator]
            return inits
        if known and hi.const - lo.const <= step:  # type: ignore[operator]
            return body(lo, inits)
        before = self.scopes[-1].block
        guard = None if known else self.here(f"icmp slt i64 {lo.text}, {hi.text}", I1)
        start = self.new_block("loop")
        with self.scope(start):
            index = V(self.fresh("%i"), I64, self.depth)
            carried = [V(self.fresh("%c"), v.type, self.depth) for v in inits]
            outs = body(index, carried)
            following = self.here(f"add nsw i64 {index.text}, {step}", I64)
            again = self.here(f"icmp slt i64 {following.text}, {hi.text}", I1)
            latch = self.scopes[-1].block
            phis = [(index, lo, following), *zip(carried, inits, outs, strict=True)]
            start.lines[:0] = [
                f"  {p.text} = phi {p.type} [{a.text}, %{before.label}], [{b.text}, %{latch.label}]"
                for p, a, b in phis
            ]
            done = self.new_block("done")
            latch.end = f"br i1 {again.text}, label %{start.label}, label %{done.label}"
            self.scopes[-1].block = done
        before.end = f"br label %{start.label}"
        if guard is None:
            return [v._replace(depth=min(v.depth, self.depth)) for v in outs]
        before.end = f"br i1 {guard.text}, label %{start.label}, label %{done.label}"
        return [
            self.here(f"phi {a.type} [{a.text}, %{before.label}], [{b.text}, %{latch.label}]", a.type)
            for a, b in zip(inits, outs, strict=True)
        ]

    def either(self, test: V, yes: Callable[[], V], no: Callable[[], V]) -> V:
        """The value of one of two branches; nothing of a branch runs, or rises out of it, unless taken."""
        before = self.scopes[-1].block
        starts, ends = [], []
        for branch in (yes, no):
            starts.append(self.new_block("branch"))
            with self.scope(starts[-1]) as scope, self.barrier():
                value = branch()
                ends.append((value, scope.block))
        done = self.new_block("joined")
        for _, block in ends:
            block.end = f"br label %{done.label}"
        before.end = f"br i1 {test.text}, label %{starts[0].label}, label %{starts[1].label}"
        self.scopes[-1].block = done
        parts = ", ".join(f"[{value.text}, %{block.label}]" for value, block in ends)
        return self.here(f"phi {ends[0][0].type} {parts}", ends[0][0].type)

    def text(self, signature: str) -> str:
        """The function's definition."""
        rows = [f"define {signature} {{"]
        for block in self.blocks:
            rows += [f"{block.label}:", *block.lines, f"  {block.end}"]
        return "\n".join([*rows, "}"])


def _number(value: int | float | bool, type: T) -> str:
    if type.elt == "ptr":
        return "null"
    if not type.is_float:
        if type.bits == 1:
            return "true" if value else "false"
        wrapped = int(value) & ((1 << type.bits) - 1)
        return str(wrapped - (1 << type.bits) if wrapped >> (type.bits - 1) else wrapped)
    return float_text(float(value), type.elt)


def float_text(value: float, elt: str) -> str:
    """An LLVM float literal: the bits of the f64 image (of the f16 itself for half)."""
    if elt == "half":
        return "0xH" + struct.pack(">e", value).hex().upper()
    if elt == "float":
        value = to_f32(value)
    return "0x" + struct.pack(">d", value).hex().upper()


def to_f32(value: float) -> float:
    """The nearest f32 (infinity beyond the range)."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
