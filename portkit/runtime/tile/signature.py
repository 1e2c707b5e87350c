"""What a kernel is compiled for: each argument is a constant, or a type with a few facts, never a size."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from portkit.errors import KernelError, UsageError
from portkit.runtime.tile import ir
from portkit.runtime.tile.descriptor import TensorDescriptor
from portkit.runtime.tile.language._base import constexpr

POINTER_ALIGNMENT = 16
_NO_FACTS = ir.ParamFacts()


MISSING = inspect.Parameter.empty
"""The default of a parameter that has none."""


@dataclass(frozen=True)
class Param:
    """A parameter of a kernel as its `def` line states it.

    `default` is `MISSING` when there is none; `specialize=False` keeps facts out of the signature;
    `noalias=True` promises that no other argument reaches the memory of this one.
    """

    name: str
    is_constexpr: bool = False
    default: object = MISSING
    specialize: bool = True
    noalias: bool = False
    dtype: ir.DType | None = None  # that its annotation gives to a number
    num: int = 0
    annotation: str = ""

    @property
    def do_not_specialize(self) -> bool:
        """As Triton's libraries ask for it."""
        return not self.specialize


@dataclass(frozen=True)
class Constexpr:
    """An argument whose value is compiled into the kernel (a number, string, dtype, function, None, ...)."""

    value: object


@dataclass(frozen=True)
class Runtime:
    """An argument that is passed at launch: its type in the IR and what is promised of its value."""

    type: ir.Type
    facts: ir.ParamFacts = _NO_FACTS


@dataclass(frozen=True)
class Group:
    """Several arguments in one: a tuple, or a tensor descriptor (its array, shape and strides).

    `make` is the type of the tuple, or the block of the descriptor.
    """

    items: tuple[Any, ...]  # of ArgSpec
    make: object


@dataclass(frozen=True)
class DescriptorBlock:
    """What is constant of a tensor descriptor that the host has made."""

    shape: tuple[int, ...]
    padding: str


ArgSpec: TypeAlias = Constexpr | Runtime | Group

_SHORT: dict[str, tuple[str, ...]] = {
    "u1": ("bool", "int1", "uint1", "i1"),
    "i8": ("int8",),
    "i16": ("int16",),
    "i32": ("int32", "int"),
    "i64": ("int64",),
    "u8": ("uint8",),
    "u16": ("uint16",),
    "u32": ("uint32",),
    "u64": ("uint64",),
    "fp16": ("float16", "half"),
    "bf16": ("bfloat16",),
    "fp32": ("float32", "float"),
    "fp64": ("float64", "double"),
    "fp8e4nv": ("float8e4nv", "float8_e4m3fn"),
    "fp8e5": ("float8e5", "float8_e5m2"),
    "fp8e4b15": ("float8e4b15",),
    "fp8e4b8": ("float8e4b8", "float8_e4m3fnuz"),
    "fp8e5b16": ("float8e5b16", "float8_e5m2fnuz"),
}
_NUMPY: dict[str, ir.DType] = {
    "bool": ir.I1,
    "int8": ir.I8,
    "int16": ir.I16,
    "int32": ir.I32,
    "int64": ir.I64,
    "uint8": ir.U8,
    "uint16": ir.U16,
    "uint32": ir.U32,
    "uint64": ir.U64,
    "float16": ir.F16,
    "float32": ir.F32,
    "float64": ir.F64,
    "float8_e5m2": ir.F8E5,
    "float8_e4m3fn": ir.F8E4NV,
    "float8_e4m3fnuz": ir.F8E4B8,
    "float8_e5m2fnuz": ir.F8E5B16,
    "bfloat16": ir.BF16,  # the extension type of ml_dtypes
}
CANONICAL = {
    **{name: short for short, names in _SHORT.items() for name in names},
    **{short: short for short in _SHORT},
}
"""Triton's short names of number types, by every name that they have."""

DTYPES: dict[str, ir.DType] = {
    short: _NUMPY[name] for short, names in _SHORT.items() for name in names if name in _NUMPY
}
DTYPES["fp8e4b15"] = ir.F8E4B15
"""Number types by Triton's short names."""


class MockTensor:
    """An array of a dtype that is not there: for compiling ahead."""

    def __init__(self, dtype: Any, shape: Sequence[int] | None = None) -> None:
        self.dtype = dtype
        self.shape = list(shape or [1])

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        """A dtype of torch becomes an array of it; anything else stays."""
        return MockTensor(value) if type(value).__name__ == "dtype" else value

    @staticmethod
    def data_ptr() -> int:
        """An aligned address."""
        return 0


def dtype_of(name: str) -> ir.DType | None:
    """The IR's number type for a NumPy or torch dtype name (`float32`, `torch.bfloat16`), or None."""
    return _NUMPY.get(name.removeprefix("torch."))


def is_torch_tensor(value: object) -> bool:
    """Whether the value is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def address_of(value: Any) -> int:
    """The address of an array's or CPU tensor's first element."""
    if isinstance(value, np.ndarray):
        return int(value.ctypes.data)
    return int(value.data_ptr())


def spec_of(param: Param, value: object, kernel: str) -> ArgSpec:
    """The specification of one actual argument.

    NumPy arrays and torch CPU tensors give pointers, ints i32 (i64 or u64 when they do not fit), floats f32,
    bools i1, None a constant.  Raises KernelError, naming the parameter, for anything else.
    """
    if param.is_constexpr or value is None:
        return Constexpr(value)
    if isinstance(value, constexpr):
        return Constexpr(value.value)
    if isinstance(value, np.ndarray):
        return _array(param, value, kernel)
    if isinstance(value, (bool, np.bool_)):
        return Runtime(ir.Type(ir.I1))
    if isinstance(value, (int, np.integer)):
        return _integer(param, int(value), kernel)
    if isinstance(value, (float, np.floating)):
        return Runtime(ir.Type(param.dtype if param.dtype is not None and param.dtype.is_float else ir.F32))
    if is_torch_tensor(value):
        return _tensor(param, value, kernel)
    if isinstance(value, tuple):
        return _tuple(param, value, kernel)
    if isinstance(value, TensorDescriptor):
        return _descriptor(param, value, kernel)
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):  # a view of a tensor that a library defines
        return _wrapped(param, value, kernel)
    if isinstance(value, ir.DType) or hasattr(value, "fn"):  # a dtype, or a kernel
        return Constexpr(value)
    raise _refused(
        param,
        kernel,
        f"takes no {type(value).__name__}",
        "Pass a NumPy array, a torch tensor on the CPU, an int, a float or a bool, "
        "or mark the parameter `tl.constexpr`.",
    )


def _array(param: Param, value: np.ndarray[Any, Any], kernel: str) -> Runtime:
    dtype = dtype_of(value.dtype.name)
    if dtype is None:
        raise _dtype_refused(param, kernel, str(value.dtype))
    if not value.dtype.isnative:
        raise _refused(
            param,
            kernel,
            f"is an array in foreign byte order ({value.dtype.str})",
            "Convert it first: array.astype(array.dtype.newbyteorder('=')).",
        )
    return _pointer(param, dtype, int(value.ctypes.data))


class ForeignDevice(KernelError):
    """A tensor lies on a device that the tile compiler has no target for."""


def _foreign(param: Param, value: Any, kernel: str) -> ForeignDevice:
    return ForeignDevice(
        f"argument `{param.name}` of kernel `{kernel}` is a tensor on {value.device}",
        remedy="There is no tile compiler target for that device yet: move the tensor to the CPU, "
        "or call the operator in `portkit.runtime.ops`, which runs on every torch device.",
    )


def _tensor(param: Param, value: Any, kernel: str) -> Runtime:
    if value.device.type != "cpu":
        raise _foreign(param, value, kernel)
    if str(value.layout) != "torch.strided":
        raise _refused(param, kernel, f"is a tensor of layout {value.layout}", "Pass tensor.to_dense().")
    dtype = dtype_of(str(value.dtype))
    if dtype is None:
        raise _dtype_refused(param, kernel, str(value.dtype))
    return _pointer(param, dtype, int(value.data_ptr()))


def _pointer(param: Param, dtype: ir.DType, address: int) -> Runtime:
    aligned = param.specialize and address % POINTER_ALIGNMENT == 0
    return Runtime(ir.Type(ir.Pointer(dtype)), ir.ParamFacts(aligned, noalias=param.noalias))


def _tuple(param: Param, value: Sequence[Any], kernel: str) -> Group:
    parts = [replace(param, name=f"{param.name}[{i}]", dtype=None) for i in range(len(value))]
    items = tuple(spec_of(part, item, kernel) for part, item in zip(parts, value, strict=True))
    return Group(items, type(value) if hasattr(value, "_fields") else tuple)


def _wrapped(param: Param, value: Any, kernel: str) -> Runtime:
    if str(getattr(value, "device", "cpu")).partition(":")[0] != "cpu":
        raise _foreign(param, value, kernel)
    dtype = value.dtype if isinstance(value.dtype, ir.DType) else dtype_of(str(value.dtype))
    if dtype is None:
        raise _dtype_refused(param, kernel, str(value.dtype))
    return _pointer(param, dtype, int(value.data_ptr()))


def _descriptor(param: Param, value: TensorDescriptor, kernel: str) -> Group:
    base = replace(param, name=f"{param.name}.base")
    size = replace(param, name=f"{param.name}.shape", dtype=ir.I32, specialize=False)
    stride = replace(param, name=f"{param.name}.strides", dtype=ir.I64, specialize=False)
    items = (
        spec_of(base, value.base, kernel),
        *(spec_of(size, int(n), kernel) for n in value.shape),
        *(spec_of(stride, int(n), kernel) for n in value.strides[:-1]),
        Constexpr(1),  # the last axis is contiguous
    )
    return Group(items, DescriptorBlock(tuple(value.block_shape), value.padding))


def leaves(spec: ArgSpec, value: Any) -> Iterator[tuple[Runtime, Any]]:
    """The run-time arguments inside one argument, in order."""
    if isinstance(spec, Runtime):
        yield spec, value
    if not isinstance(spec, Group):
        return
    parts = value
    if isinstance(value, TensorDescriptor):
        parts = (value.base, *value.shape, *value.strides)
    for item, part in zip(spec.items, parts, strict=True):
        yield from leaves(item, part)


def _integer(param: Param, value: int, kernel: str) -> Runtime:
    if -(2**31) <= value < 2**31:
        dtype = ir.I32
    elif -(2**63) <= value < 2**63:
        dtype = ir.I64
    elif 0 <= value < 2**64:
        dtype = ir.U64
    else:
        raise _refused(param, kernel, f"is {value}, which does not fit in 64 bits", "Pass a smaller integer.")
    if param.dtype is not None:
        return Runtime(ir.Type(param.dtype))
    if not param.specialize:
        return Runtime(ir.Type(dtype))
    return Runtime(ir.Type(dtype), ir.ParamFacts(divisible_by_16=value % 16 == 0, equal_to_1=value == 1))


def _dtype_refused(param: Param, kernel: str, dtype: str) -> KernelError:
    known = ", ".join(sorted(_NUMPY))
    return _refused(param, kernel, f"has elements of type {dtype}", f"A kernel takes {known}.")


def _refused(param: Param, kernel: str, what: str, remedy: str) -> KernelError:
    return KernelError(f"argument `{param.name}` of kernel `{kernel}` {what}", remedy=remedy)


def runtime_types(spec: ArgSpec) -> Iterator[Runtime]:
    """The run-time arguments inside one specification, in order."""
    if isinstance(spec, Runtime):
        yield spec
    elif isinstance(spec, Group):
        for item in spec.items:
            yield from runtime_types(item)


def placeholder(value: Any) -> Runtime | None:
    """What a dtype, an array that is not there, or a name of Triton's stands for when compiling ahead."""
    if isinstance(value, MockTensor):
        return placeholder(value.dtype)
    if isinstance(value, str):
        dtype = DTYPES.get(CANONICAL.get(value.removeprefix("*"), ""))
        if dtype is None:
            return None
        return Runtime(ir.Type(ir.Pointer(dtype) if value.startswith("*") else dtype))
    kind = type(value)
    if (kind.__module__, kind.__name__) == ("torch", "dtype"):
        dtype = dtype_of(str(value))
    elif isinstance(value, ir.DType):
        dtype = value
    elif isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        dtype = dtype_of(np.dtype(value).name)
    else:
        return None
    return Runtime(ir.Type(ir.Pointer(dtype)), ir.ParamFacts(divisible_by_16=True)) if dtype else None


def bind(
    params: Sequence[Param], args: Sequence[object], kwargs: Mapping[str, object], kernel: str
) -> list[object]:
    """One value per parameter, in order, from a call's arguments and the defaults.

    Raises UsageError when an argument is missing, given twice, unknown, or one too many.
    """
    if len(args) > len(params):
        raise UsageError(f"kernel `{kernel}` takes {len(params)} arguments, {len(args)} were given")
    given = dict(zip((p.name for p in params), args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise UsageError(f"kernel `{kernel}` was given argument `{name}` twice")
        given[name] = value
    names = {p.name for p in params}
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UsageError(
            f"kernel `{kernel}` has no parameter `{unknown[0]}`",
            remedy=f"Its parameters are {', '.join(p.name for p in params)}.",
        )
    missing = [p.name for p in params if p.name not in given and p.default is MISSING]
    if missing:
        names_text = ", ".join(f"`{name}`" for name in missing)
        raise UsageError(
            f"kernel `{kernel}` was called without {names_text}",
            remedy="Every parameter without a default is needed.",
        )
    return [given.get(p.name, p.default) for p in params]


def specs_of(params: Sequence[Param], values: Sequence[object], kernel: str) -> tuple[ArgSpec, ...]:
    """The specification of every argument, in the order of the parameters."""
    return tuple(spec_of(p, v, kernel) for p, v in zip(params, values, strict=True))


def signature_key(specs: Sequence[ArgSpec]) -> tuple[object, ...]:
    """A hashable key of the specifications in which 1, 1.0 and True differ."""
    return tuple(_key(spec) for spec in specs)


def _key(spec: ArgSpec) -> object:
    if isinstance(spec, Runtime):
        return spec
    if isinstance(spec, Group):
        return ("group", spec.make, tuple(_key(item) for item in spec.items))
    return ("constexpr", constant_key(spec.value))


def constant_key(value: object) -> object:
    """A hashable stand-in for a constant, by type and value.

    Raises KernelError for one that can't be hashed: nothing would say when it has changed.
    """
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(constant_key(v) for v in value))
    if isinstance(value, float):
        return (type(value), repr(value))  # tells -0.0 from 0.0, and NaN equals itself
    try:
        hash(value)
    except TypeError:
        raise KernelError(
            f"a {type(value).__name__} can't be a constant of a kernel",
            remedy="Constants are numbers, strings, dtypes, functions, None and tuples of those.",
        ) from None
    return (type(value), value)
