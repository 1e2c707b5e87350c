"""Lines of requirements files that need CUDA, taken out or made portable."""

from __future__ import annotations

import re

from portkit import companions
from portkit.finding import Edit, Replace, Span
from portkit.rule import Context
from portkit.source import Kind

_PINNED = re.compile(r"\s*[A-Za-z][\w.-]*\s*(?:\[[^\]]*\])?\s*===?\s*[\w.]+\Z")
_OPTION = re.compile(r"\s*(?:--extra-index-url|--index-url|-i|--find-links|-f)[=\s]\s*\S+\s*(?:#.*)?")


def is_listed(ctx: Context) -> bool:
    """Whether a file is a list of requirements for pip."""
    return ctx.kind is Kind.REQUIREMENTS and not ctx.path.endswith((".yml", ".yaml"))


def is_optional(ctx: Context) -> bool:
    """Whether a file lists what machines with CUDA need beside the rest, by its name."""
    return is_listed(ctx) and companions.is_optional(ctx.path)


def without_line(span: Span, ctx: Context) -> list[Edit]:
    """The edit that takes out the line of a requirement; none where it is more than a line."""
    if not is_listed(ctx):
        return []
    start, end = _line(span, ctx.text)
    text = ctx.text[start:end]
    above = ctx.text[:start].rstrip("\r\n")
    continued = text.rstrip().endswith("\\") or (start > 0 and above.endswith("\\"))
    if continued or "--hash" in text or text.lstrip().startswith("-"):
        return []
    return [Replace(Span(start, end), "")]


def without_build(span: Span, ctx: Context) -> list[Edit]:
    """The edit that takes torch from no build for CUDA: the index goes, or `+cu118` behind the version."""
    if not is_listed(ctx):
        return []
    start, end = _line(span, ctx.text)
    if _OPTION.fullmatch(ctx.text[start:end].rstrip("\r\n")):
        return [Replace(Span(start, end), "")]
    sign = span.start - 1
    if sign < start or ctx.text[sign] != "+" or not _PINNED.match(ctx.text[start:sign]):
        return []
    return [Replace(Span(sign, span.end), "")]


def _line(span: Span, text: str) -> tuple[int, int]:
    """Where the line that holds a span starts and ends, its newline included."""
    start = max(text.rfind("\n", 0, span.start), text.rfind("\r", 0, span.start)) + 1
    found = re.compile(r"\r\n|\r|\n").search(text, span.end)
    return start, found.end() if found is not None else len(text)
