"""Compiled kernels against the interpreter, in memory with guard pages."""

from __future__ import annotations

import numpy as np
import pytest
from tile_harness import Compiled, agree

from portkit.runtime.tile import interpret, ir
from portkit.runtime.tile import language as tl
from portkit.runtime.tile.jit import jit

RNG = np.random.default_rng(0)
f32 = np.float32


@jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@jit
def softmax(out, inp, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(inp + row * stride + cols, mask=cols < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row * stride + cols, e / tl.sum(e, axis=0), mask=cols < n)


@pytest.mark.parametrize("noalias", [True, False])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 1000, 1024, 4097])
def test_add(n: int, noalias: bool) -> None:
    x, y = RNG.standard_normal((2, n)).astype(np.float32)
    agree(add, [x, y, np.zeros_like(x), n], [-(-n // 1024)], noalias=noalias, BLOCK=1024)


@pytest.mark.parametrize("noalias", [True, False])
@pytest.mark.parametrize("shape", [(3, 1), (3, 7), (2, 1000), (2, 1024)])
def test_softmax_of_rows(shape: tuple[int, int], noalias: bool) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    n = shape[1]
    agree(softmax, [np.zeros_like(x), x, n, n], [shape[0]], noalias=noalias, BLOCK=1024)


@jit
def softmax2(out, inp, sr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    x = tl.load(inp + rows[:, None] * sr + cols[None, :], mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(out + rows[:, None] * sr + cols[None, :], e / tl.sum(e, axis=1)[:, None], mask=mask)


def test_softmax2() -> None:
    for m, n in ((7, 33), (8, 64), (1, 1), (9, 17)):
        x = RNG.standard_normal((m, n)).astype(f32)
        agree(softmax2, [np.zeros_like(x), x, n, m, n], [-(-m // 8)], BM=8, BN=64)


@jit
def colsum(out, inp, sr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros([BN], tl.float32)
    for r in range(0, m, BM):
        rows = r + tl.arange(0, BM)
        x = tl.load(
            inp + rows[:, None] * sr + cols[None, :],
            mask=(rows[:, None] < m) & (cols[None, :] < n),
            other=0.0,
        )
        acc += tl.sum(x, axis=0)
    tl.store(out + cols, acc, mask=cols < n)


def test_colsum() -> None:
    for m, n in ((7, 33), (16, 64), (1, 1), (33, 130)):
        x = RNG.standard_normal((m, n)).astype(f32)
        agree(colsum, [np.zeros(n, f32), x, n, m, n], [-(-n // 64)], BM=8, BN=64)


@jit
def layernorm(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    _mean = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        a = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        _mean += a
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        _var += x * x
    var = tl.sum(_var, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        x_hat = (x - mean) * rstd
        tl.store(Y + cols, x_hat * w + b, mask=mask)


def test_layernorm() -> None:
    for dt in (np.float32, np.float16):
        x = RNG.standard_normal((3, 301)).astype(dt)
        w, b = RNG.standard_normal((2, 301)).astype(dt)
        agree(
            layernorm,
            [x, np.zeros_like(x), w, b, np.zeros(3, f32), np.zeros(3, f32), 301, 301, 1e-5],
            [3],
            BLOCK=128,
        )


@jit
def argm(X, OUT, V, n, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.arange(0, BM)
    c = tl.arange(0, BN)
    x = tl.load(X + r[:, None] * n + c[None, :], mask=c[None, :] < n, other=-1000)
    tl.store(OUT + r, tl.argmax(x, axis=1))
    tl.store(OUT + BM + r, tl.argmin(x, axis=1))
    tl.store(OUT + 2 * BM + c, tl.argmax(x, axis=0))
    tl.store(V + r, tl.max(x, axis=1))
    tl.store(V + BM + c, tl.min(x, axis=0))


def test_arg() -> None:
    for dt in (np.float32, np.int32, np.int64, np.float64, np.int8):
        x = RNG.integers(-5, 5, (8, 30)).astype(dt)
        agree(argm, [x, np.zeros(16 + 32, np.int32), np.zeros(8 + 32, dt), 30], [1], BM=8, BN=32)


@jit
def trans(X, Y, m, n, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(X + r[:, None] * n + c[None, :], mask=(r[:, None] < m) & (c[None, :] < n))
    tl.store(Y + c[:, None] * m + r[None, :], tl.trans(x), mask=(c[:, None] < n) & (r[None, :] < m))


def test_trans() -> None:
    for dt in (np.float32, np.int8, np.float16):
        x = RNG.integers(-5, 5, (23, 70)).astype(dt)
        agree(trans, [x, np.zeros((70, 23), dt), 23, 70], [2, 3], BM=16, BN=32)


@jit
def shift(X, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    x = tl.load(X + o, mask=o < n)
    tl.store(X + 1 + o, x, mask=o < n)
    y = tl.load(X + o, mask=o < n)
    tl.store(X + o, y * 2, mask=o < n)


def test_shift() -> None:
    x = RNG.standard_normal(101).astype(f32)
    agree(shift, [x, 100], [1], BLOCK=128)


@jit
def gather(X, IDX, Y, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    i = tl.load(IDX + o, mask=o < n, other=0)
    x = tl.load(X + i, mask=o < n, other=7)
    tl.store(Y + i, x + 1, mask=o < n)


def test_gather() -> None:
    for it in (np.int32, np.int64):
        for dt in (np.float32, np.float16, np.int8, np.float64):
            x = RNG.integers(0, 9, 100).astype(dt)
            i = RNG.permutation(100).astype(it)[:50]
            agree(gather, [x, i, np.zeros(100, dt), 50], [1], BLOCK=64)


@jit
def control(X, Y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    o = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + o, mask=o < n, other=0.0)
    s = tl.sum(x, axis=0)
    if s > 0:
        x = x * 2
        t = s + 1
    else:
        x = tl.exp(x)
        t = s - 1
    k = 0
    while k < pid + 2:
        x = x + t
        k += 1
    tl.store(Y + o, x, mask=o < n)


def test_control() -> None:
    x = RNG.standard_normal(100).astype(f32)
    agree(control, [x, np.zeros(100, f32), 100], [7], BLOCK=16)


@jit
def ints(X, Y, OUT, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    m = o < n
    x = tl.load(X + o, mask=m, other=1)
    y = tl.load(Y + o, mask=m, other=1)
    tl.store(OUT + o, x // y, mask=m)
    tl.store(OUT + n + o, x % y, mask=m)
    tl.store(OUT + 2 * n + o, x * y - x, mask=m)
    tl.store(OUT + 3 * n + o, (x & y) | (x ^ 3), mask=m)
    tl.store(OUT + 4 * n + o, x >> (y & 7), mask=m)
    tl.store(OUT + 5 * n + o, x << (y & 7), mask=m)
    tl.store(OUT + 6 * n + o, tl.where(x < y, x, y), mask=m)
    tl.store(OUT + 7 * n + o, (x >= y).to(x.dtype) + tl.abs(x), mask=m)


def test_ints() -> None:
    for dt in (np.int32, np.int64, np.int16, np.int8, np.uint8, np.uint32, np.uint64):
        ii = np.iinfo(dt)
        x = RNG.integers(ii.min, ii.max, 100, dtype=dt, endpoint=True)
        y = RNG.integers(max(ii.min, -50), 50, 100).astype(dt)
        y[y == 0] = 3
        x[:3] = ii.min
        y[:3] = [1, 2, 3]
        agree(ints, [x, y, np.zeros(800, dt), 100], [1], BLOCK=128)


@jit
def casts(X, O16, O8, O64, F16, F64, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    m = o < n
    x = tl.load(X + o, mask=m, other=1)
    tl.store(O16 + o, x.to(tl.int16), mask=m)
    tl.store(O8 + o, x.to(tl.int8), mask=m)
    tl.store(O64 + o, x.to(tl.int64), mask=m)
    tl.store(F16 + o, x.to(tl.float16), mask=m)
    tl.store(F64 + o, x.to(tl.float64), mask=m)
    tl.store(F16 + n + o, x.to(tl.bfloat16).to(tl.float16), mask=m)


def test_casts() -> None:
    for dt in (np.float32, np.float64, np.float16, np.int32, np.uint8):
        x = (RNG.standard_normal(100) * 30).astype(dt)
        agree(
            casts,
            [
                x,
                np.zeros(100, np.int16),
                np.zeros(100, np.int8),
                np.zeros(100, np.int64),
                np.zeros(200, np.float16),
                np.zeros(100, np.float64),
                100,
            ],
            [1],
            BLOCK=128,
        )


@jit
def unary(X, OUT, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    x = tl.load(X + o, mask=m)
    tl.store(OUT + o, tl.exp(x), mask=m)
    tl.store(OUT + n + o, tl.log(tl.abs(x)), mask=m)
    tl.store(OUT + 2 * n + o, tl.sqrt(tl.abs(x)), mask=m)
    tl.store(OUT + 3 * n + o, tl.sigmoid(x), mask=m)
    tl.store(OUT + 4 * n + o, tl.floor(x), mask=m)
    tl.store(OUT + 5 * n + o, tl.ceil(x), mask=m)
    tl.store(OUT + 6 * n + o, tl.exp2(x), mask=m)
    tl.store(OUT + 7 * n + o, tl.log2(tl.abs(x)), mask=m)
    tl.store(OUT + 8 * n + o, tl.maximum(x, 0.5), mask=m)


def test_unary() -> None:
    for dt in (np.float32, np.float64, np.float16):
        x = (RNG.standard_normal(100) * 4).astype(dt)
        agree(unary, [x, np.zeros(900, dt), 100], [2], BLOCK=64)


@jit
def unary2(X, OUT, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    x = tl.load(X + o, mask=m)
    tl.store(OUT + o, tl.sin(x), mask=m)
    tl.store(OUT + n + o, tl.cos(x), mask=m)
    tl.store(OUT + 2 * n + o, tl.erf(x), mask=m)
    tl.store(OUT + 3 * n + o, tl.fma(x, x, x), mask=m)
    tl.store(OUT + 4 * n + o, tl.rsqrt(tl.abs(x)), mask=m)


def test_unary2() -> None:
    x = (RNG.standard_normal(100) * 4).astype(f32)
    agree(unary2, [x, np.zeros(500, f32), 100], [2], BLOCK=64)


@jit
def strided(X, OUT, n, sx, so, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    m = o < n
    tl.store(OUT + o * so, tl.load(X + o * sx, mask=m, other=0.0) + 1, mask=m)


def test_strided() -> None:
    for sx, so in ((2, 1), (1, 3), (0, 2), (5, 7)):
        x = (RNG.standard_normal(100 * max(sx, 1))).astype(f32)
        agree(strided, [x, np.zeros(100 * so, f32), 100, sx, so], [1], BLOCK=128)


@jit
def atom(X, OUT, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    x = tl.load(X + o, mask=m, other=0)
    tl.atomic_add(OUT + o % 7, x, mask=m)
    tl.atomic_add(OUT + 7, tl.sum(x, axis=0))


def test_atom() -> None:
    for dt in (np.float32, np.int32, np.int64, np.float64):
        x = RNG.integers(-9, 9, 100).astype(dt)
        agree(atom, [x, np.zeros(8, dt), 100], [4], BLOCK=32)


@jit
def resh(X, OUT, BM: tl.constexpr, BN: tl.constexpr):
    o = tl.arange(0, BM * BN)
    x = tl.load(X + o)
    y = tl.reshape(x, [BM, BN])
    s = tl.sum(y, axis=1)
    z = tl.reshape(tl.trans(y), [BM * BN])
    tl.store(OUT + o, z)
    tl.store(OUT + BM * BN + tl.arange(0, BM), s)


def test_resh() -> None:
    x = RNG.standard_normal(64 * 8).astype(f32)
    agree(resh, [x, np.zeros(64 * 8 + 64, f32)], [1], BM=64, BN=8)
    agree(resh, [x, np.zeros(64 * 8 + 8, f32)], [1], BM=8, BN=64)


@jit
def causal(X, OUT, n, BM: tl.constexpr):
    r = tl.arange(0, BM)
    x = tl.load(X + r[:, None] * n + r[None, :], mask=(r[:, None] < n) & (r[None, :] < n), other=0.0)
    y = tl.where(r[:, None] >= r[None, :], x, -1.0)
    tl.store(OUT + r[:, None] * n + r[None, :], y, mask=(r[:, None] < n) & (r[None, :] <= r[:, None]))


def test_causal() -> None:
    x = RNG.standard_normal((30, 30)).astype(f32)
    agree(causal, [x, np.zeros((30, 30), f32), 30], [1], BM=32)


@jit
def atomics(X, OLD, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    x = tl.load(X + 8 + o, mask=m, other=0)
    tl.store(OLD + o, KIND(X + o % 8, x, mask=m), mask=m)


@jit
def unused_atomics(X, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    KIND(X + o % 8, o.to(X.dtype.element_ty), mask=o < n)


KINDS = [tl.atomic_add, tl.atomic_max, tl.atomic_min, tl.atomic_xchg]
BITS = [tl.atomic_and, tl.atomic_or, tl.atomic_xor]


@pytest.mark.parametrize("kind", [*KINDS, *BITS], ids=lambda kind: kind.__name__)
def test_atomics(kind) -> None:
    types = [np.int32, np.uint32, np.int64, np.uint64] + [np.float32, np.float64] * (kind in KINDS)
    for dt in types:
        x = RNG.integers(-9, 9, 8 + 100).astype(np.int64).astype(dt)
        agree(atomics, [x, np.zeros(100, dt), 100], [4], KIND=kind, BLOCK=32)
        agree(unused_atomics, [x, 50], [2], KIND=kind, BLOCK=32)


@jit
def swap(X, OLD, EXPECTED, NEW):
    o = tl.program_id(0)
    tl.store(OLD + o, tl.atomic_cas(X + o % 2, tl.load(EXPECTED + o), tl.load(NEW + o)))


def test_compare_and_swap() -> None:
    for dt in (np.int32, np.int64, np.float32, np.float64):
        expected, new = np.array([5, 7, 2, 9], dt), np.array([2, 8, 3, 4], dt)
        agree(swap, [np.array([5, 6], dt), np.zeros(4, dt), expected, new], [4])


def test_a_carried_tile_is_read_with_another_shape_before_it_is_overwritten() -> None:
    """b takes in the old a, seen as one row, and its first row, in the iteration that changes a."""
    square, row = ir.Type(ir.F32, (4, 16)), ir.Type(ir.F32, (64,))
    params = [ir.Value(ir.Type(ir.Pointer(ir.F32)), name) for name in "xy"]
    func = ir.Function("turns", params, [ir.ParamFacts()] * 2, ir.Block())
    b = ir.Builder(func.body)
    index = b.value("arange", [], ir.Type(ir.I32, (64,)), start=0, end=64)

    def at(pointer: ir.Value) -> ir.Value:
        pointers = ir.Type(ir.Pointer(ir.F32), (64,))
        return b.value("addptr", [b.value("splat", [pointer], pointers), index], pointers)

    start = b.value("load", [at(params[0])], row, has_mask=False, has_other=False)
    start = b.value("reshape", [start], square)
    bounds = [b.const(n, ir.Type(ir.I32)) for n in (0, 3, 1)]
    body = ir.Block(
        [ir.Value(ir.Type(ir.I32)), ir.Value(square), ir.Value(row), ir.Value(ir.Type(ir.F32, (16,)))]
    )
    inner = ir.Builder(body)
    _, a, total, first = body.args
    grown = inner.value("mul", [a, inner.const(2.0, square)], square)
    seen = inner.value("reshape", [a], row)
    part = inner.value("slice", [a], first.type, axis=0, index=1)
    added = inner.value("add", [total, seen], row)
    firsts = inner.value("add", [first, part], first.type)
    inner.add("yield", [grown, added, firsts], [])
    zeros = [b.const(0.0, row), b.const(0.0, first.type)]
    loop = b.add("for", [*bounds, start, *zeros], [square, row, first.type], [body])
    wide = b.value("expand_dims", [loop.results[2]], ir.Type(ir.F32, (1, 16)), axis=0)
    wide = b.value("broadcast", [wide], square)
    result = b.value("add", [loop.results[1], b.value("reshape", [wide], row)], row)
    b.add("store", [at(params[1]), result], [], has_mask=False)
    b.add("return", [], [])
    x = np.arange(64, dtype=np.float32)
    want, got = np.zeros(64, np.float32), np.zeros(64, np.float32)
    interpret.run(func, [x, want], [1])
    np.testing.assert_array_equal(want, x * 7 + np.tile(x[16:32] * 7, 4))
    Compiled(func).run([x, got], [1])
    np.testing.assert_array_equal(got, want)


@jit
def indices_that_are_all_one(x_ptr, i_ptr, out_ptr, n, s, N: tl.constexpr):
    at = tl.arange(0, N)
    same = tl.load(i_ptr + (tl.zeros([N], tl.int32) + s), mask=(tl.zeros([N], tl.int32) + s) < n, other=3)
    tl.store(out_ptr + at, tl.load(x_ptr + same, mask=same < n, other=-1.0))
    tl.store(out_ptr + N + same, at.to(tl.float32), mask=(at < n) & (same < n))
    tl.store(out_ptr + 2 * N + at, tl.load(x_ptr + same % 7, mask=at < n, other=-2.0))


@pytest.mark.parametrize(("n", "s"), [(16, 2), (5, 4), (5, 9), (1, 0)])
def test_lanes_that_turn_out_to_have_one_address(n: int, s: int) -> None:
    x = np.arange(1, n + 1, dtype=np.float32)
    index = np.full(n, n - 1, np.int32)
    agree(indices_that_are_all_one, [x, index, np.zeros(48, np.float32), n, s], [1], N=16)
