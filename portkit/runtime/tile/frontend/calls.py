"""Calls inside a kernel: functions of the language, methods of tiles, @jit functions, Python on constants."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any

from portkit import plugins
from portkit.errors import KernelError
from portkit.runtime.tile import ir, language
from portkit.runtime.tile.frontend.context import Context
from portkit.runtime.tile.frontend.semantics import describe
from portkit.runtime.tile.language._base import constexpr, unwrap

_LANGUAGE = "portkit.runtime.tile.language"
_LIBRARY = "portkit.runtime.tile.frontend.library"
_CONSTANT_BUILTINS = frozenset(
    {
        "abs",
        "bool",
        "float",
        "getattr",
        "hasattr",
        "int",
        "isinstance",
        "len",
        "list",
        "max",
        "min",
        "print",
        "round",
        "str",
        "sum",
        "tuple",
    }
)
_BUILTIN_TILES = {"abs": "abs", "max": "maximum", "min": "minimum"}  # Python's own names, on tiles
_HOST = {"cdiv", "next_power_of_2"}


@dataclass(frozen=True)
class Method:
    """A function of the language bound to a tile, as in `x.to`, or to a tensor descriptor."""

    function: Callable[..., Any]
    value: Any


@lru_cache(maxsize=1)
def handlers() -> dict[str, Callable[..., Any]]:
    """What emits the operations of each function of the language, by name: the modules of `library/`."""
    found: dict[str, Callable[..., Any]] = {}
    for module in plugins.modules(_LIBRARY):
        found.update(getattr(module, "TABLE", {}))
        for name, function in vars(module).items():
            own = isinstance(function, FunctionType) and function.__module__ == module.__name__
            if own and not name.startswith("_"):
                found[name.rstrip("_")] = function
    return found


def is_language(module: str) -> bool:
    """Whether a module is part of the tile language."""
    return module == _LANGUAGE or module.startswith(f"{_LANGUAGE}.")


def language_function(name: str) -> Callable[..., Any]:
    """The declaration of a function of the language."""
    function: Callable[..., Any] = getattr(language, name, None) or getattr(language.math, name)
    return function


@lru_cache(maxsize=1)
def methods() -> tuple[str, ...]:
    """Names that tiles have as methods: functions whose first parameter is a tile, but for special ones."""
    names = ["to"]
    for name in handlers():
        declared = getattr(language, name, None) or getattr(language.math, name, None)
        first = next(iter(inspect.signature(declared).parameters), "") if declared else ""
        special = declared is not None and declared.__module__.endswith("._special")
        if first in ("input", "x", "a", "src") and not special:
            names.append(name)
    return tuple(names)


def method(name: str) -> Callable[..., Any] | None:
    """The function behind a method of tiles, or None."""
    if name not in methods():
        return None
    return language_function("cast" if name == "to" else name)


def call(ctx: Context, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call; raises KernelError for what a kernel may not call."""
    if isinstance(function, Method):
        return call(ctx, function.function, [function.value, *args], kwargs)
    if function is constexpr:
        return _constexpr(args)
    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", None) or ""
    if is_language(module) and not getattr(function, "constexpr_function", False):
        return _language(ctx, function, name, args, kwargs)
    if name in _HOST and module.startswith("portkit.runtime."):
        return _host(ctx, function, name, args, kwargs)
    target = jit_target(function)
    if target is not None:
        return ctx.inline(ctx, target, args, kwargs)
    return _python(ctx, function, name, args, kwargs)


def jit_target(function: Any) -> FunctionType | None:
    """The Python function under any stack of jit, autotune and heuristics; None for anything else."""
    if isinstance(function, FunctionType) or not hasattr(function, "fn"):
        return None
    while not isinstance(function, FunctionType) and hasattr(function, "fn"):
        function = function.fn
    return function if isinstance(function, FunctionType) else None


def _constexpr(args: list[Any]) -> Any:
    value = args[0] if args else None
    if isinstance(value, ir.Value):
        raise KernelError(
            f"{describe(value)} is not a constant", remedy="tl.constexpr takes what is known when compiling."
        )
    return value


def _language(ctx: Context, function: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if name == "pointer_type":
        return ir.Pointer(args[0] if args else kwargs["element_ty"])
    handler = handlers().get(name)
    if handler is None:
        raise KernelError(
            f"portkit does not support tl.{name} {'here' if name.endswith('range') else 'yet'}",
            remedy="Ranges stand in a `for` line." if name.endswith("range") else "",
        )
    declared = inspect.signature(function)
    try:
        bound = declared.bind(*args, **kwargs)
    except TypeError as error:
        raise KernelError(f"tl.{name}{declared}: {error}") from error
    bound.apply_defaults()
    return handler(ctx.sem, **bound.arguments)


def _host(ctx: Context, function: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not any(isinstance(a, ir.Value) for a in args):
        return function(*args, **kwargs)
    if name != "cdiv":
        raise KernelError(f"{name} needs constants", remedy="Compute it on the host, and pass the result.")
    return _language(ctx, language.cdiv, "cdiv", args, kwargs)


def _about(ctx: Context, name: str, args: list[Any]) -> Any:
    """`getattr`, `hasattr` and `isinstance`, which see tiles and types as the kernel does."""
    from portkit.runtime.tile.frontend import introspect

    if name == "isinstance":
        return _is_instance(args[0], args[1])
    try:
        found = introspect.attribute(ctx, args[0], args[1])
    except KernelError:
        if name == "hasattr":
            return False
        if len(args) == 3:
            return args[2]
        raise
    return True if name == "hasattr" else found


def _is_instance(value: Any, kinds: Any) -> bool:
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if kind is language.tensor:
            if isinstance(value, ir.Value):
                return True
        elif kind is constexpr:
            if not isinstance(value, (ir.Value, tuple)):
                return True
        elif not isinstance(value, ir.Value) and isinstance(value, kind):
            return True
    return False


def _python(ctx: Context, function: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    runtime = any(isinstance(a, ir.Value) for a in [*args, *kwargs.values()])
    is_builtin = bool(name) and getattr(builtins, name, None) is function
    if is_builtin and name in ("getattr", "hasattr", "isinstance"):
        return _about(ctx, name, args)
    if is_builtin and name == "print":
        return call(ctx, language.device_print, args, kwargs)
    if is_builtin and runtime and name in _BUILTIN_TILES:
        return call(ctx, language_function(_BUILTIN_TILES[name]), args, kwargs)
    record = isinstance(function, type) and issubclass(function, tuple)  # a named tuple may hold tiles
    if runtime and not record and name not in ("len", "isinstance"):
        raise KernelError(
            f"{describe(function)} is ordinary Python and can't take a tile",
            remedy="Put @portkit.jit on it, so that it is compiled into the kernel.",
        )
    known = is_builtin and name in _CONSTANT_BUILTINS
    if not (record or known or getattr(function, "constexpr_function", False)):
        raise KernelError(
            f"{describe(function)} is ordinary Python and can't be called in a kernel",
            remedy="Put @portkit.jit on it, or compute its result on the host and pass it as tl.constexpr.",
        )
    try:
        return unwrap(function(*args, **kwargs))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise KernelError(f"`{name}` failed: {error}") from error
