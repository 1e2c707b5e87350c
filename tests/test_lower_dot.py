"""Matrix products: compiled kernels against the interpreter, in memory with guard pages."""

from __future__ import annotations

import numpy as np
import pytest
from tile_harness import agree

from portkit.runtime.tile import language as tl
from portkit.runtime.tile.jit import jit

RNG = np.random.default_rng(0)
f32 = np.float32


@jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_n = tl.cdiv(N, BN)
    pm = pid // num_n
    pn = pid % num_n
    om = (pm * BM + tl.arange(0, BM)) % M
    on = (pn * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    a_ptrs = a_ptr + (om[:, None] * sam + ok[None, :] * sak)
    b_ptrs = b_ptr + (ok[:, None] * sbk + on[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=ok[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    cm = pm * BM + tl.arange(0, BM)
    cn = pn * BN + tl.arange(0, BN)
    tl.store(c_ptr + scm * cm[:, None] + scn * cn[None, :], acc, mask=(cm[:, None] < M) & (cn[None, :] < N))


@jit
def matmul2(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    om = pm * BM + tl.arange(0, BM)
    on = pn * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(
            a_ptr + om[:, None] * sam + (k + ok)[None, :] * sak,
            mask=(om[:, None] < M) & ((k + ok)[None, :] < K),
            other=0.0,
        )
        b = tl.load(
            b_ptr + (k + ok)[:, None] * sbk + on[None, :] * sbn,
            mask=((k + ok)[:, None] < K) & (on[None, :] < N),
            other=0.0,
        )
        acc += tl.dot(a, b)
    tl.store(c_ptr + scm * om[:, None] + scn * on[None, :], acc, mask=(om[:, None] < M) & (on[None, :] < N))


def near(tolerance: float):
    def check(got: np.ndarray, want: np.ndarray) -> None:
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=tolerance, atol=tolerance)

    return check


SIZES = [
    ((64, 64, 64), (32, 32, 32)),
    ((50, 70, 33), (16, 64, 16)),
    ((3, 5, 7), (16, 16, 16)),
    ((65, 33, 100), (32, 8, 32)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("sizes", "blocks"), SIZES)
def test_matmul(sizes: tuple[int, ...], blocks: tuple[int, ...], dtype: type) -> None:
    m, n, k = sizes
    bm, bn, bk = blocks
    a = RNG.standard_normal((m, k)).astype(dtype)
    b = RNG.standard_normal((k, n)).astype(dtype)
    c = np.zeros((m, n), dtype)
    check = near(3e-3 if dtype == np.float16 else 1e-4)
    gm, gn = -(-m // bm), -(-n // bn)
    block = {"BM": bm, "BN": bn, "BK": bk}
    agree(matmul, [a, b, c, m, n, k, k, 1, n, 1, n, 1], [gm * gn], check=check, **block)
    agree(matmul2, [a, b, c, m, n, k, k, 1, n, 1, n, 1], [gm, gn], check=check, **block)
    at, bt = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    agree(matmul2, [at, bt, c, m, n, k, 1, m, 1, k, n, 1], [gm, gn], check=check, **block)


@jit
def flash(Q, K, V, OUT, T, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    pm = tl.program_id(0)
    om = pm * BM + tl.arange(0, BM)
    od = tl.arange(0, D)
    q = tl.load(Q + om[:, None] * D + od[None, :], mask=om[:, None] < T, other=0.0)
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for s in range(0, (pm + 1) * BM, BN):
        on = s + tl.arange(0, BN)
        k = tl.load(K + on[:, None] * D + od[None, :], mask=on[:, None] < T, other=0.0)
        v = tl.load(V + on[:, None] * D + od[None, :], mask=on[:, None] < T, other=0.0)
        qk = tl.dot(q, tl.trans(k)) * scale
        qk = tl.where(om[:, None] >= on[None, :], qk, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p, v, acc)
        m_i = m_new
    acc = acc / l_i[:, None]
    tl.store(OUT + om[:, None] * D + od[None, :], acc, mask=om[:, None] < T)


def test_flash() -> None:
    for t, bm, bn, d in ((40, 16, 16, 32), (64, 32, 16, 16), (100, 16, 32, 64)):
        q, k, v = RNG.standard_normal((3, t, d)).astype(f32)
        agree(flash, [q, k, v, np.zeros_like(q), t, 0.25], [-(-t // bm)], check=near(1e-4), BM=bm, BN=bn, D=d)
