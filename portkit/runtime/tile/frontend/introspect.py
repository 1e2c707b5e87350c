"""Attributes and items of what a kernel can name: tiles, types, modules, constants."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NoReturn

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend import calls
from portkit.runtime.tile.frontend.context import Context, nearest
from portkit.runtime.tile.frontend.promotion import is_unsigned
from portkit.runtime.tile.frontend.semantics import describe
from portkit.runtime.tile.frontend.windows import BlockPointer
from portkit.runtime.tile.language._base import unwrap

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).parent.parent / "language.toml"


@dataclass(frozen=True)
class Answer:
    """A method of a type, such as `is_floating`: calling it gives what is known already."""

    value: bool
    constexpr_function: ClassVar[bool] = True

    def __call__(self) -> bool:
        return self.value


_VALUE: dict[str, Callable[[ir.Value], Any]] = {
    "dtype": lambda v: v.type.element,
    "type": lambda v: v.type,
    "shape": lambda v: v.type.shape,
    "numel": lambda v: v.type.numel,
}
_TYPE: dict[str, Callable[[ir.Type], Any]] = {
    "element_ty": lambda t: t.element if t.is_tile else _pointee(t.element),
    "scalar": lambda t: t.element,
    "shape": lambda t: t.shape,
    "numel": lambda t: t.numel,
    "is_block": lambda t: Answer(t.is_tile),
}
_DTYPE: dict[str, Callable[[ir.DType], Any]] = {
    "name": lambda d: d.name,
    "primitive_bitwidth": lambda d: d.bits,
    "int_bitwidth": lambda d: d.bits,
    "itemsize": lambda d: d.size,
    "scalar": lambda d: d,
    "is_floating": lambda d: Answer(d.is_float),
    "is_standard_floating": lambda d: Answer(d.is_float and not d.is_float8),
    "is_int": lambda d: Answer(d.is_int),
    "is_bool": lambda d: Answer(d.is_bool),
    "is_int_signed": lambda d: Answer(d.is_int and not is_unsigned(d)),
    "is_int_unsigned": lambda d: Answer(is_unsigned(d)),
    "is_ptr": lambda d: Answer(False),
    "is_block": lambda d: Answer(False),
    "is_fp8": lambda d: Answer(d.is_float8),
    "is_fp8e4nv": lambda d: Answer(d == ir.F8E4NV),
    "is_fp8e4b8": lambda d: Answer(d == ir.F8E4B8),
    "is_fp8e4b15": lambda d: Answer(d == ir.F8E4B15),
    "is_fp8e5": lambda d: Answer(d == ir.F8E5),
    "is_fp8e5b16": lambda d: Answer(d == ir.F8E5B16),
    "fp_mantissa_width": lambda d: d.fp_mantissa_width,
    "exponent_bias": lambda d: d.exponent_bias,
    "is_fp16": lambda d: Answer(d == ir.F16),
    "is_bf16": lambda d: Answer(d == ir.BF16),
    "is_fp32": lambda d: Answer(d == ir.F32),
    "is_fp64": lambda d: Answer(d == ir.F64),
    "is_int1": lambda d: Answer(d == ir.I1),
    "is_int8": lambda d: Answer(d == ir.I8),
    "is_int16": lambda d: Answer(d == ir.I16),
    "is_int32": lambda d: Answer(d == ir.I32),
    "is_int64": lambda d: Answer(d == ir.I64),
    "is_uint8": lambda d: Answer(d == ir.U8),
    "is_uint16": lambda d: Answer(d == ir.U16),
    "is_uint32": lambda d: Answer(d == ir.U32),
    "is_uint64": lambda d: Answer(d == ir.U64),
}
_POINTER: dict[str, Callable[[ir.Pointer], Any]] = {
    "element_ty": lambda p: p.to,
    "scalar": lambda p: p,
    "primitive_bitwidth": lambda p: 64,
    "is_ptr": lambda p: Answer(True),
    "is_floating": lambda p: Answer(False),
    "is_int": lambda p: Answer(False),
    "is_block": lambda p: Answer(False),
}


def _pointee(element: ir.Element) -> ir.Element:
    return element.to if isinstance(element, ir.Pointer) else element


def attribute(ctx: Context, value: Any, name: str) -> Any:
    """`value.name` inside a kernel."""
    if isinstance(value, ir.Value):
        return _of_value(ctx, value, name)
    if name == "value" and isinstance(value, (ir.DType, ir.Pointer)):
        return value  # `.value` of a constexpr
    if isinstance(value, ir.Type) and value.element is not None:
        table: dict[str, Callable[[Any], Any]] = {**_element_table(value.element), **_TYPE}
        return _from(table, value if name in _TYPE else value.element, name, value)
    if isinstance(value, (ir.DType, ir.Pointer)):
        return _from(_element_table(value), value, name, value)
    if isinstance(value, BlockPointer):
        return _of_window(value, name)
    if name == "value" and isinstance(value, (int, float, str, bool, tuple, type(None))):
        return value  # `.value` of a constexpr
    if hasattr(value, name):
        return unwrap(getattr(value, name))
    if isinstance(value, ModuleType):
        _no_such_name(value, name)
    raise KernelError(f"{describe(value)} has no attribute `{name}`")


def _no_such_name(module: ModuleType, name: str) -> NoReturn:
    if not calls.is_language(module.__name__):
        raise KernelError(
            f"module `{module.__name__}` has no `{name}`", remedy=nearest(name, list(vars(module)))
        )
    remedy = _refused().get(name) or nearest(name, [n for n in vars(module) if not n.startswith("_")])
    raise KernelError(
        f"portkit does not support tl.{name} yet",
        remedy=remedy or "`portkit/runtime/tile/language.toml` lists what kernels may use.",
    )


@lru_cache(maxsize=1)
def _refused() -> dict[str, str]:
    """What to do instead of names that kernels are known to use and that are refused."""
    text = TABLE.read_text(encoding="utf-8")
    found: dict[str, str] = tomllib.loads(text)["refused"]
    return found


def _of_window(value: BlockPointer, name: str) -> Any:
    known: dict[str, Any] = {
        "block_shape": value.fixed.block,
        "dtype": value.base.type.dtype,
        "shape": value.shape,
        "strides": value.strides,
    }
    if not value.fixed.is_descriptor:  # Triton's is a pointer: kernels ask for `p.dtype.element_ty`
        known["dtype"] = known["type"] = ir.Pointer(value.base.type.dtype)
    if name in known:
        return known[name]
    if name in ("load", "store") and value.fixed.is_descriptor:
        return calls.Method(calls.language_function(f"{name}_tensor_descriptor"), value)
    raise KernelError(f"{describe(value)} has no attribute `{name}`", remedy=nearest(name, [*known]))


def _element_table(element: ir.Element) -> dict[str, Callable[[Any], Any]]:
    return _POINTER if isinstance(element, ir.Pointer) else _DTYPE


def _from(table: dict[str, Callable[[Any], Any]], subject: Any, name: str, shown: Any) -> Any:
    if name not in table:
        raise KernelError(f"type {shown} has no attribute `{name}`", remedy=nearest(name, list(table)))
    return table[name](subject)


def _of_value(ctx: Context, value: ir.Value, name: str) -> Any:
    if name in _VALUE:
        return _VALUE[name](value)
    if name == "T":
        return calls.call(ctx, calls.language_function("trans"), [value], {})
    function = calls.method(name)
    if function is None:
        known = [*_VALUE, "T", *calls.methods()]
        raise KernelError(f"{describe(value)} has no attribute `{name}`", remedy=nearest(name, known))
    return calls.Method(function, value)


def item(value: Any, key: Any) -> Any:
    """`value[key]` of a constant tuple, string or mapping."""
    try:
        return unwrap(value[key])
    except (TypeError, LookupError) as error:
        raise KernelError(f"{describe(value)} can't be indexed with {describe(key)}") from error
