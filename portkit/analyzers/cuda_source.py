"""Kernels in CUDA C++."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from portkit.analyzers import _cuda_text
from portkit.finding import Effort, Finding, Phase, Span, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_KERNEL_MINUTES, _LINE_MINUTES = 60, 3  # to port a kernel, with its tests
_REMEDY = "Write it with @portkit.jit, or with torch operators."
_CELL = re.compile(r"\s*%%(?:cu|cuda|nvcc\w*|writefile\s+\S+\.cuh?|file\s+\S+\.cuh?)\b[^\n]*")
_DEVICE = re.compile(r"\b__device__\b")


class CudaSource(Rule):
    """A kernel is written in CUDA C++.

    What: `__global__` functions and the places that launch them, and functions for the device, in .cu and
    .cuh files, in C++ sources and headers, and in cells of notebooks (`%%cu`).
    Why: they compile for NVIDIA's GPUs only.
    Instead: the same kernel with `@portkit.jit`, or torch operators; the finding says what makes it hard.
    Safety: nothing is rewritten.
    """

    id = "PK405"
    name = "cuda_source"
    phase = Phase.OPERATOR
    triggers = (b"__global__", b"cutlass_global", b"<<<", b"__device__")
    text_kinds = frozenset({Kind.CUDA, Kind.CPP, Kind.NOTEBOOK})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        if ctx.kind is Kind.NOTEBOOK and _CELL.match(ctx.text) is None:
            return
        code = _cuda_text.code(ctx.text)
        kernels = list(_cuda_text.kernels(code))
        launches = list(_cuda_text.launches(code))
        launched = Counter(item.name for item in launches)
        defined = {item.name for item in kernels if item.body}
        for kernel in kernels:
            if kernel.body:
                yield self._kernel(kernel, launched[kernel.name], ctx)
            elif kernel.name not in defined:
                yield self._declared(kernel, ctx)
        others = [item for item in launches if item.name not in defined]
        if others:
            yield self._launched(others, ctx)
        yield from self._device(code, kernels, ctx)

    def _kernel(self, kernel: _cuda_text.Kernel, launches: int, ctx: Context) -> Finding:
        hard = _cuda_text.features(kernel.body)
        said = f"{kernel.name} is a kernel in CUDA C++"
        said += f", launched in {launches} place{'s' if launches > 1 else ''}" if launches else ""
        return ctx.finding(
            self,
            Span(kernel.start, kernel.end),
            said + (f", with {', '.join(hard)}" if hard else ""),
            support=Support.MANUAL,
            remedy=_REMEDY,
            qualified_name=kernel.name,
            effort=_effort(kernel.body),
        )

    def _declared(self, kernel: _cuda_text.Kernel, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            Span(kernel.start, kernel.end),
            f"{kernel.name} is declared as a kernel in CUDA C++",
            support=Support.MANUAL,
            remedy="It goes with its definition.",
            qualified_name=kernel.name,
            effort=Effort(0, "the work is where it is defined"),
        )

    def _launched(self, launches: list[_cuda_text.Launch], ctx: Context) -> Finding:
        names = sorted({item.name for item in launches})
        places = f"{len(launches)} place{'s' if len(launches) > 1 else ''}"
        return ctx.finding(
            self,
            Span(launches[0].start, launches[0].end),
            f"CUDA kernels are launched in {places}: {', '.join(names)}",
            support=Support.MANUAL,
            remedy="Call the ported kernels, or torch operators, from Python.",
        )

    def _device(self, code: str, kernels: list[_cuda_text.Kernel], ctx: Context) -> Iterator[Finding]:
        """Functions for the device, which kernels of this or another file call."""
        parts, last = [], 0
        for kernel in kernels:
            parts.append(code[last : kernel.body_start])
            last = max(last, kernel.body_end)
        rest = "".join([*parts, code[last:]])
        places = [match.start() for match in _DEVICE.finditer(code)]
        if not places:
            return
        hard = _cuda_text.features(rest)
        yield ctx.finding(
            self,
            Span(places[0], places[0] + len("__device__")),
            f"Code for the device stands in {len(places)} place{'s' if len(places) > 1 else ''}"
            + (f", with {', '.join(hard)}" if hard else ""),
            support=Support.MANUAL,
            remedy="They go with the kernels that call them.",
            effort=Effort(10 * len(places), "10 minutes a function"),
        )


def _effort(body: str) -> Effort:
    lines = sum(bool(line.strip()) for line in body.split("\n"))
    minutes = _KERNEL_MINUTES + _LINE_MINUTES * lines
    return Effort(minutes, f"a kernel: {_KERNEL_MINUTES} minutes, and {_LINE_MINUTES} a line of its {lines}")
