"""Packages that need CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from portkit import tables
from portkit.analyzers import _libraries
from portkit.finding import Effort, Finding, Phase, Support
from portkit.rewriters import _operators, _references, _sites
from portkit.rule import Context, Rule, named
from portkit.scopes import walk

_IMPORT = 2  # minutes to remove an import
_KERNEL_MINUTES, _LINE_MINUTES = 60, 3  # to port a kernel, with its tests
_TESTS = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Assert)


class CudaOnlyOperatorLibrary(Rule):
    """A package is used that needs CUDA.

    What: imports and uses of flash_attn, apex, xformers, bitsandbytes, transformer_engine, deepspeed,
    causal_conv1d, mamba_ssm, torch_scatter, spconv, MinkowskiEngine, tinycudann, nvidia.dali, cupy,
    numba.cuda, pycuda, cutlass and others: what is known of their functions stands in the tables of
    `portkit/tables/libraries`. Each function is told once a file, with the number of its places; each kernel
    of Numba and the like by itself. Packages that run elsewhere too (mmcv, faiss, onnxruntime) are told only
    where a function of theirs is used that needs CUDA.
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
    triggers = (b"flash_attn", b"xformers", b"bitsandbytes", b"transformer_engine", b"deepspeed", b"apex.")
    imports = _libraries.words()

    def visit_Import(self, node: ast.Import, ctx: Context) -> Iterable[Finding]:
        for item in node.names:
            library = _libraries.needs_cuda(item.name)
            if library is not None and not _all_replaced(node, library, ctx):
                yield self._imported(node, ctx, library, item.name)

    def visit_ImportFrom(self, node: ast.ImportFrom, ctx: Context) -> Iterable[Finding]:
        if node.level or node.module is None:
            return
        names = [f"{node.module}.{item.name}" for item in node.names]
        found = [name for name in names if _libraries.needs_cuda(name) is not None and not _replaced(name)]
        if found:
            library = _libraries.of_name(found[0])
            assert library is not None
            yield self._imported(node, ctx, library, ", ".join(found))

    def about(self, name: str) -> bool:
        return _libraries.needs_cuda(name) is not None

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        return self._used(node, ctx)

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        return self._used(node, ctx)

    def _used(self, node: ast.Name | ast.Attribute, ctx: Context) -> Iterator[Finding]:
        parent = ctx.parent(node)
        if not isinstance(node.ctx, ast.Load) or isinstance(parent, ast.Attribute):
            return
        name = ctx.resolve(node)
        library = _libraries.needs_cuda(name) if name is not None else None
        if name is None or library is None or name in library.imports or _replaced(name):
            return
        if _is_test(node, parent) or _references.is_alias(node, ctx):
            return
        kernel = _kernel_under(node, ctx) if _compiles(name, library) else None
        if kernel is not None:
            yield self._kernel(node, ctx, library, name, kernel)
        elif not _in_kernel(node, library, ctx):
            yield self._use(node, ctx, library, name)

    def _use(self, node: ast.expr, ctx: Context, library: _libraries.Library, name: str) -> Finding:
        use = _libraries.use_of(library, name)
        minutes = use.effort if use is not None else library.effort
        named = _sites.in_annotation(node, ctx) or _sites.in_type_test(node, ctx)  # nothing of it runs here
        minutes = min(minutes, _IMPORT) if named else minutes
        row = f"{library.package}.{use.name}" if use is not None else library.of(name)
        return ctx.finding(
            self,
            node,
            f"{name} needs CUDA: {use.what} ({library.package})"
            if use is not None
            else f"{library.of(name)} is used, and needs CUDA: {library.what}",
            support=Support.MANUAL,
            remedy=use.instead if use is not None else library.instead,
            qualified_name=name,
            phase=use.phase if use is not None else library.phase,
            effort=Effort(minutes, f"table libraries, {row}"),
            group=f"type {row}" if named else row,
        )

    def _kernel(
        self,
        node: ast.expr,
        ctx: Context,
        library: _libraries.Library,
        name: str,
        kernel: ast.FunctionDef,
    ) -> Finding:
        """A function under one of the library's decorators is one dependency, whatever it calls of it."""
        lines = (kernel.end_lineno or kernel.lineno) - kernel.lineno
        minutes = _KERNEL_MINUTES + _LINE_MINUTES * lines
        return ctx.finding(
            self,
            node,
            f"{kernel.name} is a kernel for {library.package}: {library.what}",
            support=Support.MANUAL,
            remedy=library.instead,
            qualified_name=name,
            effort=Effort(
                minutes, f"a kernel: {_KERNEL_MINUTES} minutes, and {_LINE_MINUTES} a line of its {lines}"
            ),
        )

    def _imported(self, node: ast.stmt, ctx: Context, library: _libraries.Library, name: str) -> Finding:
        remedy = ""
        if _sites.is_for_type_checkers(node, ctx):
            remedy = "Type checkers alone read it: the program never imports it."
        elif _sites.in_import_guard(node, ctx):
            remedy = "The program goes on without it."
        return ctx.finding(
            self,
            node,
            f"{library.of(name)} needs CUDA: {library.what}",
            support=Support.PORTABLE if remedy else Support.MANUAL,
            remedy=remedy or library.instead,
            qualified_name=name,
            phase=library.phase,
            effort=Effort(0 if remedy else _IMPORT, "an import: the work is where it is used"),
            group=f"import {library.of(name)}",
        )


def _is_test(node: ast.expr, parent: ast.AST | None) -> bool:
    """Whether a name is only asked for: `if flash_attn_func is not None`."""
    return isinstance(parent, _TESTS) or (isinstance(parent, (ast.If, ast.IfExp)) and parent.test is node)


def _kernel_under(node: ast.expr, ctx: Context) -> ast.FunctionDef | None:
    """The function whose decorator a name is."""
    parent = ctx.parent(node)
    outer: ast.AST = node
    if isinstance(parent, ast.Call) and parent.func is node:
        outer, parent = parent, ctx.parent(parent)
    return parent if isinstance(parent, ast.FunctionDef) and outer in parent.decorator_list else None


def _in_kernel(node: ast.AST, library: _libraries.Library, ctx: Context) -> bool:
    """Whether a name stands in a function that the library compiles, or among its decorator's arguments."""
    for parent in ctx.parents(node):
        if isinstance(parent, ast.FunctionDef):
            for decorator in parent.decorator_list:
                name = ctx.resolve(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if name is not None and _libraries.of_name(name) is library and _compiles(name, library):
                    return True
    return False


def _compiles(name: str, library: _libraries.Library) -> bool:
    """Whether a name is a decorator under which the library compiles a function."""
    return name.rpartition(".")[2] in library.kernels


def _all_replaced(node: ast.Import, library: _libraries.Library, ctx: Context) -> bool:
    """Whether everything that the file uses of a package is rewritten by other rules."""
    *_, module = ctx.parents(node)
    used = _used(module, ctx).get(library.package, ())  # type: ignore[arg-type]  # hashed by identity
    return bool(used) and all(_replaced(name) for name in used)


@lru_cache(maxsize=4)  # asked for each import of a module in turn
def _used(module: ast.AST, ctx: Context) -> dict[str, set[str]]:
    """By library, the longest names of it that a module uses."""
    used: dict[str, set[str]] = {}
    for item in walk(module):
        name = ctx.resolve(item) if isinstance(item, (ast.Attribute, ast.Name)) else None
        library = _libraries.of_name(name) if name is not None else None
        if name is None or library is None:
            continue
        longer = ctx.parent(item)
        if not (isinstance(longer, ast.Attribute) and _libraries.of_name(ctx.resolve(longer) or "")):
            used.setdefault(library.package, set()).add(name)
    return used


def _replaced(name: str) -> bool:
    """Whether a rule rewrites calls of this name."""
    return any(name in _operators.replacements(tables.RUNTIME / folder) for folder in ("ops", "nn"))
