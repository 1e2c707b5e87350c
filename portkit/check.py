"""One source → its findings: the byte test, one parse, one walk for all rules, suppression, stable ids."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from portkit import callgraph, coherence, imports, inventory, suppress
from portkit.cells import Unit, asks_for_accelerator
from portkit.context import UnitContext
from portkit.facts import Facts, Moving, gather, taken_by
from portkit.finding import Effort, Finding, Location, Suppressed, Unparsed
from portkit.imports import Imports
from portkit.links import NONE, Links
from portkit.parsing import NotPython, parse
from portkit.requirements import Requirement, of_setup
from portkit.rule import Rule, Visit
from portkit.scopes import Tree
from portkit.source import Kind, Source
from portkit.triggers import of

CODE = frozenset({Kind.PYTHON, Kind.NOTEBOOK})
_WORD = re.compile(rb"\w+")
_IMPORT_LINE = 2_000  # bytes of a line that may import something
_MOST_NAMES = 50_000  # that are remembered
_MORE_MINUTES = 2  # to change one more place like the first


@dataclass
class Checked:
    """What became of one source."""

    findings: list[Finding] = field(default_factory=list)
    unparsed: list[Unparsed] = field(default_factory=list)
    uses: list[inventory.Use] = field(default_factory=list)  # of tensor operators
    code: callgraph.Code | None = None  # its functions and what they use; None where it was not parsed
    imports: Imports = field(default_factory=dict)
    requirements: list[Requirement] = field(default_factory=list)
    suppressed: list[Suppressed] = field(default_factory=list)
    facts: Facts | None = None  # for other modules; None where there is no syntax tree
    links: Links = NONE  # what was known of other modules
    parsed: bool = False  # whether a syntax tree had to be built


class RuleFault(Exception):
    """A rule raised: our fault (or that of the package the rule comes from), never the user's."""


class _Arranged:
    """The rules that look at files of one kind, with what makes each of them look."""

    def __init__(self, rules: Iterable[Rule], kind: Kind) -> None:
        self.rules: list[tuple[Rule, frozenset[bytes]]] = []
        triggers: set[bytes] = set()
        imports: set[bytes] = set()
        kinds = {kind, Kind.METADATA} if kind is Kind.NOTEBOOK else {kind}
        for rule in rules:
            wanted: set[bytes] = set()
            if kinds & rule.text_kinds:
                wanted.update(rule.triggers)
            if kind in CODE and rule.visits():
                wanted.update(rule.code_triggers or rule.triggers)
                imports.update(rule.imports)
                triggers |= wanted
                wanted |= rule.imports
            triggers |= wanted - imports
            if wanted:
                self.rules.append((rule, frozenset(wanted)))
        self.triggers = of(frozenset(triggers))
        self.imports = frozenset(imports)


def _imported(lowered: bytes, words: bytes) -> frozenset[bytes]:
    """The words of the lines that import something, and of `words`."""
    found = set(_WORD.findall(words))
    position = lowered.find(b"import")
    while position >= 0:
        start = max(lowered.rfind(b"\n", 0, position), lowered.rfind(b"\r", 0, position)) + 1
        end = lowered.find(b"\n", position)
        end = len(lowered) if end < 0 else end
        found.update(_WORD.findall(lowered[start : min(end, start + _IMPORT_LINE)]))
        position = lowered.find(b"import", end)
    return frozenset(found)


class Rules:
    """The rules of a run, arranged so that each node is shown only to those that want it."""

    def __init__(self, rules: Sequence[type[Rule]]) -> None:
        self.classes = tuple(rules)
        self.rules = [rule() for rule in rules]
        self.ids = frozenset(rule.id for rule in rules)
        self.opening = frozenset(rule.id for rule in rules if rule.opens_branch)
        self._visits = {rule: _visits(rule) for rule in self.rules}
        self._dispatches: dict[tuple[str, ...], Dispatch] = {}
        self._arranged: dict[Kind, _Arranged] = {}

    def near(self, lowered: bytes, kind: Kind, words: bytes = b"") -> list[Rule]:
        """The rules that want files of a kind and have a trigger in lower-case bytes of one, or in `words`,
        which its links bring into it."""
        if kind not in self._arranged:
            self._arranged[kind] = _Arranged(self.rules, kind)
        arranged = self._arranged[kind]
        hits = arranged.triggers.inside(lowered + b"\n" + words if words else lowered)
        names = _imported(lowered, words) if arranged.imports else frozenset[bytes]()
        hits |= arranged.imports & names
        return [rule for rule, wanted in arranged.rules if not hits.isdisjoint(wanted)] if hits else []

    def dispatch(self, near: Iterable[Rule]) -> Dispatch:
        """Node type → the methods of these rules that want it."""
        rules = list(near)
        key = tuple(rule.id for rule in rules)
        if key not in self._dispatches:
            self._dispatches[key] = self._table(rules)
        return self._dispatches[key]

    def _table(self, near: Sequence[Rule]) -> Dispatch:
        table = Dispatch()
        for rule in near:
            for kind, visit in self._visits[rule]:
                which = table.every
                if getattr(visit, "only_named", False):
                    which = table.named
                elif getattr(visit, "only_called", False):
                    which = table.called
                which.setdefault(kind, []).append(visit)
        return table


@dataclass
class Dispatch:
    """Node type → methods that want every such node, those that want the ones that mean something, and those
    that want calls of what means something."""

    every: dict[type[ast.AST], list[Visit]] = field(default_factory=dict)
    named: dict[type[ast.AST], list[Visit]] = field(default_factory=dict)
    called: dict[type[ast.AST], list[Visit]] = field(default_factory=dict)
    _asked: dict[tuple[type[ast.AST], str, bool], tuple[Visit, ...]] = field(default_factory=dict)

    def about(self, kind: type[ast.AST], name: str, *, callee: bool = False) -> tuple[Visit, ...]:
        """The methods that want a node which means `name`, or a call of it."""
        key = (kind, name, callee)
        found = self._asked.get(key)
        if found is None:
            if len(self._asked) >= _MOST_NAMES:
                self._asked.clear()
            visits = (self.called if callee else self.named)[kind]
            found = self._asked[key] = tuple(visit for visit in visits if _asks_about(visit, name))
        return found

    @property
    def kinds(self) -> frozenset[type[ast.AST]]:
        """The types of nodes that any method wants."""
        return frozenset((*self.every, *self.named, *self.called))


def _asks_about(visit: Visit, name: str) -> bool:
    rule = getattr(visit, "__self__", None)
    return not isinstance(rule, Rule) or rule.about(name)


def _visits(rule: Rule) -> list[tuple[type[ast.AST], Visit]]:
    return [(getattr(ast, kind), getattr(rule, method)) for kind, method in rule.visits().items()]


def check_source(source: Source, rules: Rules, operators: str, links: Links = NONE) -> Checked:
    """All findings of one source, in order.  Rules must not raise: what they raise goes through.

    `links` say what the names that it takes from other modules mean; without them, its own facts are
    gathered, from which the links of others are made.
    """
    result = Checked(links=links)
    lowered = source.data.lower()
    if source.encoding not in ("utf-8", "latin-1"):
        lowered = source.text.lower().encode()
    near = rules.near(lowered, source.kind, links.words)
    counts = source.kind in CODE and b"torch" in lowered
    if not near and not counts and b"portkit:" not in lowered:
        return result
    units = source.units
    prelude = _Prelude()
    for unit in units:
        _check_unit(source, unit, near, rules, operators, prelude, result)
    if source.kind is Kind.NOTEBOOK and near and asks_for_accelerator(source.text):
        about = replace(source, kind=Kind.METADATA)
        result.findings += _visit_text(about, Unit(source.text, None), near, operators, links)
    result.findings = folded(result.findings)
    _give_ids(result)
    return result


class _Prelude:
    """What earlier cells of the same notebook bound, so that later cells know their imports."""

    def __init__(self) -> None:
        self.statements: list[ast.stmt] = []

    def add(self, module: ast.Module) -> None:
        kept = (ast.Import, ast.ImportFrom, ast.Assign, ast.Try, ast.If)
        self.statements += [item for item in module.body if isinstance(item, kept)]


def _check_unit(
    source: Source,
    unit: Unit,
    near: Sequence[Rule],
    rules: Rules,
    operators: str,
    prelude: _Prelude,
    result: Checked,
) -> None:
    suppressions = suppress.find(unit.text, unit.python if source.kind in CODE else None)
    whole = any(item.whole_file and not item.ids for item in suppressions)
    found: list[Finding] = []
    if source.kind in CODE and unit.python is not None:
        try:
            module = parse(unit.python)
        except NotPython as error:
            result.unparsed.append(_unparsed(source.path, unit, error))
            return
        result.parsed = True
        found = _visit(source, unit, module, rules, near, operators, prelude, result, not whole)
    if near:
        found += _visit_text(source, unit, near, operators, result.links)
    kept, dropped = suppress.apply(_unique(found), suppressions, source.path, unit.cell, rules.ids)
    result.findings += kept
    result.suppressed += dropped


def _unparsed(path: str, unit: Unit, error: NotPython) -> Unparsed:
    reason = error.reason if unit.cell is None else f"cell {unit.cell} {error.reason}"
    return Unparsed(path, reason, error.line, error.column)


def _visit(
    source: Source,
    unit: Unit,
    module: ast.Module,
    rules: Rules,
    near: Sequence[Rule],
    operators: str,
    prelude: _Prelude,
    result: Checked,
    count: bool,
) -> list[Finding]:
    table = rules.dispatch(near)
    ctx: UnitContext | None = None
    try:
        tree = Tree(module, table.kinds | inventory.NODES, prelude.statements)
        ctx = UnitContext(source.path, source.kind, unit, operators, tree, result.links)
        found = coherence.hold_back(_ask(table, tree, ctx), rules.opening, tree, ctx)
        if source.kind is Kind.PYTHON and not result.links:
            result.facts = gather(tree, ctx.names, ctx.flow, _moving(near, tree, ctx))
        if count and "torch" in source.text:
            result.uses += inventory.uses(tree, ctx.names, unit.cell)
        result.code = result.code or callgraph.Code()
        imports.of_tree(tree, result.imports)
        result.requirements += of_setup(tree) if "setup(" in unit.text else ()
        callgraph.collect(tree, ctx.names, result.code, cell=unit.cell is not None)
    except RecursionError:
        result.unparsed.append(Unparsed(source.path, "is nested too deeply to be followed"))
        return []
    finally:
        if ctx is not None:
            ctx.release()
    if unit.cell is not None:
        prelude.add(module)
    return found


def _moving(near: Iterable[Rule], tree: Tree, ctx: UnitContext) -> Moving | None:
    """What the rules say of code that moves only together with that of other files."""
    said = [found for rule in near if (found := rule.moving(tree.module, ctx)) is not None]
    if not said:
        return None
    nodes = [node for _, items in said for node in items]
    return Moving("; ".join(why for why, _ in said if why), taken_by(nodes, tree, ctx.names))


def _ask(table: Dispatch, tree: Tree, ctx: UnitContext) -> list[Finding]:
    found: list[Finding] = []
    node: ast.AST | None = None
    visit: Visit | None = None
    every, named, called, resolve = table.every, table.named, table.called, ctx.names.resolve
    telling = ctx.names.telling
    try:
        for node in tree.wanted:
            kind = type(node)
            if kind in every:
                for visit in every[kind]:
                    found += visit(node, ctx)
            if kind is ast.Name and telling is not None and node.id not in telling:  # type: ignore[attr-defined]
                continue  # as most words: a parameter, a function, a builtin
            if kind in named and (name := resolve(node)) is not None:
                for visit in table.about(kind, name):
                    found += visit(node, ctx)
            if kind in called and (name := resolve(node.func)) is not None:  # type: ignore[attr-defined]
                for visit in table.about(kind, name, callee=True):
                    found += visit(node, ctx)
    except RecursionError:
        raise
    except Exception as error:
        rule = type(getattr(visit, "__self__", visit)).__name__
        place = f"{ctx.path}:{getattr(node, 'lineno', '?')}"
        raise RuleFault(f"{rule} failed at {place}: {error!r}") from error
    return found


def _visit_text(
    source: Source, unit: Unit, near: Sequence[Rule], operators: str, links: Links
) -> list[Finding]:
    ctx = None
    found: list[Finding] = []
    for rule in near:
        if source.kind in rule.text_kinds:
            ctx = ctx or UnitContext(source.path, source.kind, unit, operators, None, links)
            found += rule.visit_text(ctx)
    return found


def _unique(findings: Iterable[Finding]) -> list[Finding]:
    """Sorted, without what one rule said twice of one place."""
    seen: dict[object, Finding] = {}
    for finding in findings:
        seen.setdefault((finding.location, finding.rule, finding.message), finding)
    return sorted(seen.values(), key=lambda item: item.sort_key)


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """Findings of one group as one: the first of them, with the number and the effort of all."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for number, item in enumerate(findings):
        key = (item.rule, item.group, item.support, item.import_time) if item.group else (number,)
        groups.setdefault(key, []).append(item)
    return [items[0] if len(items) == 1 else _as_one(items) for items in groups.values()]


def _as_one(items: Sequence[Finding]) -> Finding:
    first, number = items[0], len(items)
    most = max(items, key=lambda item: item.effort.minutes).effort
    minutes = most.minutes + _MORE_MINUTES * (number - 1) if most.minutes else 0
    return replace(
        first,
        message=f"{first.message} ({number} places in this file)",
        others=tuple((item.scope, item.location.line) for item in items[1:]),
        lossy=any(item.lossy for item in items),
        edits=tuple(edit for item in items for edit in item.edits),
        effort=Effort(minutes, f"{most.basis}, and {_MORE_MINUTES} for each place after the first"),
    )


def _give_ids(result: Checked) -> None:
    """Suppressed findings count as equals of the others, so that a suppression changes no id."""
    reasons = {id(item.finding): item.reason for item in result.suppressed}
    before = sorted([*result.findings, *(item.finding for item in result.suppressed)], key=_order)
    after = finish(before)
    pairs = list(zip(before, after, strict=True))
    result.findings = [new for old, new in pairs if id(old) not in reasons]
    result.suppressed = [Suppressed(new, reasons[id(old)]) for old, new in pairs if id(old) in reasons]


def _order(item: Finding) -> tuple[int, Location, str]:
    return (item.location.cell or 0, *item.sort_key)


def finish(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of one source, sorted and with ids that survive a move to another line."""
    equals: Counter[tuple[str, ...]] = Counter()
    result = []
    for finding in sorted(findings, key=_order):
        scope = "" if finding.group else finding.scope  # that of the first of many places says nothing
        what = finding.group or finding.key or finding.snippet  # the first place of a group may go
        key = (finding.location.path, finding.rule, scope, what)
        text = "\0".join((*key, str(equals[key])))
        equals[key] += 1
        result.append(
            replace(
                finding, id=hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=6).hexdigest()
            )
        )
    return result
