"""Configuration files that name CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from portkit import tables
from portkit.analyzers import _commands, _libraries, _lines
from portkit.analyzers.cuda_environment import VARIABLE
from portkit.finding import Effort, Finding, Phase, Span, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_PAIR = re.compile(
    r"""(?:(?<=[\s{,\[("'])|^)(?:--)?(?P<key>[A-Za-z_][\w.-]*)["']?\s*[:=](?!=)\s*"""
    r"""(?P<value>"[^"]*"|'[^']*'|\[[^\]]*\]|\{|[^\s,}\]{#;][^,}\]#;\n]*|)"""
)
_COLON = frozenset({Kind.YAML, Kind.JSON})  # where `=` belongs to commands and texts
_ENABLED = re.compile(r"[\s{,\"']enabled[\"']?\s*[:=]\s*[\"']?(?P<value>true|auto|on|yes)\b", re.I)
_SECTIONS = re.compile(r"(?:fp16|amp)\Z", re.I)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+\Z")
_ACCELERATOR = re.compile(
    r"\"(?:accelerator|gpuClass|gpuType)\"\s*:\s*\"(?P<value>[^\"]+)\"|\"isGpuEnabled\"\s*:\s*(?P<kaggle>true)"
)
_ITEM = re.compile(r"^\s*-\s+[\"']?(?P<value>cuda(?::\d+)?|nccl)[\"']?\s*$")
_SERVED = re.compile(
    r"\bkind\s*:\s*(?P<value>KIND_GPU)\b"
)  # of Triton Inference Server, several pairs a line
_PACKAGES = ("package-lock.json", "tsconfig.json", "package.json", "pixi.toml", "Pipfile", "Cargo.toml")
_NOTHING = frozenset({"", "none", "null", "TPU", "tpu", "standard", "high-RAM"})


@dataclass(frozen=True)
class _Row:
    keys: re.Pattern[str]
    values: re.Pattern[str]
    says: str
    instead: str
    support: Support
    note: str
    beside: re.Pattern[str] | None  # what the file must hold too


@cache
def _rows() -> tuple[_Row, ...]:
    return tuple(
        _Row(
            re.compile(row["keys"]),
            re.compile(row["values"], re.I),
            row["says"],
            row["instead"],
            Support(row.get("support", "manual")),
            row.get("note", ""),
            re.compile(row["beside"], re.I | re.M) if "beside" in row else None,
        )
        for row in tables.load("config")["row"]
    )


@cache
def _row(key: str, value: str) -> _Row | None:
    return next((r for r in _rows() if r.keys.fullmatch(key) and r.values.fullmatch(value)), None)


class CudaConfigValue(Rule):
    """A configuration file names CUDA.

    What: `device: cuda`, `backend: nccl`, `accelerator: gpu`, `gpus: 2`, `fp16: true`,
    `use_flash_attn: true`, `optim: paged_adamw_8bit`, names of CUDA-only libraries
    (`_target_: apex.optimizers.FusedAdam`) in YAML, JSON, TOML and INI files, and the accelerator that a
    notebook or a model server (`KIND_GPU`) asks for. The keys stand in `portkit/tables/config.toml`.
    Why: the program that reads the file gets a device that other machines do not have.
    Instead: a value such as `auto`, which the program resolves with `pk.device_type()` or
    `pk.distributed_backend()`.
    Safety: nothing is rewritten: what a value means, and which others it may have, is up to the program that
    reads it.
    """

    id = "PK402"
    name = "cuda_config_value"
    phase = Phase.FULL_MODEL
    minutes = 5
    triggers = (
        *(
            b"cuda",
            b"nccl",
            b"gpu",
            b"cudnn",
            b"apex",
            b"fp16",
            b"float16",
            b"half",
            b"amp",
            b"flash",
            b"xformers",
        ),
        *(b"precision", b"pin_memory", b"pinned", b"opt_level", b"8bit", b"4bit", b"paged_", b"fp8", b"bnb"),
        *(b"transformer_", b"device_map", b"loss_scale", b"fused", b"dali", b"tensorrt", b"bitsandbytes"),
        *(b"attn", b"attention", b"triton", b"nvtx", b"fusion", b"fsdp", b"gptq", b"awq", b"onebit"),
        *(
            b"deepspeed",
            b"xformers",
            b"torch_scatter",
            b"spconv",
            b"minkowski",
            b"tinycudann",
            b"causal_conv1d",
        ),
        *(b"mamba_ssm", b"liger_kernel", b"fla.", b"cupy", b"modelopt", b"fbgemm"),
    )
    text_kinds = frozenset({Kind.YAML, Kind.JSON, Kind.TOML, Kind.INI, Kind.METADATA})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        if ctx.kind is Kind.METADATA:
            yield from self._notebook(ctx)
            return
        if _is_lock(ctx.path) or _is_about_data(ctx):
            return
        for line in _lines.lines(ctx.text, comments=ctx.kind is not Kind.JSON):
            if ctx.kind is Kind.YAML and _commands.is_spoken(line.text):
                continue
            if ctx.kind is Kind.INI and line.text.lstrip().startswith(";"):
                continue
            item = _ITEM.match(line.text) if ctx.kind is Kind.YAML else None
            if item is not None:
                yield from self._listed(line, item, ctx)
            for match in _PAIR.finditer(line.text):
                yield from self._pair(line, match, ctx)
            for match in _SERVED.finditer(line.text):
                yield ctx.finding(
                    self,
                    line.span(match, "value"),
                    "The server runs the model on a GPU",
                    support=Support.MANUAL,
                    remedy="Use KIND_CPU, or KIND_AUTO.",
                )

    def _pair(self, line: _lines.Line, match: re.Match[str], ctx: Context) -> Iterator[Finding]:
        key = match["key"].lower().rpartition(".")[2].replace("-", "_")
        if VARIABLE.match(match["key"]):
            return  # a variable of the environment, which the rule about commands looks at
        if ctx.kind in _COLON and "=" in line.text[match.end("key") : match.start("value")]:
            return
        raw = match["value"].strip()
        value = raw.strip("\"'").strip()
        span = Span(line.start + match.start("value"), line.start + match.start("value") + len(raw))
        if _SECTIONS.match(key) and value in ("", "{"):
            yield from self._section(line, match, key, ctx)
            return
        known = "device" if ctx.is_device_setting(key) else key
        row = _row(known, value) if value and value != "{" else None
        if row is not None and (row.beside is None or row.beside.search(ctx.text)):
            yield ctx.finding(
                self,
                span,
                row.says.format(key=match["key"], value=value),
                support=row.support,
                remedy=row.instead,
                note=row.note,
            )
        elif _DOTTED.match(value):
            yield from self._library(value, span, ctx)

    def _section(self, line: _lines.Line, match: re.Match[str], key: str, ctx: Context) -> Iterator[Finding]:
        """`fp16: {enabled: true}`, as DeepSpeed's files have it."""
        start = line.start + match.start("key")
        behind = ctx.text[start : start + 400]
        block = behind[: behind.find("}")] if "}" in behind else behind
        enabled = _ENABLED.search(block)
        if enabled is None or len(block[: enabled.start()].splitlines()) > 3:
            return
        yield ctx.finding(
            self,
            Span(start, start + len(match["key"])),
            f"{match['key']} is enabled: training in float16",
            support=Support.MANUAL,
            remedy="Use bfloat16 where there is no CUDA: CPUs are slow in float16, or lack operators for it.",
        )

    def _library(self, value: str, span: Span, ctx: Context) -> Iterator[Finding]:
        """The dotted name of something that a program will import."""
        library = _libraries.needs_cuda(value)
        if library is not None:
            use = _libraries.use_of(library, value)
            yield ctx.finding(
                self,
                span,
                f"{value} needs CUDA: {use.what if use else library.what} ({library.package})",
                support=Support.MANUAL,
                remedy=use.instead if use else library.instead,
                qualified_name=value,
                phase=use.phase if use else library.phase,
                effort=Effort(use.effort if use else library.effort, f"table libraries, {library.package}"),
            )
        elif value.startswith("torch.cuda."):
            yield ctx.finding(
                self,
                span,
                f"{value} works on CUDA only",
                support=Support.MANUAL,
                remedy="Name the portable counterpart: pk has one of most.",
                qualified_name=value,
            )

    def _listed(self, line: _lines.Line, match: re.Match[str], ctx: Context) -> Iterator[Finding]:
        yield ctx.finding(
            self,
            line.span(match, "value"),
            f"{match['value']} stands in a list",
            support=Support.UNKNOWN,
            remedy="If it is a device or a back end, let the program choose.",
        )

    def _notebook(self, ctx: Context) -> Iterator[Finding]:
        start = ctx.text.rfind('"metadata"')
        for match in _ACCELERATOR.finditer(ctx.text, max(start, 0)):
            group = "value" if match["value"] else "kaggle"
            if match[group] not in _NOTHING:
                yield ctx.finding(
                    self,
                    Span(*match.span(group)),
                    f"The notebook asks for a machine with an NVIDIA GPU: {match[group]}",
                    support=Support.MANUAL,
                    remedy="Remove it from the notebook's metadata once its code is portable.",
                    group="notebook",
                )


def _is_lock(path: str) -> bool:
    """Whether a file says which packages a project needs, and nothing of how it runs."""
    return path.endswith((".lock", *_PACKAGES))


def _is_about_data(ctx: Context) -> bool:
    """Whether a JSON file holds data, such as a vocabulary or a profile, and no settings: those are short."""
    return ctx.kind is Kind.JSON and len(ctx.text) > 200_000
