"""NVIDIA's tools: nvidia-smi, NVML, NVTX."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from portkit.analyzers import _texts
from portkit.finding import Finding, Phase, Support
from portkit.rewriters import _sites
from portkit.rewriters._references import ReferenceRule
from portkit.rule import Context
from portkit.scopes import FUNCTIONS, walk

_MODULES = {
    "pynvml": "Use pk.mem_get_info(), pk.device_count() and pk.device_name().",
    "py3nvml": "Use pk.mem_get_info(), pk.device_count() and pk.device_name().",
    "nvidia_smi": "Use pk.mem_get_info(), pk.device_count() and pk.device_name().",
    "GPUtil": "Use pk.mem_get_info() and pk.device_count().",
    "gpustat": "Use pk.mem_get_info() and pk.device_count().",
    "nvtx": "Mark regions with pk.ranges.range(name).",
}
_PROFILERS = frozenset({"torch.autograd.profiler.profile", "torch.profiler.profile"})
_COLUMN = re.compile(r"(?:self_)?cuda_(?:time|memory_usage)(?:_total)?(?:_str)?\Z")
_COMMAND = re.compile(r"(?:^|[\s;&|/`(])nvidia-smi\b")
_TOOL = re.compile(  # as the first word of a command; any path may stand before it
    r"(?:(?:^|[;&|`(]\s*|=\S*\s+)(?:[^\s;&|`(]*/)?)(?P<tool>nvcc|ptxas|nsys|ncu|nvprof|cuobjdump|nvdisasm|cuda-memcheck"
    r"|compute-sanitizer|cuda-gdb|nvidia-cuda-mps-control|nvidia-modprobe|dcgmi)(?:\.exe)?(?=\s|$)"
)
_LIBRARY = re.compile(
    r"(?:.*/)?(?:lib)?(?:cuda|cudart|nccl|cublas\w*|cudnn\w*|nvidia-ml|nvml|nvrtc|cufft|curand|cusolver|nvToolsExt|nvcuda"
    r"|cudart64\w*)(?:\.(?:so|dll|dylib)[\w.]*)?\Z"
)
_COMPILERS = frozenset({"nvcc", "ptxas", "cuobjdump", "nvdisasm"})
_EVENTS = frozenset({"torch.autograd.DeviceType.CUDA", "torch._C._autograd.DeviceType.CUDA"})
_LOOKS = frozenset({"shutil.which", "os.path.isfile", "os.path.exists", "os.access"})
_ACTIVITY = "torch.profiler.ProfilerActivity.CUDA"


class NvidiaTool(ReferenceRule):
    """The program calls a tool of NVIDIA's.

    What: `nvidia-smi`, `nvcc`, `nsys` and others in commands, `pynvml`, `GPUtil`, `nvtx`, `torch.cuda.nvtx`,
    `torch.cuda.profiler`, `ProfilerActivity.CUDA`, `DeviceType.CUDA` of its events, tables of the profiler
    sorted by `cuda_time_total`, libraries that `ctypes` loads (`libcudart.so`).
    Why: they are missing elsewhere; a missing command raises FileNotFoundError.
    Instead: ranges of `torch.cuda.nvtx` become `pk.ranges`, which are NVTX on CUDA and regions of torch's
    profiler elsewhere. For the rest: `pk.mem_get_info()`, `pk.device_count()`, `pk.device_name()`;
    `torch.profiler.supported_activities()`.
    Safety: the same ranges on CUDA. Imports whose failure is handled, and commands that are looked for before
    they are run, count as portable.
    """

    id = "PK314"
    name = "nvidia_tool"
    phase = Phase.FULL_MODEL
    triggers = (
        b"nvidia-",
        *(
            b"nvcc",
            b"ptxas",
            b"nsys",
            b"ncu ",
            b'ncu"',
            b"ncu'",
            b"nvprof",
            b"cuobjdump",
            b"nvdisasm",
            b"dcgmi",
        ),
        *(b"cuda-memcheck", b"compute-sanitizer", b"cuda-gdb"),
        b"nvml",
        b"nvtx",
        b"gputil",
        b"gpustat",
        b"nvidia_smi",
        b"profile",
        b"cudart",
        b"cuda_time",
        b"ctypes",
        b"cuda_memory_usage",
        b"devicetype",
    )
    what = "{name} is a tool of NVIDIA's"

    def visit_Import(self, node: ast.Import, ctx: Context) -> Iterable[Finding]:
        for item in node.names:
            yield from self._module(node, item.name, ctx)

    def visit_ImportFrom(self, node: ast.ImportFrom, ctx: Context) -> Iterable[Finding]:
        if not node.level and node.module:
            yield from self._module(node, node.module, ctx)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        yield from super().visit_Call(node, ctx)
        if ctx.resolve(node.func) not in _PROFILERS:
            return
        for keyword in node.keywords:
            if keyword.arg == "use_cuda" and not _is_off(keyword.value):
                yield ctx.finding(
                    self,
                    keyword,
                    "The profiler is asked for CUDA's activities",
                    support=Support.MANUAL,
                    remedy="Use torch.profiler.profile, whose default activities fit the machine.",
                )

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        yield from super().visit_Attribute(node, ctx)
        if node.attr == "CUDA" and ctx.resolve(node) == _ACTIVITY:
            yield ctx.finding(
                self,
                node,
                "The profiler is asked for CUDA's activities",
                support=Support.MANUAL,
                remedy="Pass activities=torch.profiler.supported_activities(), which fits the machine.",
                qualified_name=_ACTIVITY,
            )

        if node.attr == "CUDA" and ctx.resolve(node) in _EVENTS:
            yield ctx.finding(
                self,
                node,
                "The profiler's events are taken by a type of device that is CUDA's",
                support=Support.MANUAL,
                remedy="Ask for what is not DeviceType.CPU.",
            )
        if _COLUMN.match(node.attr) and isinstance(node.ctx, ast.Load) and ctx.resolve(node) is None:
            yield ctx.finding(
                self,
                node,
                f"The profiler's {node.attr} is deprecated, and counts CUDA by name",
                support=Support.MANUAL,
                remedy=f"Use {node.attr.replace('cuda', 'device')}.",
            )

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        if not isinstance(node.value, str) or isinstance(ctx.parent(node), (ast.Expr, ast.JoinedStr)):
            return
        text = node.value.strip()
        if _COMMAND.search(text):
            yield from self._command(node, text, ctx)
        elif (tool := _TOOL.search(text)) is not None:
            yield from self._tool(node, tool["tool"], ctx)
        elif _LIBRARY.match(text) and _is_loaded(node, ctx):
            yield ctx.finding(
                self,
                node,
                f"{text} is a library of NVIDIA's",
                support=Support.MANUAL,
                remedy='Load it only where pk.device_type() is "cuda", with another way beside it.',
            )
        elif _COLUMN.match(text):
            sorts = _sorts(node, ctx)
            yield ctx.finding(
                self,
                node,
                f"The profiler's column {text} names CUDA",
                support=Support.PORTABLE if sorts else Support.MANUAL,
                remedy="Tables read it as the column of the device in use."
                if sorts
                else f"Use {text.replace('cuda', 'device')!r}.",
            )

    def visit_JoinedStr(self, node: ast.JoinedStr, ctx: Context) -> Iterable[Finding]:
        text = "".join(str(item.value) if isinstance(item, ast.Constant) else "0" for item in node.values)
        if _COMMAND.search(text):
            yield from self._command(node, text.strip(), ctx)
        elif (tool := _TOOL.search(text.strip())) is not None:
            yield from self._tool(node, tool["tool"], ctx)

    def _command(self, node: ast.expr, text: str, ctx: Context) -> Iterator[Finding]:
        starts = text.startswith("nvidia-smi") or text.partition(" ")[0].endswith("/nvidia-smi")
        if _texts.is_shown(node, ctx) or not (starts or _texts.is_command(node, ctx)):
            return
        looked_for = _is_looked_for(node, ctx)
        yield ctx.finding(
            self,
            node,
            "nvidia-smi is a tool of NVIDIA's",
            support=Support.PORTABLE if looked_for else Support.MANUAL,
            remedy="Use pk.mem_get_info(), pk.device_count(), pk.device_name(), or catch the error.",
        )

    def _tool(self, node: ast.expr, tool: str, ctx: Context) -> Iterator[Finding]:
        """A compiler or profiler of NVIDIA's, where it is run: keys and options are named so too."""
        if _texts.is_shown(node, ctx):
            return
        if not (_is_run(node, ctx) or (_is_first(node, ctx) and _texts.is_command(node, ctx))):
            return
        looked_for = _is_looked_for(node, ctx)
        yield ctx.finding(
            self,
            node,
            f"{tool} is a tool of NVIDIA's",
            support=Support.PORTABLE if looked_for else Support.MANUAL,
            remedy="It is only run where it is found."
            if looked_for
            else "Run it only where shutil.which finds it."
            if tool in _COMPILERS
            else "Use torch.profiler, or the vendor's tool.",
        )

    def _module(self, node: ast.stmt, name: str, ctx: Context) -> Iterable[Finding]:
        remedy = _MODULES.get(name.partition(".")[0])
        if remedy is None:
            return
        guarded = _sites.in_import_guard(node, ctx)
        yield ctx.finding(
            self,
            node,
            f"{name} is a tool of NVIDIA's",
            support=Support.PORTABLE if guarded else Support.MANUAL,
            remedy="The program goes on without it." if guarded else remedy,
            qualified_name=name,
        )


def _is_looked_for(node: ast.AST, ctx: Context) -> bool:
    """Whether a command is looked up, or only run where one was found."""
    child = node
    kept = ""
    for parent in ctx.parents(node):
        if isinstance(parent, ast.Call) and ctx.resolve(parent.func) in _LOOKS:
            return True
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            kept = parent.targets[0].id
        test = parent.test if isinstance(parent, (ast.If, ast.IfExp)) else None
        if test not in (None, child) and any(_looks(item, "", ctx) for item in walk(test)):
            return True
        if isinstance(parent, FUNCTIONS):
            return bool(kept) and any(_looks(item, kept, ctx) for item in walk(parent))
        child = parent
    return False


def _looks(node: ast.AST, name: str, ctx: Context) -> bool:
    """Whether a call asks if there is a file or command: the one kept under `name`, if that is given."""
    if not isinstance(node, ast.Call) or ctx.resolve(node.func) not in _LOOKS:
        return False
    return not name or any(isinstance(item, ast.Name) and item.id == name for item in node.args)


def _is_first(node: ast.expr, ctx: Context) -> bool:
    """Whether a text may be a command or its first word: no key, no option, no word behind another."""
    parent = ctx.parent(node)
    if isinstance(parent, (ast.List, ast.Tuple)):
        position = parent.elts.index(node)
        return not position or ctx.constant(parent.elts[position - 1]) == "sudo"
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "join":
        return False  # a part of a path
    return not isinstance(parent, (ast.Dict, ast.Subscript, ast.Compare, ast.Set))


def _is_run(node: ast.expr, ctx: Context) -> bool:
    """Whether a name is that of a file in a folder (`home + "/bin/nvcc"`), or is looked up as a command."""
    if isinstance(node, ast.Constant) and str(node.value).endswith("bin/nvcc"):
        return True
    parent = ctx.parent(node)
    if not isinstance(parent, ast.Call) or node not in parent.args:
        return False
    name = ctx.resolve(parent.func)
    if name == "os.path.join":
        before = parent.args[parent.args.index(node) - 1]
        return isinstance(before, ast.Constant) and str(before.value).endswith("bin")
    return name == "shutil.which"


def _is_off(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _sorts(node: ast.expr, ctx: Context) -> bool:
    """Whether a column's name is what a table of the profiler is sorted by."""
    parent = ctx.parent(node)
    return isinstance(parent, ast.keyword) and parent.arg == "sort_by"


def _is_loaded(node: ast.expr, ctx: Context) -> bool:
    """Whether a name is that of a shared library: given to ctypes."""
    child: ast.AST = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.Call) and child in parent.args:
            name = ctx.resolve(parent.func) or ""
            if name != "os.path.join":
                return name.startswith(("ctypes.", "_ctypes."))
        elif not isinstance(parent, (ast.BinOp, ast.JoinedStr)):  # `home + "/lib64/libcudart.so"`
            return False
        child = parent
    return False
