"""Branches of a program that are for NVIDIA's devices alone."""

from __future__ import annotations

import ast
import re

from portkit.rule import Context

_VENDOR = re.compile(
    r"cudnn|nccl|nvtx|tf32|capability|fused|flash_attn|apex|xformers|nvidia|bitsandbytes|pynvml|cudart|CUDAGraph|cuda\.graph"
    r"|transformer_engine|triton",
    re.I,
)


def is_vendor(node: ast.AST, ctx: Context) -> bool:
    """Whether the code that a test guards uses something that only NVIDIA has."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.BoolOp):
            if any(_VENDOR.search(ctx.source(item)) for item in parent.values if item is not child):
                return True
        elif isinstance(parent, ast.IfExp):
            return child is parent.test and bool(_VENDOR.search(ctx.source(parent.body)))
        elif isinstance(parent, ast.If):
            return child is parent.test and any(_VENDOR.search(ctx.source(item)) for item in parent.body)
        elif isinstance(parent, (ast.stmt, ast.Call)):
            return False
        child = parent
    return False
