"""Whether the value of an expression is a tensor of torch, as far as one unit shows it."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from portkit import tables
from portkit.names import Names
from portkit.scopes import FUNCTIONS, Binding, Bound, parameters

_FOLDER = Path(__file__).parent
_DEPTH = 30
_SAME = (
    "T",
    "mT",
    "H",
    "mH",
    "data",
    "grad",
    "real",
    "imag",
    "values",
    "indices",
)  # attributes that are tensors
_STATE = ("weight", "bias", "running_mean", "running_var", "in_proj_weight", "in_proj_bias")
_PICK = frozenset(
    {"max", "min", "sum", "abs", "next", "getattr", "round", "pow", "reversed", "vars", "super"}
)
_PASS_ON = ("copy.deepcopy", "copy.copy", "torch.utils.checkpoint.checkpoint", "typing.cast")
_TENSOR_TYPES = ("torch.nn.Parameter", "torch.autograd.Variable", "torch.nn.Buffer")
_HOLDERS = ("Optional", "Final", "Annotated", "ClassVar")


class Type(Enum):
    """What is known of a value."""

    TENSOR = "tensor"
    MODULE = "module"  # one of torch.nn: what it gives when it is called is a tensor
    FOREIGN = "foreign"  # an array, frame, image ... of another library, whose own results are such again
    PLAIN = "plain"  # a number, string, container, function ...; what is inside may be anything
    UNKNOWN = "unknown"


_NO_TENSOR = (Type.FOREIGN, Type.PLAIN, Type.MODULE)


@cache
def operators() -> frozenset[str]:
    """Qualified names of torch that compute on tensors (functions, methods of Tensor, modules)."""
    return _lines("operators.txt")


@cache
def makers() -> frozenset[str]:
    """Qualified names of torch that give tensors without computing them: constructors, views, conversions."""
    return _lines("tensors.txt")


@cache
def only_methods() -> frozenset[str]:
    """Methods that nothing but tensors has."""
    names = _methods()
    marked = (name for name in names if name.endswith("_"))
    return frozenset((*(name for name in _table()["only"] if name in names), *marked)) - _set("same")


@cache
def _lines(file: str) -> frozenset[str]:
    return frozenset((_FOLDER / file).read_text(encoding="ascii").split())


@cache
def _methods() -> frozenset[str]:
    prefix = "torch.Tensor."
    every = (*operators(), *makers())
    return frozenset(name.removeprefix(prefix) for name in every if name.startswith(prefix))


def _table() -> dict[str, Any]:
    return tables.load("tensor_methods")


@cache
def _set(key: str) -> frozenset[str]:
    return frozenset(_table()[key])


class Tensors:
    """Types of the expressions of one unit.  Answers are kept, so asking twice costs nothing."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.tree = names.tree
        self._known: dict[ast.AST, Type] = {}
        self._bound: dict[tuple[ast.AST, str], Type] = {}
        self._busy: set[object] = set()
        self._buffers = self._registered()

    def of(self, node: ast.AST, depth: int = 0) -> Type:
        """What the value of `node` is."""
        known = self._known.get(node)
        if known is not None:
            return known
        if depth > _DEPTH or node in self._busy:
            return Type.UNKNOWN
        self._busy.add(node)
        try:
            method = _EXPRESSIONS.get(type(node))
            found = Type.UNKNOWN if method is None else method(self, node, depth + 1)
        finally:
            self._busy.discard(node)
        self._known[node] = found
        return found

    def is_no_tensor(self, node: ast.AST) -> bool:
        """Whether `node` is visibly something else than a tensor."""
        return self.of(node) in _NO_TENSOR

    # --- expressions -------------------------------------------------------------------------------

    def _plain(self, node: ast.AST, depth: int) -> Type:
        return Type.PLAIN

    def _inner(self, node: Any, depth: int) -> Type:
        return self.of(node.value, depth)

    def _subscript(self, node: ast.Subscript, depth: int) -> Type:
        found = self.of(node.value, depth)
        return found if found in (Type.TENSOR, Type.FOREIGN) else Type.UNKNOWN

    def _binary(self, node: ast.BinOp, depth: int) -> Type:
        return _mixed((self.of(node.left, depth), self.of(node.right, depth)))

    def _unary(self, node: ast.UnaryOp, depth: int) -> Type:
        return Type.PLAIN if isinstance(node.op, ast.Not) else self.of(node.operand, depth)

    def _compare(self, node: ast.Compare, depth: int) -> Type:
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            return Type.PLAIN
        return _mixed(self.of(side, depth) for side in (node.left, *node.comparators))

    def _choice(self, node: ast.IfExp, depth: int) -> Type:
        return _common((self.of(node.body, depth), self.of(node.orelse, depth)))

    def _either(self, node: ast.BoolOp, depth: int) -> Type:
        return _common(self.of(value, depth) for value in node.values)

    def _attribute(self, node: ast.Attribute, depth: int) -> Type:
        name = self.names.resolve(node)
        if name is not None and (found := _of_name(name)) is not Type.UNKNOWN:
            return Type.PLAIN  # a function, a module, a constant of a package; not what it gives
        if _is_self(node.value):
            return self._member(node, depth)
        found = self.of(node.value, depth)
        if found is Type.TENSOR:
            return Type.TENSOR if node.attr in _SAME else Type.PLAIN
        if found is Type.MODULE:
            return Type.TENSOR if node.attr in _STATE else Type.UNKNOWN
        return Type.FOREIGN if found is Type.FOREIGN else Type.UNKNOWN

    def _member(self, node: ast.Attribute, depth: int) -> Type:
        """`self.name`, by what the class around assigns to it."""
        if node.attr in self._buffers:
            return Type.TENSOR
        owner = self._class_around(node)
        found = []
        for use in self.tree.attributes.get(node.attr, ()):
            if isinstance(use.ctx, ast.Store) and self._class_around(use) is owner and _is_self(use.value):
                parent = self.tree.parents.get(use)
                plain = isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is not None
                found.append(self.of(parent.value, depth) if plain else Type.UNKNOWN)  # type: ignore[union-attr]
        return _common(found)

    def _class_around(self, node: ast.AST) -> ast.AST | None:
        scope = self.tree.scopes.get(node)
        while scope is not None and not scope.is_class:
            scope = scope.parent
        return scope.node if scope is not None else None

    def _registered(self) -> frozenset[str]:
        """Names under which tensors are registered with modules: `self.register_buffer("name", ...)`."""
        found = set()
        for use in (*self.tree.attributes.get("register_buffer", ()), *self._uses("register_parameter")):
            call = self.tree.parents.get(use)
            if isinstance(call, ast.Call) and call.func is use and call.args:
                name = self.names.constant(call.args[0])
                if isinstance(name, str):
                    found.add(name)
        return frozenset(found)

    def _uses(self, attribute: str) -> Iterable[ast.Attribute]:
        return self.tree.attributes.get(attribute, ())

    # --- calls -------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, depth: int) -> Type:
        name = self.names.resolve(node.func)
        if name is not None:
            if name in _PASS_ON and node.args:
                return self.of(node.args[-1 if name == "typing.cast" else 0], depth)
            return _of_name(name)
        function = node.func
        if isinstance(function, ast.Name):
            return self._called_name(function, depth)
        if isinstance(function, ast.Attribute):
            return self._method(function, depth)
        if isinstance(function, ast.Call) and self.of(function, depth) is Type.MODULE:
            return Type.TENSOR
        return Type.UNKNOWN

    def _called_name(self, function: ast.Name, depth: int) -> Type:
        bindings = self.tree.bindings(function.id, function)
        if not bindings:
            known = hasattr(builtins, function.id) and function.id not in _PICK
            return Type.PLAIN if known else Type.UNKNOWN
        definition = self.names.definition(function)
        if isinstance(definition, FUNCTIONS):
            return self._annotated(definition.returns) if definition.returns is not None else Type.UNKNOWN
        if isinstance(definition, ast.ClassDef):
            derived = any(_is_tensor_type(self.names.resolve(base) or "") for base in definition.bases)
            return Type.UNKNOWN if derived else Type.PLAIN
        return Type.TENSOR if self.of(function, depth) is Type.MODULE else Type.UNKNOWN

    def _method(self, function: ast.Attribute, depth: int) -> Type:
        attr = function.attr
        if attr in _set("array"):
            return Type.FOREIGN
        if _is_self(function.value):
            if self._member(function, depth) is Type.MODULE:
                return Type.TENSOR
            definition = self.names.definition(function)
            if isinstance(definition, FUNCTIONS) and definition.returns is not None:
                return self._annotated(definition.returns)
            return Type.UNKNOWN
        receiver = self.of(function.value, depth)
        if receiver is Type.FOREIGN:
            return Type.FOREIGN
        if attr in _set("plain"):
            return Type.PLAIN
        if attr in _set("same") and receiver in (Type.TENSOR, Type.MODULE):
            return receiver
        if receiver is Type.TENSOR:
            return Type.TENSOR if attr in _methods() else Type.PLAIN
        if receiver is Type.UNKNOWN and attr in only_methods():
            return Type.TENSOR
        return Type.UNKNOWN

    # --- names -------------------------------------------------------------------------------------

    def _name(self, node: ast.Name, depth: int) -> Type:
        scope = self.tree.scope_of(node.id, node)
        if scope is None:
            return Type.UNKNOWN
        key = (scope.node, node.id)
        if key in self._bound:
            return self._bound[key]
        if key in self._busy:
            return Type.UNKNOWN
        self._busy.add(key)
        try:
            bindings = [item for item in scope.bindings[node.id] if not self._refers_to_itself(item, node.id)]
            types = [self._binding(item, depth) for item in bindings]
            found = _common(types)
            uses = self.tree.uses(node.id, scope) if found is Type.UNKNOWN else ()
            if self._may_be_tensor(bindings, types) and any(map(self._needs_tensor, uses)):
                found = Type.TENSOR
        finally:
            self._busy.discard(key)
        self._bound[key] = found
        return found

    def _refers_to_itself(self, item: Binding, name: str) -> bool:
        """`x += 1`, `x = x[0]`, `x = x.view(-1)`: says nothing new of x."""
        parent = self.tree.parents.get(item.node)
        if isinstance(parent, ast.AugAssign):
            return True
        value = item.value
        while isinstance(value, (ast.Subscript, ast.Attribute, ast.Call)):
            if isinstance(value, ast.Call):
                if not isinstance(value.func, ast.Attribute):
                    return False
                if value.func.attr in _set("array") or value.func.attr in _set("plain"):
                    return False
                value = value.func
            value = value.value
        return isinstance(value, ast.Name) and value.id == name

    def _binding(self, item: Binding, depth: int) -> Type:
        if item.how is Bound.VALUE and item.value is not None:
            return self.of(item.value, depth)
        if item.how is Bound.PARAMETER:
            return self._parameter(item, depth)
        if item.how is Bound.IMPORT:
            return Type.PLAIN if _root(item.target) in _not_own() else Type.UNKNOWN
        if item.how is Bound.DEFINITION:
            return Type.PLAIN
        return self._unpacked(item.node, depth)

    def _unpacked(self, node: ast.AST, depth: int) -> Type:
        """The target of a loop, or of an assignment that takes a value apart."""
        child, parent = node, self.tree.parents.get(node)
        while isinstance(parent, (ast.Tuple, ast.List, ast.Starred)):
            child, parent = parent, self.tree.parents.get(parent)
        if isinstance(parent, (ast.For, ast.comprehension)) and child is parent.target:
            found = self.of(parent.iter, depth)
        elif isinstance(parent, ast.Assign):
            found = self.of(parent.value, depth)
        else:
            return Type.UNKNOWN
        return found if found in (Type.TENSOR, Type.FOREIGN) else Type.UNKNOWN

    def _parameter(self, item: Binding, depth: int) -> Type:
        argument = item.node
        assert isinstance(argument, ast.arg)
        if argument.annotation is not None:
            return self._annotated(argument.annotation)
        arguments = self.tree.parents.get(argument)
        function = self.tree.parents.get(arguments) if arguments is not None else None
        if item.value is not None and not _is_none(item.value):
            return Type.PLAIN if isinstance(item.value, ast.Constant) else Type.UNKNOWN
        if isinstance(function, FUNCTIONS) and function.name == "forward" and self._in_module(function):
            first = next(parameters(function.args), (None, None))[0]
            rest = argument not in (function.args.vararg, function.args.kwarg, first)
            return Type.TENSOR if rest else Type.UNKNOWN
        return Type.UNKNOWN

    def _in_module(self, function: ast.AST) -> bool:
        owner = self.tree.parents.get(function)
        return isinstance(owner, ast.ClassDef) and self._is_module_class(owner, 0)

    def _is_module_class(self, owner: ast.ClassDef, depth: int) -> bool:
        for base in owner.bases:
            if (self.names.resolve(base) or "").startswith("torch.nn."):
                return True
            own = self.names.definition(base) if depth < 5 else None
            if isinstance(own, ast.ClassDef) and self._is_module_class(own, depth + 1):
                return True
        return False

    def _annotated(self, annotation: ast.AST) -> Type:
        if isinstance(annotation, ast.Constant):
            if not isinstance(annotation.value, str):
                return Type.PLAIN
            last = annotation.value.rpartition(".")[2].strip("'\" ]")
            return Type.TENSOR if last in ("Tensor", "LongTensor", "FloatTensor") else Type.UNKNOWN
        if isinstance(annotation, ast.Subscript):
            holder = annotation.value
            last = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
            return self._annotated(annotation.slice) if last in _HOLDERS else Type.UNKNOWN
        if isinstance(annotation, ast.BinOp):
            sides = (annotation.left, annotation.right)
            return _common(self._annotated(side) for side in sides if not _is_none(side))
        name = self.names.resolve(annotation)
        if name is None:
            word = getattr(annotation, "id", "")
            return Type.PLAIN if hasattr(builtins, word) and word != "object" else Type.UNKNOWN
        if _is_tensor_type(name):
            return Type.TENSOR
        if name.startswith("torch."):
            return Type.PLAIN if name.rpartition(".")[2] in ("device", "dtype", "Size") else Type.UNKNOWN
        return Type.FOREIGN if _root(name) in _set("foreign") else Type.UNKNOWN

    def _may_be_tensor(self, bindings: list[Binding], types: list[Type]) -> bool:
        """Whether the way that a value is used can tell what it is: it has one origin, which says nothing, or
        comes in as a parameter and is a tensor wherever else it is bound."""
        if len(bindings) == 1:
            return bindings[0].how in (Bound.PARAMETER, Bound.OTHER, Bound.VALUE)
        rest = {item.how for item, kind in zip(bindings, types, strict=True) if kind is not Type.TENSOR}
        return rest == {Bound.PARAMETER} and set(types) == {Type.TENSOR, Type.UNKNOWN}

    def _needs_tensor(self, use: ast.Name) -> bool:
        """Whether a value is used as only a tensor can be (`x.unsqueeze(0)`, `F.relu(x)`)."""
        parent = self.tree.parents.get(use)
        if isinstance(parent, ast.Attribute):
            call = self.tree.parents.get(parent)
            return parent.attr in only_methods() and isinstance(call, ast.Call) and call.func is parent
        if isinstance(parent, ast.Call) and parent.args and parent.args[0] is use:
            name = self.names.resolve(parent.func) or ""
            lower = name.rpartition(".")[2][:1].islower()
            return lower and name in operators() and not name.endswith(_OF_MANY)
        return False


# operators that take a sequence of tensors, or a number, first
_OF_MANY = (
    ".cat",
    ".stack",
    ".concat",
    ".hstack",
    ".vstack",
    ".einsum",
    ".where",
    ".allclose",
    ".equal",
    ".split",
)


def _of_name(name: str) -> Type:
    """What a call of a qualified name gives."""
    if _is_tensor_type(name) or name in makers():
        return Type.TENSOR
    if name in operators():
        last = name.rpartition(".")[2]
        if name.startswith("torch.nn.") and not name.startswith("torch.nn.functional."):
            return Type.MODULE
        return Type.PLAIN if last in _set("plain") else Type.TENSOR
    if name in ("torch.nn.Sequential", "torch.nn.Identity", "torch.nn.Flatten", "torch.nn.Unflatten"):
        return Type.MODULE
    root = _root(name)
    if root in _set("foreign"):
        return Type.FOREIGN
    last = name.rpartition(".")[2]
    if last[:1].isupper() and not last.isupper():
        return Type.PLAIN  # an object of a class
    return (
        Type.PLAIN if root in sys.stdlib_module_names and root not in ("copy", "functools") else Type.UNKNOWN
    )


@cache
def _not_own() -> frozenset[str]:
    return frozenset((*sys.stdlib_module_names, *_set("foreign"), "torch", "torchvision"))


def _root(name: str) -> str:
    return name.partition(".")[0]


def _is_tensor_type(name: str) -> bool:
    return name in _TENSOR_TYPES or (name.startswith("torch.") and name.endswith("Tensor"))


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _common(types: Iterable[Type]) -> Type:
    """What a value is that is one of several."""
    found = set(types)
    if Type.PLAIN in found and len(found) > 1:  # None before a value is there, a flag, an empty list
        found.discard(Type.PLAIN)
        if Type.TENSOR not in found:
            return Type.UNKNOWN
    return found.pop() if len(found) == 1 else Type.UNKNOWN


def _mixed(types: Iterable[Type]) -> Type:
    """What an operator between values gives."""
    found = set(types)
    for one in (Type.TENSOR, Type.FOREIGN, Type.UNKNOWN):
        if one in found:
            return one if not (one is Type.FOREIGN and Type.UNKNOWN in found) else Type.UNKNOWN
    return Type.PLAIN


_EXPRESSIONS: dict[type, Any] = {
    **dict.fromkeys((ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.Dict), Tensors._plain),
    **dict.fromkeys((ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), Tensors._plain),
    ast.Name: Tensors._name,
    ast.Attribute: Tensors._attribute,
    ast.Call: Tensors._call,
    ast.Subscript: Tensors._subscript,
    ast.BinOp: Tensors._binary,
    ast.UnaryOp: Tensors._unary,
    ast.Compare: Tensors._compare,
    ast.IfExp: Tensors._choice,
    ast.BoolOp: Tensors._either,
    ast.NamedExpr: Tensors._inner,
    ast.Await: Tensors._inner,
    ast.Starred: Tensors._inner,
}
