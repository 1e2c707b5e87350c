"""LoongArch (LA464) with LASX, or LSX where that is all there is."""

from __future__ import annotations

from portkit.runtime.targets._target import Target

TARGET = Target(
    name="loongarch64",
    triple="loongarch64-unknown-linux-gnu",
    cpu="la464",
    features="+64bit,+f,+d,+ual,+lsx,+lasx",
    levels=(("lasx", 256, 32), ("lsx", 128, 32)),
    abi="lp64d",
)
