"""Which operators portkit has, and which names of other libraries each of them replaces: read as data."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_RUNTIME = Path(__file__).parent / "runtime"
_FOLDERS = ("ops", "nn")


@dataclass(frozen=True)
class Portable:
    """The portable counterpart of a name in another library."""

    name: str  # of the callable: "softmax", "LayerNorm"
    folder: str  # "ops" | "nn"
    operator: str  # "softmax", "layer_norm"
    forward: bool
    backward: bool

    def __str__(self) -> str:
        return f"{self.folder}.{self.name}"


@cache
def table() -> Mapping[str, Portable]:
    """Qualified name in another library → its counterpart."""
    found: dict[str, Portable] = {}
    for folder in _FOLDERS:
        for file in sorted((_RUNTIME / folder).glob("*.toml")):
            data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
            forward, backward = bool(data.get("forward")), bool(data.get("backward"))
            one = Portable(data["name"], folder, file.stem, forward, backward)
            found.update({item["name"]: one for item in data.get("replaces", ())})
    return found


def operators(names: Iterable[str]) -> list[str]:
    """The portable operators that stand for these qualified names, in order, each once."""
    known = table()
    return sorted({known[name].operator for name in names if name in known})
