"""The language, where Triton has its `core` module."""

from __future__ import annotations

from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.language._base import builtin, constexpr, constexpr_function, unwrap


class constexpr_type:
    """The type of a constant."""

    def __init__(self, value: Any) -> None:
        self.value = unwrap(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, constexpr_type) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def str_to_ty(name: str, context: Any = None) -> ir.Element:
    """The type that Triton's short name stands for (`fp32`, `*i64`)."""
    from portkit.runtime.tile.signature import CANONICAL, DTYPES

    if name.startswith("*"):
        inner = str_to_ty(name[1:].removeprefix("k"), context)
        assert isinstance(inner, ir.DType)
        return ir.Pointer(inner)
    found = DTYPES.get(CANONICAL.get(name, ""))
    if found is None:
        raise KernelError(f"there is no type `{name}`", remedy="Types are fp32, bf16, i32, u8 and so on.")
    return found


@constexpr_function
def get_int_dtype(bitwidth: Any, signed: Any) -> ir.DType:
    """The integer type of a width."""
    return ir.DType("int" if unwrap(signed) or unwrap(bitwidth) == 1 else "uint", int(unwrap(bitwidth)))


def __getattr__(name: str) -> Any:
    """Everything else of the language."""
    from portkit.runtime.tile import language

    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(language, name)


_unwrap_if_constexpr = unwrap
CONSTEXPR_0 = constexpr(0)
dtype = ir.DType
__all__ = ["builtin", "constexpr", "constexpr_type", "dtype", "get_int_dtype", "str_to_ty"]
