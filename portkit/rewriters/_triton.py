"""What of Triton the tile compiler takes, and how imports of it become ours."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from portkit import tables
from portkit.finding import Edit, Replace
from portkit.rule import Context

LANGUAGE = "triton.language"
OURS = {LANGUAGE: "portkit.runtime.tile.language", "triton": "portkit.runtime.triton"}
_JIT = "triton.jit"
_FROM = re.compile(r"from\s+(?P<module>triton[\w.]*)")


@cache
def _exported(path: Path) -> frozenset[str]:
    """The names in a module's `__all__`."""
    for item in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(item, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in item.targets):
            return frozenset(ast.literal_eval(item.value))
    return frozenset()


def supported(name: str) -> bool:
    """Whether the runtime has a name of Triton (`triton.language.sum`, `triton.cdiv`)."""
    tile = tables.RUNTIME / "tile" / "language"
    if name == "triton" or name == LANGUAGE:
        return True
    if not name.startswith(f"{LANGUAGE}."):
        return name.removeprefix("triton.") in _exported(tables.RUNTIME / "triton.py")
    first, _, rest = name.removeprefix(f"{LANGUAGE}.").partition(".")
    if not rest:
        return first in _exported(tile / "__init__.py") or first in ("math", "extra")
    if first == "math":
        return rest in _functions(tile / "math.py")
    if first == "extra":
        last = rest.rpartition(".")[2]
        return last in ("cuda", "libdevice") or last in _functions(tile / "extra" / "libdevice.py")
    return first == "dtype" or first in _exported(tile / "__init__.py")


@cache
def _functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}
    for item in tree.body:
        if isinstance(item, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in item.names)
        elif isinstance(item, ast.Assign):
            names.update(target.id for target in item.targets if isinstance(target, ast.Name))
    return frozenset(names)


def is_kernel(node: ast.AST, ctx: Context) -> bool:
    """Whether a function is compiled by Triton."""
    if not isinstance(node, ast.FunctionDef):
        return False
    callees = [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]
    return any(ctx.resolve(callee) == _JIT for callee in callees)


def mentions(node: ast.AST, ctx: Context) -> Iterator[str]:
    """The longest names of Triton that stand in a piece of code."""
    for item in ast.walk(node):
        if not isinstance(item, (ast.Name, ast.Attribute)):
            continue
        parent = ctx.parent(item)
        if isinstance(parent, ast.Attribute) and (ctx.resolve(parent) or "").startswith("triton"):
            continue
        name = ctx.resolve(item) or ""
        if name == "triton" or name.startswith("triton."):
            yield name


def missing(node: ast.AST, ctx: Context) -> list[str]:
    """Names of Triton in a piece of code that the runtime does not have."""
    return sorted({name for name in mentions(node, ctx) if not supported(name)})


def imports(module: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of Triton in a module."""
    for item in ast.walk(module):
        if (isinstance(item, ast.Import) and any(_is_triton(alias.name) for alias in item.names)) or (
            isinstance(item, ast.ImportFrom) and not item.level and _is_triton(item.module or "")
        ):
            yield item


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
                return f"it imports {', '.join(lost) or item.module} of {item.module}"
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
    return edits
