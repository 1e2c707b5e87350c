"""AArch64 with NEON: fixed 128-bit vectors, also on processors that have SVE."""

from __future__ import annotations

from portkit.runtime.targets._target import Target

TARGET = Target(
    name="aarch64",
    triple="aarch64-unknown-linux-gnu",
    cpu="generic",
    features="+neon,+fp-armv8",
    levels=(("neon", 128, 32),),
    f16_feature="fullfp16",
    bf16_feature="bf16",
    architectures=("arm64",),
    pause="yield",
)
