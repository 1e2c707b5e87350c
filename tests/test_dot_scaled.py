"""`tl.dot_scaled`: compiled, interpreted and NumPy agree, in every format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portkit
import portkit.runtime.tile.language as tl
from portkit.errors import KernelError
from portkit.runtime.tile.jit import interpreted

torch = pytest.importorskip("torch")
FOUR = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
EIGHT = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(params=["compiled", "interpreted"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with interpreted(request.param == "interpreted"):
        yield request.param


@portkit.jit
def product(
    a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    KA: tl.constexpr, KB: tl.constexpr, GROUP: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
    SCALED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    m, n = tl.arange(0, M), tl.arange(0, N)
    g = tl.arange(0, K // GROUP)
    a = tl.load(a_ptr + m[:, None] * KA + tl.arange(0, KA)[None, :])
    b = tl.load(b_ptr + n[None, :] * KB + tl.arange(0, KB)[:, None])
    sa = tl.load(sa_ptr + m[:, None] * (K // GROUP) + g[None, :])
    sb = None
    if SCALED:
        sb = tl.load(sb_ptr + n[:, None] * (K // GROUP) + g[None, :])
    if ACC:
        acc = tl.dot_scaled(a, sa, A, b, sb, B, acc=tl.full((M, N), 2.0, tl.float32))
    else:
        acc = tl.dot_scaled(a, sa, A, b, sb, B)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


def operand(rng: Any, form: str, rows: int, k: int) -> tuple[Any, Any]:
    """What the kernel gets, and the numbers that it means."""
    if form == "e2m1":
        data = rng.integers(0, 256, (rows, k // 2)).astype(np.uint8)
        return data, np.stack([FOUR[data & 15], FOUR[data >> 4]], -1).reshape(rows, k)
    values = torch.from_numpy(rng.standard_normal((rows, k), np.float32) * 3).to({**EIGHT, **HALF}[form])
    wide = values.double().numpy()
    return (values.view(torch.uint8) if form in EIGHT and rows % 32 else values), wide


@pytest.mark.parametrize("b_form", ["e2m1", "e4m3", "e5m2", "fp16", "bf16"])
@pytest.mark.parametrize("a_form", ["e2m1", "e4m3", "e5m2", "bf16"])
@pytest.mark.parametrize(("scaled", "group"), [(True, 32), (False, 32), (True, 16)])
def test_formats(a_form: str, b_form: str, scaled: bool, group: int) -> None:
    rng = np.random.default_rng(7)
    m, n, k = 16, 32, 64
    a, wide_a = operand(rng, a_form, m, k)
    b, wide_b = operand(rng, b_form, n, k)
    sa, sb = (rng.integers(122, 132, (rows, k // group)).astype(np.uint8) for rows in (m, n))
    out = np.zeros((m, n), np.float32)
    product[(1,)](a, sa, b, sb, out, m, n, k, a.shape[1], b.shape[1], group, a_form, b_form, scaled, scaled)
    wide_a = wide_a * np.repeat(2.0 ** (sa.astype(int) - 127), group, 1)
    if scaled:
        wide_b = wide_b * np.repeat(2.0 ** (sb.astype(int) - 127), group, 1)
    wanted = wide_a @ wide_b.T + (2 if scaled else 0)
    bound = np.abs(wide_a) @ np.abs(wide_b.T) + 1
    assert (np.abs(out - wanted) <= 1e-6 * bound).all()


def test_the_least_scale_and_nan() -> None:
    a = torch.ones((16, 32), dtype=torch.bfloat16)
    sa, sb = np.full((16, 1), 127, np.uint8), np.full((16, 1), 127, np.uint8)
    sa[0], sa[1] = 0, 255
    a[0] = 2.0**100
    out = np.zeros((16, 16), np.float32)
    product[(1,)](a, sa, a, sb, out, 16, 16, 32, 32, 32, 32, "bf16", "bf16", True, False)
    assert out[0, 1] == 32 * 2.0**-27
    assert np.isnan(out[1]).all()
    assert out[2, 2] == 32


@pytest.mark.parametrize(
    ("a", "form", "said"),
    [
        (np.uint8, "e3m2", "no format"),
        (np.float32, "e2m1", "is a matrix of u8 or i8"),
        (np.float32, "fp16", "f16"),
    ],
)
def test_what_does_not_fit_is_refused(a: Any, form: str, said: str) -> None:
    data, scale, out = np.zeros((16, 32), a), np.zeros((16, 1), np.uint8), np.zeros((16, 16), np.float32)
    with pytest.raises(KernelError, match=said):
        product[(1,)](data, scale, data, scale, out, 16, 16, 32, 32, 32, 32, form, form, True, False)
    with pytest.raises(KernelError, match="does not fit"):
        product[(1,)](
            data.astype(np.uint8), scale, data.astype(np.uint8), scale, out, 16, 16, 32, 32, 32, 32,
            "e2m1", "e2m1", True, False,
        )  # fmt: skip
