"""From the facts of single files to what each needs to know of the others; reads the few files in between."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from portkit.discover import Found
from portkit.facts import OTHER, Facts, gather
from portkit.flow import Flow
from portkit.links import Links
from portkit.names import Names
from portkit.parsing import NotPython, parse
from portkit.project import Project
from portkit.scopes import Tree
from portkit.source import Kind, Unreadable, read

_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]*(\([^)]*\)|[^\n]*(?:\\\n[^\n]*)*)", re.M)
_WORD = re.compile(r"\w+|\*")
_LARGE = 400_000  # characters; nobody re-exports from a larger file
_NOTHING = Facts((), (), None, (), (), (), ())


def links_of(
    found: Sequence[Found], facts: Mapping[str, Facts], unsure: Collection[str] = ()
) -> dict[str, Links]:
    """Path → links, for the files that need some.

    `unsure` are files of settings with texts that are not known to be devices.
    """
    python = _python(found)
    project = Project(python, facts, _OnDemand(python), package_of(found))
    links = project.links()
    settings = project.settings() if unsure else frozenset()
    if settings:
        links |= dict.fromkeys(unsure, Links(settings=tuple(sorted(settings))))
    return links


def _python(found: Sequence[Found]) -> dict[str, Found]:
    return {item.path: item for item in found if item.kind is Kind.PYTHON}


def package_of(found: Sequence[Found]) -> list[str]:
    """The name of the package that the root of a scan is, by the `__init__.py` in it; empty if it is none.

    It hangs on the folders above the root, which are no files of the scan.
    """
    first = _python(found).get("__init__.py")
    names: list[str] = []
    folder = first.file.absolute().parent if first is not None else None
    while folder is not None and folder.name and (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return names


class _OnDemand:
    """Files without any word that a rule looks for matter only where they hand on a name of another file."""

    def __init__(self, python: Mapping[str, Found]) -> None:
        self.python = python
        self._texts: dict[str, str] = {}
        self._imported: dict[str, frozenset[str]] = {}
        self._parsed: dict[str, Facts | None] = {}

    def __call__(self, path: str, name: str) -> Facts | None:
        """What a file says of `name` (`*`: of its star imports): it is parsed if it imports the name, or
        stars, or has an `__all__`.  None if it can't be read."""
        if path not in self._imported:
            text = self._texts[path] = self._read(path)
            words = (word for match in _IMPORT.finditer(text) for word in _WORD.findall(match.group(1)))
            self._imported[path] = frozenset(words)
        text, imported = self._texts[path], self._imported[path]
        if not text:
            return None
        if name not in imported and "*" not in imported and not (name == "__all__" and name in text):
            bound = re.search(rf"\b{re.escape(name)}\b", text) if name != "*" else None
            return replace(_NOTHING, exports=((name, OTHER),)) if bound else _NOTHING
        if path not in self._parsed:
            self._parsed[path] = self._parse(path)
        return self._parsed[path]

    def _parse(self, path: str) -> Facts | None:
        try:
            tree = Tree(parse(self._texts[path]))
            names = Names(tree)
            return gather(tree, names, Flow(names))
        except (NotPython, RecursionError):
            return None

    def _read(self, path: str) -> str:
        try:
            text = read(self.python[path].file, path, Kind.PYTHON).text or "\n"
        except Unreadable:
            return ""
        return text if len(text) <= _LARGE else ""
