"""Configuration files that name CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from portkit.analyzers import _lines
from portkit.finding import Finding, Phase, Span, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_PAIR = re.compile(r"""(?P<key>[\w.-]+)["']?\s*[:=]\s*(?P<value>"[^"]*"|'[^']*'|[^\s,}\]#]+)""")
_DEVICE = re.compile(r"cuda(?::\d+)?\Z")
_COUNTS = frozenset({"gpus", "num_gpus", "n_gpu", "ngpu", "gpu_ids", "gpu_id", "n_gpus"})
_REMEDY = "Let the program choose: take the device from pk.device_type() where the file leaves it open."


class CudaConfigValue(Rule):
    """A configuration file names CUDA.

    What: `device: cuda`, `backend: nccl`, `accelerator: gpu`, `gpus: 2` in YAML, JSON and TOML.
    Why: the program that reads the file gets a device that other machines do not have.
    Instead: a value such as `auto`, which the program resolves with `pk.device_type()` or
    `pk.distributed_backend()`.
    Safety: nothing is rewritten: what a value means is up to the program that reads it. `device: cuda`
    only needs a review, since most programs pass it on to torch.
    """

    id = "PK402"
    name = "cuda_config_value"
    phase = Phase.FULL_MODEL
    minutes = 5
    triggers = (b"cuda", b"nccl", b"gpu")
    text_kinds = frozenset({Kind.YAML, Kind.JSON, Kind.TOML})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        for line in _lines.lines(ctx.text, comments=ctx.kind is not Kind.JSON):
            for match in _PAIR.finditer(line.text):
                yield from self._pair(line, match, ctx)

    def _pair(self, line: _lines.Line, match: re.Match[str], ctx: Context) -> Iterator[Finding]:
        key = match.group("key").lower().rpartition(".")[2]
        value = match.group("value").strip("\"'")
        span = line.span(match, "value")
        if _DEVICE.match(value):
            known = "device" in key or key in ("map_location", "accelerator")
            yield ctx.finding(
                self,
                span,
                f"{key} is set to {value}",
                support=Support.REVIEW if known else Support.UNKNOWN,
                remedy=_REMEDY if known else "If it is a device, let the program choose.",
                note="What the value may be is up to the program that reads it." if known else "",
            )
        elif value == "nccl":
            yield self._manual(
                span, ctx, "The back end is NCCL", "Let the program ask pk.distributed_backend()."
            )
        elif key == "accelerator" and value in ("gpu", "cuda"):
            yield self._manual(span, ctx, "The accelerator is a GPU", "Use `auto`, if the program takes it.")
        elif key in _COUNTS and value not in ("0", "null", "~", "None", "false"):
            yield self._manual(
                span, ctx, f"{key} counts CUDA devices", "Let the program count with pk.device_count()."
            )

    def _manual(self, span: Span, ctx: Context, message: str, remedy: str) -> Finding:
        return ctx.finding(self, span, message, support=Support.MANUAL, remedy=remedy)
