"""Questions about where a node stands that several rules ask."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from portkit.rule import Context
from portkit.scopes import FUNCTIONS, walk

AVAILABLE = "torch.cuda.is_available"
PATCHERS = frozenset({"setattr", "delattr", "patch"})
PATCHED = "Patch the function that the migrated code calls instead."
_ACCELERATOR_TESTS = frozenset(
    {"torch.accelerator.is_available", "portkit.runtime.is_available", "portkit.runtime.is_accelerator"}
)


_ACCELERATOR = re.compile(r"cuda|gpu|accelerator", re.I)
_INSTALLED = re.compile(r"_*(?:have|has)_\w+|\w+_(?:available|installed)|find_spec", re.I)
_UNSURE = re.compile(r"\bnot\b|\bno_|\bor\b|\bcpu\b|==\s*0|<|^try:", re.I)


def in_decorator(node: ast.AST, ctx: Context) -> bool:
    """Whether a node is (or is called by) a decorator."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return child in parent.decorator_list
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False


def in_annotation(node: ast.AST, ctx: Context) -> bool:
    """Whether a node stands in a type annotation."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.AnnAssign):
            return child is parent.annotation
        if isinstance(parent, ast.arg):
            return child is parent.annotation
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return child is parent.returns
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False


def in_type_test(node: ast.AST, ctx: Context) -> bool:
    """Whether a node is a class that `isinstance` or `issubclass` tests for, perhaps through a name."""
    if _is_tested(node, ctx):
        return True
    parent = ctx.parent(node)
    while isinstance(parent, (ast.Tuple, ast.BinOp)):
        node, parent = parent, ctx.parent(parent)
    if isinstance(parent, ast.AugAssign):
        target: ast.expr = parent.target
    elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = parent.targets[0]
    else:
        return False
    if not isinstance(target, ast.Name) or isinstance(node, (ast.Name, ast.Attribute)):
        return False
    *_, module = ctx.parents(parent)
    uses = [
        item
        for item in walk(module)
        if isinstance(item, ast.Name) and item.id == target.id and isinstance(item.ctx, ast.Load)
    ]
    return bool(uses) and all(_is_tested(item, ctx) for item in uses)


def _is_tested(node: ast.AST, ctx: Context) -> bool:
    parent = ctx.parent(node)
    while isinstance(parent, (ast.Tuple, ast.BinOp)):
        parent = ctx.parent(parent)
    return (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Name)
        and parent.func.id in ("isinstance", "issubclass")
    )


def in_import_guard(node: ast.AST, ctx: Context) -> bool:
    """Whether a node stands in a `try` whose handlers take a failed import, or under a flag that says that a
    package is there: `if HAVE_TE:`."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.If) and child in parent.body and _is_installed(parent.test, ctx):
            return True
        if (
            isinstance(parent, ast.Try)
            and child in parent.body
            and any(_takes_import(h) for h in parent.handlers)
        ):
            return True
        child = parent
    return False


def patched_member(node: ast.expr, ctx: Context) -> str | None:
    """The member that `setattr(torch.cuda, "x", ...)` or `patch.object(torch.cuda, "x")` replaces."""
    call = ctx.parent(node)
    if not isinstance(call, ast.Call) or len(call.args) < 2 or call.args[0] is not node:
        return None
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    owner = getattr(call.func, "value", None)
    patches = called in PATCHERS or (
        called == "object" and getattr(owner, "attr", getattr(owner, "id", "")) == "patch"
    )
    member = ctx.constant(call.args[1])
    return member if patches and isinstance(member, str) else None


def is_for_type_checkers(node: ast.AST, ctx: Context) -> bool:
    """Whether a node stands under `if TYPE_CHECKING:`, which no program runs."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.If) and child in parent.body:
            name = getattr(parent.test, "attr", getattr(parent.test, "id", ""))
            if name == "TYPE_CHECKING":
                return True
        child = parent
    return False


def _is_installed(test: ast.expr, ctx: Context) -> bool:
    """Whether a test asks, by its words, if a package is installed."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and any(_is_installed(item, ctx) for item in test.values)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        test = test.left  # `importlib.util.find_spec("apex") is not None`
    asked = test.func if isinstance(test, ast.Call) else test
    if isinstance(asked, (ast.Name, ast.Attribute)) and not (ctx.resolve(asked) or "").startswith("torch."):
        return bool(_INSTALLED.fullmatch(getattr(asked, "id", getattr(asked, "attr", ""))))
    return False


def _takes_import(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {n.id for n in walk(handler.type) if isinstance(n, ast.Name)}
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def at_import_time(node: ast.AST, ctx: Context) -> bool:
    """Whether a node is evaluated when its module is imported."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and child in _body(parent):
            return False
        child = parent
    return True


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.AST]:
    return [function.body] if isinstance(function, ast.Lambda) else list(function.body)


def is_called(node: ast.AST, ctx: Context) -> ast.Call | None:
    """The call whose callee a node is."""
    parent = ctx.parent(node)
    return parent if isinstance(parent, ast.Call) and parent.func is node else None


def is_written(node: ast.AST) -> bool:
    """Whether a name or attribute is assigned or deleted here: a patch, not a use."""
    return isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))


def is_availability(node: ast.AST, ctx: Context) -> bool:
    """Whether an expression is `torch.cuda.is_available()`."""
    return isinstance(node, ast.Call) and ctx.resolve(node.func) == AVAILABLE


def is_refusal(node: ast.AST, ctx: Context) -> ast.stmt | None:
    """The statement that refuses to run without CUDA, if `node` stands in its test."""
    for parent in ctx.parents(node):
        if isinstance(parent, ast.stmt):
            return parent if refuses(parent, ctx) else None
    return None


def refuses(statement: ast.stmt, ctx: Context) -> bool:
    """Whether a statement stops the program when CUDA is absent, and does nothing else."""
    if isinstance(statement, ast.Assert):
        return is_availability(statement.test, ctx) and not _is_caught(statement, ctx)
    if not isinstance(statement, ast.If) or statement.orelse or not _without_cuda(statement.test, ctx):
        return False
    return _only_stops(statement, ctx)


def refuses_unless(statement: ast.stmt, condition: ast.AST, ctx: Context) -> bool:
    """Whether a statement stops the program unless `condition` holds, and does nothing else."""
    return _asked(statement) is condition and _only_stops(statement, ctx)


def _asked(statement: ast.stmt) -> ast.expr | None:
    """`c` of `assert c`, or of an `if not c:` that has no `else`."""
    if isinstance(statement, ast.Assert):
        return statement.test
    if not isinstance(statement, ast.If) or statement.orelse or not isinstance(statement.test, ast.UnaryOp):
        return None
    return statement.test.operand if isinstance(statement.test.op, ast.Not) else None


def _only_stops(statement: ast.stmt, ctx: Context) -> bool:
    if _is_caught(statement, ctx):
        return False
    if not isinstance(statement, ast.If):
        return True
    parent = ctx.parent(statement)
    if isinstance(parent, ast.If) and parent.orelse == [statement]:
        return False
    return _stops(statement.body[-1], ctx) and all(_speaks(s) for s in statement.body[:-1])


def _is_caught(statement: ast.stmt, ctx: Context) -> bool:
    """Whether what a statement raises only leaves a `try` around it: the program goes on another way."""
    raised = _raised(statement)
    child: ast.AST = statement
    for parent in ctx.parents(statement):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        handlers = parent.handlers if isinstance(parent, ast.Try) and child in parent.body else []
        if any(_takes(item, raised) for item in handlers):
            return True
        child = parent
    return False


def _raised(statement: ast.stmt) -> str:
    """The name of the exception that a refusing statement raises."""
    if isinstance(statement, ast.Assert):
        return "AssertionError"
    last = statement.body[-1] if isinstance(statement, ast.If) else statement
    if not isinstance(last, ast.Raise) or last.exc is None:
        return "SystemExit"
    made = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
    return made.id if isinstance(made, ast.Name) else getattr(made, "attr", "")


def _takes(handler: ast.ExceptHandler, raised: str) -> bool:
    """Whether a handler ends an exception of the name `raised`, and does not hand it on."""
    if isinstance(handler.body[-1], ast.Raise):
        return False
    if handler.type is None:
        return True
    names = {
        getattr(item, "id", getattr(item, "attr", ""))
        for item in walk(handler.type)
        if isinstance(item, (ast.Name, ast.Attribute))
    }
    return bool(names & {raised, "BaseException"}) or ("Exception" in names and raised != "SystemExit")


def _without_cuda(test: ast.expr, ctx: Context) -> bool:
    """Whether a test is `not torch.cuda.is_available()`, perhaps with `device == "cuda"` beside it."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        parts = [item for item in test.values if not _wants_cuda(item)]
        return len(parts) == 1 and _without_cuda(parts[0], ctx)
    return (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and is_availability(test.operand, ctx)
    )


def _wants_cuda(test: ast.expr) -> bool:
    """Whether a test asks if CUDA was chosen: `device == "cuda"`, `device.startswith("cuda")`."""
    constants = [item.value for item in walk(test) if isinstance(item, ast.Constant)]
    return constants == ["cuda"] and isinstance(test, (ast.Compare, ast.Call))


def _stops(statement: ast.stmt, ctx: Context) -> bool:
    if isinstance(statement, ast.Raise):
        return True
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    return ctx.resolve(statement.value.func) in ("sys.exit", "os._exit") or (
        isinstance(statement.value.func, ast.Name) and statement.value.func.id in ("exit", "quit")
    )


def _speaks(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Call, ast.Constant))


def under_device_test(node: ast.AST, ctx: Context) -> bool:
    """Whether a node stands in a branch that is only taken off the CPU: `if device.type != "cpu":`."""
    child = node
    for parent in ctx.parents(node):
        taken = (isinstance(parent, ast.If) and child in parent.body) or (
            isinstance(parent, ast.IfExp) and child is parent.body
        )
        if taken and isinstance(parent, (ast.If, ast.IfExp)) and _off_cpu(parent.test, ctx):
            return True
        child = parent
    return False


def is_accelerator_branch(node: ast.AST, ctx: Context) -> bool:
    """Whether a node is only reached where the program found an accelerator, or was told to use one."""
    guard = ctx.guard(node)
    return guard is not None and bool(_ACCELERATOR.search(guard)) and not _UNSURE.search(guard)


def _off_cpu(test: ast.expr, ctx: Context) -> bool:
    for item in walk(test):
        if isinstance(item, ast.Compare) and isinstance(item.ops[0], ast.NotEq):
            if any(isinstance(side, ast.Constant) and side.value == "cpu" for side in item.comparators):
                return True
        elif isinstance(item, ast.Call) and (ctx.resolve(item.func) or "") in _ACCELERATOR_TESTS:
            return True
    return False


ANSWERS = (
    "It decides what a function answers, and what the answer is for can't be seen here: see that its callers "
    "can go on with any accelerator."
)


def decides_answer(node: ast.AST, ctx: Context) -> bool:
    """Whether a test only makes a function answer yes or no; what for, stands with its callers."""
    around = list(ctx.parents(node))
    statement = next((item for item in around if isinstance(item, ast.stmt)), None)
    owner = next((item for item in around if isinstance(item, (*FUNCTIONS, ast.Lambda))), None)
    if not isinstance(owner, FUNCTIONS) or not _gives_back(statement):
        return False
    values = [item.value for item in walk_body(owner) if isinstance(item, ast.Return)]
    return all(value is not None and _is_answer(value) for value in values)


def _gives_back(statement: ast.stmt | None) -> bool:
    if isinstance(statement, ast.If):
        blocks = (statement.body, statement.orelse)
        return any(block and isinstance(block[-1], ast.Return) for block in blocks)
    return isinstance(statement, ast.Return)


def _is_answer(value: ast.expr) -> bool:
    """Whether an expression is a truth value, as far as can be seen."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, bool)
    if isinstance(value, ast.BoolOp):
        return any(_is_answer(item) for item in value.values)
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    return isinstance(value, ast.Compare) or (isinstance(value, ast.Attribute) and value.attr == "is_cuda")


def words(name: str) -> set[str]:
    """Lower-case words of an identifier or option: `--dist-backend` → {dist, backend}."""
    return set(name.lower().replace("-", "_").strip("_").split("_"))


def walk_body(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function or class, without those of functions nested in it."""
    queue = list(ast.iter_child_nodes(function))
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            queue.extend(ast.iter_child_nodes(node))
