"""CUDA code that is compiled at build or import time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from portkit.analyzers import _cuda_text, _libraries, _texts
from portkit.finding import Edit, Finding, Phase, Support, Wrap
from portkit.rewriters import _sites
from portkit.rule import Context, Rule, named
from portkit.scopes import walk

_EXTENSION = "torch.utils.cpp_extension."
_LAZY = "Load it where it is needed, under a test for CUDA, with torch operators otherwise."
_BUILDS = {
    "CUDAExtension": "Build a CppExtension where there is no CUDA, or port the kernels with @portkit.jit.",
    "load": _LAZY,
    "load_inline": _LAZY,
}
_FUNCTION = re.compile(
    r"(?:to|move|is|has|use|with|get|set|check|requires?|skip)_|.*_(?:to|if|no|on|for)_cuda"
)
_HOST = re.compile(  # C++ that calls CUDA: text that speaks of it has no such marks
    r"#\s*include\s*[<\"](?:cuda|cub/|cutlass/|ATen/cuda|c10/cuda)|\bgetCurrentCUDAStream\(|\bcuda(?:Stream|Error|Event)_t\s+\w|<<<[^<>]*>>>\s*\(|\bcuda[A-Z]\w+\([^)]*\);"
)
_PLACES = frozenset({"CUDA_HOME", "_find_cuda_home", "CUDNN_HOME", "_join_cuda_home"})
_OF_ROCM = frozenset(
    {
        *("ROCM_HOME", "HIP_HOME", "MIOPEN_HOME", "ROCM_VERSION", "_find_rocm_home", "_join_rocm_home"),
        *("IS_HIP_EXTENSION", "COMMON_HIP_FLAGS", "COMMON_HIPCC_FLAGS"),
    }
)
_HOMES = frozenset(f"{_EXTENSION}{name}" for name in ("CUDA_HOME", "ROCM_HOME"))
_PORTABLE = frozenset({"BuildExtension", "CppExtension"})
_NEUTRAL = frozenset(
    {
        *("include_paths", "library_paths", "IS_WINDOWS", "IS_LINUX", "IS_MACOS", "LIB_EXT", "EXEC_EXT"),
        *("is_ninja_available", "verify_ninja_availability", "get_cxx_compiler", "get_default_build_root"),
        "_get_build_directory",
        *("check_compiler_ok_for_platform", "get_compiler_abi_compatibility_and_version"),
        *("CLIB_PREFIX", "CLIB_EXT", "SHARED_FLAG", "SUBPROCESS_DECODE_ARGS", "COMMON_MSVC_FLAGS"),
    }
)
_SILENT = (
    "Where there is no compiler for CUDA or ROCm, the build no longer stops: the package is installed "
    "without the extension, and what imports it fails later if nothing takes its place."
)
_OTHER = (Support.PORTABLE, "It says nothing of CUDA: builds for ROCm alone use it.")
_WITHOUT = (Support.MANUAL, "It is None without CUDA: build without the CUDA sources then.")
_KEEP = (Support.PORTABLE, "Keep it: sources that are C++ alone need nothing else.")
_LOOK = (Support.UNKNOWN, "See whether it is reached where there is no CUDA.")
_LOADED = (Support.UNKNOWN, "If it does, load it under a test for CUDA, with torch operators otherwise.")
_REMOVED = (Support.MANUAL, "Build the code with torch.utils.cpp_extension, or port it to torch operators.")


class CudaExtensionBuild(Rule):
    """CUDA code is compiled when the package is built or imported.

    What: `CUDAExtension` in setup.py; `torch.utils.cpp_extension.load` and `load_inline` of CUDA sources;
    `CUDA_HOME`; `torch.ops.load_library`; CUDA C++ in a string, each of its kernels, and what launches them;
    modules whose name ends with `_cuda`.
    Why: the build, or even the import, fails where there is no nvcc.
    Instead: port the kernels (`@portkit.jit`, or torch operators), and build or load the extension only where
    there is CUDA.
    A list of nothing but `CUDAExtension(...)` becomes `([...] if CUDA_HOME or ROCM_HOME else [])`.
    Safety: the same where there is a compiler for CUDA or ROCm. Elsewhere the build leaves the extensions out
    instead of stopping, which needs a review. Everything else is left to a person.
    """

    id = "PK315"
    name = "cuda_extension_build"
    phase = Phase.FULL_MODEL
    stops_import = True
    minutes = 120
    triggers = (
        b"cpp_extension",
        b"cudaextension",
        b"load_inline",
        *(b"__global__", b"<<<", b"getcurrentcudastream", b"cudastream_t", b"#include"),
        b"_cuda",
        b"_ext",
        b"load_library",
        b"utils.ffi",
    )

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node.func) or ""
        last = name.removeprefix(_EXTENSION)
        if not name.startswith(_EXTENSION) or last not in _BUILDS or not _has_cuda(node, last, ctx):
            return
        if last == "CUDAExtension" and isinstance(ctx.parent(node), ast.List):
            if not _is_left_out(node, ctx):
                yield self._listed(node, name, ctx)
            return
        early = last != "CUDAExtension" and _sites.at_import_time(node, ctx)
        yield ctx.finding(
            self,
            node,
            f"{name} compiles CUDA code" + (" when the module is imported" if early else ""),
            support=Support.MANUAL,
            remedy=_BUILDS[last],
            qualified_name=name,
        )

    def _listed(self, node: ast.Call, name: str, ctx: Context) -> Finding:
        """`[CUDAExtension(...)]`, which may be left out of a build without becoming another program."""
        whole = ctx.parent(node)
        assert isinstance(whole, ast.List)
        module, imports = ctx.use(_EXTENSION.rstrip("."))
        test = f"{module}.CUDA_HOME or {module}.ROCM_HOME"
        support, remedy, edits = Support.MANUAL, _BUILDS["CUDAExtension"], list[Edit]()
        if _is_optional(whole, ctx):
            support, remedy = Support.PORTABLE, "The package is built without it where nothing compiles it."
        elif ctx.guard(node) is None and all(_is_extension(item, ctx) for item in whole.elts):
            remedy = f"Build it only if {test}."
            if whole.elts[0] is node:  # the others of the list go with it
                support = Support.REVIEW
                edits = [Wrap(ctx.span(whole), "(", f" if {test} else [])"), *imports]
        return ctx.finding(
            self,
            node,
            f"{name} compiles CUDA code",
            support=support,
            remedy=remedy,
            note=_SILENT if edits else "",
            edits=edits,
            qualified_name=name,
        )

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        if not isinstance(node.value, str) or isinstance(ctx.parent(node), ast.Expr):
            return
        if "__global__" in node.value and "{" in node.value:
            yield from self._kernels(node, node.value, ctx)
        elif _HOST.search(node.value) and not _texts.is_shown(node, ctx, written=False):
            yield ctx.finding(
                self,
                node,
                "A string holds C++ that calls CUDA",
                support=Support.MANUAL,
                remedy="It goes with the kernels that it launches.",
                phase=Phase.OPERATOR,
                group="C++ in strings",
            )
        elif node.value.endswith("_cuda") and isinstance(ctx.parent(node), ast.Call):
            call = ctx.parent(node)
            assert isinstance(call, ast.Call)
            if ctx.resolve(call.func) == "importlib.import_module":
                yield self._module(node, node.value, ctx)

    def _kernels(self, node: ast.Constant, text: str, ctx: Context) -> Iterable[Finding]:
        """CUDA C++ in a string, for `load_inline`, CuPy, PyCUDA or nvrtc: each of its kernels."""
        for kernel in _cuda_text.kernels(_cuda_text.code(text)):
            if kernel.body:
                hard = _cuda_text.features(kernel.body)
                yield ctx.finding(
                    self,
                    node,
                    f"{kernel.name} is a kernel in CUDA C++, in a string"
                    + (f", with {', '.join(hard)}" if hard else ""),
                    support=Support.MANUAL,
                    remedy="Write the kernel with @portkit.jit, or with torch operators.",
                    qualified_name=kernel.name,
                    phase=Phase.OPERATOR,
                )

    def visit_Import(self, node: ast.Import, ctx: Context) -> Iterable[Finding]:
        for item in node.names:
            if item.name.lower().endswith(("_cuda", "._ext")) and _libraries.of_name(item.name) is None:
                yield self._module(node, item.name, ctx)

    def visit_ImportFrom(self, node: ast.ImportFrom, ctx: Context) -> Iterable[Finding]:
        if (node.module or "").startswith("torch."):
            return  # of torch itself, which is there without CUDA too
        compiled = (node.module or "").rpartition(".")[2]
        if (
            node.module
            and (compiled.endswith("_cuda") or compiled == "_ext")
            and _libraries.of_name(node.module) is None
        ):
            yield self._module(node, node.module, ctx)
            return
        package = "." * node.level + (f"{node.module}." if node.module else "")
        for item in node.names:
            name = f"{package}{item.name}"
            if may_be_compiled(item.name) and _libraries.of_name(name) is None:
                yield self._module(node, name, ctx)

    def _module(self, node: ast.AST, name: str, ctx: Context) -> Finding:
        guarded = isinstance(node, ast.stmt) and _sites.in_import_guard(node, ctx)
        return ctx.finding(
            self,
            node,
            f"{name} may be a compiled CUDA extension",
            support=Support.PORTABLE if guarded else Support.UNKNOWN,
            remedy="The program goes on without it."
            if guarded
            else "If it is one, import it where it is needed.",
            qualified_name=name,
        )

    def about(self, name: str) -> bool:
        return name == "torch.ops.load_library" or name.startswith((_EXTENSION, "torch.utils.ffi."))

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        yield from self._place(node, ctx)

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        yield from self._place(node, ctx)

    def _place(self, node: ast.expr, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node) or ""
        last = name.removeprefix(_EXTENSION)
        if last in _PLACES | _OF_ROCM and _is_ours(node, ctx):
            return
        if name == "torch.ops.load_library":
            yield self._told(node, ctx, name, "loads a compiled library, which may hold CUDA code", *_LOADED)
        elif name.startswith("torch.utils.ffi."):
            yield self._told(node, ctx, name, "was removed from torch with version 1.0", *_REMOVED)
        elif not name.startswith(_EXTENSION) or last in _NEUTRAL or last in _BUILDS:
            return
        elif last in _PLACES:
            yield self._told(node, ctx, name, "asks where CUDA's compiler is", *_WITHOUT)
        elif last in _OF_ROCM:
            yield self._told(node, ctx, name, "is about the compiler of ROCm", *_OTHER)
        elif last in _PORTABLE:
            yield self._told(node, ctx, name, "builds with the compilers that there are", *_KEEP)
        elif "." not in last:
            yield self._told(node, ctx, name, "is a part of the build of extensions", *_LOOK)

    def _told(
        self, node: ast.expr, ctx: Context, name: str, what: str, support: Support, remedy: str
    ) -> Finding:
        return ctx.finding(
            self, node, f"{name} {what}", support=support, remedy=remedy, qualified_name=name, group=name
        )


def _is_extension(node: ast.expr, ctx: Context) -> bool:
    return isinstance(node, ast.Call) and ctx.resolve(node.func) == f"{_EXTENSION}CUDAExtension"


def _is_optional(whole: ast.List, ctx: Context) -> bool:
    """Whether a list stands in `[...] if CUDA_HOME or ROCM_HOME else []`."""
    choice = ctx.parent(whole)
    return (
        isinstance(choice, ast.IfExp)
        and choice.body is whole
        and isinstance(choice.orelse, ast.List)
        and not choice.orelse.elts
        and any(_is_place(item, ctx) for item in walk(choice.test))
    )


def _is_left_out(node: ast.Call, ctx: Context) -> bool:
    """Whether the migration made an extension optional."""
    choice = next((item for item in ctx.parents(node) if isinstance(item, ast.IfExp)), None)
    asked = {ctx.resolve(item) for item in walk(choice.test)} if choice is not None else set()
    return asked >= _HOMES


def _is_place(node: ast.AST, ctx: Context) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and (ctx.resolve(node) or "") in _HOMES


def _is_ours(node: ast.expr, ctx: Context) -> bool:
    """Whether a compiler's place is only asked for to leave extensions out."""
    for parent in ctx.parents(node):
        if isinstance(parent, ast.IfExp):
            return isinstance(parent.body, ast.List) and _is_optional(parent.body, ctx)
        if not isinstance(parent, ast.BoolOp):
            return False
    return False


def may_be_compiled(name: str) -> bool:
    """Whether a name may be a compiled module: `points_cuda`, unlike the function `move_to_cuda`."""
    return name == "_ext" or (name.endswith("_cuda") and not _FUNCTION.match(name))


def _has_cuda(node: ast.Call, last: str, ctx: Context) -> bool:
    """Whether a build has CUDA sources, as far as can be seen."""
    if last == "CUDAExtension":
        return True
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if given.keys() & {"cuda_sources", "extra_cuda_cflags", "with_cuda", None}:
        return True
    sources = given.get("sources") or (node.args[1] if len(node.args) > 1 else None)
    if sources is None or last == "load_inline":
        return last != "load_inline"
    texts = [item.value for item in walk(sources) if isinstance(item, ast.Constant)]
    return not texts or any(str(text).endswith((".cu", ".cuh")) for text in texts)
