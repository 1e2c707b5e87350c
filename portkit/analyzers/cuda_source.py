"""CUDA C++ sources."""

from __future__ import annotations

import re
from collections.abc import Iterable

from portkit.finding import Effort, Finding, Phase, Span, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
_KERNEL = re.compile(
    r"\b__global__\b(?:\s|__launch_bounds__\s*\([^)]*\)|\b(?:static|inline|void|extern)\b)*(?P<name>[A-Za-z_]\w*)\s*(?=[(<])"
)
_LAUNCH = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:<[^<>;{}]*>)?\s*<<<")
_KERNEL_MINUTES, _LINE_MINUTES = 60, 3  # to port a kernel, with its tests
_HARD = (
    (re.compile(r"\basm\s*(?:volatile)?\s*\("), "inline PTX"),
    (re.compile(r"\b__(?:shfl|ballot|any|all|activemask|reduce)\w*"), "warp intrinsics"),
    (re.compile(r"\bw?mma(?:::|\w*_sync)|\bwgmma\b"), "tensor-core instructions"),
    (re.compile(r"\bcutlass\b|\bcute\b"), "CUTLASS"),
    (re.compile(r"\bcub::|\bthrust::"), "CUB or Thrust"),
    (re.compile(r"\bcooperative_groups\b"), "cooperative groups"),
)


class CudaSource(Rule):
    """A kernel is written in CUDA C++.

    What: `__global__` functions in .cu and .cuh files, and the places that launch kernels.
    Why: they compile for NVIDIA's GPUs only.
    Instead: the same kernel with `@portkit.jit`, or torch operators; the finding says what makes it hard.
    Safety: nothing is rewritten.
    """

    id = "PK405"
    name = "cuda_source"
    phase = Phase.OPERATOR
    triggers = (b"__global__", b"<<<")
    text_kinds = frozenset({Kind.CUDA, Kind.CPP})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        code = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), ctx.text)
        for match in _KERNEL.finditer(code):
            body = _body(code, match.end())
            hard = _hard(body)
            yield ctx.finding(
                self,
                Span(*match.span("name")),
                f"{match.group('name')} is a kernel in CUDA C++"
                + (f", with {', '.join(hard)}" if hard else ""),
                support=Support.MANUAL,
                remedy="Write it with @portkit.jit, or with torch operators.",
                effort=_effort(body),
            )
        launches = list(_LAUNCH.finditer(code))
        if launches:
            names = sorted({match.group("name") for match in launches})
            yield ctx.finding(
                self,
                Span(*launches[0].span("name")),
                f"CUDA kernels are launched in {len(launches)} place(s): {', '.join(names)}",
                support=Support.MANUAL,
                remedy="Call the ported kernels, or torch operators, from Python.",
            )


def _body(code: str, start: int) -> str:
    """The function body that begins after `start`, by counting braces."""
    opened = code.find("{", start)
    if opened < 0:
        return ""
    depth = 0
    for position in range(opened, len(code)):
        depth += {"{": 1, "}": -1}.get(code[position], 0)
        if depth == 0:
            return code[opened : position + 1]
    return code[opened:]


def _effort(body: str) -> Effort:
    lines = sum(bool(line.strip()) for line in body.split("\n"))
    minutes = _KERNEL_MINUTES + _LINE_MINUTES * lines
    return Effort(minutes, f"a kernel: {_KERNEL_MINUTES} minutes, and {_LINE_MINUTES} a line of its {lines}")


def _hard(body: str) -> list[str]:
    return [what for pattern, what in _HARD if pattern.search(body)]
