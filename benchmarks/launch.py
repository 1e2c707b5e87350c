"""What a launch costs: from the call in Python to the kernel and back, on arrays of next to no work.

python benchmarks/launch.py [--rounds N]
"""

from __future__ import annotations

import argparse

import measure
import numpy as np
import torch

import portkit
import portkit.runtime.tile.language as tl


@portkit.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        out + offsets, tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    torch.set_num_threads(1)
    a, b, c = (np.ones(64, np.float32) for _ in range(3))
    x, y, z = (torch.ones(64) for _ in range(3))
    bound = add[1, 1, 1]
    times = measure.interleaved(
        {
            "kernel[grid](arrays)": lambda: add[1, 1, 1](a, b, c, 64, 64),
            "kernel[grid](arrays, BLOCK=64)": lambda: add[1, 1, 1](a, b, c, 64, BLOCK=64),
            "bound(tensors)": lambda: bound(x, y, z, 64, 64),
            "np.add(a, b, c)": lambda: np.add(a, b, c),
            "torch.add(x, y, out=z)": lambda: torch.add(x, y, out=z),
            "torch.softmax(x, -1)": lambda: torch.softmax(x, -1),
        },
        options.rounds,
    )
    print(measure.machine(1))
    for name, seconds in times.items():
        print(f"{name:<32} {measure.microseconds(seconds):6.2f} µs")


if __name__ == "__main__":
    main()
