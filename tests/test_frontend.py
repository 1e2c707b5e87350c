"""The front end: types as Triton infers them, structure of the IR, and errors with their place."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

import portkit.runtime.tile.language as tl
import portkit.runtime.triton as triton
from portkit.errors import KernelError
from portkit.runtime.tile import frontend, ir, verify
from portkit.runtime.tile.frontend import calls, expressions, introspect, promotion, statements
from portkit.runtime.tile.ir import BF16, F16, F32, F64, I1, I8, I16, I32, I64, U8, U16, U32, U64
from portkit.runtime.tile.language.extra import libdevice
from portkit.runtime.tile.signature import Constexpr, Runtime

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SIZE = 8
WIDTH: tl.constexpr = tl.constexpr(16)


def number(dtype: ir.DType) -> Runtime:
    return Runtime(ir.Type(dtype))


def pointer(dtype: ir.DType) -> Runtime:
    return Runtime(ir.Type(ir.Pointer(dtype)))


def build(fn: Callable[..., Any], *args: Any) -> ir.Function:
    """Compile; anything that is no specification is a constant."""
    specs = [arg if isinstance(arg, Runtime) else Constexpr(arg) for arg in args]
    func = frontend.build(fn, specs)
    verify.verify(func)
    return func


def refused(fn: Callable[..., Any], *args: Any) -> KernelError:
    with pytest.raises(KernelError) as caught:
        build(fn, *args)
    return caught.value


def stored(func: ir.Function) -> ir.Type:
    """The type of the value that the function's last `yield`-less statement, its only store, writes."""
    return next(op for op in func.walk() if op.opcode == "store").operands[1].type


# --- promotion -------------------------------------------------------------------------------------

ALL = [I1, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64]


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (F64, F32, F64),
        (F32, F16, F32),
        (F32, I64, F32),
        (F16, BF16, F16),
        (BF16, BF16, BF16),
        (BF16, I32, F32),
        (F16, I64, F16),
        (I8, I32, I32),
        (U8, I32, I32),
        (U32, I32, U32),
        (U64, I64, U64),
        (U32, I64, I64),
        (I1, I8, I8),
        (I1, I1, I1),
        (I1, F32, F32),
    ],
)
def test_promotion(a: ir.DType, b: ir.DType, want: ir.DType) -> None:
    assert promotion.promote(a, b) == want
    assert promotion.promote(b, a) == want


@pytest.mark.parametrize("dtype", ALL)
def test_python_numbers_adopt_the_type(dtype: ir.DType) -> None:
    assert promotion.promote(dtype, I1, b_weak=True) == dtype
    if not dtype.is_bool:
        assert promotion.promote(dtype, I32, b_weak=True) == dtype
        assert promotion.promote(I64, dtype, a_weak=True) == dtype
    if dtype.is_float:
        assert promotion.promote(dtype, F64, b_weak=True) == dtype


def test_16_bit_floats_divide_in_f32() -> None:
    assert promotion.promote(F16, F16, division=True) == F32
    assert promotion.promote(BF16, I32, b_weak=True, division=True) == F32
    with pytest.raises(KernelError, match="signed"):
        promotion.promote(I32, U32, division=True)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (True, I1),
        (5, I32),
        (-(2**31), I32),
        (2**31, U32),
        (2**32, I64),
        (2**63, U64),
        (0.5, F32),
        (float("inf"), F32),
        (1e300, F64),
    ],
)
def test_literals(value: float, want: ir.DType) -> None:
    assert promotion.literal_type(value) == want


EXPRESSIONS: list[tuple[Callable[[Any, Any], Any], ir.DType, ir.DType, ir.DType]] = []


def expression(a: ir.DType, b: ir.DType, want: ir.DType) -> Callable[[Any], Any]:
    """Register a small kernel body: its result for scalars of two dtypes has a dtype."""

    def register(fn: Any) -> Any:
        EXPRESSIONS.append((fn, a, b, want))
        return fn

    return register


@expression(F16, F16, F32)
def true_division(a, b):
    return a / b


@expression(I32, I8, F32)
def integer_division(a, b):
    return a / b


@expression(I64, I8, I64)
def floor_division(a, b):
    return a // b


@expression(F32, I8, I1)
def comparison(a, b):
    return a < b


@expression(F16, F16, F16)
def weak_scalar(a, b):
    return a * 0.5 + b * 2


@expression(F16, F16, F32)
def assigned_scalar(a, b):
    half = 0.5  # a name makes a typed scalar of it, as in Triton
    return a * half


@expression(I32, I32, F32)
def float_scalar(a, b):
    return a * 0.5


@expression(U8, U8, U8)
def weak_integer(a, b):
    return (a + 1) & 255 | b


@expression(BF16, BF16, F32)
def bf16_maximum(a, b):
    return tl.maximum(a, b)


@expression(F16, F16, F32)
def maximum_of_literal(a, b):
    return tl.maximum(a, 0.0)


@expression(F16, BF16, F16)
def where_of_literal(a, b):
    return tl.where(b > 0, a, 0.0)


@expression(I1, I1, I1)
def logic(a, b):
    return (a and not b) or a


@expression(I8, I8, I32)
def typed_choice(a, b):
    return 1 if a > b else 2


@triton.jit
def expression_kernel(out, a, b, BODY: tl.constexpr):
    tl.store(out, BODY(a, b))


@pytest.mark.parametrize(("fn", "a", "b", "want"), EXPRESSIONS, ids=[e[0].__name__ for e in EXPRESSIONS])
def test_expression_types(fn: Any, a: ir.DType, b: ir.DType, want: ir.DType) -> None:
    func = build(expression_kernel, pointer(want), number(a), number(b), triton.jit(fn))
    store = next(op for op in func.walk() if op.opcode == "store")
    assert store.operands[1].type == ir.Type(want)
    value = store.operands[1].owner
    assert value is not None
    assert value.opcode != "cast" or value.loc.line != inspect.getsourcelines(expression_kernel.fn)[1] + 2


@triton.jit
def reduction_kernel(x, out, KIND: tl.constexpr, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, N))
    if KIND == "sum":
        tl.store(out, tl.sum(tile, axis=0))
    elif KIND == "max":
        tl.store(out, tl.max(tile, axis=0))
    else:
        tl.store(out, tl.argmax(tile, axis=0))


@pytest.mark.parametrize(
    ("kind", "dtype", "want"),
    [
        ("sum", F16, F16),
        ("sum", BF16, BF16),
        ("sum", I8, I32),
        ("sum", U8, U32),
        ("sum", I1, U32),
        ("sum", I64, I64),
        ("max", F16, F32),
        ("max", BF16, F32),
        ("max", I8, I32),
        ("max", F64, F64),
        ("argmax", F32, I32),
    ],
)
def test_reduction_types(kind: str, dtype: ir.DType, want: ir.DType) -> None:
    func = build(reduction_kernel, pointer(dtype), pointer(F64), kind, SIZE)
    reduce = next(op for op in func.walk() if op.opcode == "reduce")
    assert reduce.result.type == ir.Type(want)


# --- structure -------------------------------------------------------------------------------------


def shapes(x, out, N: tl.constexpr):
    rows = tl.arange(0, N)
    tl.static_assert(rows[:, None].shape == (N, 1))
    tl.static_assert(rows[None, :, None].shape == (1, N, 1))
    tl.static_assert((rows[:, None] + tl.arange(0, WIDTH)).shape == (N, 16))
    tl.static_assert(tl.load(x + rows).dtype == x.dtype.element_ty)
    tl.static_assert(x.type.element_ty.is_floating() and not x.dtype.element_ty.is_int())
    tl.static_assert(rows.type.scalar == tl.int32 and rows.numel == N)
    tl.static_assert(x.dtype.is_ptr() and x.dtype.element_ty.primitive_bitwidth == 32)
    tl.static_assert(tl.reshape(rows, (2, -1)).shape[1] == N // 2, f"shape {rows.shape}")
    tl.store(out + rows[:, None] * N + rows[None, :], tl.full((N, N), 1.5, tl.float16))


def test_shapes_and_introspection() -> None:
    assert stored(build(shapes, pointer(F32), pointer(F32), SIZE)) == ir.Type(F32, (8, 8))


def loop(x, n, out):
    total = 0.0
    count = 0
    for i in range(n):
        step = tl.load(x + i)
        total += step
        count = count + 1
    tl.store(out, total / count)


def test_loops_carry_what_they_assign() -> None:
    func = build(loop, pointer(F32), number(I32), pointer(F32))
    (op,) = [op for op in func.walk() if op.opcode == "for"]
    assert [r.name for r in op.results] == ["total", "count"]
    assert [str(r.type) for r in op.results] == ["f32", "i32"]
    assert [str(a.type) for a in op.regions[0].args] == ["i32", "f32", "i32"]


def test_index_takes_the_widest_bound() -> None:
    func = build(loop, pointer(F32), number(I64), pointer(F32))
    (op,) = [op for op in func.walk() if op.opcode == "for"]
    assert op.regions[0].args[0].type == ir.Type(I64)


def pruned(x, out, FLAG: tl.constexpr, MAYBE):
    if FLAG and MAYBE is None:
        tl.store(out, tl.load(x))
    elif MAYBE is not None:
        tl.store(out, tl.load(MAYBE))
    else:
        tl.static_assert(False, "not reached")


def test_constant_conditions_leave_no_branch() -> None:
    func = build(pruned, pointer(F32), pointer(F32), True, None)
    assert [op.opcode for op in func.walk()] == ["load", "store", "return"]
    assert [p.name for p in func.params] == ["x", "out"]
    func = build(pruned, pointer(F32), pointer(F32), False, pointer(F32))
    assert [p.name for p in func.params] == ["x", "out", "MAYBE"]


def early(x, out, n):
    if n < 0:
        return
    value = tl.load(x)
    if value > 0:
        tl.store(out, value)
        return
    tl.store(out, -value)


def test_early_return_takes_the_rest_into_the_branch() -> None:
    func = build(early, pointer(F32), pointer(F32), number(I32))
    assert [op.opcode for op in func.body.ops][-2:] == ["if", "return"]
    outer = func.body.ops[-2]
    assert [op.opcode for op in outer.regions[0].ops] == ["yield"]
    assert [op.opcode for op in outer.regions[1].ops] == ["load", "const", "cmp", "if", "yield"]


def facts(x, n):
    tl.store(x, n)


def test_facts_and_places_pass_through() -> None:
    promise = ir.ParamFacts(divisible_by_16=True)
    specs = [
        Runtime(ir.Type(ir.Pointer(I32)), promise),
        Runtime(ir.Type(I32), ir.ParamFacts(equal_to_1=True)),
    ]
    func = frontend.build(facts, specs)
    assert func.facts[0] == promise
    assert len(func.params) == 2
    store = next(op for op in func.walk() if op.opcode == "store")
    constant = store.operands[1].owner
    assert constant is not None
    assert constant.attrs["value"] == 1
    assert store.loc is not None
    assert store.loc.file == __file__
    assert store.loc.line == inspect.getsourcelines(facts)[1] + 1


def test_equal_kernels_print_the_same() -> None:
    args = (pointer(F32), number(I32), pointer(F32))
    assert ir.dump(build(loop, *args)) == ir.dump(build(loop, *args))


def make_scaler(factor: int) -> Any:
    @triton.jit
    def kernel(x, out):
        tl.store(out, tl.load(x) * factor)

    return kernel


def test_closures_and_decorators() -> None:
    func = build(make_scaler(3), pointer(F32), pointer(F32))
    assert any(op.opcode == "const" and op.attrs["value"] == 3.0 for op in func.walk())


def test_language_is_only_for_kernels() -> None:
    with pytest.raises(KernelError, match=r"tl.load was called outside a kernel"):
        tl.load(None)  # type: ignore[arg-type]
    assert tl.cdiv(7, 2) == 4


# --- errors ----------------------------------------------------------------------------------------


def err_unknown(x):
    tl.store(x, tl.sigmoit(tl.load(x)))


def err_unsupported(x):
    tl.inline_asm_elementwise("", "", [x], tl.int32, True, 1)


def err_name(pointer_to):
    tl.store(ponter_to, 1)  # noqa: F821


def err_shapes(x):
    tl.store(x + tl.arange(0, 8), tl.arange(0, 8) + tl.arange(0, 16))


def err_size(x):
    tl.store(x + tl.arange(0, 12), 0)


def err_not_constant(x, n):
    tl.store(x + tl.arange(0, n), 0)


def err_carried(x, n):
    total = 0
    for _ in range(n):
        total += tl.load(x)
    tl.store(x, total)


def err_branch(x, n):
    if n > 0:
        y = tl.load(x)
    else:
        y = 1
    tl.store(x, y)


def err_one_branch(x, n):
    if n > 0:
        y = 1
    tl.store(x, y)


def err_only_in_loop(x, n):
    for i in range(n):
        y = i
    tl.store(x, y)


def err_tile_condition(x):
    if tl.load(x + tl.arange(0, 8)) > 0:
        tl.store(x, 1)


def err_number_offset(x):
    tl.store(x + 0.5, 1)


def err_load_number(x):
    tl.load(tl.program_id(0))


def err_math(x):
    tl.store(x, tl.exp(tl.program_id(0)))


def err_mask(x):
    tl.load(x + tl.arange(0, 8), mask=tl.arange(0, 4) < 2)


def err_static(x):
    tl.static_assert(WIDTH == 3, f"width is {WIDTH}")


def err_break(x, n):
    for _ in range(n):
        break


def err_return_in_loop(x, n):
    for _ in range(n):
        return


def err_subscript(x):
    tl.store(x, tl.arange(0, 8)[0])


def err_python_call(x):
    tl.store(x, promotion.kind(tl.load(x)))


def err_python_import(x):
    divmod(1, 2)


def err_const(x: tl.const):
    tl.store(x, 1.0)


def err_argument(x):
    tl.store(x, tl.load(x), where=True)


def err_axis(x):
    tl.store(x, tl.sum(tl.arange(0, 8), axis=1))


def err_dot(x):
    a = tl.zeros((16, 16), tl.float32)
    tl.dot(a, tl.zeros((8, 16), tl.float32))


def err_value(x):
    return x


def err_nothing_to_store(x):
    tl.store(x, None)


def err_modulo(x, n):
    tl.store(x, n % n.to(tl.uint32))


ERRORS: list[tuple[Callable[..., Any], int, str, str]] = [
    (err_unknown, 1, "does not support tl.sigmoit", "Did you mean `sigmoid`?"),
    (err_unsupported, 1, "does not support tl.inline_asm_elementwise", "one target"),
    (err_name, 1, "`ponter_to` is not defined", "Did you mean `pointer_to`?"),
    (err_shapes, 1, "shapes [8] and [16] can't be broadcast", "x[:, None]"),
    (err_size, 1, "a tile's size is a power of two", "next power of two"),
    (err_not_constant, 1, "tl.arange needs constants", "tl.constexpr"),
    (
        err_carried,
        2,
        "`total` before the loop and after one iteration have different types, i32 and f32",
        "`total`",
    ),
    (err_branch, 5, "give `y` have different types, f32 and i32", "Cast"),
    (err_one_branch, 3, "`y` is assigned in only one branch", "before the `if`"),
    (err_only_in_loop, 3, "`y` is assigned only inside the loop", "before the loop"),
    (err_tile_condition, 1, "the condition is a tile of type i1[8]", "tl.where"),
    (err_number_offset, 1, "offset by f32", "integers"),
    (err_load_number, 1, "tl.load needs pointers, not a scalar of type i32", "ptr + offsets"),
    (err_math, 1, "tl.exp needs floats, not i32", "x.to(tl.float32)"),
    (err_mask, 1, "can't be broadcast", ""),
    (err_static, 1, "static assertion failed: width is 16", ""),
    (err_break, 2, "does not support `break`", "while"),
    (err_return_in_loop, 2, "`return` inside a loop", "after it"),
    (err_subscript, 1, "indexed with `:` and `None` only", "tl.where"),
    (err_python_call, 1, "ordinary Python", "@portkit.jit"),
    (err_python_import, 1, "ordinary Python", ""),
    (err_const, 0, "Cannot store to a constant pointer: `x`", "tl.const"),
    (err_argument, 1, "unexpected keyword argument 'where'", ""),
    (err_axis, 1, "axis 1 is out of range", ""),
    (err_dot, 2, "inner sizes differ", ""),
    (err_value, 0, "returns a value", "tl.store"),
    (err_nothing_to_store, 1, "expected a number or a tile, not None", ""),
    (err_modulo, 1, "different signedness", "Cast one of them"),
]


@pytest.mark.parametrize(("fn", "offset", "message", "remedy"), ERRORS, ids=[e[0].__name__ for e in ERRORS])
def test_errors_have_a_place(fn: Callable[..., Any], offset: int, message: str, remedy: str) -> None:
    names = list(inspect.signature(fn).parameters)
    error = refused(fn, *[pointer(F32), number(I32)][: len(names)])
    assert message in error.message
    assert remedy in error.remedy
    rows, first = inspect.getsourcelines(fn)
    assert error.place.startswith(f"{__file__}:{first + offset}:")
    if offset:
        assert error.source.splitlines()[0].strip() == rows[offset].strip()
        assert "^" in error.source


def test_caret_stands_below_the_expression() -> None:
    error = refused(err_unknown, pointer(F32))
    line, carets = error.source.splitlines()
    assert line[carets.index("^") : carets.rindex("^") + 1] == "tl.sigmoit"


@triton.jit
def helper(x, SIZE: tl.constexpr):
    return x + tl.arange(0, SIZE)


def calls_with_value(x, n):
    tl.store(helper(x, n), 1)


def test_constant_parameters_of_nested_functions() -> None:
    error = refused(calls_with_value, pointer(F32), number(I32))
    assert "parameter `SIZE` of `helper` is a tl.constexpr" in error.message


@triton.jit
def endless(x):
    return endless(x)


def recursive(x):
    tl.store(x, endless(tl.load(x)))


def test_recursion_is_refused() -> None:
    assert "nested" in refused(recursive, pointer(F32)).message


def test_source_that_cannot_be_read() -> None:
    scope: dict[str, Any] = {}
    exec("def made(x):\n    pass", scope)
    assert "can't be read" in refused(scope["made"], pointer(F32)).message
    assert "not a `def`" in refused(lambda x: x, pointer(F32)).message


def test_wrong_number_of_arguments() -> None:
    assert "takes 3 arguments" in refused(loop, pointer(F32)).message


# --- the published table ---------------------------------------------------------------------------


def test_the_table_is_what_the_compiler_has() -> None:
    table = tomllib.loads(introspect.TABLE.read_text(encoding="utf-8"))
    handled = set(calls.handlers())
    assert set(table["functions"]) == {n for n in handled if hasattr(tl, n)} | {
        *("constexpr", "pointer_type", "range", "static_range")
    }
    assert set(table["math"]) == {n for n in handled if hasattr(tl.math, n)}
    assert set(table["libdevice"]) == set(libdevice.__all__)
    assert handled == set(table["functions"]) & handled | set(table["math"]) | set(table["extra"])
    assert set(table["methods"]) == set(calls.methods())
    assert set(table["attributes"]) == {*introspect._VALUE, "T"}
    assert set(table["type_attributes"]) == {*introspect._TYPE, *introspect._DTYPE, *introspect._POINTER}
    assert set(table["dtypes"]) == {n for n in tl.__all__ if isinstance(getattr(tl, n), ir.DType)}
    assert set(table["builtins"]) == set(calls._CONSTANT_BUILTINS)
    assert set(table["triton"]) == set(triton.__all__)
    nodes = {*expressions._HANDLERS, *statements._HANDLERS, ast.If, ast.For, ast.While, ast.Return}
    assert set(table["syntax"]) == {node.__name__ for node in nodes}
    assert not [name for name in table["refused"] if hasattr(tl, name)]


@pytest.mark.parametrize("name", sorted(calls.handlers()))
def test_declarations_and_handlers_agree(name: str) -> None:
    declared = getattr(tl, name, None) or getattr(tl.math, name, None) or getattr(tl.extra.cuda, name)
    handler = calls.handlers()[name]
    if not isinstance(handler, functools.partial):
        own = list(inspect.signature(handler).parameters)[1:]
        assert own == list(inspect.signature(declared).parameters)
    assert declared.__doc__
    positional = [p for p in inspect.signature(declared).parameters.values() if p.default is p.empty]
    with pytest.raises(KernelError, match="outside a kernel"):
        declared(*[None for _ in positional])
