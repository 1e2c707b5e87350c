"""Conditions that a site stands under: CUDA tests, and imports that may fail."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeGuard

from portkit.finding import Guard, GuardKind
from portkit.names import Names
from portkit.scopes import FUNCTIONS, Bound, walk

_TESTS = (
    "torch.cuda.is_available",
    "torch.cuda.device_count",
    "torch.cuda.is_bf16_supported",
    "torch.cuda.get_device_capability",
    "torch.cuda.is_initialized",
    "torch.version.cuda",
    "torch.backends.cuda.is_built",
    "torch.backends.cudnn.is_available",
    "torch.accelerator.is_available",
    "torch.xpu.is_available",
    "torch.backends.mps.is_available",
    "portkit.runtime.is_available",
    "portkit.runtime.device_count",
)
_FLAGS = ("cuda", "use_cuda", "with_cuda", "no_cuda", "has_cuda", "cuda_available", "use_gpu")


class Guards:
    """Finds the innermost condition on CUDA, or on an optional import, around a node."""

    def __init__(self, names: Names, source: Callable[[ast.AST], str]) -> None:
        self.names = names
        self.tree = names.tree
        self.source = source
        self._blocks: dict[int, tuple[dict[ast.AST, int], list[tuple[int, Guard]]]] = {}  # by identity
        self._tests: dict[tuple[ast.expr, int], bool] = {}  # conditions that were asked about

    def of(self, node: ast.AST) -> Guard | None:
        """The innermost such condition, negated where the other branch holds `node`."""
        inner = node
        for outer in self.tree.ancestors(node):
            found = self._at(outer, inner)
            if found is not None:
                return found
            inner = outer
        return None

    def _at(self, outer: ast.AST, inner: ast.AST) -> Guard | None:
        if isinstance(outer, (ast.If, ast.IfExp, ast.While)) and inner is not outer.test:
            if self.is_test(outer.test):
                positive = inner is outer.body if isinstance(outer, ast.IfExp) else inner in outer.body
                return self._guard(outer.test, positive)
        elif isinstance(outer, ast.BoolOp) and inner in outer.values:
            before = outer.values[: outer.values.index(inner)]
            tests = [value for value in before if self.is_test(value)]
            if tests:
                return self._guard(tests[-1], isinstance(outer.op, ast.And))
        elif isinstance(outer, ast.Try) and inner in outer.body and _catches_import(outer):
            text = "try: " + self.source(outer.body[0]).splitlines()[0]
            return Guard(GuardKind.IMPORT, text, outer.lineno)
        elif isinstance(outer, FUNCTIONS) and inner not in outer.decorator_list:
            for decorator in outer.decorator_list:
                if _may_skip(decorator) and any(map(self.is_test, decorator.args)):
                    test = next(filter(self.is_test, decorator.args))
                    return Guard(self._kind(test), self.source(decorator), decorator.lineno)
        return self._early_exit(outer, inner)

    def _early_exit(self, outer: ast.AST, inner: ast.AST) -> Guard | None:
        """`if not torch.cuda.is_available(): return` above `inner` guards all that follows."""
        for field in ("body", "orelse", "finalbody"):
            block = getattr(outer, field, None)
            if not isinstance(block, list):
                continue
            position, exits = self._exits(block)
            if inner not in position:
                continue
            above = [guard for index, guard in exits if index < position[inner]]
            if above:
                return above[-1]
        return None

    def _exits(self, block: list[ast.AST]) -> tuple[dict[ast.AST, int], list[tuple[int, Guard]]]:
        """Where each statement of a block stands, and what those that may leave it guard."""
        if id(block) not in self._blocks:
            exits = []
            for index, statement in enumerate(block):
                if isinstance(statement, ast.Assert) and self.is_test(statement.test):
                    exits.append((index, self._guard(statement.test, True)))
                leaves = isinstance(statement, ast.If) and _leaves(statement.body) and not statement.orelse
                if isinstance(statement, ast.If) and leaves and self.is_test(statement.test):
                    exits.append((index, self._guard(statement.test, False)))
            self._blocks[id(block)] = {item: index for index, item in enumerate(block)}, exits
        return self._blocks[id(block)]

    def _guard(self, test: ast.expr, positive: bool) -> Guard:
        return Guard(self._kind(test), self._text(test, positive), test.lineno)

    def _kind(self, test: ast.expr, depth: int = 0) -> GuardKind:
        """What a condition asks for: whether there is CUDA, the device of something, an optional import."""
        kinds = {kind for item in walk(test) if (kind := self._kind_of(item, depth)) is not None}
        return next((kind for kind in GuardKind if kind in kinds), GuardKind.AVAILABILITY)

    def _kind_of(self, item: ast.AST, depth: int) -> GuardKind | None:
        if isinstance(item, ast.Attribute) and item.attr == "is_cuda":
            return GuardKind.DEVICE
        if isinstance(item, ast.Compare) and _mentions_cuda(item):
            return GuardKind.DEVICE
        if isinstance(item, (ast.Attribute, ast.Name)) and self.names.resolve(item) in _TESTS:
            return GuardKind.AVAILABILITY
        if not isinstance(item, ast.Name) or depth > 3:
            return None
        bindings = self.tree.bindings(item.id, item)
        if any(self._may_fail(one.node) for one in bindings):
            return GuardKind.IMPORT
        if self._is_receiver(item):
            return None
        values = [one.value for one in bindings if one.value is not None]
        tests = [value for value in values if self.is_test(value, depth + 1)]
        return self._kind(tests[0], depth + 1) if tests else None

    def _text(self, test: ast.expr, positive: bool) -> str:
        text = " ".join(self.source(test).split())
        if positive:
            return text
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return " ".join(self.source(test.operand).split())
        return f"not ({text})" if isinstance(test, (ast.BoolOp, ast.Compare, ast.IfExp)) else f"not {text}"

    def is_test(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether a condition asks for CUDA, or whether an optional import worked."""
        known = self._tests.get((node, depth))
        if known is None:
            known = self._tests[node, depth] = self._is_test(node, depth)
        return known

    def _is_test(self, node: ast.expr, depth: int) -> bool:
        for item in walk(node):
            if isinstance(item, ast.Attribute):
                if item.attr in ("is_cuda", *_FLAGS[1:]) or self.names.resolve(item) in _TESTS:
                    return True
                if item.attr == "cuda" and self.names.resolve(item) is None and not self._is_called(item):
                    return True  # args.cuda, not x.cuda()
            elif (isinstance(item, ast.Compare) and _mentions_cuda(item)) or (
                isinstance(item, ast.Name) and self._is_flag(item, depth)
            ):
                return True
        return False

    def _is_flag(self, name: ast.Name, depth: int) -> bool:
        bindings = self.tree.bindings(name.id, name)
        if any(item.how is Bound.IMPORT and self._may_fail(item.node) for item in bindings):
            return True
        if self.names.resolve(name) in _TESTS or (bindings and name.id.lower() in _FLAGS):
            return True
        if depth > 3 or self._is_receiver(name):
            return False
        for item in bindings:
            if item.value is None:
                continue
            flag = isinstance(item.value, ast.Constant) and isinstance(item.value.value, bool)
            if flag and self._may_fail(item.node):
                return True
            if not flag and not isinstance(item.value, ast.Constant) and self.is_test(item.value, depth + 1):
                return True
        return False

    def _is_receiver(self, node: ast.AST) -> bool:
        """Whether a name only holds what is asked for: `model.kind` is not what `model` was made with."""
        return isinstance(self.tree.parents.get(node), ast.Attribute)

    def _is_called(self, node: ast.AST) -> bool:
        parent = self.tree.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def _may_fail(self, node: ast.AST) -> bool:
        """Whether a statement stands in a `try` that an import may leave."""
        for outer in self.tree.ancestors(node):
            if isinstance(outer, ast.Try):
                return _catches_import(outer)
        return False


def _catches_import(node: ast.Try) -> bool:
    if not any(isinstance(item, (ast.Import, ast.ImportFrom)) for item in node.body):
        return False
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = {getattr(kind, "id", getattr(kind, "attr", "")) for kind in kinds}
        if handler.type is None or names & {"ImportError", "ModuleNotFoundError", "Exception", "OSError"}:
            return True
    return False


def _may_skip(decorator: ast.expr) -> TypeGuard[ast.Call]:
    """Whether a decorator decides if a function runs (`skipif`), unlike one that gives it values."""
    if not isinstance(decorator, ast.Call):
        return False
    name = getattr(decorator.func, "attr", getattr(decorator.func, "id", ""))
    return "parametrize" not in name.lower()


def _leaves(body: Sequence[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, (ast.Return, ast.Raise, ast.Continue)):
        return True
    call = last.value if isinstance(last, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) in (
        "sys.exit",
        "exit",
        "quit",
        "pytest.skip",
    )


def _mentions_cuda(node: ast.Compare) -> bool:
    for side in (node.left, *node.comparators):
        items = side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]
        if any(_is_cuda_text(item) for item in items):
            return True
    return False


def _is_cuda_text(node: ast.expr) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and (text == "cuda" or text.startswith("cuda:"))
