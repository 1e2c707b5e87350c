"""A compiled kernel as libraries keep it: launched again without looking at its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portkit.runtime.tile.jit import JitFunction


class CompiledKernel:
    """One specialisation of a kernel.

    `handle[grid](*args)` launches it; `args` are all arguments, in order, or those that are no constants.
    """

    n_regs = 0
    n_spills = 0
    n_max_threads = 1

    def __init__(self, kernel: JitFunction, launcher: Any, values: Sequence[Any]) -> None:
        self.kernel = kernel
        self.launcher = launcher
        self.values = tuple(values)
        self.name = kernel.__name__
        self.function = getattr(launcher, "symbol", 0)
        options = {"num_warps": 1, "num_stages": 1, "num_ctas": 1, "shared": 0}
        self.metadata = SimpleNamespace(name=self.name, **options)
        self.src = SimpleNamespace(fn=kernel)

    @property
    def compiled(self) -> Any:
        """The object code."""
        return self.launcher.compiled

    @functools.cached_property
    def asm(self) -> dict[str, Any]:
        """The stages as text: `ttir` is the tile IR."""
        return self.launcher.stages()  # type: ignore[no-any-return]

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return functools.partial(self._launch, grid)

    def run(self, *args: Any, grid: Any = (1,), **options: Any) -> Any:
        """Launch it over a grid."""
        return self._launch(grid, *args)

    def _launch(self, grid: Any, /, *args: Any, **options: Any) -> None:
        if len(args) != len(self.values):
            given = iter(args)
            fixed = self.kernel.constant_places
            args = tuple(v if f else next(given) for v, f in zip(self.values, fixed, strict=True))
        self.kernel.launch(grid, args, {})
