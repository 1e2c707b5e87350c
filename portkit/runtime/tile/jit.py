"""Tile kernels as Python functions: `@portkit.jit` makes a `JitFunction`, `kernel[grid](...)` launches it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import re
import sys
import textwrap
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from portkit.errors import KernelError, UsageError
from portkit.runtime.tile import hooks, native
from portkit.runtime.tile.describe import describe
from portkit.runtime.tile.handle import CompiledKernel
from portkit.runtime.tile.signature import (
    CANONICAL,
    DTYPES,
    MISSING,
    ArgSpec,
    ForeignDevice,
    Param,
    bind,
    is_torch_tensor,
    placeholder,
    runtime_types,
    signature_key,
    spec_of,
)
from portkit.runtime.tile.source_text import source_lines, with_source

# Launch options of Triton and its backends; a CPU has no warps, so they change nothing.
OPTIONS = frozenset(
    (
        *("num_warps", "num_stages", "num_ctas", "maxnreg", "cluster_dims", "debug", "sanitize_overflow"),
        *("enable_fp_fusion", "launch_cooperative_grid", "launch_pdl", "ir_override"),
        *("waves_per_eu", "matrix_instr_nonkdim", "kpack"),
    )
)
MAX_GRID = 2**31 - 1

Grid = Any  # an int, up to three ints, or a function of the arguments by name that gives those


def cdiv(x: int, y: int) -> int:
    """x / y rounded up, for ints."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below n (1 for n < 1)."""
    return 1 << max(0, n - 1).bit_length()


class Kernel:
    """What can be launched: `kernel[grid](*args, **kwargs)`.  Libraries derive from it and override `run`."""

    def launch(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run over a grid."""
        return self.run(*args, grid=grid, **kwargs)

    def __getitem__(self, grid: Grid) -> Callable[..., Any]:
        """A function that launches the kernel over `grid`: up to three ints, or a function giving them."""
        return functools.partial(self._over, grid)

    def _over(self, grid: Grid, /, *args: Any, **kwargs: Any) -> Any:
        return self.launch(grid, args, kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """`kernel[grid](*args, **kwargs)`, as Triton also spells it: the grid is one of `kwargs`."""
        raise NotImplementedError

    def warmup(self, *args: Any, grid: Grid = (1,), **kwargs: Any) -> Any:
        """Compile for these arguments and run nothing."""
        raise NotImplementedError


class JitFunction(Kernel):
    """A kernel, or a function that kernels call.

    `fn` is the Python function, `source` its source text without indentation, `params` its parameters.
    Code is made once for each combination of dtypes, constants and facts (alignment, divisibility by 16,
    being 1), never for sizes.  With `PORTKIT_INTERPRET=1` when portkit starts, or inside `interpreted()`, the
    NumPy interpreter runs it instead.
    """

    __name__: str

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        do_not_specialize: Collection[int | str] = (),
        noalias: Collection[str] = (),
        noinline: bool = False,
        debug: bool = False,
        launch_metadata: Callable[..., Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.noinline = noinline
        self.debug = debug
        self.launch_metadata = launch_metadata
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self.params = _params(fn, do_not_specialize, noalias)
        self.names = tuple(p.name for p in self.params)
        self._fixed = tuple(p.is_constexpr for p in self.params)
        self._quick: dict[Any, Any] = {}  # by `describe`'s key
        self._launchers: dict[Any, Any] = {}  # by signature
        self._dispatcher: Any = None  # of quick launches, once something is compiled

    # --- as Triton's libraries ask for it ---

    @property
    def arg_names(self) -> list[str]:
        """The names of the parameters."""
        return list(self.names)

    @property
    def __globals__(self) -> dict[str, Any]:
        """The global names that the function sees."""
        return self.fn.__globals__

    @property
    def constant_places(self) -> tuple[bool, ...]:
        """Which parameters are constants."""
        return self._fixed

    @property
    def constexprs(self) -> list[int]:
        """The numbers of the parameters that are constants."""
        return [index for index, fixed in enumerate(self._fixed) if fixed]

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """Of the Python function."""
        return inspect.signature(self.fn)

    @functools.cached_property
    def cache_key(self) -> str:
        """What identifies the source text."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def src(self) -> str:
        """The source text from `def` on."""
        return self.source[re.search(r"^def\s+\w+\s*\(", self.source, re.MULTILINE).start() :]  # type: ignore[union-attr]

    def _unsafe_update_src(self, text: str) -> None:
        """Compile another text instead of the function's own."""
        assert isinstance(self.fn, types.FunctionType)
        self.fn = with_source(self.fn, text)
        for cached in ("source", "signature", "cache_key"):
            self.__dict__.pop(cached, None)
        self._quick.clear()
        self._launchers.clear()
        self._dispatcher = None

    @functools.cached_property
    def source(self) -> str:
        """The source text of the function, from its first decorator on, without indentation.

        Raises KernelError when Python can't find it (a function made in an interactive session or by `exec`).
        """
        return textwrap.dedent("".join(source_lines(self.fn)[0]))

    def launch(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run every block program of the grid; returns when all have run.

        Tensors on a device without a target go to Triton, if it is installed.  Raises UsageError for missing,
        unknown or surplus arguments and for a grid that is none, KernelError for arguments that the kernel
        can't take and for what can't be compiled.
        """
        if kwargs and kwargs.get("debug") and not self.debug and "debug" not in self.names:
            return self._checking.launch(grid, args, kwargs)
        values = args if len(args) == len(self.names) and not kwargs else self.arguments(args, kwargs)
        if callable(grid):
            grid = grid(dict(zip(self.names, values, strict=True)))
        quick = self._dispatcher
        watched = _MODE["interpret"] or _WATCHING
        if quick is not None and not watched and quick.call(grid, *values) is None:
            return None
        return self._slow(grid, values, args, kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """`kernel[grid](*args, **kwargs)`, as Triton also spells it; gives the compiled kernel."""
        grid = kwargs.pop("grid")
        if kwargs.get("debug") and not self.debug and "debug" not in self.names:
            return self._checking.run(*args, grid=grid, **kwargs)
        if kwargs.pop("warmup", False):
            return self.warmup(*args, grid=grid, **kwargs)
        values = self.arguments(args, kwargs)
        if callable(grid):
            grid = grid(dict(zip(self.names, values, strict=True)))
        return self._slow(grid, values, args, kwargs)

    def _slow(self, grid: Any, values: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Launch through Python; gives the compiled kernel."""
        grid = checked_grid(grid, self.__name__)
        try:
            key, numbers = describe(self.params, self._fixed, values, self.__name__)
        except ForeignDevice:
            if not native.launch(self, grid, args, kwargs):
                raise
            return None
        key += (_MODE["interpret"], debugging())
        try:
            launcher = self._quick.get(tuple(key))
        except TypeError:
            launcher = None  # a constant that can't be hashed: found by its signature
        if launcher is None:
            launcher = self._prepare(key, values)
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        compiled = CompiledKernel(self, launcher, values)
        if not _WATCHING:
            launcher(grid, numbers, values)
            return compiled
        about = self._metadata(compiled, grid)
        hooks.ENTER(about)
        launcher(grid, numbers, values)
        hooks.EXIT(about)
        return compiled

    def _metadata(self, compiled: CompiledKernel, grid: tuple[int, int, int]) -> hooks.LaunchMetadata:
        values = {"name": self.__name__, "function": compiled.function, "stream": 0}
        more = self.launch_metadata
        if more is None:
            return hooks.LaunchMetadata(values)
        named = dict(zip(self.names, compiled.values, strict=True))
        return hooks.LaunchMetadata(values, lambda: more(grid, compiled.metadata, named))

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call a function with the arguments of each launch, before it."""
        self.pre_run_hooks.append(hook)
        self._dispatcher = None

    @functools.cached_property
    def _checking(self) -> JitFunction:
        """The same kernel with its assertions checked."""
        twin = JitFunction(self.fn, noinline=self.noinline, debug=True)
        twin.params = self.params
        return twin

    def warmup(self, *args: Any, grid: Grid = (1,), **kwargs: Any) -> Any:
        """Compile for these arguments and run nothing; a dtype stands for an aligned array of it.

        So does a name of Triton (`"*fp32"`, `"i32"`).  Gives the compiled kernel.
        """
        values = self.arguments(args, kwargs)
        specs = [
            (None if p.is_constexpr else placeholder(v)) or spec_of(p, v, self.__name__)
            for p, v in zip(self.params, values, strict=True)
        ]
        return CompiledKernel(self, self._launcher(specs), values)

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """One value for each parameter, in order; launch options of Triton are left out."""
        names = self.names
        if len(args) + len(kwargs) == len(names) and all(map(kwargs.__contains__, names[len(args) :])):
            return [*args, *map(kwargs.__getitem__, names[len(args) :])]
        given = {k: v for k, v in kwargs.items() if k not in OPTIONS or k in names}
        return bind(self.params, args, given, self.__name__)

    def _prepare(self, key: Sequence[Any], values: Sequence[Any]) -> Any:
        specs = [spec_of(p, v, self.__name__) for p, v in zip(self.params, values, strict=True)]
        launcher = self._launcher(specs)
        try:
            self._quick[tuple(key)] = launcher
        except TypeError:
            return launcher
        self._remember(launcher, specs, values)
        return launcher

    def _remember(self, launcher: Any, specs: Sequence[ArgSpec], values: Sequence[Any]) -> None:
        """Let compiled code launch calls like this one."""
        from portkit.runtime.tile import fast

        slow = interpreting() or bool(self.pre_run_hooks)
        slow = slow or launcher.calls_host or launcher.compiled.asserts
        if slow or not fast.available():
            return
        if self._dispatcher is None:
            self._dispatcher = fast.Dispatcher()
        self._dispatcher.add(launcher, specs, values)

    def _launcher(self, specs: Sequence[ArgSpec]) -> Any:
        from portkit.runtime.targets import host
        from portkit.runtime.tile.compile import compile_kernel
        from portkit.runtime.tile.launch import Interpreter, Launcher

        checked = self.debug or debugging()
        signature = (interpreting(), checked, signature_key(specs))
        if signature not in self._launchers:
            if interpreting():
                made: Any = Interpreter(self, specs)
            else:
                where = [i for i, spec in enumerate(specs) for _ in runtime_types(spec)]
                made = Launcher(
                    compile_kernel(self, specs, host(), checked), where, self.names, (self, specs)
                )
            self._launchers[signature] = made
        return self._launchers[signature]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise KernelError(
            f"kernel `{self.__name__}` was called like a function",
            remedy=f"Launch it over a grid: {self.__name__}[grid](...).",
        )

    def __repr__(self) -> str:
        return f"<kernel {self.fn.__module__}.{self.fn.__qualname__}>"


_ONES = (1, 1)
_WATCHING = hooks.WATCHING
_MODE = {
    "interpret": os.environ.get("PORTKIT_INTERPRET", "") not in ("", "0")
}  # read once: launches are short


def debugging() -> bool:
    """Whether assertions of all kernels are checked: TRITON_DEBUG, or `knobs.runtime.debug` of Triton."""
    knobs = sys.modules.get("portkit.runtime.triton.knobs")
    if knobs is not None and knobs.runtime.debug:
        return True
    return os.environ.get("TRITON_DEBUG", "") not in ("", "0")


def interpreting() -> bool:
    """Whether kernels run in the interpreter."""
    return _MODE["interpret"]


@contextlib.contextmanager
def interpreted(on: bool = True) -> Iterator[None]:
    """Within this context kernels run in the NumPy interpreter (or, with `on=False`, compiled)."""
    before = _MODE["interpret"]
    _MODE["interpret"] = on
    try:
        yield
    finally:
        _MODE["interpret"] = before


def checked_grid(grid: Any, kernel: str) -> tuple[int, int, int]:
    """A grid as three ints; raises UsageError unless it is up to three ints from 0 to 2**31 - 1."""
    if type(grid) is tuple and 0 < len(grid) <= 3:
        x, y, z = (grid + _ONES)[:3]
        if type(x) is type(y) is type(z) is int and min(x, y, z) >= 0 and max(x, y, z) <= MAX_GRID:
            return x, y, z
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    sizes = tuple(int(n) if is_torch_tensor(n) and n.dim() == 0 else n for n in sizes)
    good = 1 <= len(sizes) <= 3 and all(
        isinstance(n, (int, np.integer)) and not isinstance(n, bool) and 0 <= n <= MAX_GRID for n in sizes
    )
    if not good:
        raise UsageError(
            f"kernel `{kernel}` was launched over the grid {grid!r}",
            remedy=f"A grid is one to three ints from 0 to {MAX_GRID}, or a function that gives them.",
        )
    x, y, z = (*(int(n) for n in sizes), 1, 1)[:3]
    return x, y, z


def _params(
    fn: Callable[..., Any], do_not_specialize: Collection[int | str], noalias: Collection[str]
) -> tuple[Param, ...]:
    found = []
    for index, (name, parameter) in enumerate(inspect.signature(fn).parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise KernelError(
                f"kernel `{fn.__name__}` has the parameter `{parameter}`",
                remedy="Name every parameter of a kernel.",
            )
        default = MISSING if parameter.default is parameter.empty else parameter.default
        free = name in do_not_specialize or index in do_not_specialize
        note = _annotation(parameter.annotation)
        known = DTYPES.get(CANONICAL.get(note, ""))
        fixed = note.rpartition(".")[2] == "constexpr"
        found.append(Param(name, fixed, default, not free, name in noalias, known, index, note))
    return tuple(found)


def _annotation(annotation: object) -> str:
    """An annotation as text: `tl.constexpr`, under any name for `tl`, is that, and a dtype its name."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = text.strip("'\" ")
    return "constexpr" if text.rpartition(".")[2] == "constexpr" else text.removeprefix("tl.")


@overload
def jit(fn: Callable[..., Any]) -> JitFunction: ...


@overload
def jit(
    fn: None = None,
    *,
    do_not_specialize: Collection[int | str] | None = None,
    noalias: Collection[str] = (),
    noinline: bool | None = None,
    debug: bool | None = None,
    launch_metadata: Callable[..., Any] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    do_not_specialize: Collection[int | str] | None = None,
    noalias: Collection[str] = (),
    noinline: bool | None = None,
    debug: bool | None = None,
    launch_metadata: Callable[..., Any] | None = None,
    **options: Any,
) -> Any:
    """Make a tile kernel of a function; with and without parentheses.

    `do_not_specialize` names (or numbers) parameters whose values are not looked at when compiling;
    `noalias` names arrays whose memory no other argument reaches, so that loops need no copies; with `debug`
    the assertions in the kernel are checked; `launch_metadata(grid, metadata, arguments)` gives launch hooks
    more to know.  Triton's other options (`version`, `repr`, ...) are accepted and have no effect.
    """
    make = functools.partial(
        JitFunction,
        do_not_specialize=tuple(do_not_specialize or ()),
        noalias=tuple(noalias),
        noinline=bool(noinline),
        debug=bool(debug),
        launch_metadata=launch_metadata,
    )
    return make if fn is None else make(fn)
