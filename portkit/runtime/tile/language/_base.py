"""What the names of the tile language are made of: constants, tiles, functions that only kernels may call."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn, TypeVar

from portkit.errors import KernelError
from portkit.runtime.tile import ir


def outside(name: str) -> NoReturn:
    """Refuse a call made by ordinary Python: kernels are compiled from their source, never run as Python."""
    raise KernelError(
        f"tl.{name} was called outside a kernel",
        remedy="Call it in a function under @portkit.jit, and launch that as kernel[grid](...).",
    )


class constexpr:
    """A value known when the kernel is compiled: an annotation of parameters, or a wrapper of a constant.

    Host code may compute with it: every operator acts on `.value`.
    """

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, constexpr) else value
        if isinstance(self.value, FunctionType):  # as a decorator: kernels may call it on constants
            constexpr_function(self.value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    def __repr__(self) -> str:
        return f"constexpr({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return bool(self.value == unwrap(other))

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __add__(self, other: Any) -> constexpr:
        return constexpr(self.value + unwrap(other))

    def __radd__(self, other: Any) -> constexpr:
        return constexpr(unwrap(other) + self.value)

    def __sub__(self, other: Any) -> constexpr:
        return constexpr(self.value - unwrap(other))

    def __rsub__(self, other: Any) -> constexpr:
        return constexpr(unwrap(other) - self.value)

    def __mul__(self, other: Any) -> constexpr:
        return constexpr(self.value * unwrap(other))

    def __rmul__(self, other: Any) -> constexpr:
        return constexpr(unwrap(other) * self.value)

    def __truediv__(self, other: Any) -> constexpr:
        return constexpr(self.value / unwrap(other))

    def __floordiv__(self, other: Any) -> constexpr:
        return constexpr(self.value // unwrap(other))

    def __mod__(self, other: Any) -> constexpr:
        return constexpr(self.value % unwrap(other))

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < unwrap(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= unwrap(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > unwrap(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= unwrap(other))


def unwrap(value: Any) -> Any:
    """The value inside a constexpr, or the value itself."""
    return value.value if isinstance(value, constexpr) else value


class tensor:
    """A scalar or a tile inside a kernel (for annotations: no object of this class ever exists).

    Methods are the functions of the same name with the tile as their first argument; `.to` is `tl.cast`.
    """

    dtype: ir.Element
    shape: tuple[int, ...]
    type: ir.Type
    numel: int
    T: tensor


class const:
    """An annotation of pointers that a kernel only reads."""


class PropagateNan:
    """Whether maximum, minimum and clamp give NaN when one operand is NaN."""

    NONE = "none"
    ALL = "all"


def pointer_type(element_ty: ir.DType, address_space: int = 1) -> ir.Pointer:
    """The type of pointers to elements of a dtype."""
    return ir.Pointer(element_ty)


_F = TypeVar("_F", bound=Callable[..., Any])


def constexpr_function(fn: _F) -> _F:
    """Let kernels call an ordinary Python function on constants while they are compiled."""
    fn.constexpr_function = True  # type: ignore[attr-defined]
    return fn


def must_use_result(fn: Any, *options: Any) -> Any:
    """Accepted: a result that is not used is no error."""
    return fn if callable(fn) else (lambda function: function)


def builtin(fn: _F) -> _F:
    """Mark a function of the language, as Triton's own modules do."""
    return fn
