"""Command lines that name CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from portkit.analyzers import _commands, _lines, _patterns
from portkit.analyzers.cuda_environment import advice
from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_NAMES = (
    r"(?:(?:CUDA|NCCL|CUBLAS|CUDNN|NVTE|NVIDIA|NVSHMEM|NVCC|TORCH_NCCL|TORCH_CUDA|PYTORCH_CUDA|PYTORCH_NVML|TCNN_CUDA)"
    r"_[A-Z0-9_]+|FORCE_CUDA|USE_CUDA|WITH_CUDA|BUILD_CUDA\w*|FLASH_ATT(?:N|ENTION)_[A-Z0-9_]+|PYTORCH_ALLOC_CONF"
    r"|[A-Z0-9_]+_(?:KEEP|USE|WITH|BUILD|FORCE|ENABLE)_CUDA(?:_[A-Z]+)*)"
)
_SET = re.compile(
    rf"(?:^|(?<=[\s;&|(\"'!,]))(?P<name>{_NAMES})(?=\s*(?:\+?=(?!=)))"
    rf"|(?:\b(?:export|unset|ENV|ARG|declare\s+-x|setenv|%(?:set_)?env)\s+|(?:-e|--env|-x)[ =])"
    rf"(?P<other>{_NAMES})\b"
)
_READ = re.compile(rf"\$\{{?(?P<name>{_NAMES})\b(?P<other>)")
_YAML = re.compile(rf"^\s*-?\s*[\"']?(?P<name>{_NAMES})[\"']?\s*:|\bname:\s*[\"']?(?P<other>{_NAMES})\b")
_OWN = re.compile(  # of the user's own, or of a program: CUDA's are known by name
    r"[A-Z0-9_]+_(?:KEEP|USE|WITH|BUILD|FORCE|ENABLE)_CUDA|CUDA_(?!VISIBLE_DEV|DEVICE|LAUNCH|HOME|PATH|ROOT|BIN|LIB|INC|TOOLKIT|CACHE|MODULE|FORCE|DISABLE|MPS|VER|ARCH"
    r"|ENABLE|COREDUMP|AUTO|NVCC|SCALE|GRAPHS|PKG|COMPAT|DRIVER|CUDART|MAJOR|MINOR|SDK|LAZY|MANAGED|INSTALL|DEBUGGER)"
)
_UNSURE = (Support.UNKNOWN, "If it is one, it belongs to the machine with CUDA.")
_ASKED = re.compile(r"^#(?:SBATCH|PBS|BSUB|\$)\s")


class CudaLauncher(Rule):
    """A command line names CUDA.

    What: `CUDA_VISIBLE_DEVICES=0 python train.py`, `NCCL_*`, `nvidia-smi`, `--device cuda`, `--backend nccl`,
    `--gpus 2`, `docker run --gpus`, `#SBATCH --gres=gpu`, `module load cuda`, nsys and nvcc, in shell
    scripts, Dockerfiles, CI and other YAML files, makefiles, and shell lines of notebooks. `torchrun` is
    counted as portable.
    Why: the variables do nothing elsewhere, the tools are missing, and the options ask for CUDA.
    Instead: the options and variables of the device in use; without `--device`, migrated code chooses itself.
    Safety: nothing is rewritten.
    """

    id = "PK403"
    name = "cuda_launcher"
    phase = Phase.FULL_MODEL
    minutes = 15
    triggers = (
        *(b"cuda", b"nccl", b"nvidia", b"gpu", b"nsys", b"ncu", b"nvprof", b"nvcc", b"nvte", b"nvshmem"),
        *(
            b"torchrun",
            b"torch.distributed",
            b"flash",
            b"deepspeed",
            b"accelerate",
            b"apex",
            b"8bit",
            b"4bit",
        ),
        *(
            b"--nv",
            b"paged_",
            b"dcgmi",
            b"compute-sanitizer",
            b"xformers",
            b"transformer_engine",
            b"pytorch_",
        ),
        *(b"#sbatch", b"#pbs", b"#bsub", b"tritonserver", b"trtexec", b"trtllm"),
    )
    text_kinds = _commands.KINDS

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        rows = _patterns.load("commands")
        lines = (line for line in _commands.commands(ctx) if not _is_setting(line.text, ctx))
        yield from _patterns.find(self, ctx, rows, lines)
        for line in _commands.commands(ctx):
            yield from self._variables(line, ctx)
        if ctx.kind is Kind.SHELL:
            asked = (line for line in _lines.lines(ctx.text, comments=False) if _ASKED.match(line.text))
            yield from _patterns.find(self, ctx, rows, asked)

    def _variables(self, line: _lines.Line, ctx: Context) -> Iterator[Finding]:
        expressions = [_SET, _READ, *([_YAML] if ctx.kind is Kind.YAML else [])]
        for expression in expressions:
            for match in expression.finditer(line.text):
                name = match["name"] or match["other"]
                support, remedy = advice(name) if not _OWN.match(name) else _UNSURE
                known = "is" if support is not Support.UNKNOWN else "may be"
                yield ctx.finding(
                    self,
                    line.span(match, "name" if match["name"] else "other"),
                    f"{name} {known} a variable of CUDA, or of software for it",
                    support=support,
                    remedy=remedy,
                    group=f"variable {name}",
                )


def _is_setting(line: str, ctx: Context) -> bool:
    """Whether a line of YAML gives an option as a key, which the rule about settings looks at."""
    return ctx.kind is Kind.YAML and re.match(r"\s*[\"']?--?[\w-]+[\"']?\s*:(?:\s|$)", line) is not None
