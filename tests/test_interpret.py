"""Kernels of the corpus through front end, verifier and interpreter, against NumPy."""

from __future__ import annotations

from typing import Any

import kernel_cases
import numpy as np
import pytest

import portkit.runtime.tile.language as tl
from portkit.errors import KernelError
from portkit.runtime.tile import frontend, interpret, ir, verify
from portkit.runtime.tile.interpret_ops import convert, narrow_bf16, widen_bf16
from portkit.runtime.tile.signature import Constexpr, Param, Runtime, spec_of


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in kernel_cases.cases()])
def test_corpus(case: dict[str, Any]) -> None:
    values, specs = kernel_cases.specs(case)
    func = frontend.build(case["kernel"], specs)
    verify.verify(func)
    runtime = [value for value, spec in zip(values, specs, strict=True) if isinstance(spec, Runtime)]
    interpret.run(func, runtime, case["grid"])
    kernel_cases.check(case, values)


def launch(fn: Any, *args: Any, grid: tuple[int, ...] = (1,), **constants: Any) -> None:
    """Build for these arguments, verify, interpret."""
    specs = [spec_of(Param(f"p{i}"), arg, "kernel") for i, arg in enumerate(args)]
    func = frontend.build(fn, [*specs, *(Constexpr(c) for c in constants.values())])
    verify.verify(func)
    interpret.run(func, list(args), grid)


# --- memory ----------------------------------------------------------------------------------------


def copy(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets), mask=offsets < n)


def test_reads_out_of_bounds_name_the_place() -> None:
    x, out = np.zeros(6, np.float32), np.zeros(8, np.float32)
    with pytest.raises(KernelError) as caught:
        launch(copy, x, out, 6, BLOCK=8)
    error = caught.value
    assert error.message == (
        "kernel `copy` reads element 6 of `x`, whose memory holds 6, at index [6] of the tile"
    )
    assert error.place.startswith(__file__)
    assert "tl.load(x + offsets)" in error.source
    assert "Mask" in error.remedy


def test_writes_out_of_bounds_change_nothing() -> None:
    x, out = np.ones(8, np.float32), np.zeros(6, np.float32)
    with pytest.raises(KernelError, match="writes element 6 of `out`"):
        launch(copy, x, out, 8, BLOCK=8)
    assert not out.any()
    launch(copy, x, out, 6, BLOCK=8)
    assert out.all()


def test_a_view_may_be_left_but_not_its_memory() -> None:
    memory = np.arange(8, dtype=np.float32)
    out = np.zeros(8, np.float32)
    launch(copy, memory[:4], out, 8, BLOCK=8)
    np.testing.assert_array_equal(out, memory)
    with pytest.raises(KernelError, match="reads element 8 of"):
        launch(copy, memory[4:], out, 8, BLOCK=8)


def test_read_only_arrays_stay_as_they_are() -> None:
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    out.flags.writeable = False
    with pytest.raises(KernelError, match="`out` is read-only"):
        launch(copy, x, out, 8, BLOCK=8)


def test_empty_arrays_and_full_masks() -> None:
    empty = np.zeros(0, np.float32)
    with pytest.raises(KernelError, match="holds 0"):
        launch(copy, empty, empty, 0, BLOCK=8)


def negative_offset(x, out):
    tl.store(out, tl.load(x - 1))


def test_reads_before_the_start() -> None:
    memory = np.array([5, 6], np.int64)
    out = np.zeros(1, np.int64)
    launch(negative_offset, memory[1:], out)
    assert out[0] == 5
    with pytest.raises(KernelError, match="reads element -1 of `x`"):
        launch(negative_offset, memory, out)


def grid_order(out, count):
    at = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    tl.store(out + at, tl.atomic_add(count, 1))


def test_the_grid_runs_in_order() -> None:
    out, count = np.zeros(24, np.int32), np.zeros(1, np.int32)
    launch(grid_order, out, count, grid=(2, 3, 4))
    np.testing.assert_array_equal(out, np.arange(24))


def atomics(x, old, value, KIND: tl.constexpr):
    offsets = tl.arange(0, 4)
    tl.store(old + offsets, KIND(x + offsets // 2, value + offsets, mask=offsets < 3))


@pytest.mark.parametrize(
    ("kind", "memory", "before"),
    [
        (tl.atomic_add, [14 + 6 + 7, 3 + 8], [14, 20, 3, 0]),
        (tl.atomic_max, [14, 8], [14, 14, 3, 0]),
        (tl.atomic_min, [6, 3], [14, 6, 3, 0]),
        (tl.atomic_and, [14 & 6 & 7, 3 & 8], [14, 6, 3, 0]),
        (tl.atomic_or, [15, 11], [14, 14, 3, 0]),
        (tl.atomic_xor, [14 ^ 6 ^ 7, 3 ^ 8], [14, 14 ^ 6, 3, 0]),
        (tl.atomic_xchg, [7, 8], [14, 6, 3, 0]),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_atomics(kind: Any, memory: list[int], before: list[int]) -> None:
    x, old = np.array([14, 3], np.int32), np.zeros(4, np.int32)
    launch(atomics, x, old, 6, KIND=kind)
    assert x.tolist() == memory
    assert old.tolist() == before


def compare_and_swap(x, old):
    tl.store(old + tl.program_id(0), tl.atomic_cas(x, 7, 9))


def test_compare_and_swap() -> None:
    x, old = np.array([7], np.int64), np.zeros(2, np.int64)
    launch(compare_and_swap, x, old, grid=(2,))
    assert x[0] == 9
    assert old.tolist() == [7, 9]


# --- numbers ---------------------------------------------------------------------------------------


def divide(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, a // b)
    tl.store(out + N + at, a % b)
    tl.store(out + 2 * N + at, a >> 1)


def test_integers_divide_towards_zero_and_wrap() -> None:
    x, y = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    out = np.zeros(12, np.int32)
    launch(divide, x, y, out, N=4)
    assert out.tolist() == [3, -3, -3, 3, 1, -1, 1, -1, 3, -4, 3, -4]
    x, y = np.array([2**32 - 1, 9], np.uint32), np.array([2, 4], np.uint32)
    out = np.zeros(6, np.uint32)
    launch(divide, x, y, out, N=2)
    assert out.tolist() == [2**31 - 1, 2, 1, 1, 2**31 - 1, 4]


def wrap(x, out):
    tl.store(out, tl.load(x) * 3 + 1)


def test_integers_wrap() -> None:
    out = np.zeros(1, np.int8)
    launch(wrap, np.array([100], np.int8), out)
    assert out[0] == np.int8(301 - 256)


def bits(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(tl.int32, bitcast=True))


def test_bitcasts() -> None:
    x, out = np.array([1.0, -0.0], np.float32), np.zeros(2, np.int32)
    launch(bits, x, out, N=2)
    assert out.tolist() == [0x3F800000, -(2**31)]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (1 + 2**-8, 1.0),
        (1 + 3 * 2**-8, 1 + 2**-6),
        (1 + 2**-8 + 2**-20, 1 + 2**-7),
        (3.4e38, np.inf),
        (-0.0, -0.0),
    ],
)
def test_bf16_rounds_to_nearest_even(value: float, want: float) -> None:
    got = convert(np.float32(value), ir.BF16)
    assert got == np.float32(want)
    assert np.signbit(got) == np.signbit(want)


def test_bf16_from_f64_rounds_once() -> None:
    value = 1 + 2.0**-8 + 2.0**-40  # just above the middle: f32 would round it to the middle first
    assert convert(np.float64(value), ir.BF16) == 1 + 2.0**-7


def test_every_bf16_survives_the_way_there_and_back() -> None:
    every = np.arange(2**16, dtype=np.uint16)
    wide = widen_bf16(every)
    plain = ~np.isnan(wide)
    np.testing.assert_array_equal(narrow_bf16(wide)[plain], every[plain])
    assert np.isnan(widen_bf16(narrow_bf16(wide[~plain]))).all()


def extremes(x, out, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.max(a, axis=0))
    tl.store(out + 1, tl.min(a, axis=0))
    tl.store(out + 2, tl.maximum(tl.load(x), 1.0))
    tl.store(out + 3, tl.load(x) != tl.load(x))
    tl.store(out + 4, tl.load(x) < 1.0)


def test_nan_in_comparisons_and_extremes() -> None:
    x, out = np.array([np.nan, 2, -3, np.nan], np.float32), np.zeros(5, np.float32)
    launch(extremes, x, out, N=4)
    assert out.tolist() == [2, -3, 1, 1, 0]
