"""x86-64; unless told otherwise with AVX2 and FMA, which every server since 2015 has."""

from __future__ import annotations

import ctypes
import sys

from portkit.runtime.targets._target import Target

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
_TILES = ("amx-tile", "amx-bf16", "amx-int8")


def _refused(target: Target) -> tuple[str, ...]:
    """Linux gives the tile registers only to a process that has asked for them; others don't give them."""
    if not target.has("amx-tile"):
        return ()
    if sys.platform != "linux":
        return _TILES
    answer = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)
    return _TILES if answer else ()


TARGET = Target(
    name="x86_64",
    triple="x86_64-unknown-linux-gnu",
    cpu="x86-64-v3",
    features="+sse2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2",
    levels=(("avx512f", 512, 32), ("avx", 256, 16), ("sse2", 128, 16)),
    f16_feature="avx512fp16",
    bf16_feature="avx512bf16",
    architectures=("amd64",),
    futex=202,
    pause="pause",
    refused=_refused,
)
