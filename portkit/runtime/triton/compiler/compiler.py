"""Compiling from a description of the arguments, as Triton's `ASTSource` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portkit.runtime.tile.handle import CompiledKernel
from portkit.runtime.tile.jit import JitFunction
from portkit.runtime.triton.backends.compiler import BaseBackend, GPUTarget

__all__ = ["ASTSource", "CompiledKernel", "compile", "make_backend", "triton_key"]


class ASTSource:
    """A kernel, the types of its arguments (`{"x": "*fp32", "n": "i32"}`), and its constants by name."""

    def __init__(
        self,
        fn: JitFunction,
        signature: Mapping[str, str],
        constexprs: Mapping[Any, Any] | None = None,
        attrs: Mapping[Any, Any] | None = None,
    ) -> None:
        self.fn = fn
        self.signature = dict(signature)
        self.constants = {_name(fn, key): value for key, value in (constexprs or {}).items()}
        self.attrs = dict(attrs or {})
        self.name = fn.__name__


def _name(fn: JitFunction, key: Any) -> str:
    """Triton names constants by name, by number, or by a path of numbers."""
    if isinstance(key, tuple):
        key = key[0]
    return fn.names[key] if isinstance(key, int) else str(key)


def compile(src: ASTSource, target: Any = None, options: Any = None, **others: Any) -> CompiledKernel:
    """Compile for the machine that this runs on."""
    given = {**{n: t for n, t in src.signature.items() if t != "constexpr"}, **src.constants}
    compiled: CompiledKernel = src.fn.warmup(*(given.get(name) for name in src.fn.names))
    return compiled


def make_backend(target: GPUTarget) -> BaseBackend:
    """What compiles for a target."""
    return BaseBackend(target)


def triton_key() -> str:
    """What identifies this compiler in a cache."""
    from portkit import __version__

    return f"portkit-{__version__}"
