"""Choosing a kernel's constants: `autotune` by timing, `heuristics` by functions of the arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portkit.errors import KernelError, UsageError
from portkit.runtime.tile.jit import Grid, JitFunction, Kernel

BENCH_SECONDS = 0.02  # for each configuration, after one run that compiles
BENCH_RUNS = 20


@dataclass
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


class Wrapped(Kernel):
    """A kernel around another one (`fn`), which gets more arguments from it."""

    def __init__(self, fn: Kernel) -> None:
        self.fn = fn

    @property
    def base_fn(self) -> JitFunction:
        """The kernel in the middle."""
        inner = self.fn
        while isinstance(inner, Wrapped):
            inner = inner.fn
        assert isinstance(inner, JitFunction)
        return inner

    @property
    def arg_names(self) -> tuple[str, ...]:
        """Names of the kernel's parameters."""
        return self.base_fn.names

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments given so far, by name."""
        return {**dict(zip(self.arg_names, args, strict=False)), **kwargs}

    def __repr__(self) -> str:
        return repr(self.base_fn)


class Heuristics(Wrapped):
    """Computes constants from the arguments at each launch."""

    def __init__(self, fn: Kernel, values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        super().__init__(fn)
        self.values = dict(values)

    def _with_values(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        meta = self.named(args, kwargs)
        for name, value in self.values.items():
            meta[name] = value(meta)
        return {**kwargs, **{name: meta[name] for name in self.values}}

    def launch(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run over a grid with the computed constants."""
        return self.fn.launch(grid, args, self._with_values(args, kwargs))

    def warmup(self, *args: Any, grid: Grid = (1,), **kwargs: Any) -> Any:
        """Compile with the computed constants."""
        return self.fn.warmup(*args, grid=grid, **self._with_values(args, kwargs))


class Autotuner(Wrapped):
    """Times each configuration the first time that a combination of `key` values and dtypes is seen."""

    def __init__(
        self,
        fn: Kernel,
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] = (),
        restore_value: Sequence[str] = (),
        prune_configs_by: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(fn)
        self.configs = list(configs) or [Config()]
        self.keys = list(key)
        self.reset_to_zero = list(reset_to_zero)
        self.restore_value = list(restore_value)
        self.prune = dict(prune_configs_by or {})
        self.cache: dict[Any, Config] = {}
        self.best_config: Config | None = None

    def launch(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run over a grid with the best configuration, which is found first when it is not known.

        While it is being found the kernel runs many times: `reset_to_zero` and `restore_value` name arrays
        that it must find unchanged each time.
        """
        config = self.choose(grid, args, kwargs)
        return self._run(config, grid, args, kwargs)

    def warmup(self, *args: Any, grid: Grid = (1,), **kwargs: Any) -> Any:
        """Compile every configuration."""
        return [self.fn.warmup(*args, grid=grid, **self._joined(c, kwargs)) for c in self.configs]

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
            self.cache[key] = self._fastest(grid, args, kwargs)
        self.best_config = self.cache[key]
        return self.cache[key]

    def _fastest(self, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Config:
        best, best_seconds, failure = None, float("inf"), None
        given = self.named(args, kwargs)
        kept = [(given[name], _copy(given[name])) for name in self.restore_value if name in given]
        for config in self._candidates(given, kwargs):
            try:
                seconds = self._time(config, grid, args, kwargs, kept)
            except KernelError as error:  # this configuration can't be compiled; another may
                failure = error
                continue
            if best is None or seconds < best_seconds:
                best, best_seconds = config, seconds
        if best is None:
            raise failure or UsageError(f"kernel `{self.base_fn.__name__}` has no configuration left to try")
        return best

    def _candidates(self, given: dict[str, Any], kwargs: dict[str, Any]) -> list[Config]:
        prune = self.prune.get("early_config_prune")
        configs = list(prune(self.configs, given, **kwargs)) if prune else self.configs
        model, top = self.prune.get("perf_model"), self.prune.get("top_k")
        if model and top:
            count = int(len(configs) * top) if isinstance(top, float) else int(top)
            configs = sorted(configs, key=lambda c: float(model(**{**given, **c.all_kwargs()})))[
                : max(1, count)
            ]
        return configs

    def _time(
        self,
        config: Config,
        grid: Grid,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        kept: Sequence[tuple[Any, Any]],
    ) -> float:
        """The shortest of several runs, in seconds."""
        given = self.named(args, kwargs)
        best, spent = float("inf"), 0.0
        for turn in range(BENCH_RUNS + 1):
            for name in self.reset_to_zero:
                given[name][...] = 0
            start = time.perf_counter()
            self._run(config, grid, args, kwargs)
            taken = time.perf_counter() - start
            for array, copy in kept:
                array[...] = copy
            if turn:
                best, spent = min(best, taken), spent + taken
            if spent > BENCH_SECONDS:
                break
        for name in self.reset_to_zero:
            given[name][...] = 0
        return best

    def _run(self, config: Config, grid: Grid, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        joined = self._joined(config, kwargs)
        if config.pre_hook is not None:
            config.pre_hook(self.named(args, joined))
        return self.fn.launch(grid, args, joined)

    def _joined(self, config: Config, kwargs: dict[str, Any]) -> dict[str, Any]:
        both = sorted(set(config.kwargs) & set(kwargs))
        if both:
            raise UsageError(
                f"kernel `{self.base_fn.__name__}` was given `{both[0]}`, which its autotuner chooses",
                remedy="Leave it out of the call, or out of the configurations.",
            )
        return {**config.all_kwargs(), **kwargs}


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

    Names in `key` that the kernel lacks are passed over.  Results live as long as the process.  Triton's
    other options (`warmup`, `rep`, `use_cuda_graph`, ...) are accepted and have no effect.
    """

    def wrap(fn: Kernel) -> Autotuner:
        return Autotuner(fn, configs, key, reset_to_zero or (), restore_value or (), prune_configs_by)

    return wrap


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Kernel], Heuristics]:
    """Decorator: compute constants by functions of the arguments, which come as a dict by name."""

    def wrap(fn: Kernel) -> Heuristics:
        return Heuristics(fn, values)

    return wrap
