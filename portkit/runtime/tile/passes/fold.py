"""Constants and identities folded; operations on tiles of equal elements are done once, as scalars."""

from __future__ import annotations

import math
from collections.abc import Callable

from portkit.runtime.tile import ir
from portkit.runtime.tile.passes._rewrite import Rewriter, emit

SHAPING = frozenset({"splat", "broadcast", "expand_dims", "reshape", "trans", "slice"})
ELEMENTWISE = frozenset(
    (
        *(
            "add",
            "sub",
            "mul",
            "div",
            "idiv",
            "irem",
            "frem",
            "and",
            "or",
            "xor",
            "shl",
            "shr",
            "min",
            "max",
            "cmp",
        ),
        *("select", "neg", "abs", "not", "cast", "fma", "exp", "exp2", "log", "log2", "sqrt", "rsqrt"),
        *("addptr", "sin", "cos", "tanh", "erf", "sigmoid", "floor", "ceil"),
    )
)
INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
}
NEUTRAL = {"add": 0, "sub": 0, "shl": 0, "shr": 0, "xor": 0, "mul": 1, "idiv": 1}  # on the right
PREDICATES: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def run(func: ir.Function) -> ir.Function:
    """The function with constants and identities folded."""
    return _Fold().function(func)


def constant(value: ir.Value) -> int | float | bool | None:
    """The number that a value, or every element of it, is known to be."""
    op = value.owner
    if op is None or op.opcode != "const":
        return None
    number = op.attrs["value"]
    return number if isinstance(number, (int, float)) else None


def scalar_of(value: ir.Value) -> ir.Value | None:
    """The scalar that fills a tile."""
    op = value.owner
    while op is not None and op.opcode in SHAPING:
        if op.opcode == "splat":
            return op.operands[0]
        op = op.operands[0].owner
    return None


class _Fold(Rewriter):
    def start(self, func: ir.Function) -> None:
        for param, facts in zip(func.params, func.facts, strict=True):
            if facts.equal_to_1 and isinstance(param.type.element, ir.DType):
                one = ir.Builder(func.body).const(1, param.type)
                self.values.update({old: one for old, new in self.values.items() if new is param})

    def op(self, op: ir.Op, out: ir.Block) -> None:
        operands = self.operands(op)
        value = self._simpler(op, operands, out) if len(op.results) == 1 and not op.regions else None
        if value is None:
            self.copy(op, out)
        else:
            self.values[op.result] = value

    def _simpler(self, op: ir.Op, args: list[ir.Value], out: ir.Block) -> ir.Value | None:
        kind = op.result.type
        if op.opcode in SHAPING:
            if args[0].type == kind and op.opcode != "trans":
                return args[0]
            number = constant(args[0])
            return None if number is None else emit(out, op, "const", [], kind, value=number)
        if op.opcode not in ELEMENTWISE:
            return None
        number = _folded(op, args)
        if number is not None:
            return emit(out, op, "const", [], kind, value=number)
        return _identity(op, args, out) or self._uniform(op, args, out)

    def _uniform(self, op: ir.Op, args: list[ir.Value], out: ir.Block) -> ir.Value | None:
        """An operation on tiles that are each one scalar: that operation, then a tile of it."""
        if not op.result.type.is_tile or not args:
            return None
        scalars: list[ir.Value | None] = [None if constant(a) is not None else scalar_of(a) for a in args]
        if all(s is None for s in scalars):
            return None
        operands: list[ir.Value] = []
        for known, arg in zip(scalars, args, strict=True):
            scalar, number = known, constant(arg)
            if scalar is None:
                if number is None:
                    return None
                scalar = emit(out, op, "const", [], arg.type.with_shape(()), value=number)
            operands.append(scalar)
        value = emit(out, op, op.opcode, operands, op.result.type.with_shape(()), **op.attrs)
        return emit(out, op, "splat", [value], op.result.type)


def _wrap(value: int, dtype: ir.DType) -> int:
    if dtype.is_bool:
        return value & 1
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_signed and value >> (dtype.bits - 1) else value


def _folded(op: ir.Op, args: list[ir.Value]) -> int | float | bool | None:
    """The constant result of an operation on integer constants."""
    numbers = [constant(a) for a in args]
    dtype, result = args[0].type.element if args else None, op.result.type.element
    if not isinstance(dtype, ir.DType) or not isinstance(result, ir.DType):
        return None
    if len(args) == 1 and op.opcode == "cast" and isinstance(numbers[0], int) and dtype.is_int:
        if result.is_float:
            return float(numbers[0]) if abs(numbers[0]) <= 2048 else None
        return bool(numbers[0]) if result.is_bool else _wrap(int(numbers[0]), result)
    if len(args) != 2 or dtype.is_float:
        return None
    a, b = numbers
    if not isinstance(a, int) or not isinstance(b, int):
        return None
    if op.opcode == "cmp":
        return PREDICATES[str(op.attrs["pred"])](a, b)
    if op.opcode in ("idiv", "irem") and b != 0:
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return _wrap(quotient if op.opcode == "idiv" else a - quotient * b, result)
    if op.opcode in INTEGER:
        value = _wrap(INTEGER[op.opcode](int(a), int(b)), result)
        return bool(value) if result.is_bool else value
    return None


def _identity(op: ir.Op, args: list[ir.Value], out: ir.Block) -> ir.Value | None:
    """An operand that the result equals."""
    element = op.result.type.element
    if op.opcode == "cast":
        return args[0] if args[0].type == op.result.type else None
    if op.opcode == "select":
        condition = constant(args[0])
        if condition is not None:
            return args[1] if condition else args[2]
        return args[1] if args[1] is args[2] else None
    if op.opcode == "addptr":
        return args[0] if constant(args[1]) == 0 else None
    if len(args) != 2 or not isinstance(element, ir.DType) or op.opcode == "cmp":
        return None
    a, b = args
    if op.opcode in ("and", "or"):
        return _logic(op.opcode, element, a, b)
    if element.is_float:
        return _float_identity(op, a, b, out)
    if element.is_bool:
        return None
    left, right = constant(a), constant(b)
    if right is not None and right == NEUTRAL.get(op.opcode):
        return a
    if left is not None and op.opcode in ("add", "xor", "mul") and left == NEUTRAL[op.opcode]:
        return b
    if op.opcode == "mul" and 0 in (left, right):
        return a if left == 0 else b
    return None


def _logic(opcode: str, element: ir.DType, a: ir.Value, b: ir.Value) -> ir.Value | None:
    if a is b:
        return a
    for one, other in ((a, b), (b, a)):
        number = constant(one)
        if number is None:
            continue
        if number == 0:
            return one if opcode == "and" else other
        if element.is_bool or number == -1:
            return other if opcode == "and" else one
    return None


def _float_identity(op: ir.Op, a: ir.Value, b: ir.Value, out: ir.Block) -> ir.Value | None:
    number = constant(b)
    if number is None:
        return b if op.opcode == "mul" and constant(a) == 1 else None
    if op.opcode in ("mul", "div") and number == 1:
        return a
    if op.opcode == "div" and math.isfinite(number) and number != 0:
        mantissa, exponent = math.frexp(number)
        if abs(mantissa) == 0.5 and -12 <= exponent <= 13:  # exact, and within the range of f16 too
            inverse = emit(out, op, "const", [], b.type, value=1.0 / number)
            return emit(out, op, "mul", [a, inverse], op.result.type)
    return None
