"""IBM Z (z14 and later) with its vector facility, which computes in f32 since the enhancements of z14."""

from __future__ import annotations

from portkit.runtime.targets._target import Target

TARGET = Target(
    name="s390x",
    triple="s390x-unknown-linux-gnu",
    cpu="z14",
    features="+vector,+vector-enhancements-1",
    levels=(("vector-enhancements-1", 128, 32),),
    futex=238,
)
