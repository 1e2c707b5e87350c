"""Container images that contain CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from portkit.analyzers import _commands, _lines
from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_FROM = re.compile(r"^\s*From:?\s+(?:--platform=\S+\s+)?[\"']?(?P<image>[^\s\"']+)", re.I)
_ARGUMENT = re.compile(r"^\s*ARG\s+(?P<name>\w+)\s*=\s*[\"']?(?P<image>[^\s\"']+)", re.I)
_COPIED = re.compile(r"^\s*COPY\s+.*?--from=(?P<image>[^\s]*[/:][^\s]*)", re.I)
_VARIABLE = re.compile(r"\$\{?(?P<name>\w+)(?::?-(?P<default>[^}]*))?\}?")
_IMAGE = re.compile(
    r"(?:^|/)nvidia/|^nvcr\.io/|[:_-]cuda|[-_.:]cu1?\d{2}\b|cudnn|(?:^|[-/])cuda[:-]|(?:^|/)cuda(?:$|[@:])"
    r"|[-_:]gpu(?:$|[-_.:@])|(?:^|/)rapidsai/|tensorrt|(?:^|/)pytorch/(?:pytorch|manylinux-cuda)(?!\S*cpu)"
    r"|(?:^|/)(?:vllm/vllm-openai|lmsysorg/sglang|deepspeed/)|(?:^|/)tritonserver",
    re.I,
)
_PLACED = re.compile(
    r"(?:\b(?:image|container|FROM_IMAGE_NAME|docker_?image|CONTAINER_IMAGE|IMAGE(?:_NAME)?)"
    r"[\"']?\s*[:=]\s*[\"']?|--container-image[= ][\"']?(?:docker://)?|\bdocker://|\bdocker\s+pull\s+)"
    r"(?:\$\{\w+:-)?(?P<image>[\w.-]+(?:[/#][\w.-]+)*(?:[:@][\w.${}-]+)?)",
    re.I,
)
_NAMED = re.compile(
    r"(?<![\w/.@:-])(?P<image>nvcr\.io[/#][\w./-]+(?::[\w.${}-]+)?|nvidia/cuda(?::[\w.${}-]+)?)"
)
# the last part of an image's name, in a variable
_PART = re.compile(
    r"(?:^|(?<=[\s;]))\w*(?:image|container)\w*=[\"']?(?P<image>[\w.-]*cuda(?:-?\d[\w.-]*|\$[\w{][^\s\"']*))",
    re.I,
)
_SLIM = "Start from python:3.12-slim with torch for the device in use, or the vendor's image."
_SERVER = "It serves on the CPU too, with KIND_CPU and without GPUs; or take the server of the device in use."
_CLIENT = "Install tritonclient from PyPI: the client needs no CUDA."


class CudaBaseImage(Rule):
    """A container starts from an image with CUDA.

    What: `FROM nvidia/cuda`, `FROM nvcr.io/...`, `FROM pytorch/pytorch`, tags such as `-cuda12.1`, also where
    the name stands in an `ARG`, in a CI or compose file, or in a command.
    Why: the image is large, runs on x86-64 and Arm servers only, and its torch is a CUDA build.
    Instead: `python:3.12-slim` with torch from the index of the device, or the vendor's image.
    Safety: nothing is rewritten. An image that is only named when the container is built counts as unknown.
    """

    id = "PK404"
    name = "cuda_base_image"
    phase = Phase.FULL_MODEL
    triggers = (
        *(
            b"nvidia",
            b"nvcr",
            b"cuda",
            b":cu",
            b"-cu",
            b"cudnn",
            b"pytorch/",
            b"gpu",
            b"rapidsai",
            b"tensorrt",
        ),
        *(b"vllm/", b"lmsysorg/", b"deepspeed/", b"tritonserver"),
    )
    text_kinds = frozenset({Kind.DOCKERFILE, Kind.YAML, Kind.SHELL, Kind.MAKE})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        if ctx.kind is Kind.DOCKERFILE:
            yield from self._dockerfile(ctx)
            return
        for line in _commands.commands(ctx):
            seen: set[int] = set()
            for match in (*_PLACED.finditer(line.text), *_NAMED.finditer(line.text)):
                if not re.search(r"[/:#]", match["image"]):
                    continue
                if match.start("image") not in seen and _IMAGE.search(match["image"].replace("#", "/")):
                    seen.add(match.start("image"))
                    yield self._image(line, match, ctx)
            part = _PART.search(line.text) if ctx.kind is not Kind.YAML else None
            if part is not None and part.start("image") not in seen:
                yield self._image(line, part, ctx)

    def _dockerfile(self, ctx: Context) -> Iterator[Finding]:
        given: dict[str, str] = {}
        stages: set[str] = set()
        for line in _commands.commands(ctx):
            argument = _ARGUMENT.match(line.text)
            if argument is not None:
                given[argument["name"]] = argument["image"]
                if _IMAGE.search(argument["image"]) and re.search(r"[/:]", argument["image"]):
                    yield self._image(line, argument, ctx)
                continue
            match = _FROM.match(line.text) or _COPIED.match(line.text)
            if match is None or match["image"].lower() in stages:
                continue
            stage = re.search(r"\sAS\s+(\S+)", line.text, re.I)
            if stage is not None:
                stages.add(stage[1].lower())
            yield from self._start(line, match, given, ctx)

    def _start(
        self, line: _lines.Line, match: re.Match[str], given: dict[str, str], ctx: Context
    ) -> Iterator[Finding]:
        image = match["image"]
        known = _VARIABLE.sub(lambda m: given.get(m["name"], m["default"] or m[0]), image)
        whole = _VARIABLE.fullmatch(image)
        if whole is not None and _IMAGE.search(given.get(whole["name"], "")):
            return  # reported where the argument has its value
        if _IMAGE.search(known):
            yield self._image(line, match, ctx)
        elif "$" in known and whole is not None:
            yield ctx.finding(
                self,
                line.span(match, "image"),
                f"The image {image} is named when the container is built",
                support=Support.UNKNOWN,
                remedy="See which image is passed: one with CUDA is a choice of device.",
            )

    def _image(self, line: _lines.Line, match: re.Match[str], ctx: Context) -> Finding:
        return ctx.finding(
            self,
            line.span(match, "image"),
            f"The image {match['image']} contains CUDA",
            support=Support.MANUAL,
            remedy=_remedy(match["image"]),
        )


def _remedy(image: str) -> str:
    """What to do about an image with CUDA."""
    if "tritonserver" not in image:
        return _SLIM
    return _CLIENT if "sdk" in image else _SERVER
