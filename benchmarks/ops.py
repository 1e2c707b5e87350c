"""Operators: tile kernels against torch's own, forward and forward with backward, in one process.

    python benchmarks/ops.py [--threads N] [--rounds N] [--dtype float32] [--only softmax,gelu] [--markdown]

Rounds are interleaved in random order; a ratio is the median over rounds of torch's time by ours (above 1:
ours is faster).  With one thread, processor time is measured, so that other work on the machine hardly
counts; with more, time on the clock.  `default` says which of the two `pk.ops` picks by itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import portkit.runtime.ops as ops
from portkit.runtime.ops._dispatch import chosen

SHAPES = {
    "softmax": [(64, 64), (64, 1024), (256, 1024), (1024, 1024), (4096, 1024), (512, 197), (128, 50257)],
    "layer_norm": [(64, 64), (64, 768), (256, 768), (1024, 768), (4096, 1024), (2048, 4096)],
    "rms_norm": [(64, 64), (64, 768), (256, 768), (1024, 768), (4096, 1024), (2048, 4096)],
    "gelu none": [(64, 64), (64, 512), (64, 3072), (1024, 3072), (4096, 4096)],
    "gelu tanh": [(64, 64), (64, 512), (64, 3072), (1024, 3072), (4096, 4096)],
    "silu": [(64, 64), (64, 512), (64, 3072), (1024, 3072), (4096, 4096)],
    "cross_entropy": [(64, 64), (64, 512), (512, 1000), (1024, 32000), (256, 50257)],
    "matmul": [(64, 64, 64), (256, 256, 256), (1024, 1024, 1024), (1024, 768, 3072)],
    "linear": [(64, 64, 64), (256, 256, 256), (1024, 768, 3072)],
    "scaled_dot_product_attention": [(1, 4, 64, 32), (1, 12, 1024, 64), (4, 8, 256, 64)],
}


@dataclass(frozen=True)
class Case:
    """One call to time."""

    name: str
    shape: tuple[int, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[torch.Tensor, ...]  # those that get a gradient


def make(label: str, shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    """Arguments for an operator at a shape."""
    name, _, form = label.partition(" ")

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, dtype=torch.float32).to(dtype).requires_grad_()

    kwargs: dict[str, Any] = {}
    if name == "scaled_dot_product_attention":
        args: tuple[Any, ...] = (normal(*shape), normal(*shape), normal(*shape))
        kwargs = {"is_causal": True}
    elif name in ("matmul", "linear"):
        m, k, n = shape
        args = (normal(m, k), normal(k, n)) if name == "matmul" else (normal(m, k), normal(n, k), normal(n))
    else:
        n = shape[-1]
        rest: dict[str, tuple[Any, ...]] = {
            "softmax": (-1,),
            "layer_norm": ((n,), normal(n), normal(n)),
            "rms_norm": ((n,), normal(n), 1e-6),
            "gelu": (form,),
            "silu": (),
            "cross_entropy": (torch.randint(0, n, shape[:1]),),
        }
        args = (normal(*shape), *rest[name])
    inputs = tuple(x for x in args if isinstance(x, torch.Tensor) and x.requires_grad)
    return Case(name, shape, args, kwargs, inputs)


def calls(case: Case, backward: bool) -> dict[str, Callable[[], Any]]:
    """What is timed, by implementation."""
    operator = ops.operators()[case.name]
    with torch.no_grad():
        grad = torch.ones_like(operator.vendor(*case.args, **case.kwargs))

    def run(force: str) -> Callable[[], Any]:
        function = operator.vendor if force == "vendor" else operator.function

        def forward() -> Any:
            with torch.no_grad():
                return function(*case.args, **case.kwargs)

        def both() -> Any:
            return torch.autograd.grad(function(*case.args, **case.kwargs), case.inputs, grad)

        return both if backward else forward

    return {"vendor": run("vendor"), "tile": run("tile")}


def measure(
    pair: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float]
) -> tuple[dict[str, float], float]:
    """Median seconds of each, and the median over rounds of vendor time by tile time."""
    repeats = {}
    for name, call in pair.items():
        os.environ["PORTKIT_FORCE"] = name
        call()
        start = clock()
        call()
        repeats[name] = max(1, int(1e-3 / max(clock() - start, 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in pair}
    for _ in range(rounds):
        for name in random.sample(sorted(pair), len(pair)):
            os.environ["PORTKIT_FORCE"] = name
            call, count = pair[name], repeats[name]
            start = clock()
            for _ in range(count):
                call()
            times[name].append((clock() - start) / count)
    del os.environ["PORTKIT_FORCE"]
    ratios = [v / t for v, t in zip(times["vendor"], times["tile"], strict=True)]
    return {name: statistics.median(found) for name, found in times.items()}, statistics.median(ratios)


def rows(options: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """One row for each operator and shape."""
    dtype = getattr(torch, options.dtype)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    for label, shapes in SHAPES.items():
        if options.only and label.split()[0] not in options.only.split(","):
            continue
        if ops.operators()[label.split()[0]].tile is None:
            continue
        for shape in shapes:
            case = make(label, shape, dtype)
            default = chosen(ops.operators()[case.name], case.args, case.kwargs)
            cells = []
            for backward in (False, True):
                seconds, ratio = measure(calls(case, backward), options.rounds, clock)
                cells += [f"{seconds['vendor'] * 1e6:.1f}", f"{seconds['tile'] * 1e6:.1f}", f"{ratio:.2f}"]
            yield (label, "x".join(map(str, shape)), *cells, default)


def machine() -> str:
    """Processor and versions, in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor()
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}"
    return f"{cpu}, {os.cpu_count()} CPUs, {torch.get_num_threads()} thread(s); {versions}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(f"{machine()}; {options.dtype}; times in microseconds")
    head = (
        "operator",
        "shape",
        "torch fwd",
        "tile fwd",
        "ratio",
        "torch f+b",
        "tile f+b",
        "ratio",
        "default",
    )
    if options.markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    else:
        print(LAYOUT.format(*head))
    for row in rows(options):
        print("| " + " | ".join(row) + " |" if options.markdown else LAYOUT.format(*row), flush=True)


LAYOUT = "{:<30}{:>14}{:>12}{:>12}{:>8}{:>12}{:>12}{:>8}  {}"

if __name__ == "__main__":
    main()
