"""The report for a person at a terminal: what ties the code to CUDA, what blocks most, what to do next."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from portkit import coverage, effort, packages, rulebook
from portkit.engine import ScanResult
from portkit.finding import Finding, Phase, Support
from portkit.packages import Package
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
        parts += _blocking(result, found, {rule.id: rulebook.summary(rule) for rule in result.rules})
    parts += [*_packages(result.packages), *_operators(result.operators)] if verbose else []
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


def _blocking(
    result: ScanResult, found: Sequence[Finding], summaries: Mapping[str, str]
) -> list[RenderableType]:
    """What a person has to look at, by rule and by file; what most functions come to is first."""
    left = [item for item in found if item.support in _BLOCKING or item.lossy]
    if not left:
        return []
    table = Table(box=None, show_header=True, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("findings", justify="right")
    table.add_column("functions", justify="right")
    table.add_column("")
    table.add_column("")
    for rule, items, functions in _groups(result, left, lambda item: item.rule):
        table.add_row(str(len(items)), str(functions or "·"), rule, summaries.get(rule, ""))
    for path, items, functions in _groups(result, left, lambda item: item.location.path):
        table.add_row(str(len(items)), str(functions or "·"), "file", path)
    title = "What blocks most (functions: those that cannot do without, directly or through what they call)"
    return [Text(""), Text(title, style="bold"), Padding(table, 0)]


def _groups(
    result: ScanResult, left: Sequence[Finding], key: Callable[[Finding], str]
) -> list[tuple[str, list[Finding], int]]:
    groups: dict[str, list[Finding]] = {}
    for item in left:
        groups.setdefault(key(item), []).append(item)
    rows = [(name, items, result.affects.count(items)) for name, items in groups.items()]
    rows.sort(key=lambda row: (-row[2], -len(row[1]), row[0]))
    return rows[:_TOP]


def _coverage_lines(result: ScanResult) -> list[Text]:
    counted = coverage.dependencies(result.findings)
    beside = f"{counted.lossy} lossy, {_count(len(result.unparsed), 'file')} not parsed"
    if counted.total:
        share = f"{counted.percent:.1f} % of {counted.total} resolved by safe rewrites or portable already"
    else:
        share = "nothing found that ties this code to CUDA"
    lines = [Text(f"Dependencies: {share} ({beside})")]
    if result.packages:
        lines.append(Text(_packages_line(result.packages)))
    if result.operators.every:
        lines.append(Text(_operators_line(result.operators)))
    return lines


def _operators_line(counted: coverage.Operators) -> str:
    beside = [
        f"{number:,} more {what}"
        for number, what in (
            (counted.unknown, "calls may be of tensors"),
            (counted.passed, "are only passed on"),
        )
        if number
    ]
    rest = f" ({', '.join(beside)})" if beside else ""
    if not counted.used:
        return f"Operators: none that is sure{rest}"
    portable = sum(item.portable for item in counted.used)
    share = counted.share("portable", calls=True)
    used = f"Operators: {len(counted.used)} used {_count(counted.calls, 'time')}"
    return (
        f"{used}; {portable} ({share:.0f} % of the uses) have a portkit kernel, forward and backward; "
        f"the others run through torch on any device{rest}"
    )


def _operators(counted: coverage.Operators) -> list[RenderableType]:
    """The operators in use, for --verbose."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("operator", "uses", "perhaps", "kernel", "first used in"):
        table.add_column(name, justify="right" if name in ("uses", "perhaps") else "left")
    for item in counted.every:
        directions = [word for word in ("forward", "backward") if getattr(item, word)]
        kernel = f"{item.kernel}: {' and '.join(directions)}" if directions else "·"
        first = f"{item.places[0].path}:{item.places[0].line}" if item.places else ""
        perhaps = item.unknown + item.passed
        table.add_row(item.name, str(item.calls or "·"), str(perhaps or "·"), kernel, first)
    return [Text(""), Text("Tensor operators", style="bold"), Padding(table, 0)] if counted.every else []


def _packages_line(found: Sequence[Package]) -> str:
    blocking = [item for item in found if item.blocks]
    shown = ", ".join(_package(item) for item in blocking[:_TOP])
    more = f", and {len(blocking) - _TOP} more" if len(blocking) > _TOP else ""
    unknown = sum(item.cuda == packages.UNKNOWN for item in found)
    beside = f" ({_count(unknown, 'package')} of unknown kind)" if unknown else ""
    if not blocking:
        return f"Packages: {len(found)} required or imported, none is known to need CUDA{beside}"
    need = "needs CUDA" if len(blocking) == 1 else "need CUDA"
    return f"Packages: {len(found)} required or imported, {len(blocking)} {need}: {shown}{more}{beside}"


def _package(item: Package) -> str:
    version = f" {item.versions[-1]}" if item.versions else ""
    return f"{item.name}{version}{'' if item.used else ' (not imported)'}"


def _packages(found: Sequence[Package]) -> list[RenderableType]:
    """The packages, for --verbose."""
    if not found:
        return []
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("package", "version", "CUDA", "files", "imports", "guarded", "instead"):
        table.add_column(name, justify="right" if name in ("files", "imports", "guarded") else "left")
    for item in found:
        counts = [str(number or "·") for number in (len(item.used), item.count, item.guarded)]
        table.add_row(item.name, ", ".join(item.versions), item.cuda, *counts, item.instead)
    return [Text(""), Text("Packages of others", style="bold"), Padding(table, 0)]


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
