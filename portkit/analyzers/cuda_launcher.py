"""Shell commands that name CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from portkit.analyzers import _lines
from portkit.analyzers.cuda_environment import advice
from portkit.finding import Finding, Phase, Span, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_VARIABLE = re.compile(
    r"(?:^|(?<=[\s;&|(\"']))(?P<name>(?:CUDA|NCCL|CUBLAS|CUDNN|NVTE|NVIDIA|TORCH_NCCL|TORCH_CUDA|PYTORCH_CUDA)_[A-Z0-9_]+)="
)
_SMI = re.compile(r"(?:^|(?<=[\s;&|(`/]))nvidia-smi\b")
_PROFILER = re.compile(
    r"(?:^|(?<=[\s;&|(`]))(?P<name>nsys|ncu|nvprof|nvcc|cuda-memcheck|compute-sanitizer)(?=\s)"
)
_DEVICE = re.compile(r"--?[\w-]*device[\w-]*[= ]+[\"']?(?P<value>cuda(?::\d+)?)\b")
_BACKEND = re.compile(r"--?[\w-]*backend[\w-]*[= ]+[\"']?(?P<value>nccl)\b")
_DOCKER = re.compile(r"\bdocker\s+run\b.*?(?P<value>--gpus[= ]\S+)|(?P<wrapper>\bnvidia-docker\b)")
_MODULE = re.compile(r"\bmodule\s+load\s+(?P<value>(?:cuda|cudnn|nccl)\S*)", re.I)
_SLURM = re.compile(r"^#SBATCH\s+.*?(?P<value>--(?:gres=gpu|gpus)\S*)")
_INSTALL = re.compile(
    r"\b(?:pip3?|conda|mamba|uv)\b.*?\binstall\b.*?(?P<value>\bflash[-_]attn\b|\bcu\d{2,3}\b|\bcudatoolkit\b)"
)


class CudaLauncher(Rule):
    """A command line names CUDA.

    What: `CUDA_VISIBLE_DEVICES=0 python train.py`, `NCCL_*`, `nvidia-smi`, `--device cuda`, `--backend nccl`,
    `docker run --gpus`, `module load cuda`, nsys and nvcc, in shell scripts and Dockerfiles.
    Why: the variables do nothing elsewhere, the tools are missing, and the options ask for CUDA.
    Instead: the options and variables of the device in use; without `--device`, migrated code chooses itself.
    Safety: nothing is rewritten.
    """

    id = "PK403"
    name = "cuda_launcher"
    phase = Phase.FULL_MODEL
    minutes = 15
    triggers = (b"cuda", b"nccl", b"nvidia", b"gpu", b"nsys", b"ncu", b"nvprof", b"nvcc", b"nvte", b"flash")
    text_kinds = frozenset({Kind.SHELL, Kind.DOCKERFILE})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        for raw, line in zip(_lines.lines(ctx.text, comments=False), _lines.lines(ctx.text), strict=True):
            slurm = _SLURM.match(raw.text)
            if slurm:
                yield self._manual(
                    raw.span(slurm, "value"), ctx, "GPUs are asked for", "Ask for what the machine has."
                )
            yield from self._variables(line, ctx)
            yield from self._tools(line, ctx)
            yield from self._options(line, ctx)

    def _variables(self, line: _lines.Line, ctx: Context) -> Iterator[Finding]:
        for match in _VARIABLE.finditer(line.text):
            name = match.group("name")
            support, remedy = advice(name)
            yield ctx.finding(
                self,
                line.span(match, "name"),
                f"{name} is a variable of NVIDIA's software",
                support=support,
                remedy=remedy,
            )

    def _tools(self, line: _lines.Line, ctx: Context) -> Iterator[Finding]:
        for match in _SMI.finditer(line.text):
            yield self._manual(
                line.span(match),
                ctx,
                "nvidia-smi is missing elsewhere",
                "Use `portkit doctor`, or the vendor's tool.",
            )
        for match in _PROFILER.finditer(line.text):
            name = match.group("name")
            yield self._manual(
                line.span(match, "name"),
                ctx,
                f"{name} is a tool of NVIDIA's",
                "Use torch.profiler, or the vendor's tool.",
            )
        for match in _MODULE.finditer(line.text):
            yield self._manual(
                line.span(match, "value"), ctx, "A CUDA module is loaded", "Not needed without CUDA."
            )

    def _options(self, line: _lines.Line, ctx: Context) -> Iterator[Finding]:
        for match in _DEVICE.finditer(line.text):
            yield self._manual(
                line.span(match, "value"),
                ctx,
                "The command asks for CUDA",
                "Leave the option out: migrated code takes the device that is there.",
            )
        for match in _BACKEND.finditer(line.text):
            yield self._manual(
                line.span(match, "value"),
                ctx,
                "The command asks for NCCL",
                "Leave the option out, or pass gloo.",
            )
        for match in _DOCKER.finditer(line.text):
            group = "value" if match.group("value") else "wrapper"
            yield self._manual(
                line.span(match, group),
                ctx,
                "The container is given NVIDIA GPUs",
                "Leave it out without them.",
            )
        for match in _INSTALL.finditer(line.text):
            yield self._manual(
                line.span(match, "value"), ctx, "A CUDA package is installed", "Leave it out without CUDA."
            )

    def _manual(self, span: Span, ctx: Context, message: str, remedy: str) -> Finding:
        return ctx.finding(self, span, message, support=Support.MANUAL, remedy=remedy)
