"""Choosing a kernel's constants: `autotune` by timing, `heuristics` by functions of the arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portkit.errors import KernelError, UsageError
from portkit.runtime.tile import tuning
from portkit.runtime.tile.jit import Grid, JitFunction, Kernel

BENCH_SECONDS = 0.02  # for each configuration, after one run that compiles
BENCH_RUNS = 20


@dataclass(eq=False)
class Config:
    """Constants to try, by name, with Triton's launch options, which a CPU has no use for.

    `pre_hook` is called with the arguments by name before each launch with this configuration.
    """

    kwargs: dict[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    pre_hook: Callable[[dict[str, Any]], Any] | None = None
    ir_override: str | None = None

    def all_kwargs(self) -> dict[str, Any]:
        """Constants and launch options that are set."""
        options = {name: getattr(self, name) for name in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
        return {**self.kwargs, **{name: value for name, value in options.items() if value is not None}}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        return self.all_kwargs() == other.all_kwargs() and self.pre_hook == other.pre_hook

    def __hash__(self) -> int:
        return hash((*self.all_kwargs().items(), self.pre_hook))


class Wrapped(Kernel):
    """A kernel around another one (`fn`), which gets more arguments from it."""

    def __init__(self, fn: Kernel) -> None:
        self.fn = fn

    @property
    def base_kernel(self) -> JitFunction:
        """The kernel in the middle."""
        inner: Any = self.fn
        while not isinstance(inner, JitFunction):
            inner = inner.fn
        return inner

    @property
    def base_fn(self) -> Callable[..., Any]:
        """The Python function in the middle."""
        return self.base_kernel.fn

    @base_fn.setter
    def base_fn(self, function: Callable[..., Any]) -> None:
        """Accepted: libraries set it to what it is."""

    @property
    def arg_names(self) -> list[str]:
        """Names of the kernel's parameters."""
        return self.base_kernel.arg_names

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments given so far, by name."""
        return {**dict(zip(self.arg_names, args, strict=False)), **kwargs}

    def __repr__(self) -> str:
        return repr(self.base_kernel)


class Heuristics(Wrapped):
    """Computes constants from the arguments at each launch."""

    def __init__(
        self, fn: Kernel, arg_names: Sequence[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]
    ) -> None:
        super().__init__(fn)
        self.values = dict(values)

    def _with_values(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        meta = self.named(args, kwargs)
        for name, value in self.values.items():
            meta[name] = value(meta)
        return {**kwargs, **{name: meta[name] for name in self.values}}

    def launch(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run over a grid with the computed constants."""
        if type(self).run is not Heuristics.run:
            return self.run(*args, grid=grid, **kwargs)
        return self.fn.launch(grid, args, self._with_values(args, kwargs))

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As `launch`; gives the compiled kernel."""
        return self.fn.run(*args, **self._with_values(args, kwargs))

    def warmup(self, *args: Any, grid: Grid = (1,), **kwargs: Any) -> Any:
        """Compile with the computed constants."""
        return self.fn.warmup(*args, grid=grid, **self._with_values(args, kwargs))


Timing = Any  # milliseconds, or quantiles of them
_FAILED = [float("inf")] * 3


class Autotuner(Wrapped):
    """Times each configuration the first time that a combination of `key` values and dtypes is seen.

    Libraries derive from it: the names are those of Triton's.
    """

    def __init__(
        self,
        fn: Kernel,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Timing] | None = None,
        cache_results: bool = False,
    ) -> None:
        super().__init__(fn)
        self.configs = list(configs) or [Config()]
        self.keys = list(key)
        self.reset_to_zero = list(reset_to_zero or ())
        self.restore_value = list(restore_value or ())
        self.restore_copies: dict[str, Any] = {}
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.pre_hook = pre_hook or self._before
        self.post_hook = post_hook or self._after
        prune = dict(prune_configs_by or {})
        self.early_config_prune = prune.get("early_config_prune")
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        self.do_bench = do_bench or _shortest
        self.cache_results = cache_results
        self.cache: dict[Any, Config] = {}
        self.nargs: dict[str, Any] | None = None
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, Timing] = {}
        self.failure: KernelError | None = None

    # --- what a launch must find, and what is put back ---

    def _before(self, kwargs: dict[str, Any], reset_only: bool = False) -> None:
        for name in self.reset_to_zero:
            if kwargs.get(name) is not None:
                kwargs[name][...] = 0
        if not reset_only:
            names = [n for n in self.restore_value if kwargs.get(n) is not None]
            self.restore_copies = {name: _copy(kwargs[name]) for name in names}

    def _after(self, kwargs: dict[str, Any], exception: BaseException | None) -> None:
        for name, copy in self.restore_copies.items():
            kwargs[name][...] = copy
        self.restore_copies = {}

    # --- launching ---

    def launch(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run over a grid with the best configuration, which is found first when it is not known.

        While it is being found the kernel runs many times: `reset_to_zero` and `restore_value` name arrays
        that it must find unchanged each time.
        """
        if type(self).run is not Autotuner.run:
            return self.run(*args, grid=grid, **kwargs)
        return self.fn.launch(grid, args, self._chosen(grid, args, kwargs))

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As `launch`; gives the compiled kernel."""
        grid = kwargs.pop("grid")
        return self.fn.run(*args, grid=grid, **self._chosen(grid, args, kwargs))

    def warmup(self, *args: Any, grid: Grid = (1,), **kwargs: Any) -> Any:
        """Compile every configuration."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        configs = self.prune_configs(kwargs)
        return [self.fn.warmup(*args, grid=grid, **self._joined(c, kwargs)) for c in configs]

    def _chosen(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        config = self.choose(grid, args, kwargs)
        joined = self._joined(config, kwargs)
        if config.pre_hook is not None:
            config.pre_hook(self.named(args, joined))
        return joined

    def choose(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Config:
        """The configuration for these arguments."""
        if len(self.configs) == 1:
            self.best_config = self.configs[0]
            return self.configs[0]
        given = self.named(args, kwargs)
        key = (
            *(repr(given[name]) for name in self.keys if name in given),
            *(str(value.dtype) for value in given.values() if hasattr(value, "dtype")),
        )
        if key not in self.cache:
            self.nargs = dict(zip(self.arg_names, args, strict=False))
            self.cache[key] = self._known_or_fastest(key, grid, args, kwargs)
            self.nargs = None
        self.best_config = self.cache[key]
        return self.best_config

    def _known_or_fastest(
        self, key: Sequence[Any], grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Config:
        """The best configuration, from the disk if results are kept and it is there."""
        hooked = any(config.pre_hook is not None for config in self.configs)
        if hooked or not tuning.wanted(self.cache_results):
            return self._fastest(grid, args, kwargs)
        configs = self.prune_configs(kwargs)
        name = tuning.key_of(self.base_kernel, configs, key)
        found = tuning.get(name, len(configs))
        if found is not None:
            self.configs_timings = dict(zip(configs, found[1], strict=True))
            return configs[found[0]]
        best = self._fastest(grid, args, kwargs)
        tuning.put(name, configs.index(best), [self.configs_timings[config] for config in configs])
        return best

    def _fastest(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Config:
        self.failure = None
        configs = self.prune_configs(kwargs)
        timings = {config: self._bench(*args, config=config, grid=grid, **kwargs) for config in configs}
        self.configs_timings = timings
        best = min(timings, key=lambda c: _first(timings[c]), default=None)
        if best is None or _first(timings[best]) == float("inf"):
            raise self.failure or UsageError(
                f"kernel `{self.base_kernel.__name__}` has no configuration left to try"
            )
        self.pre_hook(self.named(args, {**kwargs, **best.all_kwargs()}), reset_only=True)
        return best

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Config]:
        """The configurations worth a trial for the arguments in `nargs` and these."""
        given, configs = dict(self.nargs or {}), self.configs
        if self.early_config_prune is not None:
            configs = list(self.early_config_prune(self.configs, given, **kwargs))
        if self.perf_model is None:
            return configs
        top, model = self.configs_top_k, self.perf_model
        count = max(1, int(len(self.configs) * top) if isinstance(top, float) else int(top))
        expected = {c: model(**{**given, **kwargs, **c.all_kwargs()}) for c in configs}
        return sorted(configs, key=lambda c: float(expected[c]))[:count]

    def _bench(self, *args: Any, config: Config, **meta: Any) -> Timing:
        """Milliseconds of a launch with one configuration; infinite when it can't be compiled."""
        grid = meta.pop("grid")
        joined = self._joined(config, meta)
        given = self.named(args, joined)

        def once() -> None:
            if config.pre_hook is not None:
                config.pre_hook(given)
            self.pre_hook(given)
            try:
                self.fn.launch(grid, args, joined)
            except Exception as error:
                self.post_hook(given, exception=error)
                raise
            self.post_hook(given, exception=None)

        try:
            return self.do_bench(once, quantiles=(0.5, 0.2, 0.8))
        except KernelError as error:  # this configuration can't be compiled; another may
            self.failure = error
            return _FAILED

    def _joined(self, config: Config, kwargs: dict[str, Any]) -> dict[str, Any]:
        both = sorted(set(config.kwargs) & set(kwargs))
        if both:
            raise UsageError(
                f"kernel `{self.base_kernel.__name__}` was given `{both[0]}`, which its autotuner chooses",
                remedy="Leave it out of the call, or out of the configurations.",
            )
        return {**config.all_kwargs(), **kwargs}


def _shortest(run: Callable[[], Any], quantiles: Any = None) -> Timing:
    """Milliseconds of the shortest of several runs, the first of which compiles and does not count."""
    best, spent = float("inf"), 0.0
    for turn in range(BENCH_RUNS + 1):
        start = time.perf_counter()
        run()
        taken = time.perf_counter() - start
        if turn:
            best, spent = min(best, taken), spent + taken
        if spent > BENCH_SECONDS:
            break
    return [best * 1e3] * 3


def _first(timing: Timing) -> float:
    return float(timing[0]) if isinstance(timing, (list, tuple)) else float(timing)


def _copy(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


def autotune(
    configs: Sequence[Config],
    key: Sequence[str] = (),
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    **options: Any,
) -> Callable[[Kernel], Autotuner]:
    """Decorator: pick the fastest of `configs` for each combination of the arguments named in `key`.

    Names in `key` that the kernel lacks are passed over.  Results live as long as the process; with
    `cache_results`, or TRITON_CACHE_AUTOTUNING=1, they are kept on disk.  `pre_hook`, `post_hook` and
    `do_bench` are Triton's; its other options (`warmup`, `rep`, ...) have no effect.
    """

    def wrap(fn: Kernel) -> Autotuner:
        names = getattr(fn, "arg_names", ())
        return Autotuner(
            fn,
            names,
            configs,
            key,
            reset_to_zero,
            restore_value,
            prune_configs_by=prune_configs_by,
            **options,
        )

    return wrap


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Kernel], Heuristics]:
    """Decorator: compute constants by functions of the arguments, which come as a dict by name."""

    def wrap(fn: Kernel) -> Heuristics:
        return Heuristics(fn, getattr(fn, "arg_names", ()), values)

    return wrap
