"""Timing and comparing, as benchmarks of kernels do it."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from portkit.errors import UsageError
from portkit.runtime.devices import synchronize

_MODES: dict[str, Callable[[list[float]], Any]] = {
    "all": list,
    "min": min,
    "max": max,
    "mean": statistics.mean,
    "median": statistics.median,
}


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **options: Any,
) -> Any:
    """Milliseconds that a call takes: `rep` milliseconds of runs after `warmup` milliseconds of them."""
    if return_mode not in _MODES:
        raise UsageError(f"return_mode is {return_mode!r}", remedy=f"Use one of {', '.join(_MODES)}.")
    times: list[float] = []
    spent = 0.0
    _run(fn, warmup, grad_to_none)
    while not times or spent < rep:
        times.append(_run(fn, 0, grad_to_none))
        spent += times[-1]
    if quantiles is None:
        return _MODES[return_mode](times)
    found = [float(q) for q in np.quantile(times, list(quantiles))]
    return found[0] if len(found) == 1 else found


def _run(fn: Callable[[], Any], at_least: float, grads: Sequence[Any] | None) -> float:
    """Milliseconds of one run, or of several that take `at_least` so long."""
    total = 0.0
    while True:
        for tensor in grads or ():
            tensor.grad = None
        _wait()
        start = time.perf_counter()
        fn()
        _wait()
        total += (time.perf_counter() - start) * 1e3
        if total >= at_least:
            return total


def _wait() -> None:
    """Devices compute after the call has returned: a run ends when they have finished."""
    if "torch" in sys.modules:
        synchronize()


do_bench_cudagraph = do_bench


def assert_close(x: Any, y: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Raise AssertionError unless two arrays are equal within tolerances (1e-2 absolute, 0 relative)."""
    first, second = _array(x), _array(y)
    limits = [0.01 if atol is None else atol, 0.0 if rtol is None else rtol]
    limits = [limit(x.dtype) if callable(limit) else limit for limit in limits]
    np.testing.assert_allclose(first, second, atol=limits[0], rtol=limits[1], equal_nan=True, err_msg=err_msg)


def _array(value: Any) -> Any:
    if not hasattr(value, "detach"):
        return np.asarray(value)
    value = value.detach().cpu()
    return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()


class Benchmark:
    """What a benchmark runs over: values of `x_names` down, values of `line_arg` across."""

    def __init__(
        self,
        x_names: Sequence[str],
        x_vals: Sequence[Any],
        line_arg: str,
        line_vals: Sequence[Any],
        line_names: Sequence[str],
        plot_name: str,
        args: dict[str, Any],
        **style: Any,
    ) -> None:
        self.x_names, self.x_vals = list(x_names), list(x_vals)
        self.line_arg, self.line_vals, self.line_names = line_arg, list(line_vals), list(line_names)
        self.plot_name, self.args, self.style = plot_name, args, style


class Mark:
    """A function with benchmarks; `run` gives (and prints) a table for each."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Any) -> None:
        self.fn = fn
        self.benchmarks = [benchmarks] if isinstance(benchmarks, Benchmark) else list(benchmarks)

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> list[list[list[Any]]] | None:
        """Time everything; with `return_df` gives the rows of each table.  Nothing is plotted."""
        tables = [self._rows(bench, kwargs) for bench in self.benchmarks]
        for bench, rows in zip(self.benchmarks, tables, strict=True):
            if print_data:
                print(bench.plot_name + ":")
                print("\t".join([*bench.x_names, *map(str, bench.line_names)]))
                print("\n".join("\t".join(map(str, row)) for row in rows))
        return tables if return_df else None

    def _rows(self, bench: Benchmark, kwargs: dict[str, Any]) -> list[list[Any]]:
        rows = []
        for x in bench.x_vals:
            values = list(x) if isinstance(x, (list, tuple)) else [x] * len(bench.x_names)
            point = {**dict(zip(bench.x_names, values, strict=True)), **bench.args, **kwargs}
            found = [self.fn(**point, **{bench.line_arg: line}) for line in bench.line_vals]
            rows.append([*values, *(f[0] if isinstance(f, (tuple, list)) else f for f in found)])
        return rows


def perf_report(benchmarks: Any) -> Callable[[Callable[..., Any]], Mark]:
    """Decorator: a function of sizes that gives milliseconds (or a rate), with what to run it over."""
    return lambda fn: Mark(fn, benchmarks)


__all__ = ["Benchmark", "Mark", "assert_close", "do_bench", "do_bench_cudagraph", "perf_report"]
