"""Tile IR: typed, shaped values in SSA form with structured control flow; printer and verifier.

A function is one *block program*: it runs once for each point of a grid.  A value is a scalar or a tile
(an n-dimensional array whose sizes are known at compile time).  Passes are functions from `Function` to
`Function`; the IR is valid before and after each (`verify`).  `interpret.py` defines what it means.

| operations | operands → result | attributes |
|---|---|---|
| const | → any (a tile constant is a splat) | value |
| program_id, num_programs | → i32 | axis |
| arange | → i32[n] | start, end |
| splat | scalar → tile | |
| broadcast | tile → tile (sizes 1 grow; same rank) | |
| expand_dims | tile → tile | axis |
| slice | tile → tile without an axis, or scalar: the elements at one index of it | axis, index |
| reshape, trans | tile → tile | perm (trans) |
| add sub mul min max | a, a → a (numbers; min/max give the other when one is NaN; i1 adds as xor) | |
| div, frem | float, float → float; frem is C's fmod, with the sign of the left one | |
| idiv irem | int, int → int, rounding towards zero as in C; by 0 the quotient is 0, the rest the left one | |
| and or xor shl shr | int, int → int (shr is arithmetic on signed, logical on unsigned types) | |
| cmp | a, a → i1 | pred: eq ne lt le gt ge (ordered; ne is unordered, as in Python) |
| select | i1, a, a → a | |
| neg abs not | a → a (not: integers) | |
| exp exp2 log log2 sqrt rsqrt sin cos tanh erf sigmoid floor ceil | float → float | |
| fma | a, a, a → a (float, one rounding) | |
| cast | a → b (numbers; value conversion, to integer towards zero; i1 counts as 0 and 1; to i1: cmp ne 0) | |
| bitcast | a → b of the same width; pointer → pointer to another type, or 64-bit integer, and back | |
| addptr | pointer, int → pointer (counts elements) | |
| load | pointer [, i1 mask [, other]] → element; masked-off lanes give other, or 0 | has_mask, has_other |
| store | pointer, value [, i1 mask] → | has_mask |
| atomic_add atomic_max atomic_min atomic_xchg | pointer, value [, i1 mask] → old value (numbers) | has_mask |
| atomic_and atomic_or atomic_xor | pointer, value [, i1 mask] → old value (integers) | has_mask |
| atomic_cas | pointer, expected, value → old value | |
| reduce | tile → tile without that axis (or scalar) | kind: sum max min argmax argmin any all; axis |
| dot | a[m,k], b[k,n], acc[m,n] → [m,n], or each with one more axis in front | precision: "ieee" or "tf32" |
| for | lower, upper, step, inits… → final values…; region(i, carried…) ends in yield | |
| while | inits… → final values… | region 0 (carried…) yields condition, values…; 1 (values…) yields inits |
| if | condition → values…; regions then, else, both end in yield | |
| map | tiles of one shape → tiles of that shape; region(scalars), for each element, ends in yield | |
| print | tiles… → , on the host; `scalars` says 1 for those that are scalars | prefix, hex, scalars |
| assert | i1 → : false ends the launch with an error | message, place |
| yield | values… → | |
| return | → | |

A const's value is a bool for i1, an int for other integer types, a float for floats.  In memory an i1 takes
one byte: not 0 is true, and 0 or 1 is written.  idiv and irem by 0, and casts of floats that the integer type
can't hold, give some number.  `sum` and `dot` accumulate 16-bit floats in f32 at least, in any order.
argmax and argmin give the first of equal elements.  A `for` has a positive step; it may run no iteration.
`max`/`min` reductions ignore NaN like Triton's default.  f16 and bf16 arithmetic rounds after every operation
in the interpreter; a target may keep more precision inside one expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

# --- types -----------------------------------------------------------------------------------------


FP8 = {  # kind: bits of the mantissa, bias of the exponent, bits of the largest number and of NaN, if any
    "e5": (2, 15, 0x7B, 0x7F),
    "e4nv": (3, 7, 0x7E, 0x7F),
    "e4b15": (3, 15, 0x7F, None),
    "e4b8": (3, 8, 0x7F, 0x80),
    "e5b16": (2, 16, 0x7F, 0x80),
}
MANTISSA = {"fp16": 10, "bf16": 7, "fp32": 23, "fp64": 52, **{f"fp8{k}": v[0] for k, v in FP8.items()}}
BIAS = {"fp16": 15, "bf16": 127, "fp32": 127, "fp64": 1023}


class Answer(int):
    """A truth value that may also be called: Triton spells these questions `is_int()`, we `is_int`."""

    def __call__(self) -> bool:
        return bool(self)


_YES, _NO = Answer(1), Answer(0)


@dataclass(frozen=True)
class DType:
    """A number type: kind "int", "uint", "float", "bfloat" or one of `FP8`, and its width in bits.

    `i1` is the boolean.
    """

    SINT_TYPES: ClassVar[list[str]] = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar[list[str]] = ["int1", "uint8", "uint16", "uint32", "uint64"]
    STANDARD_FP_TYPES: ClassVar[list[str]] = ["fp16", "bf16", "fp32", "fp64"]
    FP_TYPES: ClassVar[list[str]] = [
        "fp8e4b15",
        "fp8e4nv",
        "fp8e4b8",
        "fp8e5",
        "fp8e5b16",
        *STANDARD_FP_TYPES,
    ]

    kind: str  # also Triton's name of the type, when no width is given
    bits: int = 0

    def __post_init__(self) -> None:
        if self.bits == 0:
            found = next((d for d in DTYPES.values() if self.kind in (d.name, str(d))), None)
            if found is None:
                raise ValueError(f"there is no dtype {self.kind!r}")
            object.__setattr__(self, "kind", found.kind)
            object.__setattr__(self, "bits", found.bits)

    def __repr__(self) -> str:
        return f"triton.language.{self.long_name}"

    @property
    def long_name(self) -> str:
        """As the language calls it: int32, float16, bfloat16."""
        return f"float8{self.kind}" if self.is_float8 else f"{self.kind}{self.bits}"

    @property
    def name(self) -> str:
        """As Triton calls it: int32, fp16, bf16, fp8e5."""
        if self.is_float8:
            return f"fp8{self.kind}"
        return {"float": "fp", "bfloat": "bf"}.get(self.kind, self.kind) + str(self.bits)

    @property
    def primitive_bitwidth(self) -> int:
        """Width in bits."""
        return self.bits

    @property
    def itemsize(self) -> int:
        """Bytes in memory."""
        return self.size

    @property
    def is_float8(self) -> bool:
        """Whether it is one of the 8-bit floats."""
        return self.kind in FP8

    @property
    def fp_mantissa_width(self) -> int:
        """Bits of a float's mantissa."""
        return MANTISSA[self.name]

    @property
    def exponent_bias(self) -> int:
        """What is added to a float's exponent in its bits."""
        return FP8[self.kind][1] if self.is_float8 else BIAS[self.name]

    def is_floating(self) -> bool:
        """Triton's spelling for Python code around kernels, as are the next ones."""
        return self.is_float

    def is_fp8(self) -> bool:
        return self.is_float8

    def is_fp16(self) -> bool:
        return self == F16

    def is_bf16(self) -> bool:
        return self == BF16

    def is_fp32(self) -> bool:
        return self == F32

    def is_fp64(self) -> bool:
        return self == F64

    def is_int_signed(self) -> bool:
        return self.kind == "int" and not self.is_bool

    def is_int_unsigned(self) -> bool:
        return self.kind == "uint" or self.is_bool

    def __str__(self) -> str:
        if self.is_float8:
            return self.name
        return {"int": "i", "uint": "u", "float": "f", "bfloat": "bf"}[self.kind] + str(self.bits)

    @property
    def is_float(self) -> bool:
        return self.kind in ("float", "bfloat") or self.kind in FP8

    @property
    def is_int(self) -> bool:
        return _NO if self.is_float else _YES  # type: ignore[return-value]

    @property
    def is_bool(self) -> bool:
        return _YES if self.bits == 1 else _NO  # type: ignore[return-value]

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def size(self) -> int:
        """Bytes in memory (a boolean takes one)."""
        return max(1, self.bits // 8)


@dataclass(frozen=True)
class Pointer:
    """The address of an element of type `to`."""

    to: DType

    def __str__(self) -> str:
        return f"*{self.to}"


Element: TypeAlias = DType | Pointer


@dataclass(frozen=True)
class Type:
    """A scalar (`shape == ()`) or a tile of an element type."""

    element: Element
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.element}[{','.join(map(str, self.shape))}]" if self.shape else str(self.element)

    @property
    def is_tile(self) -> bool:
        return bool(self.shape)

    @property
    def is_pointer(self) -> bool:
        return isinstance(self.element, Pointer)

    @property
    def dtype(self) -> DType:
        """The number type: of the value itself, or of what its pointers point to."""
        return self.element.to if isinstance(self.element, Pointer) else self.element

    @property
    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        return Type(self.element, shape)

    def with_element(self, element: Element) -> Type:
        return Type(element, self.shape)


I1, I8, I16, I32, I64 = (DType("int", bits) for bits in (1, 8, 16, 32, 64))
U8, U16, U32, U64 = (DType("uint", bits) for bits in (8, 16, 32, 64))
F16, F32, F64 = (DType("float", bits) for bits in (16, 32, 64))
BF16 = DType("bfloat", 16)
F8E5, F8E4NV, F8E4B15, F8E4B8, F8E5B16 = (DType(kind, 8) for kind in FP8)
DTYPES: dict[str, DType] = {
    str(d): d for d in (I1, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64, BF16)
}
DTYPES.update((str(d), d) for d in (F8E5, F8E4NV, F8E4B15, F8E4B8, F8E5B16))


FLOAT_OPS = (
    *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos"),
    *("tanh", "erf", "sigmoid", "floor", "ceil"),
)
ATOMICS = frozenset(f"atomic_{name}" for name in ("add", "max", "min", "and", "or", "xor", "xchg", "cas"))
"""Operations that read and write memory in one step."""

HOST_CALLS = frozenset({"print", "assert"})
"""Operations that the host hears of."""

REDUCTIONS = ("sum", "max", "min", "argmax", "argmin", "any", "all")

# --- values, operations, functions -----------------------------------------------------------------


@dataclass(frozen=True)
class Loc:
    """Where in the kernel's source an operation comes from (lines and columns count from 1)."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(eq=False)
class Value:
    """The result of an operation or a block argument; identity is object identity."""

    type: Type
    name: str = ""  # a hint from the source, for printing
    owner: Op | None = field(default=None, repr=False)  # None: a block argument


Attribute: TypeAlias = int | float | bool | str | tuple[int, ...]


@dataclass(eq=False)
class Block:
    """Operations in order, with arguments that the operation around it supplies."""

    args: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass(eq=False)
class Op:
    """One operation.  `regions` holds one block each; only control flow has any."""

    opcode: str
    operands: list[Value]
    results: list[Value]
    attrs: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)
    loc: Loc | None = None

    @property
    def result(self) -> Value:
        assert len(self.results) == 1, self.opcode
        return self.results[0]


@dataclass(frozen=True)
class ParamFacts:
    """What the launch promises of a parameter: used to specialise, part of the cache key."""

    divisible_by_16: bool = False  # the integer, or the address in bytes
    equal_to_1: bool = False
    noalias: bool = False


@dataclass(eq=False)
class Function:
    """A kernel: parameters (constexprs are already gone), facts about them, and a body ending in `return`."""

    name: str
    params: list[Value]
    facts: list[ParamFacts]
    body: Block
    source: str = ""  # the kernel's source text, for messages

    def walk(self) -> Iterator[Op]:
        """Every operation, outer before inner, in source order."""
        yield from walk(self.body)


def walk(block: Block) -> Iterator[Op]:
    """Every operation of a block and of the blocks inside it."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)


# --- building --------------------------------------------------------------------------------------


class Builder:
    """Appends operations to a block, and remembers the source location that they come from."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.loc: Loc | None = None

    def add(
        self,
        opcode: str,
        operands: list[Value],
        types: list[Type],
        regions: list[Block] | None = None,
        **attrs: Attribute,
    ) -> Op:
        """Append an operation whose results have the given types."""
        op = Op(opcode, operands, [], attrs, regions or [], self.loc)
        op.results = [Value(t, owner=op) for t in types]
        self.block.ops.append(op)
        return op

    def value(self, opcode: str, operands: list[Value], type: Type, **attrs: Attribute) -> Value:
        """Append an operation with one result, and return that."""
        return self.add(opcode, operands, [type], None, **attrs).result

    def const(self, value: int | float | bool, type: Type) -> Value:
        """A scalar constant, or a tile filled with one."""
        return self.value("const", [], type, value=value)


# --- printing --------------------------------------------------------------------------------------


class Printer:
    """Readable text of a function; stable, so that two equal functions print the same."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.used: dict[str, int] = {}

    def name(self, value: Value) -> str:
        if value not in self.names:
            base = value.name or "v"
            count = self.used.get(base, 0)
            self.used[base] = count + 1
            self.names[value] = f"%{base}" if count == 0 and value.name else f"%{base}{count}"
        return self.names[value]

    def function(self, func: Function) -> str:
        facts = [_facts_text(f) for f in func.facts]
        params = ", ".join(f"{self.name(p)}: {p.type}{f}" for p, f in zip(func.params, facts, strict=True))
        return "\n".join([f"kernel {func.name}({params}) {{", *self.block(func.body, 1), "}"]) + "\n"

    def block(self, block: Block, depth: int) -> list[str]:
        return [line for op in block.ops for line in self.op(op, depth)]

    def op(self, op: Op, depth: int) -> list[str]:
        pad = "  " * depth
        head = ", ".join(self.name(r) for r in op.results)
        operands = ", ".join(self.name(v) for v in op.operands)
        attrs = ", ".join(f"{k}={v!r}" for k, v in sorted(op.attrs.items()))
        text = f"{op.opcode}({operands})" + (f" {{{attrs}}}" if attrs else "")
        types = ", ".join(str(r.type) for r in op.results)
        line = pad + (f"{head} = {text} : {types}" if op.results else text)
        if not op.regions:
            return [line]
        lines = [line + " {"]
        for index, region in enumerate(op.regions):
            if index:
                lines.append(pad + "} {")
            if region.args:
                args = ", ".join(f"{self.name(a)}: {a.type}" for a in region.args)
                lines.append(f"{pad}  ({args}):")
            lines += self.block(region, depth + 1)
        return [*lines, pad + "}"]


def _facts_text(facts: ParamFacts) -> str:
    names = [name for name in ("divisible_by_16", "equal_to_1", "noalias") if getattr(facts, name)]
    return f" {{{', '.join(names)}}}" if names else ""


def dump(func: Function) -> str:
    """The text of a function."""
    return Printer().function(func)
