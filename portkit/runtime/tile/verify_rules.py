"""What each operation of the tile IR demands of its operands, results and attributes, as tables of checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from portkit.runtime.tile import ir

Rule: TypeAlias = Callable[[ir.Op], None]


class VerifyError(Exception):
    """The IR is malformed: a fault of the compiler, not of the kernel that is compiled."""


def expect(condition: bool, op: ir.Op | None, message: str) -> None:
    """Raise VerifyError with the operation and its place unless the condition holds."""
    if not condition:
        name = op.opcode if op is not None else "function"
        place = f" at {op.loc}" if op is not None and op.loc is not None else ""
        raise VerifyError(f"{name}{place}: {message}")


def _counts(op: ir.Op, operands: int, results: int = 1) -> None:
    expect(len(op.operands) == operands, op, f"needs {operands} operands, has {len(op.operands)}")
    expect(len(op.results) == results, op, f"needs {results} results, has {len(op.results)}")


def _integer(op: ir.Op, name: str, low: int, high: int) -> int:
    value = op.attrs.get(name)
    expect(isinstance(value, int) and not isinstance(value, bool), op, f"needs an integer `{name}`")
    assert isinstance(value, int)
    expect(low <= value < high, op, f"`{name}` is {value}, not in [{low}, {high})")
    return value


def _is_number(op: ir.Op, value: ir.Value, what: str, kinds: str = "number") -> None:
    element = value.type.element
    expect(isinstance(element, ir.DType), op, f"{what} is a pointer, not a {kinds}")
    assert isinstance(element, ir.DType)
    expect(kinds != "float" or element.is_float, op, f"{what} is {element}, not a float")
    expect(kinds != "integer" or element.is_int, op, f"{what} is {element}, not an integer")


def _all_equal(op: ir.Op, values: list[ir.Value]) -> None:
    types = " and ".join(str(v.type) for v in values)
    expect(len({v.type for v in values}) == 1, op, f"types must be equal: {types}")


def _elementwise(count: int, kinds: str) -> Rule:
    """`count` operands and a result, all of one type, which is of a kind."""

    def check(op: ir.Op) -> None:
        _counts(op, count)
        _is_number(op, op.operands[0], "operand 0", kinds)
        _all_equal(op, [*op.operands, op.result])

    return check


ELEMENTWISE: dict[str, Rule] = {
    **dict.fromkeys(("add", "sub", "mul", "min", "max"), _elementwise(2, "number")),
    **dict.fromkeys(("div", "frem"), _elementwise(2, "float")),
    **dict.fromkeys(("idiv", "irem", "and", "or", "xor", "shl", "shr"), _elementwise(2, "integer")),
    **dict.fromkeys(("neg", "abs"), _elementwise(1, "number")),
    "not": _elementwise(1, "integer"),
    **dict.fromkeys(
        [
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
        ],
        _elementwise(1, "float"),
    ),
    "fma": _elementwise(3, "float"),
}


def _const(op: ir.Op) -> None:
    _counts(op, 0)
    _is_number(op, op.result, "the result")
    value, dtype = op.attrs.get("value"), op.result.type.dtype
    if dtype.is_float:
        expect(isinstance(value, float), op, f"a constant of type {dtype} needs a float value, not {value!r}")
    else:
        wanted = bool if dtype.is_bool else int
        expect(
            type(value) is wanted, op, f"a constant of type {dtype} needs {wanted.__name__}, not {value!r}"
        )


def _grid(op: ir.Op) -> None:
    _counts(op, 0)
    _integer(op, "axis", 0, 3)
    expect(op.result.type == ir.Type(ir.I32), op, f"gives i32, not {op.result.type}")


def _arange(op: ir.Op) -> None:
    _counts(op, 0)
    start = _integer(op, "start", -(2**31), 2**31)
    end = _integer(op, "end", start + 1, 2**31 + 1)
    want = ir.Type(ir.I32, (end - start,))
    expect(op.result.type == want, op, f"gives {want}, not {op.result.type}")


def _splat(op: ir.Op) -> None:
    _counts(op, 1)
    source, result = op.operands[0].type, op.result.type
    expect(not source.is_tile and result.is_tile, op, f"goes from scalar to tile, not {source} to {result}")
    expect(source.element == result.element, op, f"changes the element type, {source} to {result}")


def _broadcast(op: ir.Op) -> None:
    _counts(op, 1)
    source, result = op.operands[0].type, op.result.type
    fits = len(source.shape) == len(result.shape) > 0
    fits = fits and all(s in (1, r) for s, r in zip(source.shape, result.shape, strict=True))
    expect(fits and source.element == result.element, op, f"can't go from {source} to {result}")


def _expand_dims(op: ir.Op) -> None:
    _counts(op, 1)
    source = op.operands[0].type
    expect(source.is_tile, op, "needs a tile")
    axis = _integer(op, "axis", 0, len(source.shape) + 1)
    want = source.with_shape((*source.shape[:axis], 1, *source.shape[axis:]))
    expect(op.result.type == want, op, f"gives {want}, not {op.result.type}")


def _slice(op: ir.Op) -> None:
    _counts(op, 1)
    source = op.operands[0].type
    axis = _integer(op, "axis", 0, len(source.shape))
    _integer(op, "index", 0, source.shape[axis])
    want = source.with_shape(source.shape[:axis] + source.shape[axis + 1 :])
    expect(op.result.type == want, op, f"gives {want}, not {op.result.type}")


def _reshape(op: ir.Op) -> None:
    _counts(op, 1)
    source, result = op.operands[0].type, op.result.type
    fits = source.is_tile and result.is_tile and source.numel == result.numel
    expect(fits and source.element == result.element, op, f"can't go from {source} to {result}")


def _trans(op: ir.Op) -> None:
    _counts(op, 1)
    source, perm = op.operands[0].type, op.attrs.get("perm")
    expect(isinstance(perm, tuple), op, "needs a tuple `perm`")
    assert isinstance(perm, tuple)
    expect(sorted(perm) == list(range(len(source.shape))), op, f"`perm` is no order of the axes of {source}")
    want = source.with_shape(tuple(source.shape[p] for p in perm))
    expect(op.result.type == want, op, f"gives {want}, not {op.result.type}")


def _cmp(op: ir.Op) -> None:
    _counts(op, 2)
    expect(op.attrs.get("pred") in ("eq", "ne", "lt", "le", "gt", "ge"), op, "has no known `pred`")
    _is_number(op, op.operands[0], "operand 0")
    _all_equal(op, op.operands)
    want = op.operands[0].type.with_element(ir.I1)
    expect(op.result.type == want, op, f"gives {want}, not {op.result.type}")


def _select(op: ir.Op) -> None:
    _counts(op, 3)
    _all_equal(op, [*op.operands[1:], op.result])
    want = op.result.type.with_element(ir.I1)
    expect(op.operands[0].type == want, op, f"its condition is {op.operands[0].type}, not {want}")


def _cast(op: ir.Op) -> None:
    _counts(op, 1)
    source, result = op.operands[0], op.result
    _is_number(op, source, "operand 0")
    _is_number(op, result, "the result")
    expect(source.type.shape == result.type.shape, op, "changes the shape")
    expect(source.type.element != result.type.element, op, "changes nothing")


def _bitcast(op: ir.Op) -> None:
    _counts(op, 1)
    source, result = op.operands[0].type, op.result.type
    expect(source.shape == result.shape, op, "changes the shape")
    bits = [64 if t.is_pointer else t.dtype.bits for t in (source, result)]
    mixed = source.is_pointer != result.is_pointer
    whole = all(t.is_pointer or t.dtype.is_int for t in (source, result))
    expect((whole or not mixed) and bits[0] == bits[1], op, f"{source} to {result} is no bitcast")


def _addptr(op: ir.Op) -> None:
    _counts(op, 2)
    pointer, offset = op.operands
    expect(pointer.type.is_pointer, op, f"operand 0 is {pointer.type}, not a pointer")
    _is_number(op, offset, "operand 1", "integer")
    expect(pointer.type.shape == offset.type.shape, op, "pointer and offset differ in shape")
    expect(op.result.type == pointer.type, op, f"gives {pointer.type}, not {op.result.type}")


def _flag(op: ir.Op, name: str) -> bool:
    value = op.attrs.get(name)
    expect(isinstance(value, bool), op, f"needs a boolean `{name}`")
    return bool(value)


def _memory(op: ir.Op, rest: list[str]) -> ir.Type:
    """Operands: a pointer, then `rest` ("mask" or "value"); gives the type of the elements."""
    names = ["pointer", *rest]
    expect(len(op.operands) == len(names), op, f"needs {len(names)} operands, has {len(op.operands)}")
    pointer = op.operands[0].type
    expect(pointer.is_pointer, op, f"operand 0 is {pointer}, not a pointer")
    value = pointer.with_element(pointer.dtype)
    for name, operand in zip(names[1:], op.operands[1:], strict=True):
        want = pointer.with_element(ir.I1) if name == "mask" else value
        expect(operand.type == want, op, f"its {name} is {operand.type}, not {want}")
    return value


def _load(op: ir.Op) -> None:
    mask, other = _flag(op, "has_mask"), _flag(op, "has_other")
    expect(mask or not other, op, "has `other` without a mask")
    value = _memory(op, ["mask"] * mask + ["other"] * other)
    expect(len(op.results) == 1 and op.result.type == value, op, f"gives {value}")


def _store(op: ir.Op) -> None:
    mask = _flag(op, "has_mask")
    _memory(op, ["value"] + ["mask"] * mask)
    expect(not op.results, op, "gives nothing")


def _atomic(op: ir.Op) -> None:
    mask = _flag(op, "has_mask")
    value = _memory(op, ["value"] + ["mask"] * mask)
    expect(len(op.results) == 1 and op.result.type == value, op, f"gives {value}")


def _atomic_bits(op: ir.Op) -> None:
    _atomic(op)
    _is_number(op, op.result, "the result", "integer")


def _atomic_cas(op: ir.Op) -> None:
    value = _memory(op, ["expected", "value"])
    expect(len(op.results) == 1 and op.result.type == value, op, f"gives {value}")


def _reduce(op: ir.Op) -> None:
    _counts(op, 1)
    source, kind = op.operands[0].type, op.attrs.get("kind")
    expect(kind in ir.REDUCTIONS, op, f"has no known `kind`: {kind!r}")
    _is_number(op, op.operands[0], "operand 0", "integer" if kind in ("any", "all", "xor") else "number")
    axis = _integer(op, "axis", 0, len(source.shape))
    element = ir.I32 if kind in ("argmax", "argmin") else source.element
    want = ir.Type(element, source.shape[:axis] + source.shape[axis + 1 :])
    expect(op.result.type == want, op, f"gives {want}, not {op.result.type}")


def _dot(op: ir.Op) -> None:
    _counts(op, 3)
    a, b, acc = (v.type for v in op.operands)
    for index in range(3):
        _is_number(op, op.operands[index], f"operand {index}")
    fits = len(a.shape) == len(b.shape) in (2, 3) and a.shape[-1] == b.shape[-2]
    fits = fits and a.shape[:-2] == b.shape[:-2] and acc.shape == (*a.shape[:-1], b.shape[-1])
    expect(fits, op, f"shapes do not fit: {a} · {b} + {acc}")
    expect(a.element == b.element, op, f"operands differ in type: {a} and {b}")
    expect(a.dtype.is_float == acc.dtype.is_float, op, f"{a} can't accumulate in {acc}")
    expect(op.result.type == acc, op, f"gives {acc}, not {op.result.type}")
    expect(op.attrs.get("precision") in ("ieee", "tf32"), op, "has no known `precision`")


def _for(op: ir.Op) -> None:
    expect(len(op.operands) >= 3, op, "needs lower, upper and step")
    for index, name in enumerate(("lower", "upper", "step")):
        bound = op.operands[index]
        _is_number(op, bound, name, "integer")
        expect(not bound.type.is_tile, op, f"{name} is a tile, not a scalar")
    _all_equal(op, op.operands[:3])


def _if(op: ir.Op) -> None:
    expect(len(op.operands) == 1, op, "needs one operand, the condition")
    expect(op.operands[0].type == ir.Type(ir.I1), op, f"its condition is {op.operands[0].type}, not i1")


def _ends(op: ir.Op) -> None:
    expect(not op.results, op, "gives nothing")


def _return(op: ir.Op) -> None:
    _counts(op, 0, 0)


def _print(op: ir.Op) -> None:
    expect(not op.results, op, "gives nothing")
    scalars = op.attrs.get("scalars")
    expect(isinstance(scalars, tuple) and len(scalars) == len(op.operands), op, "needs a flag for each tile")
    expect(isinstance(op.attrs.get("prefix"), str), op, "needs a text `prefix`")
    _flag(op, "hex")
    for index, value in enumerate(op.operands):
        _is_number(op, value, f"operand {index}")
        expect(value.type.is_tile, op, f"operand {index} is {value.type}, not a tile")


def _assert(op: ir.Op) -> None:
    _counts(op, 1, 0)
    expect(op.operands[0].type == ir.Type(ir.I1), op, f"its condition is {op.operands[0].type}, not i1")
    for name in ("message", "place"):
        expect(isinstance(op.attrs.get(name), str), op, f"needs a text `{name}`")


def _map(op: ir.Op) -> None:
    expect(bool(op.operands) and bool(op.results), op, "needs tiles, and gives some")
    shape = op.operands[0].type.shape
    for value in (*op.operands, *op.results):
        _is_number(op, value, "a tile")
        expect(bool(shape) and value.type.shape == shape, op, f"a tile is {value.type}, not of shape {shape}")


RULES: dict[str, Rule] = {
    "const": _const,
    "program_id": _grid,
    "num_programs": _grid,
    "arange": _arange,
    "splat": _splat,
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "reshape": _reshape,
    "slice": _slice,
    "trans": _trans,
    "cmp": _cmp,
    "select": _select,
    "cast": _cast,
    "bitcast": _bitcast,
    "addptr": _addptr,
    "load": _load,
    "store": _store,
    **dict.fromkeys(("atomic_add", "atomic_max", "atomic_min", "atomic_xchg"), _atomic),
    **dict.fromkeys(("atomic_and", "atomic_or", "atomic_xor"), _atomic_bits),
    "atomic_cas": _atomic_cas,
    "reduce": _reduce,
    "dot": _dot,
    "for": _for,
    "while": lambda op: None,  # all it demands is of its regions
    "if": _if,
    "map": _map,
    "print": _print,
    "assert": _assert,
    "yield": _ends,
    "return": _return,
}
