"""Runs a random kernel compiled and interpreted, in guarded memory, and compares every array."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
from kernel_grammar import FLOATS, NAMES, Kernel
from tile_harness import Compiled, build, guarded

import portkit
from portkit.runtime.targets import Target
from portkit.runtime.tile import interpret
from portkit.runtime.tile.source_text import with_source


def jitted(text: str) -> Any:
    """The kernel of a text."""
    space: dict[str, Any] = dict(NAMES)
    exec(compile(text, "<random kernel>", "exec"), space)
    function: FunctionType = space["kernel"]
    return portkit.jit(with_source(function, text))


def check(kernel: Kernel, target: Target | None = None) -> None:
    """Raises AssertionError where compiled code and interpreter differ."""
    made = jitted(kernel.text)
    arguments = [*kernel.arrays, *kernel.scalars]
    func = build(made, arguments, {})
    expected = [array.copy() for array in kernel.arrays]
    interpret.run(func, [*expected, *kernel.scalars], [kernel.programs])
    compiled = Compiled(func, target, each=False)
    for at_end in (True, False):
        actual = [guarded(array, at_end) for array in kernel.arrays]
        compiled.run([*actual, *kernel.scalars], [kernel.programs])
        for number, (got, want) in enumerate(zip(actual, expected, strict=True)):
            _same(got, want, number)


def _same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], number: int) -> None:
    if want.dtype.name in FLOATS:
        rtol = 2e-3 if want.dtype == np.float16 else 4e-6
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                got.astype(np.float64),
                want.astype(np.float64),
                rtol=rtol,
                atol=rtol,
                err_msg=f"array {number}",
            )
    else:
        np.testing.assert_array_equal(got, want, err_msg=f"array {number}")
