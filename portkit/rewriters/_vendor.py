"""Branches of a program that are for NVIDIA's devices alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from portkit import branches
from portkit.rule import Context
from portkit.scopes import FUNCTIONS, walk

_SPEED = re.compile(r"fused|tf32|cudnn\.(?:benchmark|enabled|deterministic)|float32_matmul_precision", re.I)
_INSTALLS = re.compile(r"require|install|\bpip", re.I)
_OURS = re.compile(r"portkit\.runtime[\w.]*")
_VENDOR = re.compile(
    r"cudnn|nccl|nvtx|tf32|capability|fused|flash_attn|apex|xformers|nvidia|bitsandbytes|pynvml|cudart|CUDAGraph"
    r"|cuda\.graph|transformer_engine|triton|cpp_extension|CUDAExtension|load_inline|nvcc|CUDA_HOME"
    r"|torch\.ops\._caffe2|tensorrt|\btrt\b|onnxruntime|CUDAExecutionProvider|plugin|custom_op"
    r"|\w_cuda\w*\s*[(.]|\bcuda_\w+\s*[(.]"  # functions and modules of the user's that say CUDA
    r"|(?<![\w.])_(?:C|ext|backend)\.\w+\s*\(",  # of a compiled extension, as most call theirs
    re.I,
)

# the same under another name: `from package import _C as ops`
_EXTENSION = re.compile(r"^(?!torch\.).*\b_(?:C|ext|backend)\.\w+\Z")

_BUILD = re.compile(r"\btorch\.version\.(?:cuda|hip)\b")

# what has no other meaning, in a test's reason or name
_NVIDIA = re.compile(
    r"\bcuda[- ]only|cutile|cute_?dsl|cutlass|\bcute\b|blackwell|hopper|(?<![a-z])sm_?\d{2,3}|tensorrt|nvcc",
    re.I,
)


def is_vendor(node: ast.AST, ctx: Context) -> bool:
    """Whether the code that a test guards uses something that only NVIDIA has."""
    if _chooses_package(node, ctx) or _tells_vendor(node, ctx):
        return True
    reached = list(_reached(node, ctx))
    return any(_VENDOR.search(_OURS.sub("", ctx.source(item))) for item in reached) or any(
        _names_implementation(inner, ctx) or _calls_extension(inner, ctx)
        for item in reached
        for inner in walk(item)
    )


def guards_vendor(node: ast.expr, ctx: Context) -> bool:
    """The same of a test itself, or of a use of the name that keeps its answer."""
    return is_vendor(node, ctx) or through_flag(node, ctx)[0] > 0


def _calls_extension(node: ast.AST, ctx: Context) -> bool:
    return isinstance(node, ast.Call) and _EXTENSION.search(ctx.resolve(node.func) or "") is not None


def _tells_vendor(node: ast.AST, ctx: Context) -> bool:
    """Whether the same condition asks whose devices torch is built for: `and torch.version.hip is None`."""
    for parent in ctx.parents(node):
        if isinstance(parent, ast.BoolOp):
            if any(_BUILD.search(ctx.source(value)) for value in parent.values):
                return True
        elif not isinstance(parent, ast.UnaryOp):
            return False
    return False


def _chooses_package(node: ast.AST, ctx: Context) -> bool:
    """Whether a test chooses a package to install: `require("x-gpu" if cuda else "x")`."""
    parent = ctx.parent(node)
    if not isinstance(parent, ast.IfExp) or parent.test is not node:
        return False
    for outer in ctx.parents(parent):
        if isinstance(outer, ast.Call):
            last = outer.func.attr if isinstance(outer.func, ast.Attribute) else getattr(outer.func, "id", "")
            if _INSTALLS.search(last):
                return True
        elif isinstance(outer, ast.stmt):
            return False
    return False


def skips_for_nvidia(node: ast.AST, ctx: Context) -> bool:
    """Whether a test stands in a `skipif(...)` whose reason, or decorated function, is about NVIDIA alone."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.Call) and child is not parent.func and _is_skip(parent):
            said = [item.value for item in ast.walk(parent) if isinstance(item, ast.Constant)]
            if any(_NVIDIA.search(str(text)) for text in said):
                return True
        if isinstance(parent, (*FUNCTIONS, ast.ClassDef)):
            if child not in parent.decorator_list:
                return False
            # a class may hold tests of other things as well
            body = ctx.source(parent) if isinstance(parent, FUNCTIONS) else parent.name
            return _NVIDIA.search(body) is not None
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False


def _is_skip(call: ast.Call) -> bool:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name.lower().startswith("skip")


def through_flag(node: ast.expr, ctx: Context) -> tuple[int, int]:
    """Of a test that is kept in a name: how many of its uses guard NVIDIA's software, and how many do not."""
    statement = ctx.parent(node)
    while isinstance(statement, ast.BoolOp) and isinstance(statement.op, ast.And):
        statement = ctx.parent(statement)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return 0, 0
    target = statement.targets[0]
    owner = next(
        (item for item in ctx.parents(statement) if isinstance(item, (*FUNCTIONS, ast.Module))), None
    )
    if not isinstance(target, ast.Name) or owner is None:
        return 0, 0
    uses = [
        item
        for item in walk(owner)
        if isinstance(item, ast.Name) and item.id == target.id and isinstance(item.ctx, ast.Load)
    ]
    vendor = sum(is_vendor(item, ctx) and not is_speed(item, ctx) for item in uses)
    return vendor, len(uses) - vendor


def _names_implementation(node: ast.AST, ctx: Context) -> bool:
    """`impl == "cuda"`: the word is the name of one of the program's own ways to do something."""
    if not isinstance(node, ast.Compare) or len(node.comparators) != 1:
        return False
    sides = (node.left, node.comparators[0])
    words = [s for s in sides if isinstance(s, ast.Constant) and s.value == "cuda"]
    return len(words) == 1 and not ctx.is_device_sink(words[0])


def is_speed(node: ast.AST, ctx: Context) -> bool:
    """Whether all that the code has of NVIDIA's are switches for speed, which others do without."""
    texts = list(_guarded(node, ctx))
    rest = [_SPEED.sub("", text) for text in texts]
    return any(_SPEED.search(text) for text in texts) and not any(_VENDOR.search(text) for text in rest)


def _guarded(node: ast.AST, ctx: Context) -> Iterator[str]:
    """Sources of what is only reached if a test holds."""
    for item in _reached(node, ctx):
        yield _OURS.sub("", ctx.source(item))


def _reached(node: ast.AST, ctx: Context) -> Iterator[ast.AST]:
    """What runs only where the device is CUDA, as `node` tests it; and what else the test asks for."""
    child, outcome = node, not branches.is_negative(node)
    for parent in ctx.parents(node):
        if isinstance(parent, ast.BoolOp):
            yield from (item for item in parent.values if item is not child)
        elif isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            outcome = not outcome
        elif isinstance(parent, (ast.If, ast.IfExp, ast.Assert)):
            if child is parent.test:
                yield from branches.taken(parent, outcome, ctx)
            return
        elif isinstance(parent, (ast.stmt, ast.Call)):
            return
        child = parent
