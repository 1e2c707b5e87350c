"""Which functions of a project come to what a scan found: those that call it, directly or through others.

Only names that resolve are followed: a method of a value whose class is not visible leads nowhere, so that
what is said here is a lower bound.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from portkit import tensors
from portkit.callgraph import MAIN, Code
from portkit.finding import Finding, Support
from portkit.modules import Modules, Node

_ENTRIES = 3  # entry points named with each finding
_REASONS = 5  # findings named with each function


@dataclass(frozen=True)
class Reach:
    """What comes to one finding."""

    count: int  # functions, the one that holds the finding included
    entries: tuple[Node, ...]  # the nearest of them that nothing in the project calls


@dataclass(frozen=True)
class Affected:
    """A function that needs something that is not supported."""

    path: str
    function: str  # "" is code that runs at import, "__main__" what only a script runs
    line: int
    distance: int  # calls between it and the nearest finding; 0 where it holds one
    findings: tuple[str, ...]  # ids of the nearest findings, a few
    total: int  # how many findings it comes to


@dataclass(frozen=True)
class Affects:
    """The functions that a project's unsupported findings affect."""

    reach: Mapping[str, Reach]  # by the id of a finding
    functions: tuple[Affected, ...]
    nodes: Mapping[str, frozenset[Node]]  # id of a finding → the functions
    all: int  # functions that the project defines, as far as they were looked at

    def count(self, findings: Iterable[Finding]) -> int:
        """How many functions the findings affect together."""
        return len(frozenset().union(*(self.nodes.get(item.id, frozenset()) for item in findings)))


def blocks(finding: Finding) -> bool:
    """Whether a function cannot do without a person's work on this finding.

    What stands under a test for CUDA does not run without it; an operator of torch runs everywhere, whether
    or not it can be rewritten.
    """
    runs = finding.guard is not None or finding.qualified_name in tensors.operators()
    return finding.support in (Support.MANUAL, Support.UNKNOWN) and not runs


class Calls:
    """Who uses which function, in files of which some become known later."""

    def __init__(self, codes: Mapping[str, Code], paths: Collection[str] = ()) -> None:
        """`paths` are files beyond those of `codes`."""
        self.codes: dict[str, Code] = {}
        self.modules = Modules(self.codes, {*codes, *paths})
        self.callers: dict[Node, set[Node]] = defaultdict(set)  # function → the functions that use it
        self._waiting: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        self.learn(codes)

    def learn(self, codes: Mapping[str, Code]) -> None:
        """Add the codes of files."""
        self.codes.update(codes)
        for path in codes:
            for use in self._waiting.pop(path, ()):
                self._note(*use)
        for path, code in codes.items():
            for function, keys in code.uses.items():
                for key in keys:
                    if self.modules.may_know(key):
                        self._note(path, function, key)

    def _note(self, path: str, function: str, key: str) -> None:
        modules, user = self.modules, (path, function)
        modules.missing.clear()
        for used in modules.used(path, key):
            if used != user:
                self.callers[used].add(user)
        if (pair := modules.held(path, function, key)) is not None:
            self.callers[pair[1]].add(pair[0])  # a module that another one is made of
        for file in dict.fromkeys(modules.missing):
            self._waiting[file].append((path, function, key))

    def above(self, starts: Iterable[Node], *, stops: bool) -> dict[Node, int]:
        """The functions that come to `starts`, each with the number of calls between.

        Only where the import of a module `stops` does all that imports it come to it.
        """
        distances = dict.fromkeys(starts, 0)
        waiting = deque(distances)
        while waiting:
            node = waiting.popleft()
            if node[1] == "" and not stops:
                continue
            for caller in (*self.callers.get(node, ()), *_inside(node, self.codes)):
                if caller not in distances:
                    distances[caller] = distances[node] + 1
                    waiting.append(caller)
        return distances


Starts = dict[tuple[Node, bool], list[Finding]]  # function, whether its import fails → findings in it


def starts(findings: Sequence[Finding], codes: Mapping[str, Code], stopping: Collection[str] = ()) -> Starts:
    """The functions that hold unsupported findings.

    `stopping` are rules whose findings at import time keep a module from being imported: all that imports it
    comes to them.
    """
    found: Starts = defaultdict(list)
    for finding in findings:
        code = codes.get(finding.location.path)
        if code is None or not blocks(finding):
            continue
        stops = finding.rule in stopping and finding.import_time and finding.support is Support.MANUAL
        places = ((finding.scope, finding.location.line), *finding.others)
        for function in dict.fromkeys(code.function_at(scope, line) for scope, line in places):
            found[(finding.location.path, function), stops and not function].append(finding)
    return found


def affects(starts: Starts, calls: Calls) -> Affects:
    """Follow every unsupported finding to the functions that come to it."""
    reach: dict[str, Reach] = {}
    nodes: dict[str, frozenset[Node]] = {}
    found: dict[Node, list[tuple[int, str]]] = defaultdict(list)
    for (start, stops), held in starts.items():
        distances = calls.above((start,), stops=stops)
        functions = frozenset(node for node in distances if node[1] not in ("", MAIN))
        entries = _entries(distances, calls.callers)
        for finding in held:
            known = reach.get(finding.id, Reach(0, ()))  # from another of its places
            nodes[finding.id] = nodes.get(finding.id, frozenset()) | functions
            merged = tuple(dict.fromkeys((*known.entries, *entries)))[:_ENTRIES]
            reach[finding.id] = Reach(len(nodes[finding.id]), merged)
        for node, distance in distances.items():
            found[node] += [(distance, finding.id) for finding in held]
    listed = tuple(_affected(node, reasons, calls.codes) for node, reasons in sorted(found.items()))
    return Affects(reach, listed, nodes, sum(len(code.functions) for code in calls.codes.values()))


def _affected(node: Node, reasons: list[tuple[int, str]], codes: Mapping[str, Code]) -> Affected:
    path, function = node
    code = codes[path]
    line = code.functions.get(function) or (code.main[0][0] if function == MAIN and code.main else 1)
    reasons.sort()
    ids = tuple(dict.fromkeys(name for _, name in reasons))  # a finding may have several places
    return Affected(path, function, line, reasons[0][0], ids[:_REASONS], len(ids))


def _inside(node: Node, codes: Mapping[str, Code]) -> Iterator[Node]:
    """What cannot run where the import of its module fails: all functions in it."""
    path, function = node
    if function == "":
        yield from ((path, name) for name in codes[path].functions)
        if codes[path].main:
            yield path, MAIN


def _entries(distances: Mapping[Node, int], callers: Mapping[Node, set[Node]]) -> tuple[Node, ...]:
    tops = [node for node in distances if node[1] and not callers.get(node)]
    tops.sort(key=lambda node: (distances[node], node))
    return tuple(tops[:_ENTRIES])
