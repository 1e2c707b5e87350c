"""The value of an expression that no code of the file is needed for: literals, arithmetic, names of ours."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

from portkit.errors import KernelError


class Unknown(KernelError):
    """A value that only running the file would give."""


_MOST = 4096  # exponents, shifts and lengths of repeated texts: what a constant of a kernel may need
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_HOST = frozenset({"constexpr", "cdiv", "next_power_of_2", "pointer_type", "block_type"})
_BUILTINS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (abs, bool, float, int, len, list, max, min, range, round, str, tuple)
}


class Evaluator:
    """Evaluates expressions; `name` gives the value of a name, or raises Unknown."""

    def __init__(self, name: Callable[[str], Any]) -> None:
        self.name = name

    def __call__(self, node: ast.expr) -> Any:
        """The value; raises Unknown for an expression that takes more than arithmetic on what is known."""
        try:
            return self._value(node)
        except Unknown:
            raise
        except (
            KernelError,
            ArithmeticError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            RecursionError,
        ) as error:
            raise Unknown(f"`{_short(node)}` can't be computed: {error}") from error

    def _value(self, node: ast.expr) -> Any:
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            raise Unknown(f"`{_short(node)}` is only known when the file runs")
        return handler(node)

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        return self.name(node.id)

    def _tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._value(item) for item in node.elts)

    def _list(self, node: ast.List) -> Any:
        return [self._value(item) for item in node.elts]

    def _dict(self, node: ast.Dict) -> Any:
        if None in node.keys:
            raise Unknown(f"`{_short(node)}` is only known when the file runs")
        keys = [self._value(key) for key in node.keys if key is not None]
        return dict(zip(keys, map(self._value, node.values), strict=True))

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](_plain(self._value(node.operand)))

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = _plain(self._value(node.left)), _plain(self._value(node.right))
        big = isinstance(right, int) and abs(right) > _MOST
        sequence = isinstance(left, (str, bytes, tuple, list)) or isinstance(right, (str, bytes, tuple, list))
        if (big and isinstance(node.op, (ast.Pow, ast.LShift))) or (
            sequence and isinstance(node.op, (ast.Mult, ast.Mod))
        ):
            raise Unknown(f"`{_short(node)}` is not computed")
        return _BINARY[type(node.op)](left, right)

    def _boolop(self, node: ast.BoolOp) -> Any:
        value: Any = None
        for item in node.values:
            value = self._value(item)
            if bool(value) is isinstance(node.op, ast.Or):
                return value
        return value

    def _compare(self, node: ast.Compare) -> Any:
        left = _plain(self._value(node.left))
        for op, item in zip(node.ops, node.comparators, strict=True):
            right = _plain(self._value(item))
            if not _COMPARE[type(op)](left, right):
                return False
            left = right
        return True

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self._value(node.body if self._value(node.test) else node.orelse)

    def _subscript(self, node: ast.Subscript) -> Any:
        return self._value(node.value)[self._value(node.slice)]

    def _attribute(self, node: ast.Attribute) -> Any:
        owner = self._value(node.value)
        if isinstance(owner, ModuleType) or hasattr(owner, "is_source_module") or _is_ours(owner):
            return getattr(owner, node.attr)
        raise Unknown(f"`{_short(node)}` is only known when the file runs")

    def _call(self, node: ast.Call) -> Any:
        called = node.func
        name = called.id if isinstance(called, ast.Name) else ""
        function = _BUILTINS.get(name) or self._value(called)
        if not (name in _BUILTINS or _may_be_called(function)):
            raise Unknown(f"`{_short(node)}` is only known when the file runs")
        given = [self._value(item) for item in node.args]
        named = {item.arg: self._value(item.value) for item in node.keywords if item.arg}
        return function(*given, **named)


def _may_be_called(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    return getattr(math, name, None) is function or (name in _HOST and _is_ours(function))


def _is_ours(value: Any) -> bool:
    """Whether a value is of portkit's language, so that using it runs none of the file's code."""
    kind = value if isinstance(value, type) or hasattr(value, "__module__") else type(value)
    return str(getattr(kind, "__module__", "")).startswith("portkit.runtime.") and not hasattr(value, "fn")


def _plain(value: Any) -> Any:
    """A constant without the `tl.constexpr` around it."""
    return value.value if type(value).__name__ == "constexpr" else value


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."
