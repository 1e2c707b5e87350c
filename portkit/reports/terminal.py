"""The report for a person at a terminal: what ties the code to CUDA, what blocks most, what to do next."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from portkit import coverage, effort, rulebook
from portkit.engine import ScanResult
from portkit.finding import Finding, Phase, Support
from portkit.reports import _compared, _next

_BLOCKING = (Support.REVIEW, Support.MANUAL, Support.UNKNOWN)
_STYLE = {
    Support.PORTABLE: "green",
    Support.AUTO: "green",
    Support.REVIEW: "yellow",
    Support.MANUAL: "red",
    Support.UNKNOWN: "magenta",
}
_TOP = 5  # rows of the lists of what blocks most


def render(result: ScanResult, *, verbose: bool = False, colour: bool = False, width: int = 100) -> str:
    """Text, with ANSI colours if `colour`; `verbose` puts every finding first."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
    )
    for part in _parts(result, verbose):
        console.print(part, soft_wrap=isinstance(part, Text))
    lines = stream.getvalue().split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


def _parts(result: ScanResult, verbose: bool) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if verbose:
        parts += [_finding(item, result.is_new(item) is True) for item in result.findings]
        parts += [Text("")] if result.findings else []
    parts.append(_scope(result))
    parts += [Text(line) for line in _compared.lines(result)]
    found = [item for item in result.findings if coverage.is_dependency(item)]
    unused = len(result.findings) - len(found)
    if found:
        parts += [Text(""), _table(result)]
        parts += _blocking(found, {rule.id: rulebook.summary(rule) for rule in result.rules})
    parts += _news(result, verbose)
    parts += [Text(""), *_coverage_lines(result)]
    if unused:
        parts.append(Text(f"{_count(unused, 'suppression comment')} without effect", style="yellow"))
    parts += _unparsed(result)
    parts += [Text(""), _next_step(result)]
    return parts


def _finding(item: Finding, new: bool = False) -> Text:
    text = Text(f"{item.location}: ")
    text.append("new " if new else "", style="bold red")
    text.append(f"{item.rule} ", style="bold")
    text.append(f"{item.phase.value}/{item.support.value}", style=_STYLE[item.support])
    text.append(f" {item.message}")
    for label, value in (("", item.remedy), ("note: ", item.note), ("under: ", item.guard or "")):
        if value:
            text.append(f"\n    {label}{value}", style="dim")
    if item.lossy:
        text.append("\n    lossy: only part of what matters is visible here", style="dim")
    return text


def _news(result: ScanResult, verbose: bool) -> list[RenderableType]:
    """What the baseline does not know, and what it knows but is gone."""
    if result.baseline is None:
        return []
    parts: list[RenderableType] = []
    found = [item for item in result.findings if result.is_new(item)]
    new = [f"{item.location}: {item.rule} {item.message}" for item in found]
    gone = [f"{item.path}: {item.rule} ({item.id})" for item in result.baseline.gone]
    for title, rows in (("New since the baseline", new), ("In the baseline, and gone", gone)):
        if rows:
            shown = rows if verbose else rows[: 2 * _TOP]
            parts += [Text(""), Text(title, style="bold"), *(Text(f"  {row}") for row in shown)]
            parts += (
                [Text(f"  and {len(rows) - len(shown)} more (--verbose)")] if len(shown) < len(rows) else []
            )
    return parts


def _scope(result: ScanResult) -> Text:
    kinds = ", ".join(f"{count} {kind}" for kind, count in result.kinds.most_common())
    text = f"{_count(result.files, 'file')}, {_count(result.lines, 'line')}" + (
        f" ({kinds})" if kinds else ""
    )
    if result.suppressed:
        text += f", {_count(len(result.suppressed), 'finding')} suppressed"
    return Text(text)


def _table(result: ScanResult) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("CUDA dependencies")
    for support in Support:
        table.add_column(support.value, justify="right", style=_STYLE[support])
    table.add_column("total", justify="right")
    table.add_column("resolved", justify="right")
    table.add_column("lossy", justify="right")
    table.add_column("effort left", justify="right")
    for name, phase in [*((phase.value, phase) for phase in Phase), ("all", None)]:
        counted = coverage.dependencies(result.findings, phase)
        cells = [str(counted.by_support[support] or "·") for support in Support]
        percent = f"{counted.percent:.0f} %" if counted.percent is not None else "–"
        style = "bold" if phase is None else ""
        lossy = str(counted.lossy or "·")
        minutes = effort.left(result.findings, phase).minutes
        left = effort.spoken(minutes) if minutes else "·"
        table.add_row(name, *cells, str(counted.total), percent, lossy, left, style=style)
    return table


def _blocking(found: Sequence[Finding], summaries: Mapping[str, str]) -> list[RenderableType]:
    """What a person has to look at, by rule and by file."""
    left = [item for item in found if item.support in _BLOCKING or item.lossy]
    if not left:
        return []
    rules = Counter(item.rule for item in left)
    files = Counter(item.location.path for item in left)
    parts: list[RenderableType] = [Text(""), Text("What blocks most", style="bold")]
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for rule, count in sorted(rules.items(), key=lambda item: (-item[1], item[0]))[:_TOP]:
        table.add_row(f"{count:>5}", rule, summaries.get(rule, ""))
    for path, count in sorted(files.items(), key=lambda item: (-item[1], item[0]))[:_TOP]:
        table.add_row(f"{count:>5}", "file", path)
    return [*parts, Padding(table, 0)]


def _coverage_lines(result: ScanResult) -> list[Text]:
    counted = coverage.dependencies(result.findings)
    beside = f"{counted.lossy} lossy, {_count(len(result.unparsed), 'file')} not parsed"
    if counted.total:
        share = f"{counted.percent:.1f} % of {counted.total} resolved by safe rewrites or portable already"
    else:
        share = "nothing found that ties this code to CUDA"
    lines = [Text(f"Dependencies: {share} ({beside})")]
    used = coverage.operators(result.operators)
    if used.used:
        forward = sum(item.forward for item in used.used)
        backward = sum(item.backward for item in used.used)
        calls = used.share("forward", calls=True)
        lines.append(
            Text(
                f"Operators: {len(used.used)} used; portable kernel forward for {forward}, "
                f"backward for {backward} ({calls:.1f} % of the calls); the others stay with torch"
            )
        )
    return lines


def _unparsed(result: ScanResult) -> list[Text]:
    if not result.unparsed:
        return []
    lines = [Text(""), Text("Not parsed, and never counted as converted", style="bold")]
    for item in result.unparsed:
        place = ":".join(str(part) for part in (item.path, item.line, item.column) if part is not None)
        lines.append(Text(f"  {place}: {item.reason}", style="red"))
    return lines


def _next_step(result: ScanResult) -> Text:
    command = _next.command(result)
    return Text.assemble("Next: ", (command, "bold")) if command else Text("Next: nothing to migrate")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
