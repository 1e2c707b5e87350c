"""Random kernels, built operation by operation: compiled and interpreted results agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_harness import Compiled, close, guarded

from portkit.runtime.tile import interpret, ir, verify

SHAPES = [(64,), (48,), (7,), (1,), (8, 32), (5, 3), (16, 1), (1, 40), (2, 4, 16)]


class Maker:
    """Grows a function over tiles of one shape from four input arrays into two outputs."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape = SHAPES[seed % len(SHAPES)]
        self.noalias = bool(self.rng.integers(2))
        kinds = [ir.F32, ir.F32, ir.I32, ir.F16, ir.F32, ir.I32]
        params = [ir.Value(ir.Type(ir.Pointer(k)), f"p{n}") for n, k in enumerate(kinds)]
        params.append(ir.Value(ir.Type(ir.I32), "n"))
        facts = [ir.ParamFacts(noalias=self.noalias)] * len(kinds) + [ir.ParamFacts()]
        self.func = ir.Function(f"random{seed}", params, facts, ir.Block())
        self.b = ir.Builder(self.func.body)
        self.index = self.offsets()
        bound = self.splat(params[-1], ir.I32)
        self.mask = self.value("cmp", [self.index, bound], ir.I1, pred="lt")
        self.floats: list[ir.Value] = []
        self.ints = [self.index]
        self.bools = [self.mask]
        self.params = params

    def value(self, opcode: str, operands: list[ir.Value], element: ir.Element, **attrs: Any) -> ir.Value:
        return self.b.value(opcode, operands, ir.Type(element, self.shape), **attrs)

    def splat(self, scalar: ir.Value, element: ir.Element) -> ir.Value:
        return self.value("splat", [scalar], element)

    def along(self, axis: int) -> ir.Value:
        """0, 1, … along one axis, the same along the others."""
        value = self.b.value(
            "arange", [], ir.Type(ir.I32, (self.shape[axis],)), start=0, end=self.shape[axis]
        )
        shape: tuple[int, ...] = (self.shape[axis],)
        for place in range(len(self.shape)):
            if place != axis:
                shape = (*shape[:place], 1, *shape[place:])
                value = self.b.value("expand_dims", [value], ir.Type(ir.I32, shape), axis=place)
        return self.value("broadcast", [value], ir.I32) if shape != self.shape else value

    def offsets(self) -> ir.Value:
        total: ir.Value | None = None
        step = 1
        for axis in reversed(range(len(self.shape))):
            term = self.value(
                "mul", [self.along(axis), self.b.const(step, ir.Type(ir.I32, self.shape))], ir.I32
            )
            total = term if total is None else self.value("add", [total, term], ir.I32)
            step *= self.shape[axis]
        assert total is not None
        return total

    def pick(self, values: list[ir.Value]) -> ir.Value:
        return values[int(self.rng.integers(len(values)))]

    def pointer(self, n: int, index: ir.Value) -> ir.Value:
        element = self.params[n].type.element
        return self.value("addptr", [self.splat(self.params[n], element), index], element)

    def load(self) -> None:
        n = int(self.rng.integers(4))
        element = self.params[n].type.dtype
        other = self.b.const(
            float(self.rng.integers(-2, 3)) if element.is_float else 1, ir.Type(element, self.shape)
        )
        index = self.index
        if self.rng.integers(3) == 0:  # backwards, or every second one: still inside the array
            last = self.value("sub", [self.splat(self.params[-1], ir.I32), self.index], ir.I32)
            index = self.value("sub", [last, self.b.const(1, ir.Type(ir.I32, self.shape))], ir.I32)
        mask = (
            self.mask
            if self.rng.integers(3)
            else self.value("and", [self.mask, self.pick(self.bools)], ir.I1)
        )
        value = self.value(
            "load", [self.pointer(n, index), mask, other], element, has_mask=True, has_other=True
        )
        if element == ir.F16:
            value = self.value("cast", [value], ir.F32)
        (self.floats if element.is_float else self.ints).append(value)

    def compute(self) -> None:
        a, b = self.pick(self.floats), self.pick(self.floats)
        i, j = self.pick(self.ints), self.pick(self.ints)
        choice = int(self.rng.integers(14))
        if choice < 4:
            self.floats.append(self.value(("add", "sub", "min", "max")[choice], [a, b], ir.F32))
        elif choice == 4:
            self.floats.append(self.value(("tanh", "sigmoid", "sin")[int(self.rng.integers(3))], [a], ir.F32))
        elif choice == 5:
            self.floats.append(self.value("cast", [i], ir.F32))
        elif choice == 6:
            self.ints.append(
                self.value(("add", "mul", "xor", "idiv", "irem")[int(self.rng.integers(5))], [i, j], ir.I32)
            )
        elif choice == 7:
            self.bools.append(
                self.value("cmp", [a, b], ir.I1, pred=("lt", "ge", "ne")[int(self.rng.integers(3))])
            )
        elif choice == 8:
            self.bools.append(
                self.value("cmp", [i, j], ir.I1, pred=("lt", "gt", "le", "eq")[int(self.rng.integers(4))])
            )
        elif choice == 9:
            self.floats.append(self.value("select", [self.pick(self.bools), a, b], ir.F32))
        elif choice == 10:
            self.bools.append(self.value("and", [self.pick(self.bools), self.pick(self.bools)], ir.I1))
        elif choice == 11:
            self.floats.append(self.sliced(a))
        else:
            self.floats.append(self.reduced(a))

    def sliced(self, value: ir.Value) -> ir.Value:
        """One index of an axis, spread over the tile again; where it can be, of another shape of the tile."""
        axis = int(self.rng.integers(len(self.shape)))
        index = int(self.rng.integers(self.shape[axis]))
        shape = tuple(s for k, s in enumerate(self.shape) if k != axis)
        if shape and self.rng.integers(2):
            turned = ir.Type(ir.F32, (self.shape[axis], *shape))
            value = self.b.value("reshape", [value], turned)
            result = self.b.value("slice", [value], ir.Type(ir.F32, shape), axis=0, index=index)
        else:
            result = self.b.value("slice", [value], ir.Type(ir.F32, shape), axis=axis, index=index)
        if not shape:
            return self.splat(result, ir.F32)
        wide = ir.Type(ir.F32, (*shape[:axis], 1, *shape[axis:]))
        result = self.b.value("expand_dims", [result], wide, axis=axis)
        return self.value("broadcast", [result], ir.F32) if wide.shape != self.shape else result

    def reduced(self, value: ir.Value) -> ir.Value:
        """A reduction along an axis, spread over the tile again."""
        axis = int(self.rng.integers(len(self.shape)))
        shape = tuple(s for k, s in enumerate(self.shape) if k != axis)
        kind = ("max", "min", "sum")[int(self.rng.integers(3))]
        if kind == "sum":  # keeps numbers small
            value = self.value("tanh", [value], ir.F32)
        result = self.b.value("reduce", [value], ir.Type(ir.F32, shape), kind=kind, axis=axis)
        if not shape:
            return self.splat(result, ir.F32)
        wide = ir.Type(ir.F32, (*shape[:axis], 1, *shape[axis:]))
        result = self.b.value("expand_dims", [result], wide, axis=axis)
        return self.value("broadcast", [result], ir.F32) if wide.shape != self.shape else result

    def store(self, n: int) -> None:
        value = self.pick(self.floats if self.params[n].type.dtype.is_float else self.ints)
        if self.params[n].type.dtype == ir.F16:
            value = self.value("cast", [value], ir.F16)
        self.b.add("store", [self.pointer(n, self.index), value, self.mask], [], has_mask=True)

    def build(self, steps: int) -> ir.Function:
        for _ in range(3):
            self.load()
        self.floats.append(self.value("cast", [self.index], ir.F32))
        for _ in range(steps):
            self.compute()
            if self.rng.integers(5) == 0:
                self.load()
            if self.rng.integers(6) == 0:
                self.store(int(self.rng.integers(6)) if not self.noalias else int(self.rng.integers(4, 6)))
        for n in (4, 5):
            self.store(n)
        self.b.add("return", [], [])
        return self.func


@pytest.mark.parametrize("seed", range(72))
def test_random_kernel(seed: int) -> None:
    maker = Maker(seed)
    func = maker.build(14)
    verify.verify(func)
    rng = np.random.default_rng(1000 + seed)
    size = int(np.prod(maker.shape))
    n = int(rng.integers(1, size + 1))
    kinds = [np.float32, np.float32, np.int32, np.float16, np.float32, np.int32]
    # no array is longer than what the masks let through
    arrays = [(rng.integers(-40, 40, n) / (1 if k == np.int32 else 8)).astype(k) for k in kinds]
    expected = [a.copy() for a in arrays]
    interpret.run(func, [*expected, n], [1])
    compiled = Compiled(func)
    for at_end in (True, False):
        actual = [guarded(a, at_end) for a in arrays]
        compiled.run([*actual, n], [1])
        for got, want in zip(actual, expected, strict=True):
            close(got, want)


@pytest.mark.parametrize("distance", [-17, -1, 0, 1, 5, 16, 63])
def test_arrays_that_overlap(distance: int) -> None:
    """y[i] = x[i] + 1 where y starts some elements after x: the block is read before it is written."""
    tile, scalar = ir.Type(ir.F32, (64,)), ir.Type(ir.I32)
    pointers = ir.Type(ir.Pointer(ir.F32), (64,))
    params = [ir.Value(ir.Type(ir.Pointer(ir.F32)), name) for name in "xy"]
    func = ir.Function("shift", [*params, ir.Value(scalar, "n")], [ir.ParamFacts()] * 3, ir.Block())
    b = ir.Builder(func.body)
    index = b.value("arange", [], ir.Type(ir.I32, (64,)), start=0, end=64)
    x, y = (b.value("addptr", [b.value("splat", [p], pointers), index], pointers) for p in params)
    value = b.value("load", [x], tile, has_mask=False, has_other=False)
    b.add("store", [y, b.value("add", [value, b.const(1.0, tile)], tile)], [], has_mask=False)
    b.add("return", [], [])
    memory = guarded(np.arange(200, dtype=np.float32))
    start = 64
    want = memory.copy()
    want[start + distance : start + distance + 64] = want[start : start + 64] + 1
    Compiled(func).run([memory[start:], memory[start + distance :], 64], [1])
    np.testing.assert_array_equal(memory, want)
