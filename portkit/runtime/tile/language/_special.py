"""Declarations of special functions and functions of bits."""

from __future__ import annotations

from typing import Any

from portkit.runtime.tile.language._base import outside, tensor


def acosh(x: tensor) -> tensor:
    """Inverse of cosh, for x of at least 1."""
    outside("acosh")


def asinh(x: tensor) -> tensor:
    """Inverse of sinh."""
    outside("asinh")


def atanh(x: tensor) -> tensor:
    """Inverse of tanh."""
    outside("atanh")


def clz(x: tensor) -> tensor:
    """How many zeros are in front of the first bit that is set, i32."""
    outside("clz")


def erfc(x: tensor) -> tensor:
    """1 - erf(x), exact where that is small."""
    outside("erfc")


def erfcx(x: tensor) -> tensor:
    """exp(x²) erfc(x)."""
    outside("erfcx")


def erfinv(x: tensor) -> tensor:
    """Inverse of erf."""
    outside("erfinv")


def exp10(x: tensor) -> tensor:
    """10 to the power of x."""
    outside("exp10")


def ffs(x: tensor) -> tensor:
    """The place of the lowest bit that is set, from 1, or 0, i32."""
    outside("ffs")


def lgamma(x: tensor) -> tensor:
    """Logarithm of the size of the gamma function."""
    outside("lgamma")


def log10(x: tensor) -> tensor:
    """Logarithm to base 10."""
    outside("log10")


def popc(x: tensor) -> tensor:
    """How many bits of an integer are set, i32."""
    outside("popc")


def signbit(x: tensor) -> tensor:
    """1 where the sign is minus, i32."""
    outside("signbit")


def copysign(x: Any, y: Any) -> tensor:
    """The size of x with the sign of y."""
    outside("copysign")


def fmod(x: Any, y: Any) -> tensor:
    """Remainder of a division, with the sign of x."""
    outside("fmod")


def hypot(x: Any, y: Any) -> tensor:
    """Length of (x, y)."""
    outside("hypot")


def nextafter(x: Any, y: Any) -> tensor:
    """The number beside x in the direction of y."""
    outside("nextafter")
