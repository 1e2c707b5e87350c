"""What of Triton the tile compiler takes, and how imports of it become ours."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from portkit import tables
from portkit.finding import Edit, Replace
from portkit.rewriters import _index, _sites
from portkit.rule import Context
from portkit.scopes import walk

LANGUAGE = "triton.language"
OURS = {LANGUAGE: "portkit.runtime.tile.language", "triton": "portkit.runtime.triton"}
_JIT = "triton.jit"
_MOVED = frozenset({"portkit.jit", "portkit.runtime.jit", f"{OURS['triton']}.jit"})
_FROM = re.compile(r"from\s+(?P<module>triton[\w.]*)")


_OF_MODULES = frozenset({"__doc__", "__name__", "__version__"})  # what every module has, and nobody compiles
_STEERING = (ast.For, ast.While, ast.If)
_STRUCTURE = frozenset({"Slice", "FormattedValue"})  # parts of Subscript and JoinedStr


@cache
def _table() -> dict[str, Any]:
    """The published table of what kernels may use."""
    return tables.read(tables.RUNTIME / "tile" / "language.toml")


@cache
def _exported() -> frozenset[str]:
    """Other names of the language, constants and enumerations, that its package offers."""
    path = tables.RUNTIME / "tile" / "language" / "__init__.py"
    for item in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(item, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in item.targets):
            return frozenset(ast.literal_eval(item.value))
    return frozenset()


def supported(name: str) -> bool:
    """Whether the runtime has a name of Triton (`triton.language.sum`, `triton.cdiv`)."""
    table = _table()
    if name in ("triton", LANGUAGE) or name.rpartition(".")[2] in _OF_MODULES:
        return True
    if not name.startswith(f"{LANGUAGE}."):
        return name.removeprefix("triton.").partition(".")[0] in table["triton"]
    first, _, rest = name.removeprefix(f"{LANGUAGE}.").partition(".")
    last = rest.rpartition(".")[2]
    if not rest and first in ("math", "extra"):
        return True
    if first == "math":
        return rest in table["math"]
    if first == "extra":
        return last in ("cuda", "libdevice") or last in table["libdevice"] or last in table["extra"]
    return first in table["functions"] or first in table["dtypes"] or first in _exported()


def advice(name: str) -> str:
    """What to do instead of a name that is refused; empty if nothing is known."""
    found = _table()["refused"].get(name.rpartition(".")[2], "")
    assert isinstance(found, str)
    return found


def unknown_syntax(kernel: ast.FunctionDef, ctx: Context) -> list[str]:
    """Python syntax, methods of tiles, and arguments in a kernel that the compiler does not take."""
    table = _table()
    known = {*table["syntax"], *_STRUCTURE}
    methods = {*table["methods"], *table["attributes"], *table["type_attributes"]}
    found: set[str] = set()
    for statement in kernel.body:
        for item in walk(statement):
            if isinstance(item, ast.Call):
                found.update(_unknown_arguments(item, ctx))
            if isinstance(item, (ast.stmt, ast.expr)) and type(item).__name__ not in known:
                found.add(f"{type(item).__name__} syntax")
            elif isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute):
                method = item.func.attr
                if (
                    ctx.resolve(item.func) is None
                    and method not in methods
                    and not _is_module(item.func.value, ctx)
                ):
                    found.add(f"the method {method}")
    return sorted(found)


def _unknown_arguments(call: ast.Call, ctx: Context) -> Iterator[str]:
    """Arguments of a function of the language, or of a method of a tile, that only other versions have."""
    name = ctx.resolve(call.func)
    last = call.func.attr if isinstance(call.func, ast.Attribute) else (name or "").rpartition(".")[2]
    is_method = name is None and isinstance(call.func, ast.Attribute)
    if not (is_method or (name or "").startswith(f"{LANGUAGE}.")) or _is_starred(call):
        return
    if not is_method and last in _table()["dtypes"]:
        yield f"a call of {last}"
    names = _table()["parameters"].get(last)
    if names is None or (is_method and last not in _table()["methods"]):
        return
    accepted = names.split()
    yield from (f"the argument {k.arg} of {last}" for k in call.keywords if k.arg not in accepted)
    if len(call.args) + is_method > len(accepted):
        yield f"{len(call.args)} arguments of {last}"


def _is_starred(call: ast.Call) -> bool:
    return any(isinstance(item, ast.Starred) for item in call.args) or any(
        k.arg is None for k in call.keywords
    )


def _is_module(node: ast.expr, ctx: Context) -> bool:
    """Whether a receiver is no tile but something that has a name outside."""
    return ctx.resolve(node) is not None


def is_kernel(node: ast.AST, ctx: Context) -> bool:
    """Whether a function is compiled by Triton."""
    return _JIT in _decorators(node, ctx)


def has_moved(node: ast.AST, ctx: Context) -> bool:
    """Whether a function is compiled by the tile compiler."""
    return not _MOVED.isdisjoint(_decorators(node, ctx))


def _decorators(node: ast.AST, ctx: Context) -> set[str]:
    if not isinstance(node, ast.FunctionDef):
        return set()
    callees = [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]
    return {ctx.resolve(callee) or "" for callee in callees}


def mentions(node: ast.AST, ctx: Context) -> Iterator[str]:
    """The longest names of Triton that stand in a piece of code."""
    for item in walk(node):
        if not isinstance(item, (ast.Name, ast.Attribute)):
            continue
        parent = ctx.parent(item)
        if isinstance(parent, ast.Attribute) and (ctx.resolve(parent) or "").startswith("triton"):
            continue
        name = ctx.resolve(item) or ""
        if (name == "triton" or name.startswith("triton.")) and not _sites.in_annotation(item, ctx):
            yield name


def missing(node: ast.AST, ctx: Context) -> list[str]:
    """Names of Triton in a piece of code that the runtime does not have."""
    return sorted({name for name in mentions(node, ctx) if not supported(name)})


@lru_cache(maxsize=4)  # asked for each kernel of a module in turn
def obstacles(module: ast.AST, ctx: Context) -> tuple[str, ...]:
    """What in a file keeps its kernels from moving, besides its imports."""
    found = set(missing(module, ctx))
    for item in walk(module):
        if isinstance(item, ast.FunctionDef) and is_kernel(item, ctx):
            found.update(unknown_syntax(item, ctx))
    return tuple(sorted(found))


def stays(module: ast.AST, ctx: Context) -> str:
    """Why the kernels of a file can't move, by what stands in the file itself; empty if they can."""
    edits = rewritten(module, ctx)
    if isinstance(edits, str):
        return edits
    others = obstacles(module, ctx)  # type: ignore[arg-type]  # hashed by identity
    return f"it uses {', '.join(others)}" if others else ""


def features(kernel: ast.FunctionDef, ctx: Context) -> list[str]:
    """What a kernel uses of the language: functions, methods of tiles, and syntax that steers it."""
    found: set[str] = set()
    for statement in kernel.body:
        for item in walk(statement):
            if isinstance(item, _STEERING):
                found.add(type(item).__name__.lower())
            called = item.func if isinstance(item, ast.Call) else None
            if isinstance(called, ast.Attribute) and not (
                ctx.resolve(called) or _is_module(called.value, ctx)
            ):
                found.add(f".{called.attr}")
        found.update(name.rpartition(".")[2] for name in mentions(statement, ctx) if not _is_whole(name))
    return sorted(found)


def _is_whole(name: str) -> bool:
    return name in ("triton", LANGUAGE, f"{LANGUAGE}.math", f"{LANGUAGE}.extra", f"{LANGUAGE}.constexpr")


def tuned(kernel: ast.FunctionDef, ctx: Context) -> list[str]:
    """How a kernel's launch options are chosen: "autotuned", "with heuristics"."""
    callees = [item.func if isinstance(item, ast.Call) else item for item in kernel.decorator_list]
    names = {ctx.resolve(callee) or "" for callee in callees}
    said = {"triton.autotune": "autotuned", "triton.heuristics": "with heuristics"}
    return [text for name, text in said.items() if name in names]


def launches(module: ast.AST) -> Counter[str]:
    """How often each name is launched in a module: `kernel[grid](...)`."""
    return _launches(module)


@lru_cache(maxsize=4)
def _launches(module: ast.AST) -> Counter[str]:
    found: Counter[str] = Counter()
    for item in walk(module):
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Subscript):
            value = item.func.value
            found[value.id if isinstance(value, ast.Name) else getattr(value, "attr", "")] += 1
    return found


def imports(module: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of Triton in a module."""
    yield from (item for item in _index.build(module).imports if is_import(item))


def is_import(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether a statement imports Triton, or something of it."""
    if isinstance(node, ast.ImportFrom):
        return not node.level and _is_triton(node.module or "")
    return any(_is_triton(item.name) for item in node.names)


def _is_triton(name: str) -> bool:
    return name == "triton" or name.startswith("triton.")


def _ours(module: str) -> str | None:
    """Our module in the place of one of Triton's."""
    if module == "triton":
        return OURS["triton"]
    if module == LANGUAGE or module.startswith(f"{LANGUAGE}."):
        return OURS[LANGUAGE] + module.removeprefix(LANGUAGE) if supported(module) else None
    return None


def rewritten(module: ast.AST, ctx: Context) -> list[Edit] | str:
    """Edits that turn every import of Triton in a module into ours, or the reason why that can't be done."""
    edits: list[Edit] = []
    for item in imports(module):
        if isinstance(item, ast.ImportFrom):
            ours = _ours(item.module or "")
            lost = [a.name for a in item.names if not supported(f"{item.module}.{a.name}")]
            if ours is None or lost:
                names = lost or [alias.name for alias in item.names]
                return f"it imports {', '.join(names)} of {item.module}"
            text = _FROM.sub(f"from {ours}", ctx.source(item), count=1)
            edits.append(Replace(ctx.span(item), text))
            continue
        for alias in item.names:
            if not _is_triton(alias.name):
                continue
            ours = _ours(alias.name if alias.asname else "triton")
            if ours is None:
                return f"it imports {alias.name}"
            edits.append(Replace(ctx.span(alias), f"{ours} as {alias.asname or 'triton'}"))
    return edits or "Triton comes from another module or cell: change the import there"


def is_only_told(module: ast.AST, ctx: Context) -> bool:
    """Whether a module has Triton only to tell which version of it is installed: ours would be no answer."""
    if any(isinstance(item, ast.ImportFrom) for item in imports(module)):
        return False
    names = [item for item in walk(module) if isinstance(item, ast.Name) and ctx.resolve(item) == "triton"]
    return bool(names) and all(_is_told(item, ctx) for item in names)


def _is_told(name: ast.Name, ctx: Context) -> bool:
    """`triton.__version__` in a message, or as an entry of a table."""
    version = ctx.parent(name)
    if not isinstance(version, ast.Attribute) or version.attr != "__version__":
        return False
    place = ctx.parent(version)
    if isinstance(place, ast.Call):
        return isinstance(place.func, ast.Name) and place.func.id == "print"
    if isinstance(place, ast.Assign):
        return isinstance(place.targets[0], ast.Subscript)
    return isinstance(place, (ast.FormattedValue, ast.Dict))
