"""Environment variables of CUDA and NCCL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule

VARIABLE = re.compile(
    r"(?:CUDA|NCCL|CUBLAS|CUDNN|NVTE|NVIDIA|TORCH_NCCL|TORCH_CUDA|PYTORCH_CUDA|PYTORCH_NVML)_[A-Z0-9_]+\Z"
)
_CHOOSING = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})
_BUILDING = frozenset(
    {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDNN_HOME", "TORCH_CUDA_ARCH_LIST", "CUDA_ARCH"}
)
_METHODS = frozenset({"get", "setdefault", "pop", "getenv", "putenv", "unsetenv", "setenv", "delenv"})


class CudaEnvironment(Rule):
    """An environment variable of CUDA or NCCL is read or set.

    What: `os.environ["CUDA_VISIBLE_DEVICES"]`, `os.getenv("NCCL_...")`, and so on.
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
    triggers = (b"cuda_", b"nccl_", b"cublas_", b"cudnn_", b"nvte_", b"nvidia_")

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        if (
            not isinstance(node.value, str)
            or not VARIABLE.match(node.value)
            or not _in_environment(node, ctx)
        ):
            return
        support, remedy = advice(node.value)
        yield ctx.finding(
            self, node, f"{node.value} is a variable of NVIDIA's software", support=support, remedy=remedy
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


def _in_environment(node: ast.Constant, ctx: Context) -> bool:
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
