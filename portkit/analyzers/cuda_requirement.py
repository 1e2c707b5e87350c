"""Requirements that need CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from portkit.analyzers import _libraries, _lines
from portkit.finding import Finding, Phase, Span, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_NAME = re.compile(
    r"""^\s*(?:-\s*)?(?:["']?(?:[\w.-]+::)?)(?P<name>[A-Za-z][\w.-]*)(?=\s*(?:\[|[=<>!~@;,"']|$|\s*\#))"""
)
_QUOTED = re.compile(r"""["'](?P<name>[A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*(?:[=<>!~@; ][^"']*)?["']""")
_BUILD = re.compile(r"\+cu\d{2,3}\b")
_INDEX = re.compile(r"https?://\S*/(?:whl/)?(?:nightly/)?cu\d{2,3}\b[^\s\"',\]]*")
_CHANNEL = re.compile(r"^\s*-\s*(?P<name>nvidia(?:/label/[\w.-]+)?)\s*$")
_TOOLKIT = frozenset(
    {"cudatoolkit", "cuda-toolkit", "pytorch-cuda", "cudnn", "cuda-nvcc", "cuda-version", "nccl", "cuda"}
)
_TOOLS = frozenset({"pynvml", "nvidia-ml-py", "nvidia-ml-py3", "py3nvml", "gputil", "gpustat", "nvtx"})
_SECTIONS = re.compile(r"^\s*\[(?P<name>[^\]]+)\]\s*$")
_INSTALL_KEYWORDS = frozenset({"install_requires", "extras_require", "setup_requires", "tests_require"})


class CudaRequirement(Rule):
    """A package that needs CUDA is required.

    What: flash-attn, apex, triton, nvidia-*, cupy-cuda*, and so on, in requirements, conda environments,
    pyproject.toml and setup.py; torch builds for one CUDA version (`+cu118`, an index `.../whl/cu121`);
    cudatoolkit, pytorch-cuda, the conda channel nvidia.
    Why: they can't be installed where there is no CUDA, so that nothing else is installed either.
    Instead: leave them out, or make them an extra; take torch from the default index, or from that of the
    device.
    Safety: nothing is rewritten: which of them are still needed shows once the code is migrated.
    """

    id = "PK401"
    name = "cuda_requirement"
    phase = Phase.FULL_MODEL
    minutes = 10
    triggers = (
        b"flash",
        b"apex",
        b"triton",
        b"nvidia",
        b"cu1",
        b"cuda",
        b"nvml",
        b"xformers",
        b"bitsandbytes",
        b"transformer",
        b"mamba",
        b"conv1d",
        b"torch",
        b"cupy",
        b"tensorrt",
        b"gpu",
        b"spconv",
    )
    text_kinds = frozenset({Kind.REQUIREMENTS, Kind.TOML})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        section = ""
        for line in _lines.lines(ctx.text):
            header = _SECTIONS.match(line.text)
            section = header.group("name") if header else section
            yield from self._pins(line, ctx)
            if ctx.kind is Kind.TOML:
                if section.startswith(
                    ("project", "build-system", "dependency-groups", "tool.poetry", "tool.uv")
                ):
                    yield from self._quoted(line, ctx, section)
                continue
            channel = _CHANNEL.match(line.text)
            match = _NAME.match(line.text)
            if channel:
                yield self._found(line.span(channel, "name"), ctx, "The channel nvidia holds CUDA packages")
            elif match:
                yield from self._name(match.group("name"), line.span(match, "name"), ctx)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        """`setup(install_requires=[...])`."""
        for keyword in node.keywords:
            if keyword.arg in _INSTALL_KEYWORDS:
                for item in ast.walk(keyword.value):
                    if isinstance(item, ast.Constant) and isinstance(item.value, str):
                        match = _NAME.match(item.value)
                        if match:
                            yield from self._name(match.group("name"), ctx.span(item), ctx)

    def _quoted(self, line: _lines.Line, ctx: Context, section: str) -> Iterator[Finding]:
        if section.endswith("dependencies"):  # poetry: a table whose keys are the names
            match = _NAME.match(line.text)
            if match:
                yield from self._name(match.group("name"), line.span(match, "name"), ctx)
        for match in _QUOTED.finditer(line.text):
            yield from self._name(match.group("name"), line.span(match, "name"), ctx)

    def _pins(self, line: _lines.Line, ctx: Context) -> Iterator[Finding]:
        for match in (*_BUILD.finditer(line.text), *_INDEX.finditer(line.text)):
            yield self._found(
                line.span(match),
                ctx,
                "torch is taken from a build for one CUDA version",
                "Take torch from the default index, or from the index of the device in use.",
            )

    def _name(self, name: str, span: Span, ctx: Context) -> Iterator[Finding]:
        lowered = name.lower().replace("_", "-")
        library = _libraries.of_requirement(name)
        if lowered in _TOOLS:
            yield self._found(span, ctx, f"{name} reads NVIDIA's management library")
        elif library is not None:
            yield self._found(span, ctx, f"{name} needs CUDA: {library.what}", library.instead)
        elif lowered in _TOOLKIT:
            yield self._found(span, ctx, f"{name} is part of CUDA")
        elif lowered == "triton":
            yield self._found(
                span, ctx, "triton has no CPU back end", "Kernels ported to @portkit.jit do not need it."
            )

    def _found(self, span: Span, ctx: Context, message: str, remedy: str = "") -> Finding:
        return ctx.finding(
            self,
            span,
            message,
            support=Support.MANUAL,
            remedy=remedy or "Leave it out where there is no CUDA, or make it an extra.",
        )
