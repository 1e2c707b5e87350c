"""Matrix products: the matmul kernel of Triton's tutorial, as written there, against torch's own.

    python benchmarks/gemm.py [--threads N] [--rounds N] [--dtype float32] [--blocks 128,128,64,8]

Interleaved rounds in random order; a ratio is the median over rounds of torch's time by ours (above 1: ours
is faster).  `error` is the norm of the difference from a float64 product by the norm of that, of both.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import measure
import torch

import portkit
import portkit.runtime.tile.language as tl

SHAPES = [
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (1000, 777, 333),
    (4096, 64, 4096),
    (64, 4096, 4096),
    (127, 513, 1025),
    (16, 4096, 4096),
]
BLOCKS = {"float32": (256, 256, 256, 1), "bfloat16": (256, 256, 512, 1), "float16": (256, 256, 256, 1)}


@portkit.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


def launch(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, blocks: tuple[int, ...]) -> None:
    """c = a @ b."""
    (m, k), n = a.shape, b.shape[1]
    rows, columns, depth, group = blocks
    grid = (-(-m // rows) * -(-n // columns),)
    sizes = {"BLOCK_SIZE_M": rows, "BLOCK_SIZE_N": columns, "BLOCK_SIZE_K": depth, "GROUP_SIZE_M": group}
    matmul_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), **sizes)


def block_for(size: int, most: int) -> int:
    """The smallest power of two that holds the size, from 16 to `most`."""
    return min(most, max(16, 1 << (size - 1).bit_length()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--dtype", default="float32", choices=list(BLOCKS))
    parser.add_argument("--blocks", default="", help="rows, columns, depth, group")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(measure.machine(options.threads))
    dtype = getattr(torch, options.dtype)
    given: tuple[Any, ...] = (
        tuple(map(int, options.blocks.split(","))) if options.blocks else BLOCKS[options.dtype]
    )
    print(f"{'shape':>18}  {'ours GF/s':>9}  {'torch GF/s':>10}  ratio  error ours / torch")
    for m, n, k in SHAPES:
        a = torch.randn(m, k).to(dtype)
        b = torch.randn(k, n).to(dtype)
        c, d = torch.full((m, n), torch.nan, dtype=dtype), torch.empty(m, n, dtype=dtype)
        blocks = (block_for(m, given[0]), block_for(n, given[1]), block_for(k, given[2]), given[3])
        candidates = {
            "ours": functools.partial(launch, a, b, c, blocks),
            "torch": functools.partial(torch.mm, a, b, out=d),
        }
        times = measure.interleaved(candidates, options.rounds, threads=options.threads)
        exact = a.double() @ b.double()
        errors = [((x.double() - exact).norm() / exact.norm()).item() for x in (c, d)]
        flops = 2e-3 * m * n * k
        speeds = [flops / measure.microseconds(times[name]) for name in ("ours", "torch")]
        ratio = measure.ratio(times, of="torch", to="ours")
        print(
            f"{m:>6}x{n}x{k}".rjust(18),
            f"{speeds[0]:9.1f}  {speeds[1]:10.1f}  {ratio:5.2f}  {errors[0]:.1e} / {errors[1]:.1e}",
            sep="  ",
        )


if __name__ == "__main__":
    main()
