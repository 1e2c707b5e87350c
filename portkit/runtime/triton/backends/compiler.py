"""The description of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from portkit.runtime.tile.cache import compiler_hash


@dataclass(frozen=True)
class GPUTarget:
    """Backend, architecture and the width of a warp (a CPU has none: 0)."""

    backend: str
    arch: int | str
    warp_size: int


class BaseBackend:
    """Says which targets it compiles for."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether it compiles for a target."""
        return target.backend == "cpu"

    def hash(self) -> str:
        """What identifies the code that it makes."""
        from portkit.runtime.targets import host

        return f"{compiler_hash()}-{host().triple}-{host().cpu}-{host().features}"

    def parse_options(self, options: Mapping[str, Any]) -> SimpleNamespace:
        """The options of a launch; there are no libraries to link with."""
        return SimpleNamespace(**{"extern_libs": (), "backend_name": "cpu", **options})
