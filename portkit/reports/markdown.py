"""The report in Markdown, short enough for a comment on a pull request; details are folded away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from portkit import coverage, rulebook
from portkit.engine import ScanResult
from portkit.finding import Finding, Phase, Support
from portkit.reports import _compared, _next

_LIMIT = 60_000  # characters; GitHub takes 65,536 in a comment
_TOP = 10  # rows of what blocks
_BLOCKING = (Support.MANUAL, Support.UNKNOWN, Support.REVIEW)
_SPECIAL = {ord(char): f"&#{ord(char)};" for char in "\\`*_{}[]<>|~!#&$"}
_SPACES = {ord(char): " " for char in "\r\n\t\v\f\x85\u2028\u2029"}


def render(result: ScanResult, *, verbose: bool = False, colour: bool = False, width: int = 100) -> str:
    """GitHub-flavoured Markdown; `verbose` lifts the limit of length, `colour` and `width` change nothing."""
    lines = [*_summary(result), *_blocking(result), *_packages(result), *_operators(result)]
    room = _LIMIT - sum(len(line) + 1 for line in lines)
    lines += _details(result, None if verbose else room)
    lines += ["", f"Next: {_next_step(result)}"]
    return "\n".join(lines)


def _summary(result: ScanResult) -> Iterator[str]:
    counted = coverage.dependencies(result.findings)
    yield f"### portkit: {_count(counted.total, 'CUDA dependency', 'CUDA dependencies')}"
    yield ""
    if counted.total:
        names = [support.value for support in Support]
        yield f"| phase | {' | '.join(names)} | total | resolved |"
        yield f"|---|{'---:|' * (len(names) + 2)}"
        for name, phase in [*((phase.value, phase) for phase in Phase), ("**all**", None)]:
            yield _row(name, coverage.dependencies(result.findings, phase))
        yield ""
    share = f"{counted.percent:.1f} % resolved" if counted.total else "Nothing ties this code to CUDA"
    looked = f"{_count(result.files, 'file')}, {_count(result.lines, 'line')}"
    beside = [looked, f"{counted.lossy} seen in part", f"{len(result.unparsed)} not parsed"]
    if result.suppressed:
        beside.append(f"{len(result.suppressed)} suppressed")
    yield f"{share} ({', '.join(beside)})."
    for line in _compared.lines(result):
        yield f"\n{text(line)}."


def _row(name: str, counted: coverage.Dependencies) -> str:
    counts = " | ".join(str(count or "·") for count in counted.by_support.values())
    percent = f"{counted.percent:.0f} %" if counted.percent is not None else "–"
    return f"| {name} | {counts} | {counted.total} | {percent} |"


def _blocking(result: ScanResult) -> Iterator[str]:
    left = [item for item in _dependencies(result) if item.support in _BLOCKING or item.lossy]
    if not left:
        return
    yield from ("", "**What blocks**", "", "| findings | functions | rule | what |", "|---:|---:|---|---|")
    summaries = {rule.id: rulebook.summary(rule) for rule in result.rules}
    groups: dict[str, list[Finding]] = {}
    for item in left:
        groups.setdefault(item.rule, []).append(item)
    rows = [(rule, len(items), result.affects.count(items)) for rule, items in groups.items()]
    rows.sort(key=lambda row: (-row[2], -row[1], row[0]))
    for rule, count, functions in rows[:_TOP]:
        yield f"| {count} | {functions or '·'} | {code(rule)} | {prose(summaries.get(rule, ''))} |"
    if len(rows) > _TOP:
        rest = sum(count for _, count, _ in rows[_TOP:])
        yield f"| {rest} | | | of {_count(len(rows) - _TOP, 'other rule')} |"
    yield ""
    yield "Functions: those that cannot do without, directly or through what they call."


def _packages(result: ScanResult) -> list[str]:
    """The packages that keep the project on CUDA."""
    rows = [item for item in result.packages if item.blocks]
    if not rows:
        return []
    lines = ["", "**Packages that need CUDA**", "", "| package | version | imports | guarded | instead |"]
    lines.append("|---|---|---:|---:|---|")
    for item in rows[:_TOP]:
        version = ", ".join(item.versions) or "any"
        lines.append(
            f"| {code(item.name)} | {text(version)} | {item.count} | {item.guarded} | {prose(item.instead)} |"
        )
    if len(rows) > _TOP:
        lines.append(f"| and {len(rows) - _TOP} more | | | | |")
    return lines


def _operators(result: ScanResult) -> list[str]:
    """The coverage of operators, with what it leaves out."""
    counted = result.operators
    if not counted.used:
        return []
    portable = sum(item.portable for item in counted.used)
    share = counted.share("portable", calls=True)
    return [
        "",
        f"**Tensor operators**: {len(counted.used)} used {_count(counted.calls, 'time')}; {portable} "
        f"({share:.0f} % of the uses) have a portkit kernel, forward and backward; the others run through "
        f"torch on any device. Not among these: {_count(counted.unknown, 'call')} that may be of tensors, "
        f"{_count(counted.passed, 'place')} that only pass an operator on.",
    ]


def _details(result: ScanResult, room: int | None) -> Iterator[str]:
    if result.unparsed:
        rows = [
            f"| {code(item.path)} | {item.line or ''} | {text(item.reason)} |" for item in result.unparsed
        ]
        title = _count(len(result.unparsed), "file") + " not parsed"
        kept = _fitting(rows, None if room is None else room // 4)
        yield from _folded(title, ("| file | line | why |", "|---|---:|---|"), kept, len(rows))
    found = [item for item in _dependencies(result) if item.support is not Support.PORTABLE]
    if found:
        found.sort(key=lambda item: result.is_new(item) is not True)  # new ones first, in the same order
        rows = [_finding(item, result.is_new(item) is True) for item in found]
        kept = _fitting(rows, None if room is None else room // 2)
        head = ("| where | rule | support | what | what to do |", "|---|---|---|---|---|")
        yield from _folded(_count(len(rows), "finding"), head, kept, len(rows))


def _finding(item: Finding, new: bool) -> str:
    do = " ".join(part for part in (item.remedy, item.note) if part)
    support = f"{'**new** ' if new else ''}{item.support.value}{', seen in part' if item.lossy else ''}"
    return f"| {code(str(item.location))} | {item.rule} | {support} | {prose(item.message)} | {prose(do)} |"


def _folded(title: str, head: Sequence[str], rows: Sequence[str], total: int) -> Iterator[str]:
    yield from ("", f"<details><summary>{title}</summary>", "", *head, *rows, "")
    if len(rows) < total:
        yield from (f"and {total - len(rows)} more: `portkit scan --verbose` lists them.", "")
    yield "</details>"


def _fitting(rows: Sequence[str], room: int | None) -> list[str]:
    """The rows that fit into so many characters."""
    kept: list[str] = []
    for row in rows:
        if room is not None:
            room -= len(row) + 1
            if room < 0:
                break
        kept.append(row)
    return kept


def _next_step(result: ScanResult) -> str:
    command = _next.command(result)
    return code(command) if command else "nothing to migrate"


def _dependencies(result: ScanResult) -> list[Finding]:
    return [item for item in result.findings if coverage.is_dependency(item)]


def text(value: str) -> str:
    """Text that means nothing but itself in Markdown and HTML, in a table too, and that notifies nobody."""
    return value.translate(_SPACES).translate(_SPECIAL).replace("@", "@&#8203;")


def prose(value: str) -> str:
    """The same of a sentence of ours, whose names in backticks become code."""
    parts = value.split("`")
    if len(parts) % 2 == 0:
        return text(value)
    return "".join(code(part) if number % 2 else text(part) for number, part in enumerate(parts))


def code(value: str) -> str:
    """The same in the type of code, where names are no mentions anyway."""
    return f"<code>{value.translate(_SPACES).translate(_SPECIAL)}</code>"


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"
