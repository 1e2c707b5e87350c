"""Paths → findings: every source looked at once, in as many processes as help, in an order that is fixed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from portkit import callers, coverage, fingerprint, packages, reach, ruleset, tables
from portkit.callgraph import Code
from portkit.cells import Unit
from portkit.check import CODE, Rules, check_source
from portkit.config import Config
from portkit.discover import Found, discover
from portkit.finding import Finding, Location, Support, Suppressed, Unparsed
from portkit.imports import Imports
from portkit.inventory import Use
from portkit.linking import links_of, package_of
from portkit.links import NONE, Links
from portkit.looking import Looked, Looker, Task, look_at, rare_collections, store
from portkit.requirements import Requirement
from portkit.rule import Rule
from portkit.source import Kind, Source, Unreadable, load
from portkit.whole import Whole

if TYPE_CHECKING:
    from portkit.baseline import Compared
    from portkit.since import Since

Progress = Callable[[int, int], None]


@dataclass
class ScanResult:
    """Everything that a report may say about a scan."""

    root: Path
    paths: tuple[str, ...]  # as the user gave them
    config: Config
    rules: tuple[type[Rule], ...]
    findings: list[Finding] = field(default_factory=list)
    unparsed: list[Unparsed] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)  # files by kind
    lines: int = 0
    suppressed: list[Suppressed] = field(default_factory=list)
    uses: dict[str, list[Use]] = field(default_factory=dict)  # of tensor operators, by file
    codes: dict[str, Code] = field(default_factory=dict)  # functions and what they use, by file
    python: list[str] = field(default_factory=list)  # paths of all Python files and notebooks
    imports: dict[str, Imports] = field(default_factory=dict)  # by file
    requirements: dict[str, list[Requirement]] = field(default_factory=dict)  # by file
    links: dict[str, Links] = field(default_factory=dict)  # by path: what files know of each other
    since: Since | None = None  # only findings that a change adds are left
    baseline: Compared | None = None
    whole: Whole = field(default_factory=Whole)

    def is_new(self, item: Finding) -> bool | None:
        """Whether a finding is missing from the baseline; None without one, and for what is portable."""
        if self.baseline is None:
            return None
        if item.id in self.baseline.new:
            return True
        return False if item.id in self.baseline.known else None

    @property
    def files(self) -> int:
        """How many files were looked at, those that could not be parsed included."""
        return sum(self.kinds.values())

    @cached_property
    def operators(self) -> coverage.Operators:
        """The tensor operators that the code uses."""
        methods = {name for code in self.codes.values() for name in code.methods}
        return coverage.operators(self.uses, methods)

    @cached_property
    def packages(self) -> list[packages.Package]:
        """The packages that the project requires and imports."""
        return packages.table(self.requirements, self.imports, self.python)

    @cached_property
    def affects(self) -> reach.Affects:
        """The functions that unsupported findings affect."""
        stopping = {rule.id for rule in self.rules if rule.stops_import}
        return self.whole.get(
            lambda: callers.affects(self.findings, self.codes, self.python, self.root, stopping),
            "affects",
            *(item.id for item in self.findings),
        )


def scan(
    paths: Sequence[str | Path],
    config: Config | None = None,
    *,
    rules: Sequence[type[Rule]] | None = None,
    jobs: int | None = None,
    stdin: bytes = b"",
    progress: Progress | None = None,
    root: Path | None = None,
    cache: bool = False,
) -> ScanResult:
    """Look at files and folders (`-`: Python on `stdin`), in `jobs` processes (None: as many as help).

    `progress` is called with the number of files done and that of all.  `root` is the folder that paths in
    the result, and so the ids of findings, are relative to; None: the folder that holds all of `paths`.
    `cache` keeps the result of each file for the next scan, and makes use of those that are kept.
    Raises UsageError for a path that does not exist and ConfigError for wrong settings.
    """
    config = config if config is not None else Config()
    chosen = tuple(rules) if rules is not None else config.rules(ruleset.all_rules())
    top, found, bad = discover(paths, config, root)
    config = config.anchored(top)
    result = ScanResult(top, tuple(map(str, paths)), config, chosen)
    result.unparsed += bad
    if "-" in map(str, paths):
        stdin_task = Task(Found(Path("-"), "<stdin>", Kind.PYTHON))
        _merge(result, look_at(stdin_task, Rules(chosen), config, stdin))
    kept = store(top, chosen, config) if cache else None
    looker = Looker(chosen, config, jobs, kept)
    with rare_collections():
        looked: dict[str, Looked] = {}
        for one in looker.look([Task(item) for item in found]):
            looked[one.path] = one
            if progress is not None:
                progress(len(looked), len(found))
        if kept is not None:
            keys = (looker.keys.get(item.path) or fingerprint.of_file(b"", item.path) for item in found)
            result.whole = Whole(store(top, chosen, config, "-whole"), keys)
        result.links = _link(found, looked, looker, result.whole)
        for one in looked.values():
            _merge(result, one)
    if kept is not None:
        kept.save()
    found_elsewhere = _outside_project(_outside_ignores(result.findings, config), chosen, result.python)
    result.findings = sorted(found_elsewhere, key=_order)
    shown = {id(item) for item in _outside_ignores([item.finding for item in result.suppressed], config)}
    result.suppressed = [item for item in result.suppressed if id(item.finding) in shown]
    result.suppressed.sort(key=lambda item: _order(item.finding))
    result.unparsed.sort(key=lambda item: (item.path, item.line or 0))
    return result


def _outside_project(
    findings: Sequence[Finding], rules: Sequence[type[Rule]], python: Sequence[str]
) -> list[Finding]:
    """Findings without those about packages that the project itself defines: it is their code that counts."""
    about_imports = {rule.id for rule in rules if rule.imports}
    own = packages.Own(python)
    # a folder without __init__.py may hold scripts about the package: it hides nothing that is installed
    modules = {
        f"/{path}".removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2] for path in python
    }

    of_others = {rule.id for rule in rules if rule.of_others}

    def is_own(item: Finding) -> bool:
        full = item.qualified_name or ""
        if item.rule in of_others:  # a folder that is called like a library may be about it
            return full not in tables.packages() and own.holds(full)
        name = full.partition(".")[0]
        return item.rule in about_imports and name in modules and own.has(item.location.path, name)

    return [item for item in findings if not is_own(item)]


def _link(
    found: Sequence[Found], looked: dict[str, Looked], looker: Looker, whole: Whole
) -> dict[str, Links]:
    """Look once more, knowing the others, at the files for which that makes a difference."""
    facts = {path: one.checked.facts for path, one in looked.items() if one.checked.facts is not None}
    unsure = [
        path
        for path, one in looked.items()
        if one.kind not in CODE and any(item.support is Support.UNKNOWN for item in one.checked.findings)
    ]
    links = whole.get(lambda: links_of(found, facts, unsure), "links", *package_of(found))
    again = [Task(item, links[item.path]) for item in found if item.path in links]
    looked.update({one.path: one for one in looker.look(again)})
    return links


def _order(item: Finding) -> tuple[str, int, Location, str]:
    return (item.location.path, item.location.cell or 0, *item.sort_key)


def check_text(
    text: str,
    path: str = "<text>",
    kind: Kind = Kind.PYTHON,
    config: Config | None = None,
    rules: Sequence[type[Rule]] | None = None,
    links: Links = NONE,
) -> list[Finding]:
    """The findings of one text (of a whole notebook's JSON, if that is its kind); none if it is not Python.

    Per-path ignores are honoured; `path` only names the place.
    """
    config = config if config is not None else Config()
    chosen = tuple(rules) if rules is not None else config.rules(ruleset.all_rules())
    try:
        source = source_of(text, path, kind)
    except Unreadable:
        return []
    return _outside_ignores(check_source(source, Rules(chosen), config.operators, links).findings, config)


def source_of(text: str, path: str, kind: Kind) -> Source:
    """A source made of text that is already decoded.  Raises Unreadable if it is a broken notebook."""
    if kind is Kind.NOTEBOOK:
        return load(text.encode(), path, kind)
    return Source(path, kind, text.encode(errors="surrogatepass"), text, "utf-8", b"", (Unit(text, text),))


def _merge(result: ScanResult, one: Looked) -> None:
    result.kinds[one.kind.value] += 1
    result.lines += one.lines
    result.findings += one.checked.findings
    result.unparsed += one.checked.unparsed
    result.suppressed += one.checked.suppressed
    if one.kind in CODE:
        result.python.append(one.path)
    if one.checked.imports:
        result.imports[one.path] = one.checked.imports
    if one.checked.requirements:
        result.requirements[one.path] = one.checked.requirements
    if one.checked.uses:
        result.uses[one.path] = one.checked.uses
    if one.checked.code is not None:
        result.codes[one.path] = one.checked.code


def _outside_ignores(findings: Sequence[Finding], config: Config) -> list[Finding]:
    if not config.per_path_ignores:
        return list(findings)
    return [item for item in findings if not config.is_ignored(item.location.path, item.rule)]


__all__ = ["CODE", "ScanResult", "check_text", "scan", "source_of"]
