"""One tile IR operation on registers: arithmetic, comparisons, casts, on scalars and vectors alike.

In registers f16 and bf16 are f32, a boolean is `i1`, signed and unsigned integers are the same type.
"""

from __future__ import annotations

from collections.abc import Callable

from portkit.errors import KernelError
from portkit.runtime.targets import Target
from portkit.runtime.tile import ir
from portkit.runtime.tile.lower import floats
from portkit.runtime.tile.lower.emit import Code, T, V
from portkit.runtime.tile.lower.math import Math

MATH = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "sigmoid",
        "floor", "ceil")  # fmt: skip
FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "frem": "frem"}
INT_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
FLOAT_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
INT_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def register(element: ir.Element, lanes: int = 0) -> T:
    """The register type of an element."""
    if isinstance(element, ir.Pointer):
        return T("ptr", lanes)
    if element.is_float:
        return T("double" if element.bits == 64 else "float", lanes)
    return T(f"i{element.bits}", lanes)


class Elementwise:
    """Emits single operations into `code` for a target."""

    def __init__(self, code: Code, target: Target) -> None:
        self.code = code
        self.target = target
        self.math = Math(code, target)

    def emit(self, op: ir.Op, args: list[V]) -> V:
        """The result of an elementwise operation on the given operands (scalars spread to vectors)."""
        lanes = max((a.type.lanes for a in args), default=0)
        args = [self.code.splat(a, lanes) for a in args]
        source = op.operands[0].type.element if op.operands else op.result.type.element
        handler = _HANDLERS.get(op.opcode)
        if handler is None:
            raise KernelError(f"the compiler has no lowering for {op.opcode}", place=str(op.loc or ""))
        try:
            return handler(self, op, source, args)
        except Unsupported as error:
            raise KernelError(str(error), place=str(op.loc or "")) from None

    # --- numbers --------------------------------------------------------------------------------------

    def binary(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        if isinstance(source, ir.DType) and source.is_float:
            return self.code.bin(FLOAT_BINARY[op.opcode], *args)
        if source == ir.I1 and op.opcode in ("add", "sub", "mul"):
            return self.code.bin("and" if op.opcode == "mul" else "xor", *args)
        return self.code.bin(INT_BINARY[op.opcode], *args)

    def extremum(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        return self.extreme(op.opcode, source, *args)

    def extreme(self, kind: str, source: ir.Element, a: V, b: V) -> V:
        """min or max; of floats, the other one if one is NaN."""
        code = self.code
        if isinstance(source, ir.DType) and source.is_float:
            order = "olt" if kind == "min" else "ogt"
            first = code.select(code.compare(f"fcmp {order}", a, b), a, b)
            return code.select(code.compare("fcmp uno", b, b), a, first)
        sign = "s" if isinstance(source, ir.DType) and source.is_signed and not source.is_bool else "u"
        order = "lt" if kind == "min" else "gt"
        return code.select(code.compare(f"icmp {sign}{order}", a, b), a, b)

    def divide(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        """Integer quotient or remainder; by 0 it is 0 with everything left, and MIN / -1 wraps: no traps."""
        a, b = args
        assert isinstance(source, ir.DType)
        if source.is_bool:
            return a if op.opcode == "idiv" else self.code.const(0, a.type)
        quotient = self._quotient(source, a, b)
        if op.opcode == "idiv":
            return quotient
        code = self.code
        return code.bin("sub", a, code.bin("mul", quotient, b))

    def _quotient(self, source: ir.DType, a: V, b: V) -> V:
        code = self.code
        opcode = "sdiv" if source.is_signed else "udiv"
        if b.const not in (None, 0, -1):
            return code.bin(opcode, a, b)
        zero, one = code.const(0, b.type), code.const(1, b.type)
        bad = code.compare("icmp eq", b, zero)
        minus = code.compare("icmp eq", b, code.const(-1, b.type)) if source.is_signed else None
        safe = code.select(bad, one, b)
        if minus is not None:
            safe = code.select(minus, one, safe)
        if a.type.lanes and source.bits <= 32:
            quotient = self._float_quotient(source, a, safe)
        else:
            quotient = code.bin(opcode, a, safe)
        if minus is not None:
            quotient = code.select(minus, code.bin("sub", zero, a), quotient)
        return code.select(bad, zero, quotient)

    def _float_quotient(self, source: ir.DType, a: V, b: V) -> V:
        # 32-bit integers are exact in f64, and so is the truncated quotient: vectors divide floats faster
        code = self.code
        wide = [code.cast("sitofp" if source.is_signed else "uitofp", v, "double") for v in (a, b)]
        quotient = code.bin("fdiv", *wide)
        if source.is_signed:
            return (
                code.cast("trunc", code.cast("fptosi", quotient, "i32"), a.type.elt)
                if (source.bits < 32)
                else code.cast("fptosi", quotient, "i32")
            )
        return code.cast("trunc", code.cast("fptosi", quotient, "i64"), a.type.elt)

    def shift(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        signed = isinstance(source, ir.DType) and source.is_signed
        return self.code.bin({"shl": "shl", "shr": "ashr" if signed else "lshr"}[op.opcode], *args)

    def compare(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        pred = str(op.attrs["pred"])
        if isinstance(source, ir.DType) and source.is_float:
            return self.code.compare(f"fcmp {FLOAT_PREDICATES[pred]}", *args)
        signed = isinstance(source, ir.DType) and source.is_signed and not source.is_bool
        sign = "" if pred in ("eq", "ne") else "s" if signed else "u"
        return self.code.compare(f"icmp {sign}{INT_PREDICATES[pred]}", *args)

    def choose(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        return self.code.select(*args)

    def negate(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        a = args[0]
        if a.type.is_float:
            return self.code.op(f"fneg {a.type} {{}}", a.type, a)
        return self.code.bin("sub", self.code.const(0, a.type), a)

    def invert(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        return self.code.bin("xor", args[0], self.code.const(-1, args[0].type))

    def absolute(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        a = args[0]
        if a.type.is_float:
            return self.math.fabs(a)
        if not (isinstance(source, ir.DType) and source.is_signed) or source.is_bool:
            return a
        zero = self.code.const(0, a.type)
        return self.code.select(self.code.compare("icmp slt", a, zero), self.code.bin("sub", zero, a), a)

    def function(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        method: Callable[[V], V] | None = getattr(self.math, op.opcode, None)
        if method is None:
            raise Unsupported(f"{op.opcode} has no lowering")
        return method(args[0])

    def fused(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        return self.math.exact_fma(*args)

    # --- conversions ----------------------------------------------------------------------------------

    def round16(self, dtype: ir.DType, value: V) -> V:
        """An f32 rounded to a 16-bit format, still in f32."""
        bits = floats.narrow(self.code, self.target, dtype.kind, value)
        return floats.widen(self.code, self.target, dtype.kind, bits)

    def cast(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        to = op.result.type.element
        assert isinstance(source, ir.DType)
        assert isinstance(to, ir.DType)
        return self.convert(source, to, args[0])

    def convert(self, source: ir.DType, to: ir.DType, value: V) -> V:
        """A number of one type as another."""
        if source == to:
            return value
        if source.is_float:
            return self._from_float(source, to, value)
        code = self.code
        if to.is_float:
            elt = register(to).elt
            unsigned = source.is_bool or not source.is_signed
            wide = code.cast("uitofp" if unsigned else "sitofp", value, elt)
            return self.round16(to, wide) if to.bits == 16 and source.bits > 8 else wide
        if to.is_bool:
            return code.compare("icmp ne", value, code.const(0, value.type))
        if to.bits == source.bits:
            return value
        if to.bits < source.bits:
            return code.cast("trunc", value, f"i{to.bits}")
        extend = "sext" if source.is_signed and not source.is_bool else "zext"
        return code.cast(extend, value, f"i{to.bits}")

    def _from_float(self, source: ir.DType, to: ir.DType, value: V) -> V:
        code = self.code
        if to.is_bool:
            return code.compare("fcmp une", value, code.const(0.0, value.type))
        if to.is_int:
            wide = max(to.bits, 32)
            unsigned = not to.is_signed and to.bits == 64
            if not to.is_signed and to.bits == 32:
                wide = 64
            whole = code.cast("fptoui" if unsigned else "fptosi", value, f"i{wide}")
            return whole if wide == to.bits else code.cast("trunc", whole, f"i{to.bits}")
        if to.bits == 64:
            return code.cast("fpext", value, "double")
        if source.bits == 64:
            value = code.cast("fptrunc", value, "float")
        wider = source.bits > 16 or source.kind != to.kind
        return self.round16(to, value) if to.bits == 16 and wider else value

    def reinterpret(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        to, value, code = op.result.type.element, args[0], self.code
        if isinstance(source, ir.Pointer) and isinstance(to, ir.Pointer):
            return value
        if isinstance(source, ir.Pointer):
            return code.cast("ptrtoint", value, "i64")
        if isinstance(to, ir.Pointer):
            return code.cast("inttoptr", value, "ptr")
        if source.is_float and source.bits == 16:
            value = floats.bits(code, self.target, source.kind, value)
        if to.is_float and to.bits == 16:
            return floats.widen(code, self.target, to.kind, value)
        target = register(to)
        return value if value.type.elt == target.elt else code.cast("bitcast", value, target.elt)

    def address(self, op: ir.Op, source: ir.Element, args: list[V]) -> V:
        pointer, offset = args
        index = op.operands[1].type.element
        assert isinstance(source, ir.Pointer)
        assert isinstance(index, ir.DType)
        return self.code.gep(memory_element(source.to), pointer, self.convert(index, ir.I64, offset))


class Unsupported(Exception):
    """A function that has no lowering for a type; becomes a KernelError with the place."""


def memory_element(dtype: ir.Element) -> str:
    """The LLVM type of an element in memory: what is loaded and stored, and what addresses count."""
    if isinstance(dtype, ir.Pointer):
        return "ptr"
    if dtype.is_float and dtype.bits == 16:
        return "i16"
    if dtype.is_bool:
        return "i8"
    return register(dtype).elt


_Handler = Callable[[Elementwise, ir.Op, ir.Element, list[V]], V]
_HANDLERS: dict[str, _Handler] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "frem", "and", "or", "xor"), Elementwise.binary),
    **dict.fromkeys(("min", "max"), Elementwise.extremum),
    **dict.fromkeys(("idiv", "irem"), Elementwise.divide),
    **dict.fromkeys(("shl", "shr"), Elementwise.shift),
    **dict.fromkeys(
        (
            "exp",
            "exp2",
            "log",
            "log2",
            "sqrt",
            "rsqrt",
            "sin",
            "cos",
            "tanh",
            "erf",
            "sigmoid",
            "floor",
            "ceil",
        ),
        Elementwise.function,
    ),
    "cmp": Elementwise.compare,
    "select": Elementwise.choose,
    "neg": Elementwise.negate,
    "not": Elementwise.invert,
    "abs": Elementwise.absolute,
    "fma": Elementwise.fused,
    "cast": Elementwise.cast,
    "bitcast": Elementwise.reinterpret,
    "addptr": Elementwise.address,
}
ELEMENTWISE = frozenset(_HANDLERS)
