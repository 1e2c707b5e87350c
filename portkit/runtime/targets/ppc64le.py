"""POWER (ISA 2.07 and later, little endian) with VSX."""

from __future__ import annotations

from portkit.runtime.targets._target import Target

TARGET = Target(
    name="ppc64le",
    triple="powerpc64le-unknown-linux-gnu",
    cpu="pwr9",
    features="+altivec,+vsx,+power9-vector",
    levels=(("vsx", 128, 64),),
    abi="elfv2",
    architectures=("powerpc64le",),
    futex=221,
    pause="or 27, 27, 27",
)
