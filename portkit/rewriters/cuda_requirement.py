"""Requirements that need CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from portkit import companions
from portkit.analyzers import _commands, _libraries, _lines, _required
from portkit.finding import Edit, Effort, Finding, Phase, Span, Support
from portkit.rewriters import _requirement_files
from portkit.rule import Context, Rule
from portkit.source import Kind

_NAME = re.compile(r"^\s*(?P<name>[A-Za-z][\w.-]*)(?=\s*(?:\[|[=<>!~@;,]|$))")
_BUILD = re.compile(r"(?:\+|%2B|-|_)(?P<value>cu\d{2,3})\b(?=[\w.%-]*\.whl)|\+(?P<other>cu\d{2,3})\b")
_INDEX = re.compile(
    r"https?://[^\s\"',]*?/(?:whl/)?(?:nightly/)?(?:torch-[\d.]+\+)?cu\d{2,3}\b[^\s\"',\]]*"
    # the version is put in: `whl/cu${CUDA}`, `whl/${{ inputs.cuda }}`
    r"|https?://[^\s\"',]*?/whl/(?:nightly/|test/)?(?:cu)?\$\{{0,2}\s*"
    r"(?i:[\w.]*(?<![a-z])cu(?:da)?(?![a-z])[\w.-]*)(?:\s*\}{1,2})?"
)
_NVIDIA_INDEX = re.compile(r"https?://(?:pypi\.(?:ngc\.)?nvidia\.com|pypi\.ngc\.nvidia\.com)[^\s\"',\]]*")
_EXTRA = re.compile(r"\b(?:jax|jaxlib|tensorflow|optimum)\[[\w,-]*(?:cuda|gpu)[\w,-]*\]")
_CONDA_BUILD = re.compile(r"=\s*(?P<value>[^\s=]*cuda?\d*[\d._]*[^\s=]*)\s*$")
_LOCKED = re.compile(r"^name = \"(?P<name>[^\"]+)\"", re.M)
_SYSTEM = re.compile(
    r"(?:cuda|cudnn9?|libcudnn|libcublas|libcusparse|libcusolver|libcufft|libcurand|libnccl|libnvinfer|libnvjpeg|libnpp"
    r"|libnvtoolsext|nvidia-|tensorrt|libnvonnxparsers|nsight|datacenter-gpu-manager|libnvidia)[\w.-]*"
)
_NOTE = "Machines with CUDA have to install the other file from then on."
_PART = "it belongs to one version of CUDA"


class CudaRequirement(Rule):
    """A package that needs CUDA is required.

    What: flash-attn, apex, triton, nvidia-*, cupy-cuda*, and so on, in requirements, conda environments,
    pyproject.toml, Pipfile, setup.cfg and setup.py, and in commands that install (`pip install`,
    `conda install`, `apt-get install`) in scripts, containers, CI files and notebooks; torch builds for one
    CUDA version (`+cu118`, an index `.../whl/cu121`); cudatoolkit, pytorch-cuda, the conda channel nvidia.
    The wheels of NVIDIA's libraries are told once a file, and so is what a lock file holds.
    Why: they can't be installed where there is no CUDA, so that nothing else is installed either.
    Instead: leave them out, or make them an extra; take torch from the default index, or from that of the
    device. In a requirements file such lines move to a file beside it, `requirements-cuda.txt`, which takes
    the portable ones with `-r`; `torch==2.6.0+cu118` becomes `torch==2.6.0`.
    Safety: with `--unsafe` only: whoever installs on a machine with CUDA has to name the other file from then
    on. Elsewhere nothing is rewritten: which of them are still needed shows once the code is migrated. What
    is an extra already, or stands in a file whose name says CUDA or GPU, counts as portable.
    """

    id = "PK401"
    name = "cuda_requirement"
    phase = Phase.FULL_MODEL
    minutes = 10
    triggers = tuple(
        sorted(
            {
                re.split(r"[-_*.]", name)[0].lower().encode()
                for lib in _libraries.libraries()
                for name in lib.requirements
            }
            | {b"cu1", b"cu9", b"cuda", b"nvidia", b"libnccl", b"libnvinfer", b"nsight", b"cudnn"}
        )
    )
    code_triggers = (b"install_requires", b"extras_require", b"setup_requires", b"tests_require")
    text_kinds = frozenset({Kind.REQUIREMENTS, Kind.TOML, Kind.INI, *_commands.KINDS})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        if ctx.path.endswith(".lock"):
            yield from self._locked(ctx)
            return
        yield from self._pins(ctx)
        for span in _required.channels(ctx):
            yield self._found(span, ctx, "The channel nvidia holds CUDA packages", group="channel")
        seen: set[int] = set()
        for item in _required.required(ctx):
            if item.span.start not in seen:
                seen.add(item.span.start)
                yield from self._name(item.name, item.span, ctx, source=item.source, extra=item.extra)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        """`setup(install_requires=[...])`, with lists that the file gives a name."""
        for keyword in node.keywords:
            if keyword.arg in _required.KEYWORDS:
                for item in _required.strings(keyword.value, node, ctx):
                    match = _NAME.match(str(item.value))
                    if match:
                        extra = keyword.arg == "extras_require"
                        yield from self._name(match["name"], ctx.span(item), ctx, extra=extra)

    def _pins(self, ctx: Context) -> Iterator[Finding]:
        lines = _commands.commands(ctx) if ctx.kind in _commands.KINDS else _lines.lines(ctx.text)
        for line in lines:
            spans = [line.span(m, "value" if m["value"] else "other") for m in _BUILD.finditer(line.text)]
            spans += [line.span(match) for match in _INDEX.finditer(line.text)]
            if ctx.kind is Kind.REQUIREMENTS and re.match(
                r"\s*-\s*(?:[\w-]+::)?(?:py)?torch\w*\s*=", line.text
            ):
                spans += [line.span(match, "value") for match in _CONDA_BUILD.finditer(line.text)]
            for span in _apart(spans):
                yield self._found(
                    span,
                    ctx,
                    "torch is taken from a build for one CUDA version",
                    "Take torch from the default index, or from the index of the device in use.",
                    group="torch build",
                    edits=_requirement_files.without_build(span, ctx),
                )
            for match in _EXTRA.finditer(line.text):
                yield self._found(line.span(match), ctx, f"{match[0]} is taken in its build for CUDA")
            for match in _NVIDIA_INDEX.finditer(line.text):
                yield self._found(
                    line.span(match), ctx, "Packages are taken from NVIDIA's index", group="index"
                )

    def _locked(self, ctx: Context) -> Iterator[Finding]:
        found = [
            match
            for match in _LOCKED.finditer(ctx.text)
            if _libraries.of_requirement(match["name"]) is not None or _BUILD.search(match["name"])
        ]
        if found:
            yield self._found(
                Span(*found[0].span("name")),
                ctx,
                f"The lock file holds {len(found)} packages that need CUDA: "
                + ", ".join(match["name"] for match in found[:6])
                + (" and others" if len(found) > 6 else ""),
                "Lock again, once the requirements are portable.",
            )

    def _name(
        self, name: str, span: Span, ctx: Context, *, source: bool = False, extra: bool = False
    ) -> Iterator[Finding]:
        library = _libraries.of_requirement(name)
        if library is not None:
            wheels = "nvidia-*" in library.requirements
            yield self._found(
                span,
                ctx,
                f"{name} needs CUDA: {library.what}",
                "It is an extra: without CUDA it is not asked for." if extra else library.instead,
                group="wheels of NVIDIA's" if wheels else "",
                support=Support.PORTABLE if extra else Support.MANUAL,
                edits=[] if extra else _requirement_files.without_line(span, ctx),
            )
        elif not source and ctx.kind in _commands.KINDS and _SYSTEM.fullmatch(name):
            yield self._found(span, ctx, f"{name.rstrip('-')} is installed: {_PART}", group="system packages")

    def _found(
        self,
        span: Span,
        ctx: Context,
        message: str,
        remedy: str = "",
        group: str = "",
        support: Support = Support.MANUAL,
        edits: Sequence[Edit] = (),
    ) -> Finding:
        if _requirement_files.is_optional(ctx):
            support, edits, remedy = Support.PORTABLE, (), "The file is for machines with CUDA, by its name."
        elif edits:
            other = companions.beside(ctx.path)
            support, remedy = Support.REVIEW, f"Move it to {other}, which takes this file with -r."
        return ctx.finding(
            self,
            span,
            message,
            support=support,
            remedy=remedy or "Leave it out where there is no CUDA, or make it an extra.",
            effort=Effort(10, f"rule {self.id}") if support is Support.MANUAL else None,
            group=group,
            note=_NOTE if support is Support.REVIEW else "",
            edits=edits,
        )


def _apart(spans: list[Span]) -> list[Span]:
    """Spans that do not overlap, the earlier and longer of them first."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda item: (item.start, -item.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept
