"""How programs spell a CUDA device, and what portable text says the same."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from portkit.finding import Edit
from portkit.rewriters import _references, _sites
from portkit.rule import Context

_WHOLE = re.compile(r"cuda(?::(\d+))?\Z")
_FORMAT = re.compile(r"cuda:\{(?P<field>\w*)\}\Z")
_PERCENT = re.compile(r"cuda:%[dis]\Z")
_WAYS = frozenset(
    {
        *("impl", "implementation", "backend", "engine", "kernel", "kernels", "algo", "algorithm", "method"),
        *("mode", "provider", "platform", "solver", "variant", "toolkit", "extension", "target"),
    }
)
_NAME = re.compile(r"(?:^|_)(?:dev|device|devices)(?:$|_(?:type|name|id|str|string))", re.I)


@dataclass(frozen=True)
class Spelling:
    """A CUDA device as text: `index` is the source of its ordinal, None for the current device."""

    index: str | None


def spelling(node: ast.AST, ctx: Context) -> Spelling | None:
    """The CUDA device that a string expression names: literal, f-string, `%`, `+` or `.format`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        match = _WHOLE.match(node.value)
        return Spelling(match.group(1)) if match else None
    if isinstance(node, ast.JoinedStr):
        return _from_fstring(node, ctx)
    if isinstance(node, ast.BinOp):
        return _from_operator(node, ctx)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _from_format(node, _text(node.func.value) or "", ctx)
    return None


def _from_format(node: ast.Call, text: str, ctx: Context) -> Spelling | None:
    """`"cuda:{}".format(i)`, or with a named field."""
    match = _FORMAT.match(text)
    if match is None or len(node.args) + len(node.keywords) != 1:
        return None
    field = match.group("field")
    if field in ("", "0"):
        return Spelling(ordinal(node.args[0], ctx)) if node.args else None
    given = [keyword.value for keyword in node.keywords if keyword.arg == field]
    return Spelling(ordinal(given[0], ctx)) if given else None


def _from_fstring(node: ast.JoinedStr, ctx: Context) -> Spelling | None:
    parts = node.values
    head = _text(parts[0]) if parts else None
    if len(parts) == 1 and head is not None and (match := _WHOLE.match(head)):
        return Spelling(match.group(1))
    if len(parts) != 2 or head != "cuda:" or not isinstance(parts[1], ast.FormattedValue):
        return None
    value = parts[1]
    if value.conversion != -1 or value.format_spec is not None:
        return None
    return Spelling(ordinal(value.value, ctx))


def _from_operator(node: ast.BinOp, ctx: Context) -> Spelling | None:
    text = _text(node.left)
    if text is None:
        return None
    if isinstance(node.op, ast.Mod) and _PERCENT.match(text):
        value = node.right
        if isinstance(value, ast.Tuple):
            if len(value.elts) != 1:
                return None
            value = value.elts[0]
        return Spelling(ordinal(value, ctx))
    if isinstance(node.op, ast.Add) and text == "cuda:":
        value = node.right
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "str":
            return Spelling(ordinal(value.args[0], ctx)) if len(value.args) == 1 else None
        return Spelling(ordinal(value, ctx, is_text=True))
    return None


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def ordinal(node: ast.expr, ctx: Context, *, is_text: bool = False) -> str:
    """Source of an integer ordinal; text (from the environment, say) is converted."""
    source = _exact(node, ctx)
    if is_text or _is_text(node, ctx):
        return f"int({source})"
    return source


def _exact(node: ast.expr, ctx: Context) -> str:
    """The source of an expression in one line; before Python 3.12, places inside f-strings are not exact."""
    source = ctx.source(node)
    try:
        same = "\n" not in source and ast.dump(ast.parse(source, mode="eval").body) == ast.dump(node)
    except (SyntaxError, ValueError):
        same = False
    return source if same else ast.unparse(node)


def _is_text(node: ast.expr, ctx: Context) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Subscript):
        return ctx.resolve(node.value) == "os.environ" or _is_text(node.value, ctx)
    if isinstance(node, ast.Call):
        return ctx.resolve(node.func) in ("os.getenv", "os.environ.get")
    return False


def portable(ctx: Context, found: Spelling, *, as_text: bool) -> tuple[str, list[Edit]]:
    """Portable source for a device, as a `torch.device` or as a string, and the imports it needs."""
    local, imports = ctx.use(_references.RUNTIME)
    if found.index is None:
        return f"{local}.device_type()" if as_text else f"{local}.device()", list(imports)
    device = f"{local}.device({found.index})"
    return f"str({device})" if as_text else device, list(imports)


def choice(node: ast.AST | None, ctx: Context) -> Spelling | None:
    """The CUDA device of `"cuda" if torch.cuda.is_available() else "cpu"`, or of its mirror image."""
    if not isinstance(node, ast.IfExp):
        return None
    cuda, cpu = node.body, node.orelse
    test: ast.expr = node.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, cuda, cpu = test.operand, cpu, cuda
    if not _sites.is_availability(test, ctx):
        return None
    if isinstance(cpu, ast.IfExp):
        cpu = _last(cpu, isinstance(cuda, ast.Call), ctx)
    if _is_device_call(cuda, ctx) and _is_device_call(cpu, ctx):
        assert isinstance(cuda, ast.Call)
        assert isinstance(cpu, ast.Call)
        cuda, cpu = cuda.args[0], cpu.args[0]
    return spelling(cuda, ctx) if _text(cpu) == "cpu" else None


def _last(node: ast.expr, as_device: bool, ctx: Context) -> ast.expr:
    """The last choice of `"mps" if torch.backends.mps.is_available() else "cpu"`; else the node itself."""
    inner = node
    while isinstance(inner, ast.IfExp):
        named = inner.body
        if as_device and _is_device_call(named, ctx):
            assert isinstance(named, ast.Call)
            named = named.args[0]
        asked = ctx.resolve(inner.test.func) if isinstance(inner.test, ast.Call) else None
        kind = _text(named)
        if kind is None or asked not in (f"torch.backends.{kind}.is_available", f"torch.{kind}.is_available"):
            return node
        inner = inner.orelse
    return inner


def named(node: ast.AST, ctx: Context) -> Spelling | None:
    """The CUDA device of `torch.device("cuda")`, or of its `.type`."""
    if isinstance(node, ast.Attribute) and node.attr == "type":
        return Spelling(None) if named(node.value, ctx) is not None else None
    if not _is_device_call(node, ctx):
        return None
    assert isinstance(node, ast.Call)
    return spelling(node.args[0], ctx)


def is_compared(node: ast.AST, ctx: Context) -> bool:
    """Whether a device is compared with another, and not only to make sure that it is the one in use."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.Compare):
            return not isinstance(ctx.parent(parent), ast.Assert)
        if not isinstance(parent, (ast.Tuple, ast.List, ast.Set)) or child not in parent.elts:
            return False
        child = parent
    return False


def _is_device_call(node: ast.AST, ctx: Context) -> bool:
    return (
        isinstance(node, ast.Call)
        and len(node.args) == 1
        and not node.keywords
        and ctx.resolve(node.func) == "torch.device"
    )


def is_device_name(name: str) -> bool:
    """Whether an identifier, key or option is by its words a device."""
    return bool(_NAME.search(name.replace("-", "_").strip("_")))


def is_implementation_name(name: str) -> bool:
    """Whether an identifier says by its words which of several ways to compute is meant."""
    return not _WAYS.isdisjoint(_sites.words(name))


def identifier(node: ast.AST) -> str:
    """The last name of a target: `self.device` → device, `config["device"]` → device."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _text(node.slice) or ""
    return ""


def is_type_text(node: ast.AST, ctx: Context) -> bool:
    """Whether an expression is a device *type*: `x.type` of a device, or a name that says so."""
    if isinstance(node, ast.Attribute) and node.attr == "type":
        return True
    return {"device", "type"} <= _sites.words(identifier(node))
