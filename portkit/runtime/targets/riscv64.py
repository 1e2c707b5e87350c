"""RISC-V (RV64GCV): fixed vectors of the least width that the vector extension promises."""

from __future__ import annotations

from portkit.runtime.targets._target import Target

TARGET = Target(
    name="riscv64",
    triple="riscv64-unknown-linux-gnu",
    cpu="generic-rv64",
    features="+m,+a,+f,+d,+c,+v",
    levels=(("zvl512b", 512, 32), ("zvl256b", 256, 32), ("v", 128, 32)),
    f16_feature="zvfh",
    bf16_feature="zvfbfmin",
    abi="lp64d",
)
