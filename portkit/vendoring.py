"""`migrate --vendor`: a copy of the few device helpers in the repository, instead of importing portkit."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from portkit import engine, helpers, versions
from portkit.anchors import lines_of
from portkit.applying.quiet import quietly
from portkit.cells import neutralise
from portkit.config import Config
from portkit.discover import JUNK, discover
from portkit.errors import UsageError
from portkit.finding import Phase
from portkit.layers import Layer, Patch
from portkit.migrate import FileChange, Plan
from portkit.source import Kind, Unreadable, read
from portkit.versions import Unknown

_RUNTIME = "portkit.runtime"
_IMPORTED = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_SHOWN = 5  # places in a message


@dataclass(frozen=True)
class _File:
    """A Python file or notebook of the repository, as it will be."""

    path: str
    kind: Kind
    units: tuple[str, ...]
    change: FileChange | None  # None: the migration leaves it alone


def is_vendored(plan: Plan) -> bool:
    """Whether the repository has a copy of the helpers from an earlier migration."""
    for place, folders, files in os.walk(plan.root):
        folders[:] = [name for name in folders if name not in JUNK]
        file = Path(place, f"{helpers.NAME}.py")
        if file.name in files and file.read_bytes().startswith(helpers.MARK.encode()):
            return True
    return False


def vendor(plan: Plan, config: Config) -> None:
    """Let the changes of a plan import copies of the helpers, and add the files that hold them.

    Raises UsageError where the code uses operators, modules or kernels of portkit, or imports it in a way
    that was not written by a migration with this option.
    """
    files = list(_files(plan, config))
    layout = _Layout(files)
    needs: dict[str, set[str]] = {}  # path of the copy → names
    problems: list[str] = []
    for file in files:
        for line, name in _uses(file):
            if helpers.home(name) is None:
                problems.append(f"{file.path}:{line}: uses pk.{name}, which is no device helper")
            else:
                needs.setdefault(layout.home(file.path), set()).add(name)
        problems += _foreign(file)
    problems += [
        f"{change.path}:1: mentions portkit"
        for change in plan.changes
        if change.kind not in (Kind.PYTHON, Kind.NOTEBOOK)
        and change.after.count(b"portkit") > (change.before or b"").count(b"portkit") + len(change.notes)
    ]
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise UsageError(
            "The code needs more of portkit than its device helpers.",
            place=str(plan.root),
            source="\n".join(f"  {line}" for line in [*problems[:_SHOWN], *more]),
            remedy="Leave --vendor out: the migrated code then imports portkit. "
            "Or migrate with --operators cuda-bound, which leaves torch's own operators alone.",
        )
    plan.changes = [_redirected(change, layout) for change in plan.changes]
    plan.changes += [made for path, names in sorted(needs.items()) if (made := _copy(plan, path, names))]
    plan.changes.sort(key=lambda change: change.path)


def _files(plan: Plan, config: Config) -> Iterator[_File]:
    changes = {change.path: change for change in plan.changes}
    root, found, _ = discover([plan.root], config, plan.root)
    for item in found:
        if item.kind not in (Kind.PYTHON, Kind.NOTEBOOK):
            continue
        change = changes.get(item.path)
        try:
            if change is not None:
                version = versions.of(change.after, item.path, item.kind)
            else:
                source = read(root / item.path, item.path, item.kind)
                version = versions.of(source.data, item.path, item.kind)
        except (Unknown, Unreadable):
            continue
        yield _File(item.path, item.kind, version.units, change)


def _module(file: _File, text: str) -> ast.Module | None:
    python = neutralise(text) if file.kind is Kind.NOTEBOOK else text
    try:
        with quietly():
            return ast.parse(python) if python is not None else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# --- what is used ---------------------------------------------------------------------------------------


def _uses(file: _File) -> Iterator[tuple[int, str]]:
    """Line and name (`device`, `amp.autocast`) of each use of the runtime, or of a copy of it."""
    modules = [
        module for text in file.units if "portkit" in text and (module := _module(file, text)) is not None
    ]
    locals_ = {name for module in modules for name in _local_names(module)}
    everything = [_module(file, text) for text in file.units] if locals_ else []
    for module in filter(None, everything):
        outer = {child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(module):
            if isinstance(node, ast.Name) and node.id in locals_ and isinstance(node.ctx, ast.Load):
                yield node.lineno, _member(node, outer)


def _local_names(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for item in node.names:
                whole = item.name if isinstance(node, ast.Import) else f"{node.module or ''}.{item.name}"
                if whole == _RUNTIME or whole.rpartition(".")[2] == helpers.NAME:
                    yield item.asname or item.name.partition(".")[0]


def _member(node: ast.expr, outer: dict[ast.AST, ast.AST]) -> str:
    """What of the runtime an expression takes; empty if it takes the module itself."""
    parts: list[str] = []
    above = outer.get(node)
    while isinstance(above, ast.Attribute) and len(parts) < 3:
        parts.append(above.attr)
        above = outer.get(above)
    if parts[:1] == ["runtime"]:  # `import portkit.runtime`
        parts = parts[1:]
    return ".".join(parts[: 2 if parts[:1] and parts[0] in helpers.spaces() else 1])


def _foreign(file: _File) -> Iterator[str]:
    """Imports of portkit other than those that a copy takes the place of."""
    for text in file.units:
        module = _module(file, text) if "portkit" in text else None
        for node in ast.walk(module) if module is not None else ():
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            names = [item.name for item in node.names]
            head = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else names
            ours = any(name.partition(".")[0] == "portkit" for name in head)
            if not ours or (isinstance(node, ast.Import) and _is_inserted(file, node)):
                continue
            yield f"{file.path}:{node.lineno}: imports {', '.join(head)}"


def _is_inserted(file: _File, node: ast.Import) -> bool:
    """Whether this migration put the import there."""
    alias = node.names[0].asname
    if len(node.names) != 1 or node.names[0].name != _RUNTIME or alias is None or file.change is None:
        return False
    line = f"import {_RUNTIME} as {alias}"
    added = [
        patch.text for layer in file.change.layers if layer.imports == f"+{alias}" for patch in layer.patches
    ]
    return any(line in text for text in added)


# --- where a copy goes ----------------------------------------------------------------------------------


class _Layout:
    """Which folder a file's imports start from, as far as the code shows."""

    def __init__(self, files: Sequence[_File]) -> None:
        self.paths = {file.path for file in files}
        self.folders = {str(folder) for path in self.paths for folder in PurePosixPath(path).parents}
        self.imported: set[str] = set()
        self.own: dict[str, set[str]] = {}
        for file in files:
            names = {name for text in file.units for name in _IMPORTED.findall(text)}
            self.own[file.path] = names
            self.imported |= {name for name in names if not name.startswith(".")}

    def home(self, path: str) -> str:
        """The path of the copy that a file imports."""
        parts = PurePosixPath(path).parts
        root = self._root(path)
        inside = parts[root:-1][:1]  # the top package or folder; a copy there is installed with it
        return "/".join([*parts[:root], *inside, f"{helpers.NAME}.py"])

    def statement(self, path: str, alias: str) -> str:
        """The import of the copy."""
        parts = PurePosixPath(path).parts
        inside = parts[self._root(path) : -1][:1]
        where = f"from {inside[0]} " if inside else ""
        return f"{where}import {helpers.NAME} as {alias}"

    def _root(self, path: str) -> int:
        """How many folders stand above the place that imports start from."""
        parts = PurePosixPath(path).parts
        folder = len(parts) - 1
        if path.endswith(".ipynb") or self._imports_siblings(path, folder):
            return folder
        dotted = [part.removesuffix(".py") for part in parts]
        for start in range(folder):
            name = ".".join(dotted[start:])
            if name in self.imported or ".".join(dotted[start:-1]) in self.imported:
                return start
        while folder > 0 and "/".join([*parts[:folder], "__init__.py"]) in self.paths:
            folder -= 1
        return folder

    def _imports_siblings(self, path: str, folder: int) -> bool:
        """Whether a file imports what stands beside it by its bare name, as a script does."""
        parts = PurePosixPath(path).parts[:folder]
        for name in self.own[path]:
            first = name.partition(".")[0]
            beside = "/".join([*parts, first])
            if first and folder and (f"{beside}.py" in self.paths or beside in self.folders):
                return True
        return False


# --- carrying it out ------------------------------------------------------------------------------------


def _redirected(change: FileChange, layout: _Layout) -> FileChange:
    """A change whose imports of the runtime are those of a copy."""
    if change.before is None or change.kind not in (Kind.PYTHON, Kind.NOTEBOOK):
        return change
    data, layers = _redirect(change, change.after, layout)
    if not layers:
        return change
    stages = tuple((stage, _redirect(change, text, layout)[0]) for stage, text in change.stages)
    return replace(change, after=data, layers=(*change.layers, *layers), stages=stages)


def _redirect(change: FileChange, data: bytes, layout: _Layout) -> tuple[bytes, list[Layer]]:
    """One state of a file with its imports changed, and the layers that do it."""
    version = versions.of(data, change.path, change.kind)
    file = _File(change.path, change.kind, version.units, change)
    units = list(version.units)
    layers: list[Layer] = []
    for number, text in enumerate(version.units):
        module = _module(file, text) if _RUNTIME in text else None
        nodes = [n for n in ast.walk(module) if isinstance(n, ast.Import)] if module is not None else []
        starts = [0, *itertools.accumulate(len(line) for line in lines_of(text))]
        for node in sorted(nodes, key=lambda item: -item.lineno):  # from the end: positions hold
            if not _is_inserted(file, node):
                continue
            start = starts[node.lineno - 1] + node.col_offset
            old = f"import {_RUNTIME} as {node.names[0].asname}"
            assert text.startswith(old, start), old
            new = layout.statement(change.path, str(node.names[0].asname))
            cell = number if change.kind is Kind.NOTEBOOK else None
            layer = Layer((Patch(start, start + len(old), new),), f"~{node.names[0].asname}", cell)
            units[number] = layer.apply(units[number])
            layers.append(layer)
    return version.with_units(units), layers


def _copy(plan: Plan, path: str, names: set[str]) -> FileChange | None:
    """The file with the helpers; None if it is there already."""
    text = helpers.text(names)
    if engine.check_text(text, path):  # what handles CUDA portably mentions it
        text = text.replace(
            helpers.LICENCE, f"{helpers.LICENCE}# portkit: ignore-file portable by itself\n", 1
        )
    data = text.encode()
    file = plan.root / path
    before = file.read_bytes() if file.exists() else None
    if before == data:
        return None
    first = next((stage for change in plan.changes for stage, _ in change.stages), Phase.OPERATOR)
    return FileChange(path, Kind.PYTHON, before, data, (), stages=((first, data),))
