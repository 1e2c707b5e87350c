"""One round of edits over a whole file of any kind; in a notebook, over its cells together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from portkit.apply import Applied, Step, apply
from portkit.applying import imports, notebook
from portkit.applying.names import is_used
from portkit.applying.patch import carry_out
from portkit.applying.quiet import quietly
from portkit.errors import ApplyError
from portkit.finding import DropImport, Finding, NeedImport
from portkit.source import Kind, Source


def apply_source(source: Source, findings: Sequence[Finding]) -> Applied:
    """Carry out the edits of findings on a file; the new text is that of the file (of a notebook's JSON)."""
    if source.kind is not Kind.NOTEBOOK:
        python = source.kind is Kind.PYTHON
        init = python and source.path.rpartition("/")[2] == "__init__.py"
        return apply(source.text, findings, python=python, init=init)
    try:
        return _Notebook(source).apply(findings)
    except ApplyError as error:
        return Applied(source.text, source.text, refused=[(finding, error.message) for finding in findings])


@dataclass
class _Cell:
    raw: str  # as the user wrote it
    masked: str | None  # of the same length, fit for `ast`; None where it is not Python


@dataclass
class _Notebook:
    """The code cells of a notebook.  What one cell imports, later cells use: imports are settled together."""

    source: Source
    cells: list[_Cell] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cells = [_Cell(unit.text, unit.python) for unit in self.source.units]

    def apply(self, findings: Sequence[Finding]) -> Applied:
        """One round.  Raises ApplyError where imports or the JSON can't be settled: nothing is changed."""
        done: list[Finding] = []
        deferred: list[Finding] = []
        refused: list[tuple[Finding, str]] = []
        for index in range(len(self.cells)):
            here = [finding for finding in findings if (finding.location.cell or 0) == index]
            if here:
                self._apply_cell(index, here, done, deferred, refused)
        if done:
            self._settle(done)
        changed = {i: cell.raw for i, cell in enumerate(self.cells) if cell.raw != self.source.units[i].text}
        text = notebook.write(self.source.text, changed) if changed else self.source.text
        return Applied(text, text, done, deferred, refused, tuple(self.steps))

    def _apply_cell(
        self,
        index: int,
        findings: Sequence[Finding],
        done: list[Finding],
        deferred: list[Finding],
        refused: list[tuple[Finding, str]],
    ) -> None:
        cell = self.cells[index]
        if cell.masked is None:
            refused += [(finding, "the cell is not Python") for finding in findings]
            return
        stripped = [_without_imports(finding) for finding in findings]
        bare = {id(one): full for one, full in zip(stripped, findings, strict=True)}
        only_imports = [bare[id(one)] for one in stripped if not one.edits]
        result = apply(cell.masked, stripped, python=True, raw=cell.raw)
        cell.raw, cell.masked = result.text, result.masked
        done += [*(bare[id(one)] for one in result.done), *only_imports]
        deferred += [bare[id(one)] for one in result.deferred]
        refused += [(bare[id(one)], reason) for one, reason in result.refused]
        self.steps += [
            replace(step, owners=tuple(bare[id(one)] for one in step.owners), cell=index)
            for step in result.steps
        ]

    # --- imports -----------------------------------------------------------------------------

    def _settle(self, done: Sequence[Finding]) -> None:
        for need in dict.fromkeys(e for f in done for e in f.edits if isinstance(e, NeedImport)):
            first = min(finding.location.cell or 0 for finding in done if need in finding.edits)
            if not any(self._provides(index, need) for index in range(first)):
                self._rewrite_imports(self._home(first), [need], [])
        for drop in dict.fromkeys(e for f in done for e in f.edits if isinstance(e, DropImport)):
            self._drop(drop)

    def _provides(self, index: int, need: NeedImport) -> bool:
        module = self._module(index)
        return module is not None and any(imports.provides(node, need) for node in module.body)

    def _home(self, first: int) -> int:
        """The first cell with an import, if it runs before the cell that needs one; else that cell."""
        for index in range(first):
            module = self._module(index)
            if module and any(isinstance(node, ast.Import | ast.ImportFrom) for node in module.body):
                return index
        return first

    def _drop(self, drop: DropImport) -> None:
        name = drop.local.partition(".")[0]
        if all(self._is_free_of(index, name) for index in range(len(self.cells))):
            for index in range(len(self.cells)):
                self._rewrite_imports(index, [], [drop])

    def _is_free_of(self, index: int, name: str) -> bool:
        """Whether a cell does not use a name, in magics neither."""
        cell, module = self.cells[index], self._module(index)
        if module is None or cell.masked is None:
            return re.search(rf"\b{re.escape(name)}\b", cell.raw) is None
        magics = [
            raw
            for raw, line in zip(cell.raw.split("\n"), cell.masked.split("\n"), strict=True)
            if raw != line
        ]
        mentioned = any(re.search(rf"\b{re.escape(name)}\b", line) for line in magics)
        return not mentioned and not is_used(module, cell.masked, name)

    def _module(self, index: int) -> ast.Module | None:
        masked = self.cells[index].masked
        if masked is None:
            return None
        try:
            with quietly():
                return ast.parse(masked)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def _rewrite_imports(self, index: int, needs: Iterable[NeedImport], drops: Iterable[DropImport]) -> None:
        cell = self.cells[index]
        if cell.masked is None or self._module(index) is None:
            return
        head = 1 if cell.raw.lstrip().startswith("%%") else 0
        for what, patches in imports.settled(cell.masked, needs, drops, head=head):
            cell.masked, cell.raw = carry_out(cell.masked, patches), carry_out(cell.raw, patches)
            self.steps.append(Step(tuple(patches), imports=what, cell=index))


def _without_imports(finding: Finding) -> Finding:
    edits = tuple(edit for edit in finding.edits if not isinstance(edit, NeedImport | DropImport))
    return replace(finding, edits=edits)
