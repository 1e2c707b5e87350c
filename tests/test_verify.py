"""The verifier accepts what the front end makes, and names what is wrong with malformed IR of each sort."""

from __future__ import annotations

from collections.abc import Callable

import kernel_cases
import pytest

from portkit.runtime.tile import frontend, ir
from portkit.runtime.tile.ir import BF16, F32, F64, I1, I32, I64, U32, Block, Builder, Pointer, Type, Value
from portkit.runtime.tile.verify import VerifyError, verify
from portkit.runtime.tile.verify_rules import ELEMENTWISE, RULES

LOC = ir.Loc("kernel.py", 7, 5)
TILE, MASK = Type(F32, (8,)), Type(I1, (8,))


class Maker(Builder):
    """A builder on a fresh function with one pointer, one i32 and one f32 parameter."""

    def __init__(self) -> None:
        super().__init__(Block())
        self.loc = LOC
        self.pointer = Value(Type(Pointer(F32)), "p")
        self.number = Value(Type(I32), "n")
        self.real = Value(Type(F32), "f")

    def function(self) -> ir.Function:
        params = [self.pointer, self.number, self.real]
        return ir.Function("made", params, [ir.ParamFacts()] * 3, self.block)

    def zeros(self, type: Type = TILE) -> Value:
        return self.const(False if type.dtype.is_bool else 0 if type.dtype.is_int else 0.0, type)

    def region(self, *args: Value, ends: list[Value] | None = None) -> Block:
        block = Block(list(args))
        block.ops.append(ir.Op("yield", ends or [], [], loc=LOC))
        return block


def ends(maker: Maker) -> None:
    maker.add("return", [], [])


def _undefined(m: Maker) -> None:
    m.value("neg", [Value(Type(F32), "ghost")], Type(F32))


def _before_definition(m: Maker) -> None:
    first = m.value("neg", [m.real], Type(F32))
    m.value("abs", [first], Type(F32))
    m.block.ops.reverse()


def _out_of_scope(m: Maker) -> None:
    condition = m.zeros(Type(I1))
    then, other = Block(), m.region()
    inner = Builder(then)
    hidden = inner.const(1.0, Type(F32))
    inner.add("yield", [], [])
    m.add("if", [condition], [], [then, other])
    m.value("neg", [hidden], Type(F32))


def _twice(m: Maker) -> None:
    m.value("neg", [m.real], Type(F32))
    m.block.ops.append(m.block.ops[0])


def _if_type(m: Maker) -> None:
    m.add("if", [m.zeros(Type(I1))], [Type(F32)], [m.region(ends=[m.real]), m.region(ends=[m.number])])


def _if_condition(m: Maker) -> None:
    m.add("if", [m.number], [], [m.region(), m.region()])


def _if_arguments(m: Maker) -> None:
    m.add("if", [m.zeros(Type(I1))], [], [m.region(Value(Type(F32))), m.region()])


def _for_carried(m: Maker) -> None:
    body = m.region(Value(Type(I32), "i"), Value(Type(F32), "acc"), ends=[m.number])
    m.add("for", [m.number, m.number, m.number, m.real], [Type(F32)], [body])


def _for_index(m: Maker) -> None:
    m.add("for", [m.number, m.number, m.number], [], [m.region(Value(Type(I64), "i"))])


def _for_results(m: Maker) -> None:
    body = m.region(Value(Type(I32), "i"), Value(Type(F32), "acc"), ends=[m.real])
    m.add("for", [m.number, m.number, m.number, m.real], [], [body])


def _while_condition(m: Maker) -> None:
    a, b = Value(Type(F32)), Value(Type(F32))
    m.add("while", [m.real], [Type(F32)], [m.region(a, ends=[a]), m.region(b, ends=[b])])


def _terminator(m: Maker) -> None:
    body = Block([Value(Type(I32), "i")])
    Builder(body).add("return", [], [])
    m.add("for", [m.number, m.number, m.number], [], [body])


def _empty_region(m: Maker) -> None:
    m.add("for", [m.number, m.number, m.number], [], [Block([Value(Type(I32), "i")])])


def _in_the_middle(m: Maker) -> None:
    m.add("return", [], [])


def _no_regions(m: Maker) -> None:
    m.add("if", [m.zeros(Type(I1))], [], [])


def _stray_region(m: Maker) -> None:
    m.add("neg", [m.real], [Type(F32)], [m.region()])


def _owner(m: Maker) -> None:
    m.value("neg", [m.real], Type(F32)).owner = None


def one(opcode: str, operands: str, result: Type | None, **attrs: ir.Attribute) -> Callable[[Maker], None]:
    """An operation whose operands are named: parameters p, n, f, or tiles t, m, i, h, d, w, q."""

    def make(m: Maker) -> None:
        known = {
            "p": lambda: m.pointer,
            "n": lambda: m.number,
            "f": lambda: m.real,
            "t": lambda: m.zeros(),
            "m": lambda: m.zeros(MASK),
            "i": lambda: m.zeros(Type(I32, (8,))),
            "h": lambda: m.zeros(Type(BF16, (8,))),
            "d": lambda: m.zeros(Type(F32, (8, 8))),
            "w": lambda: m.zeros(Type(F32, (8, 4))),
            "q": lambda: m.value("splat", [m.pointer], Type(Pointer(F32), (8,))),
        }
        values = [known[name]() for name in operands]
        m.add(opcode, values, [result] if result else [], None, **attrs)

    return make


MALFORMED: dict[str, tuple[Callable[[Maker], None], str]] = {
    "undefined": (_undefined, "before its definition"),
    "use before definition": (_before_definition, "before its definition"),
    "out of scope": (_out_of_scope, "out of its scope"),
    "defined twice": (_twice, "second time"),
    "branch types": (_if_type, "yields the wrong types: i32, not f32"),
    "condition": (_if_condition, "condition is i32"),
    "branch arguments": (_if_arguments, "no block arguments"),
    "carried types": (_for_carried, "yields the wrong types"),
    "loop index": (_for_index, "block arguments are wrong"),
    "loop results": (_for_results, "results do not match"),
    "while condition": (_while_condition, "yields the wrong types"),
    "terminator": (_terminator, "must end in yield"),
    "empty region": (_empty_region, "empty"),
    "return in the middle": (_in_the_middle, "middle of a block"),
    "no regions": (_no_regions, "regions"),
    "stray region": (_stray_region, "regions"),
    "owner": (_owner, "owner"),
    "unknown operation": (one("frobnicate", "f", Type(F32)), "not an operation"),
    "too few operands": (one("add", "f", Type(F32)), "needs 2 operands, has 1"),
    "no result": (one("neg", "f", None), "needs 1 results, has 0"),
    "mixed types": (one("add", "fn", Type(F32)), "types must be equal"),
    "mixed shapes": (one("mul", "tf", TILE), "types must be equal"),
    "result type": (one("neg", "f", Type(F64)), "types must be equal"),
    "float operation on integers": (one("exp", "n", Type(I32)), "not a float"),
    "integer operation on floats": (one("idiv", "ff", Type(F32)), "not an integer"),
    "pointer arithmetic": (one("add", "pp", Type(Pointer(F32))), "pointer, not a number"),
    "constant of the wrong sort": (one("const", "", Type(F32), value=1), "needs a float"),
    "boolean constant": (one("const", "", Type(I1), value=1), "needs bool, not 1"),
    "no constant": (one("const", "", Type(I32)), "needs int, not None"),
    "grid axis": (one("program_id", "", Type(I32), axis=3), "not in"),
    "grid type": (one("num_programs", "", Type(I64), axis=0), "gives i32"),
    "empty range": (one("arange", "", Type(I32, (8,)), start=8, end=8), "not in"),
    "range size": (one("arange", "", Type(I32, (4,)), start=0, end=8), "gives i32[8]"),
    "splat of a tile": (one("splat", "t", TILE), "scalar to tile"),
    "splat type": (one("splat", "f", Type(I32, (8,))), "element type"),
    "broadcast": (one("broadcast", "t", Type(F32, (16,))), "can't go from"),
    "expand axis": (one("expand_dims", "t", Type(F32, (8, 1)), axis=2), "not in"),
    "expand type": (one("expand_dims", "t", Type(F32, (8, 1)), axis=0), "gives f32[1,8]"),
    "reshape": (one("reshape", "t", Type(F32, (4,))), "can't go from"),
    "perm": (one("trans", "d", Type(F32, (8, 8)), perm=(0, 0)), "no order"),
    "transposed type": (one("trans", "w", Type(F32, (8, 4)), perm=(1, 0)), "gives f32[4,8]"),
    "predicate": (one("cmp", "ff", Type(I1), pred="<"), "pred"),
    "comparison type": (one("cmp", "tt", TILE, pred="lt"), "gives i1[8]"),
    "select condition": (one("select", "ttt", TILE), "condition"),
    "idle cast": (one("cast", "f", Type(F32)), "changes nothing"),
    "cast shape": (one("cast", "t", Type(F64)), "changes the shape"),
    "bitcast width": (one("bitcast", "t", Type(F64, (8,))), "is no bitcast"),
    "offset type": (one("addptr", "pf", Type(Pointer(F32))), "not an integer"),
    "offset shape": (one("addptr", "pi", Type(Pointer(F32))), "differ in shape"),
    "load of a number": (one("load", "f", Type(F32), has_mask=False, has_other=False), "not a pointer"),
    "load flags": (one("load", "p", Type(F32)), "boolean `has_mask`"),
    "load operands": (one("load", "q", TILE, has_mask=True, has_other=False), "needs 2 operands"),
    "load mask": (one("load", "qt", TILE, has_mask=True, has_other=False), "its mask is"),
    "load type": (one("load", "p", Type(F64), has_mask=False, has_other=False), "gives f32"),
    "other without mask": (one("load", "qt", TILE, has_mask=False, has_other=True), "without a mask"),
    "store value": (one("store", "qi", None, has_mask=False), "its value is"),
    "store result": (one("store", "qt", TILE, has_mask=False), "gives nothing"),
    "atomic type": (one("atomic_add", "qt", Type(F32), has_mask=False), "gives f32[8]"),
    "reduction kind": (one("reduce", "t", Type(F32), kind="median", axis=0), "kind"),
    "reduction axis": (one("reduce", "t", Type(F32), kind="sum", axis=1), "not in"),
    "reduction type": (one("reduce", "t", Type(F32), kind="argmax", axis=0), "gives i32"),
    "dot shapes": (one("dot", "wdd", Type(F32, (8, 8)), precision="ieee"), "do not fit"),
    "dot precision": (one("dot", "ddd", Type(F32, (8, 8))), "precision"),
    "loop bounds": (one("for", "fff", None), "not an integer"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    make, message = MALFORMED[name]
    maker = Maker()
    make(maker)
    ends(maker)
    if name == "loop bounds":
        maker.block.ops[0].regions.append(maker.region(Value(Type(F32))))
    with pytest.raises(VerifyError) as caught:
        verify(maker.function())
    assert message in str(caught.value)


def test_error_names_operation_and_place() -> None:
    maker = Maker()
    maker.value("exp", [maker.number], Type(I32))
    ends(maker)
    with pytest.raises(VerifyError, match=r"^exp at kernel.py:7:5: operand 0 is i32, not a float$"):
        verify(maker.function())


def test_a_body_ends_in_return() -> None:
    maker = Maker()
    with pytest.raises(VerifyError, match="empty"):
        verify(maker.function())
    maker.add("yield", [], [])
    with pytest.raises(VerifyError, match="must end in return"):
        verify(maker.function())


def test_parameters() -> None:
    maker = Maker()
    ends(maker)
    func = maker.function()
    verify(func)
    func.facts.pop()
    with pytest.raises(VerifyError, match="fact"):
        verify(func)


def test_every_documented_operation_has_a_rule() -> None:
    rows = [line.split("|")[1] for line in (ir.__doc__ or "").splitlines() if line.startswith("| ")]
    names = {name for row in rows[1:] for name in row.replace(",", " ").split()}
    assert names == {*RULES, *ELEMENTWISE}


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in kernel_cases.cases()])
def test_front_end_makes_valid_functions_with_places(case: dict[str, object]) -> None:
    func = frontend.build(case["kernel"], kernel_cases.specs(case)[1])
    verify(func)
    assert all(op.loc is not None and op.loc.line > 1 for op in func.walk())


def test_types_of_unsigned() -> None:
    maker = Maker()
    value = maker.const(3, Type(U32))
    maker.value("shr", [value, value], Type(U32))
    ends(maker)
    verify(maker.function())
