"""Tile kernels as Python functions: `@portkit.jit` makes a `JitFunction`, `kernel[grid](...)` launches it."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Collection
from typing import Any, overload

from portkit.errors import KernelError
from portkit.runtime.tile.signature import MISSING, Param


def cdiv(x: int, y: int) -> int:
    """x / y rounded up, for ints."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below n (1 for n < 1)."""
    return 1 << max(0, n - 1).bit_length()


class JitFunction:
    """A kernel, or a function that kernels call.

    `fn` is the Python function, `source` its source text without indentation, `params` its parameters.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        do_not_specialize: Collection[int | str] = (),
        noinline: bool = False,
    ) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.noinline = noinline
        self.params = _params(fn, do_not_specialize)

    @functools.cached_property
    def source(self) -> str:
        """The source text of the function, from its `def` line or first decorator on, without indentation.

        Raises KernelError when Python can't find it (a function made in an interactive session or by `exec`).
        """
        try:
            return textwrap.dedent(inspect.getsource(self.fn))
        except (OSError, TypeError):
            raise KernelError(
                f"the source of kernel `{self.__name__}` can't be found",
                remedy="Define the kernel in a file: the compiler reads its source text.",
            ) from None

    @property
    def __name__(self) -> str:
        return str(self.fn.__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise KernelError(
            f"kernel `{self.__name__}` was called like a function",
            remedy=f"Launch it over a grid: {self.__name__}[grid](...).",
        )

    def __repr__(self) -> str:
        return f"<kernel {self.fn.__module__}.{self.fn.__qualname__}>"


def _params(fn: Callable[..., Any], do_not_specialize: Collection[int | str]) -> tuple[Param, ...]:
    found = []
    for index, (name, parameter) in enumerate(inspect.signature(fn).parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise KernelError(
                f"kernel `{fn.__name__}` has the parameter `{parameter}`",
                remedy="Name every parameter of a kernel.",
            )
        default = MISSING if parameter.default is parameter.empty else parameter.default
        free = name in do_not_specialize or index in do_not_specialize
        found.append(Param(name, _is_constexpr(parameter.annotation), default, specialize=not free))
    return tuple(found)


def _is_constexpr(annotation: object) -> bool:
    """Whether an annotation is `tl.constexpr`, under any name for `tl`, also as a string."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.strip("'\" ").rpartition(".")[2] == "constexpr"


@overload
def jit(fn: Callable[..., Any]) -> JitFunction: ...


@overload
def jit(
    fn: None = None,
    *,
    do_not_specialize: Collection[int | str] | None = None,
    noinline: bool | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    do_not_specialize: Collection[int | str] | None = None,
    noinline: bool | None = None,
    **options: Any,
) -> Any:
    """Make a tile kernel of a function; with and without parentheses.

    `do_not_specialize` names (or numbers) parameters whose values are not looked at when compiling.  Triton's
    other options (`version`, `repr`, `launch_metadata`, `debug`, ...) are accepted and have no effect.
    """
    make = functools.partial(
        JitFunction, do_not_specialize=tuple(do_not_specialize or ()), noinline=bool(noinline)
    )
    return make if fn is None else make(fn)
