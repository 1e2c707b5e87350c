"""The modules of a program together: what a name that one takes from another means in the end."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from portkit import tables, together
from portkit.facts import OTHER, Export, Facts, Kind, may_be_own
from portkit.finding import Alias
from portkit.links import Links, Meaning

_DEPTH = 16  # modules through which a name is followed
Load = Callable[[str, str], Facts | None]  # path, name → what a file that was not parsed says of it


@dataclass(frozen=True)
class _End:
    """Where following a name ended."""

    export: Export
    rest: tuple[str, ...]  # attributes that are left: of what the export is
    steps: tuple[Alias, ...]
    assigned: bool
    several: bool
    place: str  # file and name of the export
    outside: str = ""  # the name of another package that it is


class Project:
    """All Python files of a scan, by path relative to its root."""

    def __init__(
        self, paths: Iterable[str], facts: Mapping[str, Facts], load: Load, package: Sequence[str] = ()
    ) -> None:
        """`package`: the name of the package that the root itself is; empty if it is none."""
        self._package = tuple(package)
        self._compared: set[tuple[str, str, str]] = set()  # star imports that are being compared
        self.facts = dict(facts)
        self.paths = frozenset(path for path in paths if path.endswith(".py"))
        self._load = load
        self._tops: dict[str, set[str]] = defaultdict(set)  # top-level package or module → folders it is in
        self._splits: dict[tuple[str, str], tuple[str, tuple[str, ...]] | None] = {}
        self._modules: dict[tuple[str, str], str | None] = {}
        self._exports: dict[str, dict[str, Export]] = {}
        self._words = {part for path in self.paths for part in path.removesuffix(".py").split("/")}
        self._words.update(self._package[:1])
        for path in self.paths:
            if path.endswith("/__init__.py"):
                folder = _folder(path)
                outer = _folder(folder)
                if posixpath.join(outer, "__init__.py") not in self.paths:
                    self._tops[posixpath.basename(folder)].add(outer)
        self._needed: dict[str, set[str]] = defaultdict(set)  # module → imports of it that others take
        self._patched: set[tuple[str, str]] = set()
        self._sinks: dict[str, set[str]] = defaultdict(set)
        self._takers: dict[str, set[str]] = defaultdict(set)  # setting → files that use it as a device
        for path, found in self.facts.items():
            for name in found.takes:
                self._takers[name].add(path)
        for path, found in list(self.facts.items()):
            for name in found.patches:
                self._patched |= self._place(path, name)
        for path, found in list(self.facts.items()):
            for name in found.sinks:
                for other, local in self._place(path, name):
                    self._sinks[other].add(local)
        self._held = together.held(self.facts, self._files)

    def _is_own(self, target: str) -> bool:
        """Whether a name is one of the program's own modules, or belongs to one, as far as can be told."""
        root = target.partition(".")[0]
        ours = root in self._tops or root in self._package[:1]
        return may_be_own(target) and (ours or root not in tables.packages())

    def settings(self) -> frozenset[str]:
        """Names of settings that a file of the program uses as a device."""
        return frozenset(self._takers)

    def links(self) -> dict[str, Links]:
        """Path → what that file needs to know of others, for the files that need to know something."""
        files = list(self.facts.items())
        for path, facts in files:
            for want in facts.wants:
                self._need(path, want)
        found = {path: self._links(path, facts) for path, facts in files}
        return {path: links for path, links in found.items() if links}

    def _links(self, path: str, facts: Facts) -> Links:
        names: dict[str, Meaning] = {}
        values: dict[str, str] = {}
        parameters: dict[str, tuple[str, ...]] = {}
        own_cuda: list[str] = []
        starred = {want for want in facts.wants for star, _ in facts.stars if _is_in(want, star)}
        for want in facts.wants:
            for cut in _cuts(want):
                end = self._through(path, facts, cut) if want in starred else self._follow(path, cut)
                if end is None:
                    continue
                if end.outside and end.steps:
                    names[cut] = Meaning(end.outside, end.steps, end.assigned, end.several)
                    break
                if end.export.kind is Kind.TEXT and not end.rest and not end.several:
                    values[cut] = end.export.target
                elif end.export.kind is Kind.FUNCTION and not end.rest:
                    if cut in facts.calls and end.export.parameters:
                        parameters[cut] = end.export.parameters
                    own_cuda += [cut] if end.export.own_cuda else []
        stars = tuple(star for star, _ in facts.stars if self._is_own(star) and self._is_known(path, star))
        used = any(name.startswith(f"{star}.") for star in stars for name in names)
        return Links(
            tuple(sorted(names.items(), key=lambda item: item[0])),
            tuple(sorted(values.items())),
            tuple(sorted(parameters.items())),
            stars if used or (stars and self._guessed(facts)) else (),
            tuple(sorted(self._sinks.get(path, ()))),
            tuple(sorted(self._hidden(path, facts))),
            tuple(name for name in facts.offers if self._takers.get(name, {path}) != {path}),
            tuple(sorted(self._needed.get(path, ()))),
            tuple(sorted(own_cuda)),
            self._held.get(path, ""),
        )

    def _hidden(self, path: str, facts: Facts) -> Iterator[str]:
        """Names that a star import below their import binds anew."""
        for name, export in facts.exports if facts.stars else ():
            known = export.kind in (Kind.IMPORT, Kind.ALIAS)
            if known and self._rebound(path, facts, name, export):
                yield name

    def _need(self, path: str, name: str, depth: int = 0) -> None:
        """Note which import of which module a file relies on where it takes `name` from another module."""
        found = self._split(path, name)
        if found is not None and found[1] and depth < _DEPTH:
            self._need_of(found[0], found[1], depth + 1)

    def _need_of(self, module: str, rest: tuple[str, ...], depth: int) -> None:
        facts = self.facts.get(module)
        export = self._exported(module, facts).get(rest[0]) if facts is not None else None
        if facts is None or depth > _DEPTH:
            return
        if export is None:
            for star, _ in facts.stars:
                other = self._module(module, star) if self._is_own(star) else None
                if other is not None:
                    self._need_of(other, rest, depth + 1)
        elif export.kind is Kind.IMPORT and self._is_own(export.target):
            self._need(module, ".".join((export.target, *rest[1:])), depth)
        elif export.kind is Kind.IMPORT and export.target.startswith("torch."):
            self._needed[module].add(rest[0])

    def _guessed(self, facts: Facts) -> bool:
        """Whether a name would be guessed to come through a star import."""
        return any(
            want.rpartition(".")[2] in ("torch", "nn", "F", "dist", "tl", "triton") for want in facts.wants
        )

    def _is_known(self, path: str, star: str, depth: int = 0) -> bool:
        """Whether all names that a star import brings can be told: no unknown module is behind it."""
        module = self._module(path, star)
        facts = self._of(module, "*") if module is not None else None
        if facts is None or module is None or depth > _DEPTH:
            return False
        return all(self._is_own(name) and self._is_known(module, name, depth + 1) for name, _ in facts.stars)

    def _through(self, path: str, facts: Facts, name: str) -> _End | None:
        """What a name is that can only have come through a star import of the file itself."""
        local = name.rpartition(".")[2]
        if not any(name == _join(star, local) for star, _ in facts.stars):
            return None
        end = self._through_star(path, facts, (local,), (), False, False, {(path, local)})
        return replace(end, steps=end.steps[1:]) if end is not None else None

    # --- following ---------------------------------------------------------------------------------

    def _follow(self, path: str, name: str) -> _End | None:
        """What a name that the file at `path` resolves to `name` is, by the modules of the program."""
        found = self._split(path, name)
        if found is None:
            return None
        module, rest = found
        if not rest:
            return None
        return self._member(module, rest, (), False, False, {(path, name)})

    def _member(
        self,
        module: str,
        rest: tuple[str, ...],
        steps: tuple[Alias, ...],
        assigned: bool,
        several: bool,
        seen: set[tuple[str, str]],
    ) -> _End | None:
        """What the attribute chain `rest` of a module is."""
        first, more = rest[0], rest[1:]
        place = f"{module}:{first}"
        unknown = _End(OTHER, more, steps, assigned, several, place)
        if (module, first) in seen or len(steps) > _DEPTH or (module, first) in self._patched:
            return unknown
        seen = {*seen, (module, first)}
        facts = self._of(module, first)
        if facts is None:
            return unknown
        export = self._exported(module, facts).get(first)
        inner = self._inside(module, first)
        if export is None:
            if inner is not None:
                return self._member(inner, more, steps, assigned, several, seen) if more else None
            return self._through_star(module, facts, rest, steps, assigned, several, seen)
        if self._rebound(module, facts, first, export):
            return unknown
        several = several or export.several
        if export.kind not in (Kind.IMPORT, Kind.ALIAS):
            return _End(export, more, steps, assigned, several, place)
        if inner is not None and self._module(module, export.target) != inner:
            return unknown  # a module and another thing of the same name
        step = Alias(first, export.via, export.line, module)
        assigned = assigned or export.kind is Kind.ALIAS
        return self._onward(module, export.target, more, (*steps, step), assigned, several, seen) or unknown

    def _rebound(self, module: str, facts: Facts, name: str, export: Export) -> bool:
        """Whether a star import below the statement that binds a name binds it anew, to another thing."""
        return any(
            below > export.line
            and self._brings(module, star, name)
            and not self._brings_same(module, star, name, export)
            for star, below in facts.stars
        )

    def _brings_same(self, module: str, star: str, name: str, export: Export) -> bool:
        """Whether a star import brings under a name just what the module has under it already."""
        other = self._module(module, star)
        if other is None or export.kind is not Kind.IMPORT or export.several:
            return False
        if (module, star, name) in self._compared:
            return False  # asked for by itself, through modules that import one another
        self._compared.add((module, star, name))
        try:
            end = self._member(other, (name,), (), False, False, {(module, name)})
        finally:
            self._compared.discard((module, star, name))
        return end is not None and end.outside == export.target and not end.several

    def _brings(self, module: str, star: str, name: str, depth: int = 0) -> bool:
        """Whether a star import of a module of the program is known to bind a name."""
        other = self._module(module, star) if self._is_own(star) and depth < _DEPTH else None
        theirs = self._of(other, "__all__") if other is not None else None
        if theirs is None or other is None:
            return False
        if theirs.public is not None:
            return name in theirs.public
        if name.startswith("_"):
            return False
        inner = any(self._brings(other, further, name, depth + 1) for further, _ in theirs.stars)
        asked = self._of(other, name)
        return inner or (asked is not None and name in self._exported(other, asked))

    def _onward(
        self,
        module: str,
        target: str,
        more: tuple[str, ...],
        steps: tuple[Alias, ...],
        assigned: bool,
        several: bool,
        seen: set[tuple[str, str]],
    ) -> _End | None:
        if not self._is_own(target):
            outside = ".".join((target, *more)) if target.partition(".")[0] in tables.packages() else ""
            return _End(OTHER, more, steps, assigned, several, "", outside) if outside else None
        found = self._split(module, target)
        if found is None:
            return None
        inner, rest = found
        if not (*rest, *more):
            return None
        return self._member(inner, (*rest, *more), steps, assigned, several, seen)

    def _through_star(
        self,
        module: str,
        facts: Facts,
        rest: tuple[str, ...],
        steps: tuple[Alias, ...],
        assigned: bool,
        several: bool,
        seen: set[tuple[str, str]],
    ) -> _End | None:
        """The one meaning that the star imports of a module give a name; None if they give two."""
        ends: dict[str, _End] = {}
        for star, line in facts.stars:
            if not self._is_own(star):
                return None  # may bring any name
            other = self._module(module, star)
            theirs = self._of(other, "__all__") if other is not None else None
            if theirs is None or other is None:
                return None
            if theirs.public is not None and rest[0] not in theirs.public:
                continue
            if theirs.public is None and rest[0].startswith("_"):
                continue
            step = Alias(rest[0], f"from {star} import *", line, module)
            end = self._member(other, rest, (*steps, step), assigned, several, seen)
            if end is not None:
                ends[end.outside or end.place] = end
        if len(ends) > 1:
            return None
        return next(iter(ends.values()), None)

    def _exported(self, module: str, facts: Facts) -> dict[str, Export]:
        if module not in self.facts:
            return dict(facts.exports)  # only what was asked for
        if module not in self._exports:
            self._exports[module] = dict(facts.exports)
        return self._exports[module]

    # --- finding modules ---------------------------------------------------------------------------

    def _of(self, path: str, name: str) -> Facts | None:
        return self.facts[path] if path in self.facts else self._load(path, name)

    def _split(self, path: str, name: str) -> tuple[str, tuple[str, ...]] | None:
        """The longest beginning of a name that is a module of the program, and what is left of the name."""
        folder = _folder(path)
        if (folder, name) not in self._splits:
            self._splits[folder, name] = self._split_anew(path, name)
        return self._splits[folder, name]

    def _split_anew(self, path: str, name: str) -> tuple[str, tuple[str, ...]] | None:
        dots = len(name) - len(name.lstrip("."))
        parts = [part for part in name[dots:].split(".") if part]
        if not dots and parts[0] not in self._words:
            return None
        for count in range(len(parts), -1 if dots else 0, -1):
            module = self._module(path, "." * dots + ".".join(parts[:count]))
            if module is not None:
                return module, tuple(parts[count:])
        return None

    def _module(self, path: str, name: str) -> str | None:
        """The file of a module that the file at `path` names; None if there is none, or more than one."""
        folder = _folder(path)
        if (folder, name) not in self._modules:
            self._modules[folder, name] = self._module_anew(path, name)
        return self._modules[folder, name]

    def _module_anew(self, path: str, name: str) -> str | None:
        dots = len(name) - len(name.lstrip("."))
        parts = [part for part in name[dots:].split(".") if part]
        folder = _folder(path)
        if dots:
            for _ in range(dots - 1):
                if not folder:
                    return None
                folder = _folder(folder)
            return self._file(folder, parts)
        if not parts:
            return None
        found = {file for top in self._search(path, parts[0]) if (file := self._file(top, parts)) is not None}
        if self._package and tuple(parts[: len(self._package)]) == self._package:
            found |= {file} if (file := self._file("", parts[len(self._package) :])) is not None else set()
        return found.pop() if len(found) == 1 else None

    def _search(self, path: str, first: str) -> set[str]:
        """Folders in which an import of the file at `path` may look for a top-level module."""
        folder = _folder(path)
        places = {folder, "", *self._tops.get(first, ())}
        while folder and posixpath.join(folder, "__init__.py") in self.paths:
            folder = _folder(folder)
        return places | {folder, *_above(path)}

    def _file(self, folder: str, parts: list[str]) -> str | None:
        base = "/".join((folder, *parts) if folder else parts)
        package, module = f"{base}/__init__.py" if base else "__init__.py", f"{base}.py"
        found = [item for item in (package, module) if item in self.paths]
        return found[0] if len(found) == 1 else None

    def _inside(self, module: str, name: str) -> str | None:
        """The submodule `name` of a package."""
        if posixpath.basename(module) != "__init__.py":
            return None
        return self._file(_folder(module), [name])

    def _files(self, path: str, name: str) -> frozenset[str]:
        """The files that bind what another module of the program calls `name`."""
        return frozenset(file for file, _ in self._place(path, name))

    def _place(self, path: str, name: str) -> set[tuple[str, str]]:
        """File and name of what another module of the program binds under `name`; empty if not known."""
        found = self._split(path, name)
        if found is None or len(found[1]) != 1:
            return set()
        end = self._member(found[0], found[1], (), False, False, set())
        place = end.place if end is not None else ""
        if not place or (end is not None and end.rest):
            return {(found[0], found[1][0])}
        file, _, local = place.rpartition(":")
        return {(file, local), (found[0], found[1][0])}


@lru_cache(maxsize=100_000)  # asked again and again for the same files
def _folder(path: str) -> str:
    return posixpath.dirname(path)


def _join(star: str, name: str) -> str:
    return f"{star}{name}" if star.endswith(".") else f"{star}.{name}"


def _is_in(name: str, star: str) -> bool:
    """Whether a wanted name is one that a star import of `star` may bring."""
    return name.startswith(star) and _join(star, name.rpartition(".")[2]) == name and name != star


def _above(path: str) -> list[str]:
    folder, found = _folder(path), []
    while folder:
        found.append(folder)
        folder = _folder(folder)
    return [*found, ""]


def _cuts(name: str) -> list[str]:
    """A name and its beginnings, the shortest first: `a.b`, `a.b.c` (a lone first part names a module)."""
    dots = len(name) - len(name.lstrip("."))
    parts = name[dots:].split(".")
    return ["." * dots + ".".join(parts[:count]) for count in range(1, len(parts) + 1)]
