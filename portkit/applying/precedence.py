"""When an expression needs parentheses: how tightly its text binds, and how tightly its place asks for."""

from __future__ import annotations

import ast

import libcst as cst

LOOSE, LAMBDA, CONDITIONAL, OR, AND, NOT, COMPARE = range(7)
BIT_OR, BIT_XOR, BIT_AND, SHIFT, ARITHMETIC, TERM, UNARY, POWER, AWAIT, PRIMARY, ATOM = range(7, 18)

_AST_LEVELS: dict[type[ast.AST], int] = {
    ast.NamedExpr: LOOSE,
    ast.Yield: LOOSE,
    ast.YieldFrom: LOOSE,
    ast.Starred: LOOSE,
    ast.Tuple: LOOSE,
    ast.Lambda: LAMBDA,
    ast.IfExp: CONDITIONAL,
    ast.Or: OR,
    ast.And: AND,
    ast.Not: NOT,
    ast.Compare: COMPARE,
    ast.BitOr: BIT_OR,
    ast.BitXor: BIT_XOR,
    ast.BitAnd: BIT_AND,
    ast.LShift: SHIFT,
    ast.RShift: SHIFT,
    ast.Add: ARITHMETIC,
    ast.Sub: ARITHMETIC,
    ast.Mult: TERM,
    ast.Div: TERM,
    ast.FloorDiv: TERM,
    ast.Mod: TERM,
    ast.MatMult: TERM,
    ast.Pow: POWER,
    ast.Await: AWAIT,
    ast.Call: PRIMARY,
    ast.Attribute: PRIMARY,
    ast.Subscript: PRIMARY,
}
_CST_LEVELS: dict[type[cst.CSTNode], int] = {
    cst.Or: OR,
    cst.And: AND,
    cst.BitOr: BIT_OR,
    cst.BitXor: BIT_XOR,
    cst.BitAnd: BIT_AND,
    cst.LeftShift: SHIFT,
    cst.RightShift: SHIFT,
    cst.Add: ARITHMETIC,
    cst.Subtract: ARITHMETIC,
    cst.Multiply: TERM,
    cst.Divide: TERM,
    cst.FloorDivide: TERM,
    cst.Modulo: TERM,
    cst.MatrixMultiply: TERM,
}
_LOOSE_KINDS: dict[type[cst.CSTNode], tuple[type[ast.expr], ...]] = {
    cst.Tuple: (ast.Tuple,),
    cst.Yield: (ast.Yield, ast.YieldFrom),
    cst.NamedExpr: (ast.NamedExpr,),
}
# Node around the place → (field, level): the first field whose value is the place decides.
_PLACES: dict[type[cst.CSTNode], tuple[tuple[str, int], ...]] = {
    cst.Attribute: (("value", PRIMARY),),
    cst.Call: (("func", PRIMARY),),
    cst.Subscript: (("value", PRIMARY),),
    cst.Await: (("expression", PRIMARY),),
    cst.Comparison: (("left", BIT_OR),),
    cst.ComparisonTarget: (("comparator", BIT_OR),),
    cst.IfExp: (("orelse", LAMBDA), ("body", OR), ("test", OR)),
    cst.CompFor: (("iter", OR),),
    cst.CompIf: (("test", OR),),
    cst.StarredElement: (("value", BIT_OR),),
    cst.StarredDictElement: (("value", BIT_OR),),
    cst.FormattedStringExpression: (("expression", CONDITIONAL),),
}


def parse(text: str) -> tuple[ast.expr, int]:
    """The expression that `text` is, and by how much its columns are too large.

    The shift is 1 where `text` is an expression only between brackets, since it spans lines.
    Raises SyntaxError where it is not one expression.
    """
    if not text.strip():
        raise SyntaxError("empty")
    bracketed = ast.parse(f"({text})", mode="eval").body  # on one line: a comment must not end the text
    try:
        return ast.parse(text, mode="eval").body, 0
    except SyntaxError:
        return bracketed, 1


def is_enclosed(text: str) -> bool:
    """Whether one pair of parentheses encloses the whole text of an expression."""
    if not text.startswith("("):
        return False
    try:
        node = ast.parse(f"f{text}", mode="eval").body
    except SyntaxError:
        return False
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "f"


def level(text: str) -> int:
    """How tightly the text of an expression binds; 0 where it always needs parentheses around it."""
    if is_enclosed(text):
        return ATOM
    node, shift = parse(text)
    if shift:
        return LOOSE
    key: ast.AST = node
    if isinstance(node, ast.BoolOp | ast.BinOp):
        key = node.op
    elif isinstance(node, ast.UnaryOp):
        return NOT if isinstance(node.op, ast.Not) else UNARY
    return _AST_LEVELS.get(type(key), ATOM)


def required(node: cst.CSTNode, parent: cst.CSTNode | None) -> int:
    """How tightly an expression must bind to stand, without parentheses, where `node` stands."""
    if isinstance(parent, cst.UnaryOperation):
        return NOT if isinstance(parent.operator, cst.Not) else UNARY
    if isinstance(parent, cst.BinaryOperation | cst.BooleanOperation):
        if isinstance(parent.operator, cst.Power):
            return AWAIT if parent.left is node else UNARY
        own = _CST_LEVELS[type(parent.operator)]
        return own if parent.left is node else own + 1
    for name, needed in _PLACES.get(type(parent), ()) if parent is not None else ():
        if getattr(parent, name) is node:
            return needed
    return LAMBDA


def same_loose_kind(text: str, node: cst.CSTNode) -> bool:
    """Whether both are unparenthesised tuples, or both yields: one may take the other's place as it is."""
    found, shift = parse(text)
    return not shift and isinstance(found, _LOOSE_KINDS.get(type(node), ()))


def is_number(text: str) -> bool:
    """Whether `text.name` would be read as a float: an integer literal."""
    node, _ = parse(text)
    return isinstance(node, ast.Constant) and type(node.value) is int and not is_enclosed(text)
