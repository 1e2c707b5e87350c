"""x86-64; unless told otherwise with AVX2 and FMA, which every server since 2015 has."""

from __future__ import annotations

from portkit.runtime.targets._target import Target

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
)
