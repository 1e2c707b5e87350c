"""`tl.map_elementwise` and `tl.topk`: compiled, interpreted and NumPy agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portkit
import portkit.runtime.tile.language as tl
from portkit.errors import KernelError
from portkit.runtime.tile.jit import interpreted


@pytest.fixture(params=["compiled", "interpreted"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with interpreted(request.param == "interpreted"):
        yield request.param


@portkit.jit
def sign(x, y):
    if x < y:
        return -1
    elif x == y:
        return 0
    else:
        return 1


@portkit.jit
def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@portkit.jit
def halves_and_steps(n):
    steps = 0
    while n > 1:
        n = n // 2
        steps += 1
    return n, steps


@portkit.jit
def pair(a0, a1, b0, b1):
    return a0 // b0, a1 - b1, a0 + a1, b0 * 2


@portkit.jit
def mapped(x_ptr, y_ptr, out_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, tl.map_elementwise(sign, x, y))
    size: tl.constexpr = ROWS * COLS
    tl.store(out_ptr + size + at, tl.map_elementwise(gcd, tl.abs(x), tl.abs(y)) + x)
    last, steps = tl.map_elementwise(halves_and_steps, tl.abs(x) + 1)
    tl.store(out_ptr + 2 * size + at, last * 100 + steps)


@pytest.mark.parametrize("shape", [(1, 1), (1, 16), (8, 4), (16, 1)])
def test_a_function_of_scalars_runs_on_each_element(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-50, 50, shape).astype(np.int32) for _ in range(2))
    out = np.zeros((3, *shape), np.int32)
    mapped[(1,)](x, y, out, *shape)
    np.testing.assert_array_equal(out[0], np.sign(x - y))
    np.testing.assert_array_equal(out[1], np.gcd(x, y) + x)
    np.testing.assert_array_equal(out[2], 100 + np.floor(np.log2(np.abs(x) + 1)))


@portkit.jit
def packed(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    c, d = tl.map_elementwise(pair, tl.load(a_ptr + i), tl.load(b_ptr + i), pack=2)
    tl.store(out_ptr + i, c)
    tl.store(out_ptr + N + i, d)


def test_neighbours_are_packed() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.integers(1, 90, 16).astype(np.int64) for _ in range(2))
    out = np.zeros((2, 16), np.int64)
    packed[(1,)](a, b, out, 16)
    c = np.stack([a[::2] // b[::2], a[1::2] - b[1::2]], 1).reshape(-1)
    d = np.stack([a[::2] + a[1::2], b[::2] * 2], 1).reshape(-1)
    np.testing.assert_array_equal(out, [c, d])


@portkit.jit
def smooth(x):
    if x > 0:
        return tl.exp(-x)
    return x * 0.5


@portkit.jit
def floats(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.map_elementwise(smooth, x) + tl.sum(x))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats(dtype: Any) -> None:
    x = np.linspace(-2, 2, 32).astype(dtype)
    out = np.zeros_like(x)
    floats[(1,)](x, out, 32)
    wide = x.astype(np.float64)
    wanted = np.where(wide > 0, np.exp(-wide), wide / 2) + wide.sum()
    np.testing.assert_allclose(out, wanted, rtol=2e-3 if dtype == np.float16 else 1e-6, atol=1e-3)


@portkit.jit
def storing(x):
    tl.store(x, 1.0)
    return 1.0


@portkit.jit
def vector(x):
    return x + tl.arange(0, 4)


@pytest.mark.parametrize(("function", "said"), [(storing, "pointer|memory"), (vector, "not a number")])
def test_what_the_function_may_not_do(function: Any, said: str) -> None:
    @portkit.jit
    def kernel(x_ptr, out_ptr, F: tl.constexpr):
        i = tl.arange(0, 4)
        tl.store(out_ptr + i, tl.map_elementwise(F, tl.load(x_ptr + i)))

    with pytest.raises(KernelError, match=said):
        kernel[(1,)](np.zeros(4, np.float32), np.zeros(4, np.float32), function)


@portkit.jit
def top(x_ptr, out_ptr, ROWS: tl.constexpr, COLS: tl.constexpr, K: tl.constexpr, LARGEST: tl.constexpr):
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + rows * COLS + cols)
    tl.store(out_ptr + rows * K + tl.arange(0, K)[None, :], tl.topk(x, K, descending=LARGEST))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 4, 16])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(dtype: Any, k: int, largest: bool) -> None:
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((4, 16)) * 40).astype(dtype)
    out = np.zeros((4, k), dtype)
    top[(1,)](x, out, 4, 16, k, largest)
    ordered = np.sort(x, axis=1)
    np.testing.assert_array_equal(out, ordered[:, ::-1][:, :k] if largest else ordered[:, :k])


@portkit.jit
def top_of_first_axis(x_ptr, out_ptr):
    at = tl.arange(0, 8)[:, None] * 4 + tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :], x.topk(2, dim=0))


def test_topk_along_another_axis() -> None:
    x = np.random.default_rng(6).standard_normal((8, 4)).astype(np.float32)
    out = np.zeros((2, 4), np.float32)
    top_of_first_axis[(1,)](x, out)
    np.testing.assert_array_equal(out, np.sort(x, axis=0)[::-1][:2])


@pytest.mark.parametrize("k", [0, 3, 32])
def test_topk_needs_a_power_of_two_that_is_there(k: int) -> None:
    @portkit.jit
    def kernel(x_ptr, K: tl.constexpr):
        tl.store(x_ptr, tl.sum(tl.topk(tl.load(x_ptr + tl.arange(0, 16)), K), 0))

    with pytest.raises(KernelError, match=r"tl\.topk: k is a power of two of at most 16"):
        kernel[(1,)](np.zeros(16, np.float32), k)
