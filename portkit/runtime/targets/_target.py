"""What the compiler knows of a processor: triple, features, vectors, and how to make code for it."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

Level = tuple[str, int, int]  # feature, bits of a vector register, number of vector registers


@dataclass(frozen=True)
class Target:
    """A processor family, or one member of it after `configure`.

    `levels` lists its vector extensions, widest first, as (feature, vector bits, vector registers); a
    processor with none of them gets 64-bit vectors, which LLVM takes apart into scalars.
    `f16_feature` names the feature for arithmetic on f16 vectors, `bf16_feature` the one for conversions from
    f32 to bf16.
    """

    name: str
    triple: str
    cpu: str
    features: str  # LLVM's spelling: "+avx2,+fma"
    levels: tuple[Level, ...]
    f16_feature: str = ""
    bf16_feature: str = ""
    abi: str = ""
    architectures: tuple[str, ...] = field(default=())  # further spellings of the name in triples
    futex: int = 98  # number of Linux's system call; this is that of the generic table
    pause: str = "nop"  # the instruction for a loop that waits
    refused: Callable[[Target], tuple[str, ...]] = lambda target: ()  # features that this process may not use

    @cached_property
    def enabled(self) -> frozenset[str]:
        """The names of the features that are on."""
        last = {f[1:]: f[0] == "+" for f in self.features.split(",") if len(f) > 1}
        return frozenset(name for name, on in last.items() if on)

    def has(self, feature: str) -> bool:
        """Whether a feature is on, by LLVM's name for it (`avx512f`, `neon`, `v`)."""
        return feature in self.enabled

    @cached_property
    def _level(self) -> Level:
        return next((level for level in self.levels if self.has(level[0])), ("", 64, 16))

    @property
    def vector_bits(self) -> int:
        """Width of a vector register in bits."""
        return self._level[1]

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return self._level[2]

    @property
    def vector_feature(self) -> str:
        """The feature that gives the vector registers, empty when there are none."""
        return self._level[0]

    def lanes(self, bits: int) -> int:
        """How many elements of the given width fill a vector register."""
        return max(1, self.vector_bits // bits)

    @property
    def native_f16(self) -> bool:
        """Whether arithmetic on f16 vectors is in hardware."""
        return bool(self.f16_feature) and self.has(self.f16_feature)

    @property
    def native_bf16(self) -> bool:
        """Whether conversions from f32 to bf16 are in hardware."""
        return bool(self.bf16_feature) and self.has(self.bf16_feature)

    def covers(self, triple: str) -> bool:
        """Whether a triple is of this family."""
        return triple.partition("-")[0] in (self.name, *self.architectures)

    @property
    def runs_here(self) -> bool:
        """Whether code for this family can run in this process."""
        return self.covers(platform.machine().lower().replace("amd64", "x86_64") + "-")

    def permitted(self) -> Target:
        """The same target without the features that the system refuses to this process."""
        off = ",".join(f"-{feature}" for feature in self.refused(self))
        return replace(self, features=f"{self.features},{off}") if off else self

    def configure(self, triple: str, cpu: str, features: str) -> Target:
        """The same family with a given triple, processor name and feature string."""
        return replace(self, triple=triple, cpu=cpu, features=features)

    def target_machine(self, opt: int = 3) -> Any:
        """LLVM's code generator for this target; `opt` is its optimisation level, 0 to 3."""
        from portkit.runtime.targets import _llvm

        return _llvm.target_machine(self, opt)

    def assembly(self, text: str, opt: int = 3) -> str:
        """Assembly for LLVM IR text; raises RuntimeError when LLVM does not accept it."""
        from portkit.runtime.targets import _llvm

        module = _llvm.parse(self, text)
        return str(self.target_machine(opt).emit_assembly(module))
