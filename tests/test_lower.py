"""Compiled kernels against the interpreter, in memory with guard pages."""

from __future__ import annotations

import numpy as np
import pytest
from tile_harness import agree

from portkit.runtime.tile import language as tl
from portkit.runtime.tile.jit import jit

RNG = np.random.default_rng(0)


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
