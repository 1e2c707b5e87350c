"""Follows findings into files that the scan had no reason to look at, but that call affected functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from portkit import callgraph, inventory, reach
from portkit.callgraph import Code
from portkit.finding import Finding
from portkit.modules import Modules
from portkit.names import Names
from portkit.parsing import NotPython, parse
from portkit.scopes import Tree
from portkit.source import Source, Unreadable, read

_ROUNDS = 8  # callers of callers, each in a file that nothing else led to
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n#(]+)"
    r"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.M,
)


def affects(
    findings: Sequence[Finding],
    codes: Mapping[str, Code],
    python: Collection[str],
    root: Path,
    stopping: Collection[str],
) -> reach.Affects:
    """What the findings affect, in all files of the project.

    `codes` are the files that the scan looked at, `python` all Python files, by path below `root`.
    """
    starts = reach.starts(findings, codes, stopping)
    calls = reach.Calls(codes, python)
    unseen = [path for path in python if path not in codes] if starts else ()
    others = {path: imported for path in unseen if (imported := _imports(root, path))}
    for _ in range(_ROUNDS):
        reached = _gates(_reached(starts, calls), calls.codes, calls.modules)
        new = [path for path, names in others.items() if reached & _files(calls.modules, path, names)]
        if not new:
            break
        for path in new:
            del others[path]
        calls.learn({path: _code(root, path) or Code() for path in new})
    return reach.affects(starts, calls)


def _reached(starts: reach.Starts, calls: reach.Calls) -> set[str]:
    """The files that hold a function which comes to one of `starts`."""
    return {
        path
        for stops in (True, False)
        for path, _ in calls.above((node for node, fails in starts if fails is stops), stops=stops)
    }


def _gates(reached: set[str], known: Mapping[str, Code], modules: Modules) -> set[str]:
    """These files, and the packages (and star imports) that pass their names on."""
    passing = {
        path: _files(modules, path, {*code.imports.values(), *code.stars})
        for path, code in known.items()
        if code.stars or path.endswith("__init__.py")
    }
    found = set(reached)
    while more := {path for path, files in passing.items() if path not in found and files & found}:
        found |= more
    return found


def _files(modules: Modules, path: str, names: Collection[str]) -> set[str]:
    return {file for name in names for file in modules.imported(path, name)}


def _imports(root: Path, path: str) -> set[str]:
    """The modules that a file may import, by the lines that look so."""
    if path.endswith((".pyi", ".ipynb")) or (source := _source(root, path)) is None:
        return set()
    return set(_modules(source.text)) if "import" in source.text else set()


def _modules(text: str) -> Iterator[str]:
    for match in _IMPORT.finditer(text):
        if match["modules"]:
            yield from (part.split()[0] for part in match["modules"].split(",") if part.strip())
            continue
        yield match["module"]
        dot = "" if match["module"].endswith(".") else "."
        for part in match["names"].strip("() \t").split(","):
            words = part.split()
            if words:
                yield f"{match['module']}{dot}{words[0]}"


def _code(root: Path, path: str) -> Code | None:
    source = _source(root, path)
    if source is None:
        return None
    code = Code()
    try:
        tree = Tree(parse(source.text), inventory.NODES)
        callgraph.collect(tree, Names(tree), code, cell=False)
    except (NotPython, RecursionError):
        return None
    return code


def _source(root: Path, path: str) -> Source | None:
    try:
        return read(root / path, path)
    except Unreadable:
        return None
