"""Products of bf16 and of bytes, on tile registers where the processor has them."""

from __future__ import annotations

import numpy as np
import pytest
from tile_harness import agree, build, optimise

from portkit.runtime.targets import Target, host, targets
from portkit.runtime.tile import language as tl
from portkit.runtime.tile import load
from portkit.runtime.tile.jit import jit
from portkit.runtime.tile.lower import lower

RNG = np.random.default_rng(0)
X86 = targets()["x86_64"]
TILES = "+avx512f,+avx512bw,+avx512vl,+avx512dq,+amx-tile,+amx-bf16,+amx-int8"
AMX = X86.configure(X86.triple, "sapphirerapids", f"{X86.features},{TILES}")


@jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c += a @ b of bf16, whose bits are given as integers; columns beyond N wrap."""
    a_ptr = a_ptr.to(tl.pointer_type(tl.bfloat16))
    b_ptr = b_ptr.to(tl.pointer_type(tl.bfloat16))
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    total = tl.load(c_ptrs, mask=inside, other=0.0)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a_inside = (rows[:, None] < M) & (k[None, :] < K)
        a = tl.load(a_ptr + rows[:, None] * K + k[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + (columns % N)[None, :], mask=k[:, None] < K, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptrs, total, mask=inside)


@jit
def gram(x_ptr, y_ptr, N: tl.constexpr, BYTES: tl.constexpr):
    """y = x @ x^T, of bf16 rounded here or of bytes."""
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at[:, None] * N + at[None, :])
    x = x if BYTES else x.to(tl.bfloat16)
    tl.store(y_ptr + at[:, None] * N + at[None, :], tl.dot(x, tl.trans(x)))


@jit
def square(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    where = at[:, None] * N + at[None, :]
    tl.store(c_ptr + where, tl.dot(tl.load(a_ptr + where), tl.load(b_ptr + where)))


def bits(*shape):
    """Random numbers as the bits of bf16."""
    return (RNG.standard_normal(shape, np.float32).view(np.uint32) >> 16).astype(np.int16)


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4 if got.dtype.kind == "f" else 0)


@pytest.mark.parametrize("sizes", [(64, 64, 64), (33, 47, 70), (16, 100, 1), (5, 3, 31)])
@pytest.mark.parametrize("blocks", [(32, 32, 32), (16, 16, 64), (16, 64, 32)], ids=str)
def test_product_of_bf16(sizes, blocks):
    m, n, k = sizes
    grid = (-(-m // blocks[0]), -(-n // blocks[1]))
    args = [bits(m, k), bits(k, n), RNG.standard_normal((m, n), np.float32), m, n, k]
    agree(product, args, grid, close, **dict(zip(("BM", "BN", "BK"), blocks, strict=True)))


@pytest.mark.parametrize("n", [32, 64, 128])
def test_operand_used_twice_and_transposed(n):
    x = RNG.standard_normal((n, n), np.float32)
    agree(gram, [x, np.zeros_like(x)], [1], close, N=n, BYTES=False)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_product_of_bytes(dtype):
    ends = np.iinfo(dtype)
    a, b = (RNG.integers(ends.min, ends.max, (64, 64), dtype, endpoint=True) for _ in range(2))
    agree(square, [a, b, np.zeros((64, 64), np.int32)], [1], N=64)


def test_what_lies_beyond_the_depth_is_left_out_only_if_both_are_masked():
    """NaN in a row of b that its mask keeps: 0 · NaN is NaN, whatever the mask of a says."""

    @jit
    def kernel(a_ptr, b_ptr, c_ptr, K, N: tl.constexpr, BOTH: tl.constexpr):
        at = tl.arange(0, N)
        where = at[:, None] * N + at[None, :]
        a = tl.load(a_ptr + where, mask=at[None, :] < K, other=0.0)
        b = tl.load(b_ptr + where, mask=at[:, None] < K, other=0.0) if BOTH else tl.load(b_ptr + where)
        tl.store(c_ptr + where, tl.dot(a, b))

    a, b = (RNG.standard_normal((32, 32), np.float32) for _ in range(2))
    b[20, 3] = np.nan
    for both in (True, False):
        agree(kernel, [a, b, np.zeros_like(a), 20], [1], close, N=32, BOTH=both)


def assembly(target: Target, size: int, left=np.int16) -> str:
    """Of `product` for bf16, or of `square` for bytes."""
    if left is np.int16:
        args = [bits(64, 64), bits(64, 64), np.zeros((64, 64), np.float32), 64, 64, 64]
        func = build(product, args, {"BM": size, "BN": size, "BK": size})
    else:
        args = [
            np.zeros((size, size), left),
            np.zeros((size, size), left),
            np.zeros((size, size), np.int32),
        ]
        func = build(square, args, {"N": size})
    return target.assembly(lower(optimise(func), target).text)


@pytest.mark.parametrize(
    ("left", "instruction"), [(np.int16, "tdpbf16ps"), (np.int8, "tdpbssd"), (np.uint8, "tdpbuud")]
)
def test_tile_registers_are_used_and_given_back(left, instruction):
    text = assembly(AMX, 64, left)
    assert text.count("ldtilecfg") == text.count("tilerelease") == 1
    assert text.count(instruction) == 4  # two by two tiles
    assert instruction not in assembly(X86, 64, left)


def test_sizes_that_do_not_fill_tiles_take_vectors():
    assert "tdpbf16ps" not in assembly(AMX, 16)


def test_code_for_tile_registers_calls_no_library():
    args = [bits(64, 64), bits(64, 64), np.zeros((64, 64), np.float32), 64, 64, 64]
    func = optimise(build(product, args, {"BM": 32, "BN": 32, "BK": 32}))
    assert load.text_to_code(lower(func, AMX).text, AMX)[:4] == b"\x7fELF"


def test_features_that_the_system_refuses_are_off():
    assert host().refused(host()) == () or not host().has("amx-tile")
    assert X86.permitted() == X86
