"""Softmax by tile kernels against torch, on the same threads.

Rows: the kernel launched on given memory against `torch.softmax(out=...)`, and the operator as a program
calls it (`pk.ops.softmax`) against `torch.softmax`.  A ratio above 1 means that the tile kernel is faster.

    python benchmarks/softmax.py [--threads N] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import measure
import torch

SHAPES = [(4096, 1024), (64, 1024), (4096, 1000), (16384, 256), (128, 50257), (2, 50257), (65536, 64)]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def candidates(shape: tuple[int, int], dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """What is compared for one shape; the results are checked first."""
    import portkit.runtime as pk
    from portkit.runtime.ops import operators

    operator = operators()["softmax"]
    x = torch.randn(shape, dtype=dtype)
    y, z = torch.empty_like(x), torch.empty_like(x)
    tile = lambda: operator.core.forward((y,), x)  # noqa: E731
    found = {
        "kernel": tile,
        "torch out": lambda: torch.softmax(x, -1, out=z),
        "operator": lambda: pk.ops.softmax(x, -1),
        "torch": lambda: torch.softmax(x, -1),
    }
    for candidate in found.values():
        candidate()
    torch.testing.assert_close(y, z)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ["PORTKIT_FORCE"] = "tile"
    print(measure.machine(options.threads))
    head = f"{'µs':>10} {'torch µs':>10} {'ratio':>6}"
    print(f"{'':>20} {'kernel':<28}    operator")
    print(f"{'shape':>14} {'dtype':>5} {head}    {head}")
    for dtype in DTYPES:
        for shape in SHAPES:
            times = measure.interleaved(candidates(shape, DTYPES[dtype]), options.rounds)
            print(f"{shape[0]:>8}x{shape[1]:<5} {dtype:>5}", pair(times, "kernel", "torch out"), end=" ")
            print("  ", pair(times, "operator", "torch"), flush=True)


def pair(times: dict[str, list[float]], ours: str, theirs: str) -> str:
    """Both medians in microseconds, and the ratio."""
    mine, other = measure.microseconds(times[ours]), measure.microseconds(times[theirs])
    return f"{mine:>10.1f} {other:>10.1f} {measure.ratio(times, theirs, ours):>6.2f}"


if __name__ == "__main__":
    main()
