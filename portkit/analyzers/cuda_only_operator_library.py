"""Packages that need CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit import tables
from portkit.analyzers import _libraries
from portkit.finding import Effort, Finding, Phase, Support
from portkit.rewriters import _operators, _sites
from portkit.rule import Context, Rule

_IMPORT = 2  # minutes to remove an import


class CudaOnlyOperatorLibrary(Rule):
    """A package is used that needs CUDA.

    What: imports and calls of flash_attn, apex, xformers, bitsandbytes, transformer_engine, causal_conv1d,
    mamba_ssm, torch_scatter, spconv, cupy, numba.cuda, pycuda and others.
    Why: they can't be installed, or don't run, without CUDA.
    Instead: the operators of torch and of `pk.ops`; the finding names the one that fits. Calls for which
    portkit has a replacement are rewritten by other rules, and imports of nothing else are not reported.
    An import whose failure is handled is counted as portable.
    Safety: nothing is rewritten.
    """

    id = "PK102"
    name = "cuda_only_operator_library"
    phase = Phase.OPERATOR
    stops_import = True
    triggers = (
        *tuple(sorted({name.split(".")[0].lower().encode() for name in _libraries.libraries()} - {b"cuda"})),
        b"import cuda",
        b"from cuda",
    )

    def visit_Import(self, node: ast.Import, ctx: Context) -> Iterable[Finding]:
        for item in node.names:
            library = _libraries.of_name(item.name)
            if library is not None and not _all_replaced(node, library, ctx):
                yield self._imported(node, ctx, library, item.name)

    def visit_ImportFrom(self, node: ast.ImportFrom, ctx: Context) -> Iterable[Finding]:
        if node.level or node.module is None:
            return
        names = [f"{node.module}.{item.name}" for item in node.names]
        found = [name for name in names if _libraries.of_name(name) is not None and not _replaced(name)]
        if found:
            library = _libraries.of_name(found[0])
            assert library is not None
            yield self._imported(node, ctx, library, ", ".join(found))

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        yield from self._used(node.func, node, ctx)

    def visit_FunctionDef(self, node: ast.FunctionDef, ctx: Context) -> Iterable[Finding]:
        """A kernel is one dependency, whatever it calls of its library."""
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call):
                yield from self._used(decorator, decorator, ctx)

    def _used(self, callee: ast.expr, node: ast.expr, ctx: Context) -> Iterator[Finding]:
        name = ctx.resolve(callee)
        library = _libraries.of_name(name) if name is not None else None
        if name is None or library is None or _replaced(name) or _in_kernel(node, library, ctx):
            return
        yield ctx.finding(
            self,
            node,
            f"{name} needs CUDA: it belongs to {library.package} ({library.what})",
            support=Support.MANUAL,
            remedy=library.instead,
            qualified_name=name,
            effort=Effort(library.minutes, f"table cuda_libraries, {library.package}"),
        )

    def _imported(self, node: ast.stmt, ctx: Context, library: _libraries.Library, name: str) -> Finding:
        guarded = _sites.in_import_guard(node, ctx)
        return ctx.finding(
            self,
            node,
            f"{library.package} needs CUDA: {library.what}",
            support=Support.PORTABLE if guarded else Support.MANUAL,
            remedy="The program goes on without it." if guarded else library.instead,
            qualified_name=name,
            effort=Effort(0 if guarded else _IMPORT, "an import: the work is where it is used"),
        )


def _in_kernel(node: ast.AST, library: _libraries.Library, ctx: Context) -> bool:
    """Whether a call stands in a function that the library compiles: its decorator is what is reported."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.FunctionDef) and child not in parent.decorator_list:
            for decorator in parent.decorator_list:
                name = ctx.resolve(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if name is not None and _libraries.of_name(name) is library:
                    return True
        child = parent
    return False


def _all_replaced(node: ast.Import, library: _libraries.Library, ctx: Context) -> bool:
    """Whether everything that the file uses of a package is rewritten by other rules."""
    *_, module = ctx.parents(node)
    used = set()
    for item in ast.walk(module):
        name = ctx.resolve(item) if isinstance(item, (ast.Attribute, ast.Name)) else None
        if name is not None and _libraries.of_name(name) is library:
            longer = ctx.parent(item)
            if not (isinstance(longer, ast.Attribute) and _libraries.of_name(ctx.resolve(longer) or "")):
                used.add(name)
    return bool(used) and all(_replaced(name) for name in used)


def _replaced(name: str) -> bool:
    """Whether a rule rewrites calls of this name."""
    return any(name in _operators.replacements(tables.RUNTIME / folder) for folder in ("ops", "nn"))
