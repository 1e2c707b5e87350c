"""Container images that contain CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable

from portkit.analyzers import _lines
from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_FROM = re.compile(r"^\s*FROM\s+(?:--platform=\S+\s+)?(?P<image>\S+)", re.I)
_ARGUMENT = re.compile(r"^\s*ARG\s+\w+=[\"']?(?P<image>[^\s\"']+)", re.I)
_IMAGE = re.compile(r"(?:^|/)nvidia/|^nvcr\.io/|[:-]cuda|[:-]cu\d{2,3}\b|cudnn|(?:^|[-/])cuda[:-]", re.I)


class CudaBaseImage(Rule):
    """A container starts from an image with CUDA.

    What: `FROM nvidia/cuda`, `FROM nvcr.io/...`, `FROM pytorch/pytorch:...-cuda...`, also where the name
    stands in an `ARG`.
    Why: the image is large, runs on x86-64 and Arm servers only, and its torch is a CUDA build.
    Instead: `python:3.12-slim` with torch from the index of the device, or the vendor's image.
    Safety: nothing is rewritten.
    """

    id = "PK404"
    name = "cuda_base_image"
    phase = Phase.FULL_MODEL
    triggers = (b"nvidia", b"nvcr", b"cuda", b":cu", b"-cu", b"cudnn")
    text_kinds = frozenset({Kind.DOCKERFILE})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        for line in _lines.lines(ctx.text):
            match = _FROM.match(line.text) or _ARGUMENT.match(line.text)
            if match is None or not _IMAGE.search(match.group("image")):
                continue
            yield ctx.finding(
                self,
                line.span(match, "image"),
                f"The image {match.group('image')} contains CUDA",
                support=Support.MANUAL,
                remedy="Start from python:3.12-slim with torch for the device in use, or the vendor's image.",
            )
