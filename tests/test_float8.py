"""8-bit floats in kernels, compiled and interpreted, against numbers worked out from their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portkit.runtime.tile.language as tl
import portkit.runtime.triton as triton
from portkit.runtime.tile.jit import interpreted

torch = pytest.importorskip("torch")

TYPES = {  # mantissa, bias, bits of the largest number
    "float8e5": (2, 15, 0x7B),
    "float8e4nv": (3, 7, 0x7E),
    "float8e4b15": (3, 15, 0x7F),
    "float8e4b8": (3, 8, 0x7F),
    "float8e5b16": (2, 16, 0x7F),
}
TORCH = {
    "float8e5": "float8_e5m2",
    "float8e4nv": "float8_e4m3fn",
    "float8e4b8": "float8_e4m3fnuz",
    "float8e5b16": "float8_e5m2fnuz",
}


@pytest.fixture(params=["compiled", "interpreted"])
def mode(request: pytest.FixtureRequest) -> Any:
    with interpreted(request.param == "interpreted"):
        yield request.param


@triton.jit
def convert(x, out, N: tl.constexpr, ROUND: tl.constexpr = None):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty, fp_downcast_rounding=ROUND))


def numbers(name: str) -> Any:
    """What each bit pattern up to the largest number stands for."""
    mantissa, bias, largest = TYPES[name]
    bits = np.arange(largest + 1)
    exponent, rest = bits >> mantissa, (bits & (2**mantissa - 1)) / 2**mantissa
    return np.where(exponent > 0, (1 + rest) * 2.0 ** (exponent - bias), rest * 2.0 ** (1 - bias))


@pytest.mark.parametrize("name", TYPES)
def test_to_f32(name: str, mode: str) -> None:
    bits, out = torch.arange(256).to(torch.uint8), np.zeros(256, np.float32)
    convert[(1,)](triton.reinterpret(bits, getattr(tl, name)), out, 256)
    want = numbers(name)
    np.testing.assert_array_equal(out[: len(want)], want)
    np.testing.assert_array_equal(out[129 : 128 + len(want)], -want[1:])
    if name in TORCH:
        theirs = bits.view(getattr(torch, TORCH[name])).float().numpy()
        np.testing.assert_array_equal(out, theirs)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("source", [np.float32, np.float16])
def test_from_wider_floats(name: str, source: Any, mode: str) -> None:
    """Every number, every middle between two (to even), and what lies just beside it."""
    table = numbers(name)
    middles = (table[:-1] + table[1:]) / 2
    tiny = np.finfo(np.float32).smallest_normal
    near = [np.nextafter(middles.astype(np.float32), np.float32(to)) for to in (-np.inf, np.inf)]
    x = np.concatenate([table, middles, *near, [tiny, table[-1] * 1.2, 1e30, np.inf]]).astype(np.float32)
    with np.errstate(over="ignore"):
        x = x.astype(source)
    x = np.resize(np.concatenate([x, -x]), 2048)
    bits = torch.zeros(2048, dtype=torch.uint8)
    convert[(1,)](x, triton.reinterpret(bits, getattr(tl, name)), 2048)
    size = np.abs(x.astype(np.float64))
    up = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
    below, above = size - table[up - 1], table[up] - size
    want = np.where((above < below) | ((above == below) & (up % 2 == 0)), up, up - 1)
    got = bits.numpy()
    np.testing.assert_array_equal(got & 0x7F, want)
    negative_zero = (want > 0) | (name not in ("float8e4b8", "float8e5b16"))
    np.testing.assert_array_equal(got >> 7, np.signbit(x) & negative_zero)


@pytest.mark.parametrize("name", TORCH)
def test_nan_stays_nan(name: str, mode: str) -> None:
    x, bits = np.array([np.nan, 1.0], np.float32), torch.zeros(2, dtype=torch.uint8)
    convert[(1,)](x, bits.view(getattr(torch, TORCH[name])), 2)
    assert bits.view(getattr(torch, TORCH[name])).float().isnan().tolist() == [True, False]


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float8_e5m2"])
def test_rounding_towards_zero(target: str, mode: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=512) * 2.0 ** rng.integers(-20, 18, 512)).astype(np.float32)
    x[:4] = [0.0, -0.0, 1.0, 1e30]
    dtype = getattr(torch, target)
    out = torch.zeros(512, dtype=dtype)
    convert[(1,)](x, out, 512, "rtz")
    got, near = out.double(), torch.tensor(x).to(dtype).double()
    wide = torch.tensor(x).double()
    finite = wide.abs() <= float(torch.finfo(dtype).max)
    assert (got.abs() <= wide.abs()).all()
    assert ((near.abs() > wide.abs()) | (near == got))[finite].all()
    assert not got.isinf().any()


@triton.jit
def mixed(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    row = i[:, None] * N + i[None, :]
    a, b = tl.load(x + row), tl.load(y + row)
    tl.static_assert((a + a).dtype == a.dtype)
    total = tl.dot(a, b) + tl.where(a > b, 1.0, 0.0) + (-a).to(tl.float32) + tl.abs(a).to(tl.float32)
    tl.store(out + row, total)


def test_arithmetic_and_products(mode: str) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(16, 16) for _ in range(2))
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e5m2)
    out = torch.zeros(16, 16)
    mixed[(1,)](a, b, out, 16)
    x, y = a.float(), b.float()
    want = x @ y + (x > y).float() - x + x.abs()
    torch.testing.assert_close(out, want)
