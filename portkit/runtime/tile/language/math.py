"""Element-wise arithmetic of the tile language: also `tl.<name>` and `libdevice.<name>`."""

from __future__ import annotations

from typing import Any

from portkit.runtime.tile.language._base import PropagateNan, outside, tensor
from portkit.runtime.tile.language._special import (
    acosh as acosh,
)
from portkit.runtime.tile.language._special import (
    asinh as asinh,
)
from portkit.runtime.tile.language._special import (
    atanh as atanh,
)
from portkit.runtime.tile.language._special import (
    clz as clz,
)
from portkit.runtime.tile.language._special import (
    copysign as copysign,
)
from portkit.runtime.tile.language._special import (
    erfc as erfc,
)
from portkit.runtime.tile.language._special import (
    erfcx as erfcx,
)
from portkit.runtime.tile.language._special import (
    erfinv as erfinv,
)
from portkit.runtime.tile.language._special import (
    exp10 as exp10,
)
from portkit.runtime.tile.language._special import (
    ffs as ffs,
)
from portkit.runtime.tile.language._special import (
    fmod as fmod,
)
from portkit.runtime.tile.language._special import (
    hypot as hypot,
)
from portkit.runtime.tile.language._special import (
    lgamma as lgamma,
)
from portkit.runtime.tile.language._special import (
    log10 as log10,
)
from portkit.runtime.tile.language._special import (
    nextafter as nextafter,
)
from portkit.runtime.tile.language._special import (
    popc as popc,
)
from portkit.runtime.tile.language._special import (
    signbit as signbit,
)


def exp(x: tensor) -> tensor:
    """e to the power of x."""
    outside("exp")


def exp2(x: tensor) -> tensor:
    """2 to the power of x."""
    outside("exp2")


def log(x: tensor) -> tensor:
    """Natural logarithm."""
    outside("log")


def log2(x: tensor) -> tensor:
    """Logarithm to the base 2."""
    outside("log2")


def sqrt(x: tensor) -> tensor:
    """Square root."""
    outside("sqrt")


def sqrt_rn(x: tensor) -> tensor:
    """Square root, rounded to nearest."""
    outside("sqrt_rn")


def rsqrt(x: tensor) -> tensor:
    """Reciprocal of the square root."""
    outside("rsqrt")


def sin(x: tensor) -> tensor:
    """Sine of an angle in radians."""
    outside("sin")


def cos(x: tensor) -> tensor:
    """Cosine of an angle in radians."""
    outside("cos")


def tanh(x: tensor) -> tensor:
    """Hyperbolic tangent."""
    outside("tanh")


def erf(x: tensor) -> tensor:
    """Error function."""
    outside("erf")


def sigmoid(x: tensor) -> tensor:
    """1 / (1 + exp(-x))."""
    outside("sigmoid")


def softmax(
    x: tensor, dim: int | None = None, keep_dims: bool = False, ieee_rounding: bool = False
) -> tensor:
    """Softmax along an axis (0 when None)."""
    outside("softmax")


def floor(x: tensor) -> tensor:
    """Round down."""
    outside("floor")


def ceil(x: tensor) -> tensor:
    """Round up."""
    outside("ceil")


def abs(x: tensor) -> tensor:
    """Absolute value."""
    outside("abs")


def fma(x: Any, y: Any, z: Any) -> tensor:
    """x · y + z with one rounding."""
    outside("fma")


def fdiv(x: Any, y: Any, ieee_rounding: bool = False) -> tensor:
    """Floating-point division."""
    outside("fdiv")


def div_rn(x: Any, y: Any) -> tensor:
    """Floating-point division, rounded to nearest."""
    outside("div_rn")


def minimum(x: Any, y: Any, propagate_nan: str = PropagateNan.NONE) -> tensor:
    """Smaller of two; bf16 gives f32; the other operand when one is NaN."""
    outside("minimum")


def maximum(x: Any, y: Any, propagate_nan: str = PropagateNan.NONE) -> tensor:
    """Larger of two; bf16 gives f32; the other operand when one is NaN."""
    outside("maximum")


def clamp(x: Any, min: Any, max: Any, propagate_nan: str = PropagateNan.NONE) -> tensor:
    """x limited to [min, max]."""
    outside("clamp")


def acos(x: tensor) -> tensor:
    """Angle in [0, π] whose cosine is x."""
    outside("acos")


def asin(x: tensor) -> tensor:
    """Angle in [-π/2, π/2] whose sine is x."""
    outside("asin")


def atan(x: tensor) -> tensor:
    """Angle whose tangent is x."""
    outside("atan")


def cosh(x: tensor) -> tensor:
    """Hyperbolic cosine."""
    outside("cosh")


def expm1(x: tensor) -> tensor:
    """exp(x) - 1."""
    outside("expm1")


def log1p(x: tensor) -> tensor:
    """log(1 + x)."""
    outside("log1p")


def round(x: tensor) -> tensor:
    """Round to the nearest integer, halves away from zero."""
    outside("round")


def sinh(x: tensor) -> tensor:
    """Hyperbolic sine."""
    outside("sinh")


def tan(x: tensor) -> tensor:
    """Tangent of an angle in radians."""
    outside("tan")


def atan2(y: Any, x: Any) -> tensor:
    """Angle of the point (x, y), in (-π, π]."""
    outside("atan2")


def pow(x: Any, y: Any) -> tensor:
    """x to the power of y."""
    outside("pow")


def umulhi(x: Any, y: Any) -> tensor:
    """The upper 32 bits of a product of 32-bit integers."""
    outside("umulhi")


def mul_rn(x: Any, y: Any) -> tensor:
    """Product, rounded to nearest."""
    outside("mul_rn")


def isnan(x: tensor) -> tensor:
    """Where x is NaN, i1."""
    outside("isnan")


def isinf(x: tensor) -> tensor:
    """Where x is infinite, i1."""
    outside("isinf")


def isfinite(x: tensor) -> tensor:
    """Where x is neither infinite nor NaN, i1."""
    outside("isfinite")


def trunc(x: tensor) -> tensor:
    """Round towards zero."""
    outside("trunc")


def rint(x: tensor) -> tensor:
    """Round to the nearest integer, ties to even."""
    outside("rint")


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """Row-major indices of a matrix as indices that go through groups of `size_g` rows."""
    outside("swizzle2d")


def cdiv(x: Any, div: Any) -> Any:
    """x / div rounded up, for positive integers; also for constants on the host."""
    if isinstance(x, int) and isinstance(div, int):
        return -(-x // div)
    return outside("cdiv")
