"""Taking some edits of a file back out of its history, and leaving the others and the user's work."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from portkit import versions
from portkit.applying.names import is_used
from portkit.applying.quiet import quietly
from portkit.cells import neutralise
from portkit.layers import USER, Conflict, Layer, Patch, Pieces, by_hand
from portkit.manifest import FileRecord, sha256
from portkit.source import Kind
from portkit.versions import Unknown, Version

Edits = frozenset[tuple[int, int]]  # numbers of the record and of its edit


class Refused(Exception):
    """Some edits can't be taken back: others stand on them, or the user changed the place since."""

    def __init__(self, line: int, reason: str, rule: str = "") -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason
        self.rule = rule  # that has to be taken back as well


@dataclass(frozen=True)
class Withdrawn:
    """One file without some of its edits."""

    now: bytes | None  # None: a migration created the file
    records: tuple[FileRecord | None, ...]  # in place of those there were; None: nothing of it is left
    befores: tuple[bytes, ...]  # of the records that are left
    edits: int  # that were taken back


@dataclass
class History:
    """The records of one file, oldest first, with the bytes that they name."""

    path: str
    records: Sequence[FileRecord]
    befores: Sequence[bytes | None]  # None: it created the file
    now: bytes

    @property
    def is_untouched(self) -> bool:
        """Whether nobody but the migrations changed the file since the first one."""
        after = [record.sha256_after for record in self.records]
        return [*(record.sha256_before for record in self.records[1:]), sha256(self.now)] == after

    @property
    def edits(self) -> Edits:
        """Every edit there is."""
        return frozenset((i, k) for i, record in enumerate(self.records) for k in range(len(record.edits)))


def withdraw(history: History, chosen: Edits) -> Withdrawn:
    """The file, and its records, without the chosen edits.  Raises Refused."""
    _check_needs(history, chosen)
    if chosen == history.edits and history.is_untouched:
        return Withdrawn(history.befores[0], (None,) * len(history.records), (), len(chosen))
    bare = next((record for record in history.records if not record.layers), None)
    if bare is not None:
        raise Refused(1, "its record has no single edits: take back the whole file, or the whole migration")
    try:
        return _Withdrawal(history, chosen).run()
    except Unknown as error:
        raise Refused(1, str(error)) from None


def _check_needs(history: History, chosen: Edits) -> None:
    for number, record in enumerate(history.records):
        for index, edit in enumerate(record.edits):
            if (number, index) in chosen:
                continue
            needed = next((k for k in edit.needs if (number, k) in chosen), None)
            if needed is not None:
                other = record.edits[needed].rule
                reason = f"{edit.rule} opened this test because {other} made its branch portable"
                raise Refused(edit.line, reason, edit.rule)


class _Withdrawal:
    def __init__(self, history: History, chosen: Edits) -> None:
        self.history = history
        self.chosen = chosen
        self.kind = Kind(history.records[0].kind)
        self.versions = [versions.of(data or b"", history.path, self.kind) for data in history.befores]
        self.present = versions.of(history.now, history.path, self.kind)
        counts = {len(version.units) for version in [*self.versions, self.present]}
        if len(counts) > 1:
            raise Unknown("cells were added or removed since")
        self.dropped: set[tuple[int, int]] = set()  # imports that go too: record and layer
        self.everything = chosen == history.edits

    def run(self) -> Withdrawn:
        """Go over the history until the imports fit what is left.  Raises Refused and Unknown."""
        while True:
            found, units = self._once()
            more = self._idle_imports(units) - self.dropped
            if not more:
                self._check(units)
                return found
            self.dropped |= more

    def _once(self) -> tuple[Withdrawn, Sequence[str]]:
        pieces = [Pieces(text) for text in self.versions[0].units]
        base = self.versions[0]
        records: list[FileRecord | None] = []
        befores: list[bytes] = []
        after = self.history.records[0].sha256_before
        for number, record in enumerate(self.history.records):
            if record.sha256_before != after:
                base = self.versions[number]
                self._by_hand(pieces, base)
            data = base.with_units([piece.new for piece in pieces])
            kept = [self._add(pieces, number, index, layer) for index, layer in enumerate(record.layers)]
            after = record.sha256_after
            new = self._record(number, data, base.with_units([piece.new for piece in pieces]), kept)
            records.append(new)
            befores += [data] if new is not None else []
        if sha256(self.history.now) != after:
            base = self.present
            self._by_hand(pieces, base)
        units = [piece.new for piece in pieces]
        now = base.with_units(units)
        return Withdrawn(now, tuple(records), tuple(befores), len(self.chosen)), units

    def _by_hand(self, pieces: Sequence[Pieces], version: Version) -> None:
        """Put what a person changed on top."""
        for number, text in enumerate(version.units):
            if pieces[number].old != text:
                self._put(pieces[number], by_hand(pieces[number].old, text), lambda patch: True, None)

    def _add(self, pieces: Sequence[Pieces], number: int, index: int, layer: Layer) -> Layer:
        def keep(patch: Patch) -> bool:
            if patch.edit is None:
                return (number, index) not in self.dropped
            return (number, patch.edit) not in self.chosen

        return self._put(pieces[layer.cell or 0], layer, keep, self.history.records[number])

    def _put(
        self, pieces: Pieces, layer: Layer, keep: Callable[[Patch], bool], record: FileRecord | None
    ) -> Layer:
        try:
            return pieces.add(layer, keep)
        except Conflict as conflict:
            if conflict.edit == USER:
                raise Refused(conflict.line, "these lines were changed since") from None
            edit = record.edits[conflict.edit] if record and conflict.edit is not None else None
            what = f"{edit.rule} was applied on top of it" if edit else "an import was put on top of it"
            raise Refused(conflict.line, what, edit.rule if edit else "") from None

    def _record(self, number: int, before: bytes, after: bytes, layers: Sequence[Layer]) -> FileRecord | None:
        """The record of one migration without what was taken back."""
        record = self.history.records[number]
        kept = [k for k in range(len(record.edits)) if (number, k) not in self.chosen]
        if self.everything or not (kept or any(layer.patches for layer in layers)):
            return None  # an import that is left then is the user's
        index = {old: new for new, old in enumerate(kept)}
        edits = tuple(
            replace(record.edits[k], needs=tuple(index[n] for n in record.edits[k].needs if n in index))
            for k in kept
        )
        return replace(
            record,
            sha256_before=sha256(before),
            sha256_after=sha256(after),
            edits=edits,
            layers=tuple(_renumbered(layer, index) for layer in layers if layer.patches),
        )

    # --- imports ---------------------------------------------------------------------------------------

    def _idle_imports(self, units: Sequence[str]) -> set[tuple[int, int]]:
        """Layers that add an import which nothing uses any more, or remove one that is used again."""
        found = set()
        for number, record in enumerate(self.history.records):
            for index, layer in enumerate(record.layers):
                name = layer.imports[1:]
                if not name or (number, index) in self.dropped:
                    continue
                used = self._is_used(name, units)
                if layer.imports[0] == "-":
                    go = used or self.everything
                else:
                    go = not used and (self.everything or self._is_used(name, self.present.units))
                found |= {(number, index)} if go else set()
        return found

    def _is_used(self, name: str, units: Sequence[str]) -> bool:
        return any(
            is_used(module, text, name.partition(".")[0], dotted="." in name)
            for text in units
            if (module := self._module(text)) is not None
        )

    def _module(self, text: str) -> ast.Module | None:
        python = neutralise(text) if self.kind is Kind.NOTEBOOK else text
        try:
            with quietly():
                return ast.parse(python) if python is not None else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def _check(self, units: Sequence[str]) -> None:
        """What was Python stays Python."""
        if self.kind not in (Kind.PYTHON, Kind.NOTEBOOK):
            return
        for old, new in zip(self.present.units, units, strict=True):
            if old != new and self._module(old) is not None and self._module(new) is None:
                raise Refused(1, "what is left would not be valid Python")


def _renumbered(layer: Layer, index: dict[int, int]) -> Layer:
    patches = tuple(
        patch if patch.edit is None else replace(patch, edit=index[patch.edit]) for patch in layer.patches
    )
    return replace(layer, patches=patches)
