"""Kernels through front end, verifier and interpreter, against NumPy."""

from __future__ import annotations

import numpy as np

from portkit.runtime.tile import frontend, interpret, ir, verify
from portkit.runtime.tile import language as tl
from portkit.runtime.tile.signature import Constexpr, Runtime

F32 = Runtime(ir.Type(ir.Pointer(ir.F32)))
I32 = Runtime(ir.Type(ir.I32))


def softmax(out, inp, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(inp + row * stride + cols, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row * stride + cols, e / tl.sum(e, axis=0), mask=mask)


def test_softmax_of_rows() -> None:
    func = frontend.build(softmax, [F32, F32, I32, I32, Constexpr(128)])
    verify.verify(func)
    x = np.random.default_rng(0).standard_normal((7, 100), np.float32)
    out = np.empty_like(x)
    interpret.run(func, [out, x, 100, 100], (7,))
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-6)
