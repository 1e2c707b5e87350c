"""Random numbers by counter: Philox 4x32, with Triton's constants and conversions, so that streams agree."""

from __future__ import annotations

import math
from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.semantics import Semantics, constant, describe

_KEYS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = (0xD2511F53, 0xCD9E8D57)
_SCALE = 4.6566127342e-10  # below 2^-31, so that the largest integer maps below 1


def umulhi(sem: Semantics, x: Any, y: Any) -> ir.Value:
    """The upper 32 bits of a product of 32-bit integers taken as unsigned."""
    a, b = sem.unify(x, y)
    if not a.type.dtype.is_int or a.type.dtype.bits != 32:
        raise KernelError(f"tl.umulhi needs 32-bit integers, not {a.type.dtype}")
    wide = [sem.cast(sem.cast(v, ir.U32), ir.U64) for v in (a, b)]
    high = sem.binary(">>", sem.binary("*", wide[0], wide[1]), sem.const(32, ir.U64))
    return sem.cast(sem.cast(high, ir.U32), a.type.element)


def philox(
    sem: Semantics, seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: int = 10
) -> tuple[ir.Value, ...]:
    """Four u32 for each counter (c0, c1, c2, c3) under a 64-bit seed."""
    key = sem.cast(sem.value(seed), ir.U64)
    k0 = sem.cast(key, ir.U32)
    k1 = sem.cast(sem.binary(">>", key, sem.const(32, ir.U64)), ir.U32)
    c = [sem.cast(sem.value(v), ir.U32) for v in (c0, c1, c2, c3)]
    a, b = (sem.const(v, ir.U32) for v in _ROUNDS)
    steps = [sem.const(v, ir.U32) for v in _KEYS]
    rounds = constant(n_rounds)
    if not isinstance(rounds, int):
        raise KernelError("n_rounds is a constant")
    for _ in range(rounds):
        high_b, high_a = umulhi(sem, b, c[2]), umulhi(sem, a, c[0])
        low_b, low_a = sem.binary("*", b, c[2]), sem.binary("*", a, c[0])
        c = [
            sem.binary("^", sem.binary("^", high_b, c[1]), k0),
            low_b,
            sem.binary("^", sem.binary("^", high_a, c[3]), k1),
            low_a,
        ]
        k0, k1 = sem.binary("+", k0, steps[0]), sem.binary("+", k1, steps[1])
    return tuple(c)


def randint4x(sem: Semantics, seed: Any, offset: Any, n_rounds: int = 10) -> tuple[ir.Value, ...]:
    """Four random u32 for each offset."""
    counter = sem.value(offset)
    if not counter.type.dtype.is_int:
        raise KernelError(f"an offset is an integer, not {describe(counter)}")
    zero = sem.const(0, ir.U32)
    high = zero
    if counter.type.dtype.bits == 64:
        wide = sem.cast(counter, ir.U64)
        high = sem.cast(sem.binary(">>", wide, sem.const(32, ir.U64)), ir.U32)
    return philox(sem, seed, counter, high, zero, zero, n_rounds)


def randint(sem: Semantics, seed: Any, offset: Any, n_rounds: int = 10) -> ir.Value:
    """A random u32 for each offset."""
    return randint4x(sem, seed, offset, n_rounds)[0]


def uint_to_uniform_float(sem: Semantics, x: ir.Value) -> ir.Value:
    """u32 → f32 in [0, 1)."""
    signed = sem.builder.value("bitcast", [x], x.type.with_element(ir.I32)) if x.type.dtype == ir.U32 else x
    folded = sem.select(sem.compare("<", signed, 0), sem.binary("-", sem.negate(signed), 1), signed)
    return sem.binary("*", sem.cast(folded, ir.F32), _SCALE)


def rand4x(sem: Semantics, seed: Any, offset: Any, n_rounds: int = 10) -> tuple[ir.Value, ...]:
    """Four uniform f32 in [0, 1) for each offset."""
    return tuple(uint_to_uniform_float(sem, v) for v in randint4x(sem, seed, offset, n_rounds))


def rand(sem: Semantics, seed: Any, offset: Any, n_rounds: int = 10) -> ir.Value:
    """Uniform f32 in [0, 1)."""
    return uint_to_uniform_float(sem, randint(sem, seed, offset, n_rounds))


def pair_uniform_to_normal(sem: Semantics, u1: ir.Value, u2: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Two uniform numbers → two normal ones (Box and Muller)."""
    safe = sem.builder.value("max", [u1, sem.const(1e-7, ir.F32, u1.type.shape)], u1.type)
    angle = sem.binary("*", u2, 2 * math.pi)
    log = sem.builder.value("log", [safe], safe.type)
    radius = sem.builder.value("sqrt", [sem.binary("*", log, -2.0)], safe.type)
    parts = [sem.builder.value(op, [angle], angle.type) for op in ("cos", "sin")]
    return sem.binary("*", radius, parts[0]), sem.binary("*", radius, parts[1])


def randn4x(sem: Semantics, seed: Any, offset: Any, n_rounds: int = 10) -> tuple[ir.Value, ...]:
    """Four normal f32 for each offset."""
    u = rand4x(sem, seed, offset, n_rounds)
    return (*pair_uniform_to_normal(sem, u[0], u[1]), *pair_uniform_to_normal(sem, u[2], u[3]))


def randn(sem: Semantics, seed: Any, offset: Any, n_rounds: int = 10) -> ir.Value:
    """Normal f32."""
    ints = randint4x(sem, seed, offset, n_rounds)
    u1, u2 = (uint_to_uniform_float(sem, v) for v in ints[:2])
    return pair_uniform_to_normal(sem, u1, u2)[0]
