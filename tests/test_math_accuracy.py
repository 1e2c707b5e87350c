"""Units in the last place of the compiled mathematical functions, over dense sweeps and special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tile_harness import Compiled

from portkit.errors import KernelError
from portkit.runtime.targets import Target, host
from portkit.runtime.tile import ir

COUNT = 1 << 17
BLOCK = 1024
Reference = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def compiled(opcode: str, dtype: ir.DType, target: Target | None = None) -> Compiled:
    """y[i] = f(x[i]) for i < n, by hand-built IR."""
    tile, index = ir.Type(dtype, (BLOCK,)), ir.Type(ir.I32, (BLOCK,))
    params = [ir.Value(ir.Type(ir.Pointer(dtype)), "x"), ir.Value(ir.Type(ir.Pointer(dtype)), "y")]
    params.append(ir.Value(ir.Type(ir.I32), "n"))
    facts = [ir.ParamFacts(noalias=True), ir.ParamFacts(noalias=True), ir.ParamFacts()]
    func = ir.Function(f"f_{opcode}", params, facts, ir.Block())
    b = ir.Builder(func.body)
    scalar = ir.Type(ir.I32)
    program = b.value("program_id", [], scalar, axis=0)
    base = b.value("splat", [b.value("mul", [program, b.const(BLOCK, scalar)], scalar)], index)
    offsets = b.value("add", [base, b.value("arange", [], index, start=0, end=BLOCK)], index)
    mask = b.value(
        "cmp", [offsets, b.value("splat", [params[2]], index)], ir.Type(ir.I1, (BLOCK,)), pred="lt"
    )
    pointers = ir.Type(ir.Pointer(dtype), (BLOCK,))
    at = [b.value("addptr", [b.value("splat", [p], pointers), offsets], pointers) for p in params[:2]]
    x = b.value("load", [at[0], mask], tile, has_mask=True, has_other=False)
    b.add("store", [at[1], b.value(opcode, [x], tile), mask], [], has_mask=True)
    b.add("return", [], [])
    return Compiled(func, target)


def evaluate(opcode: str, x: np.ndarray[Any, Any], target: Target | None = None) -> np.ndarray[Any, Any]:
    y = np.empty_like(x)
    dtype = ir.F32 if x.dtype == np.float32 else ir.F64
    compiled(opcode, dtype, target).run([x, y, x.size], [-(-x.size // BLOCK)])
    return y


def vectorised(f: Callable[[float], float]) -> Reference:
    return lambda x: np.array([f(float(v)) for v in x])


def sigmoid(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


REFERENCES: dict[str, Reference] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "tanh": np.tanh,
    "erf": vectorised(math.erf),
    "sigmoid": sigmoid,
    "sin": np.sin,
    "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
}


def sweep(opcode: str, rng: np.random.Generator, wide: float) -> np.ndarray[Any, Any]:
    n = COUNT if opcode != "erf" else COUNT // 8
    if opcode in ("log", "log2", "rsqrt", "sqrt"):
        return np.concatenate([np.exp(rng.uniform(-wide, wide, n)), rng.uniform(0.5, 2.0, n)])
    if opcode in ("sin", "cos"):
        big = np.exp(rng.uniform(0, wide, n)) * rng.choice([-1, 1], n)
        return np.concatenate([rng.uniform(-10, 10, n), big, np.arange(-2000, 2000) * (np.pi / 2)])
    span = {"tanh": 12.0, "erf": 4.5, "floor": 1e7, "ceil": 1e7, "exp2": 1.4 * wide}.get(opcode, wide)
    tiny = np.exp(rng.uniform(-wide, 0, n)) * rng.choice([-1, 1], n)
    return np.concatenate([rng.uniform(-span, span, n), rng.uniform(-1, 1, n), tiny])


def ulps(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> float:
    info = np.finfo(got.dtype)
    unit = np.spacing(np.maximum(np.abs(want), float(info.tiny)).astype(got.dtype)).astype(np.float64)
    finite = np.isfinite(got) & np.isfinite(want.astype(got.dtype))
    assert np.array_equal(np.isfinite(got), np.isfinite(want.astype(got.dtype)))
    error = np.abs(got.astype(np.longdouble) - want.astype(np.longdouble)) / unit
    return float(error[finite].max())


@pytest.mark.parametrize("opcode", sorted(REFERENCES))
def test_f32(opcode: str) -> None:
    x = sweep(opcode, np.random.default_rng(1), 87.0).astype(np.float32)
    with np.errstate(over="ignore"):
        worst = ulps(evaluate(opcode, x), REFERENCES[opcode](x.astype(np.float64)))
    assert worst <= 2.0, f"{opcode}: {worst:.2f} ulp"


@pytest.mark.parametrize(
    "opcode", ["exp", "exp2", "log", "log2", "tanh", "sigmoid", "rsqrt", "sqrt", "floor"]
)
def test_f64(opcode: str) -> None:
    x = sweep(opcode, np.random.default_rng(2), 700.0)
    with np.errstate(over="ignore"):
        worst = ulps(evaluate(opcode, x), REFERENCES[opcode](x.astype(np.longdouble)))
    assert worst <= 2.5, f"{opcode}: {worst:.2f} ulp"


@pytest.mark.parametrize("opcode", sorted(REFERENCES))
def test_special_values(opcode: str) -> None:
    x = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-39, -1.0, 1.0, 200.0, -200.0, 3e38, -3e38]
    )
    x = np.tile(x.astype(np.float32), 5)
    with np.errstate(all="ignore"):
        want = (
            vectorised(_exactly(opcode))(x)
            if opcode in ("erf",)
            else REFERENCES[opcode](x.astype(np.float64))
        )
        want = want.astype(np.float32)
    got = evaluate(opcode, x)
    np.testing.assert_allclose(got, want, rtol=5e-7, atol=1e-44)
    zero = want == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def _exactly(opcode: str) -> Callable[[float], float]:
    return {"erf": math.erf}[opcode]


@pytest.mark.parametrize("opcode", ["exp", "tanh", "erf", "log", "sin", "floor", "ceil"])
@pytest.mark.parametrize("features", ["+sse2", "+sse2,+avx,+avx2,+fma"])
def test_older_processors(opcode: str, features: str) -> None:
    if host().name != "x86_64":
        pytest.skip("code for older x86-64 processors runs on x86-64")
    target = host().configure(host().triple, "x86-64", features)
    x = sweep(opcode, np.random.default_rng(3), 80.0).astype(np.float32)[::16].copy()
    want = REFERENCES[opcode](x.astype(np.float64))
    # without fused multiply-add each step of a polynomial rounds twice
    assert ulps(evaluate(opcode, x, target), want) <= (2.0 if "fma" in features else 4.0)


def test_what_is_missing_is_refused_by_name() -> None:
    with pytest.raises(KernelError, match="erf of f64"):
        compiled("erf", ir.F64)


@pytest.mark.parametrize("opcode", ["sin", "cos"])
def test_circular_functions_in_f64(opcode: str) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(-span, span, 20000) for span in (1.0, 10.0, 1e3, 1e5, 2.0**20)])
    worst = ulps(evaluate(opcode, x), REFERENCES[opcode](x.astype(np.longdouble)))
    assert worst <= 2.0, f"{opcode}: {worst:.2f} ulp"
