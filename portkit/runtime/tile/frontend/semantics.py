"""Operations on typed values, with Triton's implicit conversions and broadcasts, as IR."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend import promotion

Number: TypeAlias = int | float | bool
Operand: TypeAlias = ir.Value | int | float | bool
ARITHMETIC = {"+": "add", "-": "sub", "*": "mul"}
BITWISE = {"&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def is_number(value: object) -> bool:
    """Whether a compile-time value is a Python number."""
    return isinstance(value, (int, float))


def constant(value: object) -> Any:
    """The number that a scalar is known to be while compiling, or None."""
    if is_number(value):
        return value
    if not isinstance(value, ir.Value) or value.type.is_tile or value.owner is None:
        return None
    return value.owner.attrs["value"] if value.owner.opcode == "const" else None


class Semantics:
    """Emits operations through a builder; every method takes IR values or Python numbers."""

    def __init__(self, builder: ir.Builder) -> None:
        self.builder = builder
        self.call: Callable[[Any, list[Any]], Any] = _no_calls  # calls a @jit function; the context sets it

    # --- values ------------------------------------------------------------------------------------

    def value(self, operand: object) -> ir.Value:
        """An operand as an IR value; a Python number gets the type that it has on its own."""
        if isinstance(operand, ir.Value):
            return operand
        if not isinstance(operand, (int, float)):
            raise KernelError(
                f"expected a number or a tile, not {describe(operand)}",
                remedy="Only numbers, pointers and tiles are values at run time.",
            )
        return self.const(operand, promotion.literal_type(operand))

    def const(self, value: Number, dtype: ir.DType, shape: tuple[int, ...] = ()) -> ir.Value:
        """A constant of a dtype; an integer type must hold it."""
        if dtype.is_bool:
            value = bool(value)
        elif dtype.is_int:
            value = int(value)
            if not promotion.fits(value, dtype):
                raise KernelError(f"{value} is out of range for {dtype}")
        else:
            value = float(value)
        return self.builder.const(value, ir.Type(dtype, shape))

    def cast(self, value: ir.Value, element: ir.Element) -> ir.Value:
        """The same numbers in another element type (nothing is emitted when it is the same already)."""
        source = value.type.element
        if source == element:
            return value
        target = value.type.with_element(element)
        if isinstance(source, ir.Pointer) and isinstance(element, ir.Pointer):
            return self.builder.value("bitcast", [value], target)
        if isinstance(source, ir.Pointer) or isinstance(element, ir.Pointer):
            return self._address(value, element)
        known = constant(value)
        exact = element.is_float or (isinstance(known, int) and promotion.fits(known, element))
        if known is not None and (exact or element.is_bool):
            return self.const(known, element)
        assert isinstance(source, ir.DType)
        assert isinstance(element, ir.DType)
        if (source.is_float8 or element.is_float8) and ir.F32 not in (source, element):
            return self.cast(self.cast(value, ir.F32), element)
        if element.is_bool:
            zero = self.const(0, source, value.type.shape)
            return self.builder.value("cmp", [value, zero], target, pred="ne")
        return self.builder.value("cast", [value], target)

    def _address(self, value: ir.Value, element: ir.Element) -> ir.Value:
        """A pointer as an integer, or a 64-bit integer as a pointer."""
        source = value.type.element
        if isinstance(source, ir.Pointer) and isinstance(element, ir.DType) and element.is_int:
            if element.is_bool:
                return self.compare("!=", self._address(value, ir.I64), 0)
            whole = self.builder.value("bitcast", [value], value.type.with_element(ir.I64))
            return self.cast(whole, element)
        if isinstance(source, ir.DType) and source.is_int and not source.is_bool:
            whole = self.cast(value, ir.I64)
            return self.builder.value("bitcast", [whole], value.type.with_element(element))
        raise KernelError(
            f"portkit does not convert {source} to {element}",
            remedy="Pointers come from arguments, or from 64-bit integers that hold addresses.",
        )

    def broadcast(self, value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
        """The value repeated to a shape; ranks must agree unless it is a scalar."""
        have = value.type.shape
        if have == shape:
            return value
        target = value.type.with_shape(shape)
        if not have:
            return self.builder.value("splat", [value], target)
        if len(have) != len(shape) or any(h not in (1, s) for h, s in zip(have, shape, strict=True)):
            raise KernelError(
                f"a tile of shape {list(have)} can't be broadcast to {list(shape)}",
                remedy="Sizes must be equal or 1; add axes with x[:, None] or x[None, :].",
            )
        return self.builder.value("broadcast", [value], target)

    def expand(self, value: ir.Value, axis: int) -> ir.Value:
        """Insert an axis of size 1."""
        shape = list(value.type.shape)
        axis = axis + len(shape) + 1 if axis < 0 else axis
        if not 0 <= axis <= len(shape):
            raise KernelError(f"axis {axis} is out of range for a tile of shape {shape}")
        shape.insert(axis, 1)
        target = value.type.with_shape(tuple(shape))
        if not value.type.shape:
            return self.builder.value("splat", [value], target)
        return self.builder.value("expand_dims", [value], target, axis=axis)

    def same_shape(self, *values: ir.Value) -> list[ir.Value]:
        """All values broadcast to one shape; missing leading axes are added."""
        rank = max(len(v.type.shape) for v in values)
        aligned = [self._align(v, rank) for v in values]
        shape = [1] * rank
        for value in aligned:
            for axis, size in enumerate(value.type.shape):
                if size != 1 and shape[axis] not in (1, size):
                    shapes = " and ".join(str(list(v.type.shape)) for v in values if v.type.shape)
                    raise KernelError(
                        f"tiles of shapes {shapes} can't be broadcast together",
                        remedy="Sizes must be equal or 1; add axes with x[:, None] or x[None, :].",
                    )
                shape[axis] = max(shape[axis], size)
        return [self.broadcast(v, tuple(shape)) for v in aligned]

    def _align(self, value: ir.Value, rank: int) -> ir.Value:
        while value.type.shape and len(value.type.shape) < rank:
            value = self.expand(value, 0)
        return value

    # --- two operands ------------------------------------------------------------------------------

    def unify(self, a: Operand, b: Operand, *, division: bool = False) -> tuple[ir.Value, ir.Value]:
        """Both operands in the type they are computed in, and in one shape (numbers only)."""
        types = [self._number_type(a), self._number_type(b)]
        weak = [is_number(a), is_number(b)]
        dtype = promotion.promote(types[0], types[1], a_weak=weak[0], b_weak=weak[1], division=division)
        left, right = (self._as(operand, dtype) for operand in (a, b))
        x, y = self.same_shape(left, right)
        return x, y

    def _number_type(self, operand: Operand) -> ir.DType:
        if not isinstance(operand, ir.Value):
            if not is_number(operand):
                raise KernelError(f"{describe(operand)} is not a number")
            return promotion.literal_type(operand)
        if isinstance(operand.type.element, ir.Pointer):
            raise KernelError(
                f"a pointer ({operand.type}) is no operand here",
                remedy="Load from it first, or add an integer offset to it.",
            )
        return operand.type.element

    def _as(self, operand: Operand, dtype: ir.DType) -> ir.Value:
        if isinstance(operand, ir.Value):
            return self.cast(operand, dtype)
        if operand < 0 and promotion.is_unsigned(dtype):
            raise KernelError(
                f"the negative number {operand} meets an unsigned value of type {dtype}",
                remedy="Cast the value first, e.g. x.to(tl.int32).",
            )
        return self.const(operand, dtype)

    def binary(self, symbol: str, a: Operand, b: Operand) -> ir.Value:
        """`a symbol b` for any arithmetic, bitwise or comparison operator of Python."""
        if symbol in ("+", "-") and (is_pointer(a) or is_pointer(b)):
            return self._offset(symbol, a, b)
        if symbol in ARITHMETIC:
            x, y = self.unify(a, b)
            if x.type.dtype.is_float8:
                wide = self.binary(symbol, self.cast(x, ir.F32), self.cast(y, ir.F32))
                return self.cast(wide, x.type.element)
            return self.builder.value(ARITHMETIC[symbol], [x, y], x.type)
        if symbol in COMPARISONS:
            return self.compare(symbol, a, b)
        if symbol in BITWISE:
            return self._bitwise(symbol, a, b)
        return _DIVISIONS[symbol](self, a, b)

    def _offset(self, symbol: str, a: Operand, b: Operand) -> ir.Value:
        pointer, offset = (a, b) if is_pointer(a) else (b, a)
        if is_pointer(offset) or (symbol == "-" and pointer is b):
            raise KernelError(
                "pointers can't be combined with each other" if is_pointer(offset) else "number - pointer",
                remedy="A pointer takes an integer offset: pointer + n or pointer - n.",
            )
        base, count = self.value(pointer), self.value(offset)
        dtype = count.type.dtype
        if not dtype.is_int:
            raise KernelError(
                f"a pointer can't be offset by {dtype}",
                remedy="Offsets are integers: use // rather than /, or .to(tl.int64).",
            )
        if promotion.is_unsigned(dtype) and dtype.bits < 64:
            count = self.cast(count, ir.I64)
        if symbol == "-":
            count = self.builder.value("neg", [count], count.type)
        base, count = self.same_shape(base, count)
        return self.builder.value("addptr", [base, count], base.type)

    def compare(self, symbol: str, a: Operand, b: Operand) -> ir.Value:
        """A comparison: i1, true where it holds."""
        x, y = self.unify(a, b)
        if x.type.dtype.is_float8:
            x, y = self.cast(x, ir.F32), self.cast(y, ir.F32)
        return self.builder.value("cmp", [x, y], x.type.with_element(ir.I1), pred=COMPARISONS[symbol])

    def _bitwise(self, symbol: str, a: Operand, b: Operand) -> ir.Value:
        types = [self._number_type(a), self._number_type(b)]
        if not (types[0].is_int and types[1].is_int):
            raise KernelError(
                f"invalid operands of type {types[0]} and {types[1]}: operator {symbol} needs integers",
                remedy="Compare first, or cast with .to(tl.int32).",
            )
        x, y = self.unify(a, b)
        if symbol == ">>" and types[0].is_signed and not x.type.dtype.is_signed:
            signed = ir.DType("int", x.type.dtype.bits)  # the left operand says what is shifted in
            x, y = self.cast(x, signed), self.cast(y, signed)
            return self.cast(self.builder.value("shr", [x, y], x.type), ir.DType("uint", signed.bits))
        return self.builder.value(BITWISE[symbol], [x, y], x.type)

    def true_divide(self, a: Operand, b: Operand) -> ir.Value:
        """`a / b`: integers and 16-bit floats divide in f32."""
        x, y = self.unify(a, b, division=True)
        if x.type.dtype.is_int:
            x, y = self.cast(x, ir.F32), self.cast(y, ir.F32)
        return self.builder.value("div", [x, y], x.type)

    def floor_divide(self, a: Operand, b: Operand) -> ir.Value:
        """`a // b` of integers, rounded towards zero as in C."""
        x, y = self.unify(a, b, division=True)
        if not x.type.dtype.is_int:
            raise KernelError(
                f"operator // needs integers, not {x.type.dtype}", remedy="Use tl.floor(a / b) for floats."
            )
        return self.builder.value("idiv", [x, y], x.type)

    def remainder(self, a: Operand, b: Operand) -> ir.Value:
        """`a % b`, with the sign of a as in C."""
        x, y = self.unify(a, b, division=True)
        opcode = "irem" if x.type.dtype.is_int else "frem"
        return self.builder.value(opcode, [x, y], x.type)

    # --- one operand -------------------------------------------------------------------------------

    def negate(self, a: Operand) -> ir.Value:
        """`-a`."""
        value = self.value(a)
        if self._number_type(value).is_float8:
            return self.cast(self.negate(self.cast(value, ir.F32)), value.type.element)
        return self.builder.value("neg", [value], value.type)

    def invert(self, a: Operand) -> ir.Value:
        """`~a`: all bits of an integer, or the other boolean."""
        value = self.value(a)
        if not self._number_type(value).is_int:
            raise KernelError(
                f"operator ~ needs integers or booleans, not {value.type.dtype}",
                remedy="Compare first, e.g. ~(x > 0).",
            )
        return self.builder.value("not", [value], value.type)

    def truth(self, a: Operand) -> ir.Value:
        """The value as i1: what is not zero is true, and so is a pointer that is not null."""
        return self.cast(self.value(a), ir.I1)

    def select(self, condition: Operand, a: Operand, b: Operand) -> ir.Value:
        """a where the condition is true, else b (`tl.where`); pointers of one type are fine too."""
        if is_pointer(a) and is_pointer(b):
            x, y = self.value(a), self.value(b)
            if x.type.element != y.type.element:
                raise KernelError(f"where would give {x.type.element} or {y.type.element}")
        else:
            x, y = self.unify(a, b)
        test, x, y = self.same_shape(self.truth(condition), x, y)
        return self.builder.value("select", [test, x, y], x.type)


def _no_calls(function: Any, args: list[Any]) -> Any:
    raise KernelError(f"{describe(function)} can't be called here")


_DIVISIONS: dict[str, Callable[[Semantics, Operand, Operand], ir.Value]] = {
    "/": Semantics.true_divide,
    "//": Semantics.floor_divide,
    "%": Semantics.remainder,
}

FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_pointer(operand: object) -> bool:
    """Whether an operand is a pointer or a tile of pointers."""
    return isinstance(operand, ir.Value) and operand.type.is_pointer


def describe(value: object) -> str:
    """A value in words, for messages."""
    if isinstance(value, ir.Value):
        return f"a {'tile' if value.type.is_tile else 'scalar'} of type {value.type}"
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)):
        return f"a tuple of {len(value)}"
    if isinstance(value, (str, int, float, ir.DType, ir.Pointer)):
        return repr(value) if isinstance(value, str) else str(value)
    return f"the {type(value).__name__} {getattr(value, '__name__', value)!s}"


def sizes(shape: object) -> tuple[int, ...]:
    """A shape given as constants: one integer or a sequence of them, all at least 1."""
    items: Sequence[object] = shape if isinstance(shape, (tuple, list)) else (shape,)
    known = [constant(item) for item in items]
    if any(isinstance(k, bool) or not isinstance(k, int) for k in known):
        raise KernelError(
            f"a shape needs constants, not {', '.join(describe(i) for i in items)}",
            remedy="Mark the parameter it comes from as tl.constexpr.",
        )
    if any(k < 1 for k in known):
        raise KernelError(f"a tile can't have the shape {known}")
    return tuple(known)
