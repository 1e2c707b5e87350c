"""The corpus of kernels in `fixtures/kernels`: each file has kernels and `cases()`, calls with their results.

A case is a dict: id, kernel, grid, args (arrays and numbers, in order), constants (by name), expected (array
by position), and perhaps rtol, atol, and types (dtype by position, for bf16 held in uint16 arrays).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from portkit.runtime.tile import ir
from portkit.runtime.tile.signature import ArgSpec, Runtime, bind, specs_of

FOLDER = Path(__file__).parent.parent / "fixtures" / "kernels"


def load(path: Path) -> Any:
    """Import one file of the corpus."""
    spec = importlib.util.spec_from_file_location(f"fixture_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases() -> Iterator[dict[str, Any]]:
    """Every case of every file."""
    for path in sorted(FOLDER.glob("*.py")):
        yield from load(path).cases()


def specs(case: dict[str, Any]) -> tuple[list[Any], tuple[ArgSpec, ...]]:
    """All arguments of a case in order, and their specifications as a launch would make them."""
    kernel = case["kernel"]
    values = bind(kernel.params, case["args"], case["constants"], kernel.__name__)
    found = list(specs_of(kernel.params, values, kernel.__name__))
    for position, name in case.get("types", {}).items():
        spec = found[position]
        assert isinstance(spec, Runtime)
        found[position] = Runtime(ir.Type(ir.Pointer(ir.DTYPES[name])), spec.facts)
    return values, tuple(found)


def check(case: dict[str, Any], values: list[Any]) -> None:
    """Compare the arrays after a run with what the case expects."""
    for position, expected in case["expected"].items():
        got = values[position]
        np.testing.assert_allclose(
            got.astype(np.float64),
            np.asarray(expected, np.float64),
            rtol=case.get("rtol", 1e-6),
            atol=case.get("atol", 1e-7),
            err_msg=f"argument {position}",
        )
