"""Names that one file of a project uses → the functions and classes of other files that they mean.

What is asked about a file whose code is not known yet has no answer; `missing` says which files those were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from posixpath import dirname, normpath

from portkit.callgraph import Code

_folder = lru_cache(maxsize=100_000)(dirname)  # asked again and again for the same files
Node = tuple[str, str]  # path of a file, name of a function or class in it
_DEPTH = 8  # re-exports and base classes that are followed
_ROOTS = ("", "src", "lib", "python")


class Modules:
    """The files of a project as modules; answers are kept."""

    def __init__(self, codes: Mapping[str, Code], paths: Collection[str] = ()) -> None:
        """`paths` are files beyond those of `codes`, whose codes may be added later."""
        self.codes = codes
        self.missing: list[str] = []  # files whose code was asked for in vain
        self._files: dict[str, str] = {}
        for path in sorted({*codes, *paths}):
            stem, _, suffix = path.rpartition(".")
            if suffix in ("py", "pyw"):
                self._files.setdefault(stem, path)
        self._words = {part for stem in self._files for part in stem.split("/")}
        self._found: dict[tuple[str, int, str], str | None] = {}  # by folder, level and name of a module
        self._meanings: dict[tuple[str, str], Node | None] = {}
        self._methods: dict[tuple[Node, str], Node | None] = {}

    # --- what a key stands for ---------------------------------------------------------------------

    def may_know(self, key: str) -> bool:
        """Whether a key can mean anything here: most are names of other packages."""
        name = key[1:] if key[0] == "@" else key
        return name[:1] in "=." or ":" in name or name.partition("()")[0].partition(".")[0] in self._words

    def meaning(self, path: str, key: str) -> Node | None:
        """The function or class that a key without a call means."""
        if (path, key) in self._meanings:
            return self._meanings[path, key]
        before = len(self.missing)
        found = self._meaning(path, key)
        if len(self.missing) == before:
            self._meanings[path, key] = found
        return found

    def method(self, owner: Node, name: str) -> Node | None:
        """The method of a class or of its bases."""
        if (owner, name) in self._methods:
            return self._methods[owner, name]
        before = len(self.missing)
        found = self._inherited(owner, name, skip=False)
        if len(self.missing) == before:
            self._methods[owner, name] = found
        return found

    def used(self, path: str, key: str) -> Iterator[Node]:
        """The functions (and modules that are run, as function "") that a key of `callgraph` means."""
        if key.startswith("@"):
            yield from self._run_by_import(path, key[1:])
            return
        if key.startswith(("self:", "super:")):
            word, owner, name = key.split(":")
            found = self._inherited((path, owner), name, skip=word == "super")
            if found is not None:
                yield found
            return
        key, instance, attr = key.partition("()")
        meant = self.meaning(path, key)
        if meant is None:
            return
        is_class = meant[1] in self.codes[meant[0]].classes
        if not instance:
            yield from self._constructed(meant) if is_class else (meant,)
        elif is_class:
            names = (attr[1:],) if attr else ("__call__", "forward")
            yield from (found for name in names if (found := self.method(meant, name)) is not None)

    def _constructed(self, owner: Node) -> Iterator[Node]:
        for name in ("__init__", "__new__", "__post_init__"):
            found = self.method(owner, name)
            if found is not None:
                yield found

    def held(self, path: str, function: str, key: str) -> tuple[Node, Node] | None:
        """The forward methods (outer, inner) where a module's __init__ makes another module."""
        outer, _, last = function.rpartition(".")
        if last != "__init__" or key.startswith(("@", "self:", "super:")) or "()" in key:
            return None
        meant = self.meaning(path, key)
        if meant is None or meant[1] not in self.codes[meant[0]].classes:
            return None
        inner, around = self.method(meant, "forward"), self.method((path, outer), "forward")
        return (around, inner) if inner is not None and around is not None and inner != around else None

    # --- names -------------------------------------------------------------------------------------

    def _meaning(self, path: str, key: str, depth: int = 0) -> Node | None:
        if key.startswith("="):
            return self._in_file(path, key[1:], depth)
        parts = key.lstrip(".").split(".") if key.strip(".") else []
        level = len(key) - len(key.lstrip("."))
        for end in range(len(parts), -1, -1):
            if end == 0 and not level:
                return None
            file = self._file(path, level, parts[:end])
            if file is not None and (file != path or level):
                rest = ".".join(parts[end:])
                return self._in_file(file, rest, depth + 1) if rest else None
        return None

    def _in_file(self, path: str, name: str, depth: int) -> Node | None:
        code = self.codes.get(path)
        if code is None:
            self.missing.append(path)
            return None
        if name in code.functions or name in code.classes:
            return path, name
        first, _, rest = name.partition(".")
        if depth > _DEPTH:
            return None
        if first in code.imports:
            longer = f"{code.imports[first]}.{rest}" if rest else code.imports[first]
            return self._meaning(path, longer, depth + 1)
        owner, _, last = name.rpartition(".")
        if owner in code.classes:
            return self._inherited((path, owner), last, skip=True)
        for star in code.stars:
            dot = "" if star.endswith(".") else "."
            found = self._meaning(path, f"{star}{dot}{name}", depth + 1)
            if found is not None:
                return found
        return None

    def _file(self, path: str, level: int, parts: list[str]) -> str | None:
        """The file of a module, relative to `path`, or by an absolute name from any folder around it."""
        if parts and parts[-1] not in self._words:
            return None  # as almost all imports: of another package
        name, folder = "/".join(parts), _folder(path)
        key = (folder, level, name)
        if key not in self._found:
            self._found[key] = self._search(folder, level, name)
        return self._found[key]

    def _search(self, folder: str, level: int, name: str) -> str | None:
        if level:
            for _ in range(level - 1):
                folder = _folder(folder)
            return self._at(folder, name)
        while True:
            found = self._at(folder, name)
            if found is not None or not folder:
                break
            folder = _folder(folder)
        return found or next((file for root in _ROOTS if (file := self._at(root, name)) is not None), None)

    def _at(self, folder: str, name: str) -> str | None:
        place = normpath(f"{folder}/{name}" if folder and name else folder or name or ".")
        place = "" if place == "." else place
        start = f"{place}/" if place else ""
        return self._files.get(f"{start}__init__") or (self._files.get(place) if name else None)

    def imported(self, path: str, name: str) -> Iterator[str]:
        """The files that an import runs."""
        return (file for file, _ in self._run_by_import(path, name))

    def _run_by_import(self, path: str, name: str) -> Iterator[Node]:
        """The modules that an import runs: the one that is named, and the packages around it."""
        level = len(name) - len(name.lstrip("."))
        parts = name.lstrip(".").split(".") if name.strip(".") else []
        for end in range(len(parts), -1 if level else 0, -1):
            file = self._file(path, level, parts[:end])
            if file is not None and file != path:
                yield file, ""

    # --- classes -----------------------------------------------------------------------------------

    def _inherited(self, owner: Node, name: str, *, skip: bool, depth: int = 0) -> Node | None:
        """The method of a class, or that of the first base in the project that has it."""
        path, own = owner
        code = self.codes[path]
        if not skip and f"{own}.{name}" in code.functions:
            return path, f"{own}.{name}"
        if depth > _DEPTH:
            return None
        for key in code.classes.get(own, ()):
            base = self.meaning(path, key)
            if base is not None and base != owner and base[1] in self.codes[base[0]].classes:
                found = self._inherited(base, name, skip=False, depth=depth + 1)
                if found is not None:
                    return found
        return None
