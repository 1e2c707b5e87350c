"""Environment variables of CUDA and NCCL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from portkit.analyzers import _texts
from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule

VARIABLE = re.compile(
    r"(?:(?:CUDA|NCCL|CUBLAS|CUBLASLT|CUDNN|NVTE|NVIDIA(?!_(?:API|NGC|HF)_|_\w*(?:KEY|TOKEN|URL)\b)|NVSHMEM|NVRTC|TORCH_NCCL|TORCH_CUDA|TORCH_CUDNN|TORCH_CUBLAS"
    r"|HOROVOD_GPU|HOROVOD_CUDA|HOROVOD_NCCL|TORCH_ALLOW_TF32|PYTORCH_CUDA|PYTORCH_NVML|PYTORCH_NO_CUDA|TORCHINDUCTOR_CUDA|TF_GPU|TF_FORCE_GPU|TF_CUDNN|FLASH_ATTENTION)_[A-Z0-9_]+"
    r"|(?:FORCE|USE|WITH|NO|BUILD|SKIP|DISABLE|ENABLE|TORCH_USE)_CUDA(?:_[A-Z_]+)?)\Z"
)
# variables of other programs that are about CUDA by their names
_OTHER = re.compile(r"[A-Z0-9_]*(?:CUDA|NUM_GPUS?|N_GPUS?|NGPUS?|GPU_IDS?)(?:_[A-Z0-9_]+)?\Z")
_KNOWN = re.compile(
    r"CUDA_(?:VISIBLE|LAUNCH|DEVICE|HOME|PATH|MODULE|CACHE)|NCCL_|NVTE_|CUBLAS_|PYTORCH_CUDA|TORCH_CUDA"
)
_ASSIGNMENT = re.compile(
    r"(?:^|[\s;&|({])((?:CUDA|NCCL|NVTE|CUBLAS|PYTORCH_CUDA|TORCH_CUDA)_[A-Z0-9_]+)=\S*\s+(?:[\w./{]|\Z)"
)
_TRANSPORT = re.compile(r"^(?:[\w^]+,)*cuda_(?:copy|ipc)(?:,[\w^]+)*\Z")  # of UCX
_CHOOSING = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})
_BUILDING = frozenset(
    {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDNN_HOME", "TORCH_CUDA_ARCH_LIST", "CUDA_ARCH"}
    | {"FORCE_CUDA", "WITH_CUDA", "BUILD_CUDA", "SKIP_CUDA_BUILD", "FLASH_ATTENTION_FORCE_BUILD"}
)
_METHODS = frozenset({"get", "setdefault", "pop", "getenv", "putenv", "unsetenv", "setenv", "delenv"})


class CudaEnvironment(Rule):
    """An environment variable of CUDA or NCCL is read or set.

    What: `os.environ["CUDA_VISIBLE_DEVICES"]`, `os.getenv("NCCL_...")`, `dict(os.environ, CUDA_...="1")`,
    names kept in a constant, commands such as `"CUDA_VISIBLE_DEVICES=0 python ..."`, and so on.
    Why: each vendor has variables of its own: devices are not hidden by another vendor's. The others are
    ignored elsewhere.
    Instead: for the choice of devices, let the launcher set the vendor's variable, or pass an index to
    `pk.device(i)`.
    Safety: nothing is rewritten: the variable must be set before torch looks for devices.
    """

    id = "PK313"
    name = "cuda_environment"
    phase = Phase.FULL_MODEL
    minutes = 10
    triggers = (
        b"cuda",
        b"nccl_",
        b"cublas",
        b"cudnn_",
        b"nvte_",
        b"nvidia_",
        b"nvshmem_",
        b"environ",
        b"getenv",
    )

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        if not isinstance(node.value, str):
            return
        if VARIABLE.match(node.value):
            if _in_environment(node, ctx):
                yield self._variable(node, node.value, ctx)
            elif _is_listed(node, ctx):
                yield self._variable(node, node.value, ctx, listed=True)
        elif (
            _OTHER.match(node.value)
            and _in_environment(node, ctx)
            and not isinstance(ctx.parent(node), ast.Dict)
        ):
            yield ctx.finding(
                self,
                node,
                f"{node.value} is by its name about CUDA",
                support=Support.UNKNOWN,
                remedy="If it switches CUDA on, leave it out where there is none.",
            )
        elif _TRANSPORT.search(node.value) and not _texts.is_shown(node, ctx):
            yield ctx.finding(
                self,
                node,
                f"Messages between processes go through CUDA's memory: {node.value}",
                support=Support.MANUAL,
                remedy="Leave the transport out without CUDA.",
            )
        elif not isinstance(ctx.parent(node), ast.JoinedStr):
            yield from self._command(node, node.value, ctx)

    def visit_JoinedStr(self, node: ast.JoinedStr, ctx: Context) -> Iterable[Finding]:
        parts = (item.value if isinstance(item, ast.Constant) else "0" for item in node.values)
        yield from self._command(node, "".join(map(str, parts)), ctx)

    def visit_keyword(self, node: ast.keyword, ctx: Context) -> Iterable[Finding]:
        """`dict(os.environ, CUDA_VISIBLE_DEVICES="0")`, `os.environ.update(NCCL_DEBUG="INFO")`."""
        call = ctx.parent(node)
        if node.arg is None or not VARIABLE.match(node.arg) or not isinstance(call, ast.Call):
            return
        takes = [call.func, *call.args]
        if any((ctx.resolve(item) or "").startswith("os.environ") or _is_environment(item) for item in takes):
            yield self._variable(node, node.arg, ctx)

    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        """`os.environ[KEY]` where KEY is a constant of the file."""
        if not isinstance(node.ctx, ast.Load) or not _in_environment(node, ctx):
            return
        value = ctx.constant(node)
        if isinstance(value, str) and VARIABLE.match(value):
            yield self._variable(node, value, ctx)

    def _command(self, node: ast.expr, text: str, ctx: Context) -> Iterable[Finding]:
        """A shell command that sets a variable for a program: `CUDA_VISIBLE_DEVICES=0 python train.py`."""
        match = _ASSIGNMENT.search(text)
        if match is None or not _texts.is_command(node, ctx):
            return
        yield self._variable(node, match.group(1), ctx)

    def _variable(self, node: ast.AST, name: str, ctx: Context, listed: bool = False) -> Finding:
        support, remedy = advice(name)
        if listed and support is Support.MANUAL:
            support = Support.UNKNOWN
        return ctx.finding(
            self, node, f"{name} is a variable of CUDA, or of software for it", support=support, remedy=remedy
        )


def advice(name: str) -> tuple[Support, str]:
    """How a use of a variable can be resolved."""
    if name in _CHOOSING:
        return (
            Support.MANUAL,
            "Set the variable of the device in use (ZE_AFFINITY_MASK, HIP_VISIBLE_DEVICES, ...), "
            "or choose with pk.device(i).",
        )
    if name in _BUILDING:
        return Support.MANUAL, "It belongs to the build of CUDA code: not needed without it."
    return Support.PORTABLE, "Ignored elsewhere."


def _is_listed(node: ast.Constant, ctx: Context) -> bool:
    """Whether the name of a variable stands in a list: of those to keep, to pass on, to take away."""
    if not _KNOWN.match(str(node.value)):
        return False
    parent = ctx.parent(node)
    if not isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        return False
    return all(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in parent.elts)


def _in_environment(node: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(node)
    if isinstance(parent, ast.Subscript):
        return ctx.resolve(parent.value) == "os.environ" or _is_environment(parent.value)
    if isinstance(parent, ast.Call) and parent.args[:1] == [node]:
        name = ctx.resolve(parent.func) or ""
        if name.startswith("os."):
            return True
        function = parent.func
        return isinstance(function, ast.Attribute) and (
            function.attr in ("setenv", "delenv")
            or (function.attr in _METHODS and _is_environment(function.value))
        )
    if isinstance(parent, ast.Compare):
        return any(ctx.resolve(side) == "os.environ" for side in parent.comparators)
    return isinstance(parent, ast.Dict) and node in parent.keys


def _is_environment(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return "env" in name.lower()
