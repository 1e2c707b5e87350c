"""Reductions on registers: identity, one step, merging of accumulators, and the step across lanes.

max and min ignore NaN (all NaN gives the identity); arg reductions give the lowest index.
"""

from __future__ import annotations

from portkit.runtime.tile import ir
from portkit.runtime.tile.lower.elementwise import register
from portkit.runtime.tile.lower.emit import Code, T, V

INDEX = "i32"


class Reducer:
    """One reduction of elements of a type; an accumulator is one value, or value and index for arg kinds."""

    def __init__(self, code: Code, kind: str, dtype: ir.DType) -> None:
        self.code = code
        self.kind = kind.removeprefix("arg")
        self.is_arg = kind.startswith("arg")
        self.dtype = dtype
        self.elt = register(dtype).elt

    def identity(self) -> int | float:
        """What changes nothing."""
        dtype, kind = self.dtype, self.kind
        if kind in ("sum", "any"):
            return 0.0 if dtype.is_float else 0
        if kind == "all":
            return -1
        if dtype.is_float:
            return float("-inf") if kind == "max" else float("inf")
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed and not dtype.is_bool else 0
        high = (1 << (dtype.bits - (1 if dtype.is_signed and not dtype.is_bool else 0))) - 1
        return low if kind == "max" else high

    def start(self, lanes: int) -> list[V]:
        """A fresh accumulator."""
        value = self.code.const(self.identity(), T(self.elt, lanes))
        return [value, self.code.const(0x7FFFFFFF, T(INDEX, lanes))] if self.is_arg else [value]

    def masked(self, valid: V | None, value: V) -> V:
        """The value in valid lanes, the identity in others."""
        if valid is None:
            return value
        value = self.code.splat(value, valid.type.lanes)
        return self.code.select(valid, value, self.code.const(self.identity(), value.type))

    def step(self, acc: list[V], value: V, index: V | None) -> list[V]:
        """The accumulator with one more value (and its index) taken in."""
        lanes = acc[0].type.lanes
        value = self.code.splat(value, lanes)
        if not self.is_arg:
            return [self._combine(acc[0], value)]
        assert index is not None
        return self._better(acc, [value, self.code.splat(index, lanes)])

    def merge(self, a: list[V], b: list[V]) -> list[V]:
        return self._better(a, b) if self.is_arg else [self._combine(a[0], b[0])]

    def _combine(self, a: V, b: V) -> V:
        code = self.code
        if self.kind == "sum":
            if self.dtype.is_bool:
                return code.bin("or", a, b)
            return code.bin("fadd" if a.type.is_float else "add", a, b)
        if self.kind in ("any", "all"):
            return code.bin("or" if self.kind == "any" else "and", a, b)
        return code.select(self._wins(b, a), b, a)

    def _wins(self, new: V, old: V) -> V:
        order = "gt" if self.kind == "max" else "lt"
        if new.type.is_float:
            return self.code.compare(f"fcmp o{order}", new, old)
        signed = self.dtype.is_signed and not self.dtype.is_bool
        return self.code.compare(f"icmp {'s' if signed else 'u'}{order}", new, old)

    def _better(self, old: list[V], new: list[V]) -> list[V]:
        code = self.code
        equal = code.compare("fcmp oeq" if old[0].type.is_float else "icmp eq", new[0], old[0])
        earlier = code.bin("and", equal, code.compare("icmp slt", new[1], old[1]))
        wins = code.bin("or", self._wins(new[0], old[0]), earlier)
        return [code.select(wins, n, o) for n, o in zip(new, old, strict=True)]

    def across(self, acc: list[V]) -> V:
        """One scalar from the lanes of an accumulator."""
        lanes = acc[0].type.lanes
        while lanes > 1:
            lanes //= 2
            halves = [
                [self.code.shuffle(v, range(start, start + lanes)) for v in acc] for start in (0, lanes)
            ]
            acc = self.merge(halves[0], halves[1])
        result = acc[-1]
        if result.type.lanes:
            result = self.code.extract(result, 0)
        return self.unset(result) if self.is_arg else result

    def unset(self, index: V) -> V:
        """0 for an index that no value set (all were NaN)."""
        code = self.code
        none = code.compare("icmp eq", index, code.const(0x7FFFFFFF, index.type))
        return code.select(none, code.const(0, index.type), index)
