"""Talking to the host: values that are printed, and conditions that have to hold."""

from __future__ import annotations

from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.semantics import Semantics, constant, describe


def device_print(sem: Semantics, prefix: str, args: tuple[Any, ...] = (), hex: bool = False) -> None:
    """An operation that prints; pointers as the integers that they are."""
    text = constant(prefix) if isinstance(prefix, ir.Value) else prefix
    if not isinstance(text, str):
        raise KernelError(f"tl.device_print takes a constant text first, not {describe(prefix)}")
    tiles, scalars = [], []
    for arg in args:
        value = sem.value(arg)
        if value.type.is_pointer:
            value = sem.cast(value, ir.I64)
        if value.type.dtype.is_float8:
            value = sem.cast(value, ir.F32)
        scalars.append(int(not value.type.is_tile))
        tiles.append(value if value.type.is_tile else sem.expand(value, 0))
    sem.builder.add("print", tiles, [], prefix=_prefix(text), hex=bool(constant(hex)), scalars=tuple(scalars))


def _prefix(text: str) -> str:
    """With the blanks and the colon that Triton puts around it."""
    text = text if text.endswith(" ") else f"{text} "
    if len(text) > 2 and not text.endswith(": "):
        text = f"{text[:-1]}: "
    return text if text.startswith(" ") else f" {text}"


def device_assert(sem: Semantics, cond: Any, msg: str = "", mask: Any = None) -> None:
    """An operation that checks a condition, in all elements where the mask is true."""
    if not isinstance(msg, str):
        raise KernelError(f"tl.device_assert takes a constant text as its message, not {describe(msg)}")
    holds = sem.truth(cond)
    if mask is not None:
        holds = sem.binary("|", holds, sem.invert(sem.truth(mask)))
    while holds.type.is_tile:
        shape = holds.type.shape[1:]
        holds = sem.builder.value("reduce", [holds], ir.Type(ir.I1, shape), kind="all", axis=0)
    place = "" if sem.builder.loc is None else str(sem.builder.loc)
    sem.builder.add("assert", [holds], [], message=msg, place=place)
