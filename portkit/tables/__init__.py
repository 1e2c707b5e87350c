"""Facts about other libraries that rules read: one TOML file a subject, no code."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
RUNTIME = FOLDER.parent / "runtime"


@cache
def load(name: str) -> dict[str, Any]:
    """The table `name`.toml of this folder."""
    return read(FOLDER / f"{name}.toml")


@cache
def packages() -> frozenset[str]:
    """Top-level packages whose names mean something to the rules: torch, Triton and the CUDA libraries."""
    found = {
        name.partition(".")[0]
        for path in (FOLDER / "libraries").glob("*.toml")
        for entry in read(path)["package"]
        for name in entry["imports"]
    }
    return frozenset({"torch", "triton", *found})


def read(path: Path) -> dict[str, Any]:
    """One TOML file as a dictionary."""
    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return table
