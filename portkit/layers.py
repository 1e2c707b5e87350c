"""What rewrites did to a text, layer upon layer, so that some of it can be taken out of the middle again."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from portkit.apply import Step

USER = -1  # owner of what a person changed between two migrations


@dataclass(frozen=True)
class Patch:
    """Text put in the place of the characters [start, end)."""

    start: int
    end: int
    text: str
    edit: int | None = None  # index of the edit in the record of the file; None for an import


@dataclass(frozen=True)
class Layer:
    """Patches of one unit of a file, all for the same text; the next layer is for the text that they give."""

    patches: tuple[Patch, ...]
    imports: str = ""  # "+name", "-name", or "~name": an import added, removed, or led elsewhere
    cell: int | None = None

    def apply(self, text: str) -> str:
        """The text after this layer."""
        out: list[str] = []
        done = 0
        for patch in self.patches:
            out += (text[done : patch.start], patch.text)
            done = patch.end
        return "".join([*out, text[done:]])


class Conflict(Exception):
    """A patch that is to stay needs one that is to go."""

    def __init__(self, edit: int | None, line: int) -> None:
        super().__init__(f"line {line}")
        self.edit = edit
        self.line = line  # in the text with everything, from 1


def layers_of(steps: Iterable[Step], index: Callable[[object], int]) -> Iterator[Layer]:
    """Layers from what the applier did; `index` gives the number of a finding's edit."""
    for step in steps:
        owners = step.owners or (None,) * len(step.patches)
        pairs = sorted(zip(step.patches, owners, strict=True), key=lambda pair: pair[0])
        yield Layer(
            tuple(
                Patch(patch.start, patch.end, patch.text, index(owner) if owner is not None else None)
                for patch, owner in pairs
            ),
            step.imports,
            step.cell,
        )


def by_hand(before: str, after: str, cell: int | None = None) -> Layer:
    """What a person changed, as whole lines."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    patches = [
        Patch(starts[one], starts[two], "".join(new[first:last]), USER)
        for tag, one, two, first, last in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes()
        if tag != "equal"
    ]
    return Layer(tuple(patches), cell=cell)


@dataclass
class _Piece:
    """A stretch of text that stands in the text with everything (`old`), in that without some (`new`)."""

    text: str
    old: bool = True
    new: bool = True
    layer: int = -1  # that changed it last

    @property
    def width(self) -> int:
        return len(self.text) if self.old else 0


class Pieces:
    """Two texts side by side: with all patches, and with only those that are kept."""

    def __init__(self, text: str) -> None:
        self._pieces = [_Piece(text)]
        self._count = 0

    @property
    def old(self) -> str:
        return "".join(piece.text for piece in self._pieces if piece.old)

    @property
    def new(self) -> str:
        return "".join(piece.text for piece in self._pieces if piece.new)

    def add(self, layer: Layer, keep: Callable[[Patch], bool]) -> Layer:
        """Put one more layer on; returns it as it is without the patches that go.

        Raises Conflict where a patch that stays changes what a patch that goes left there.
        """
        self._count += 1
        kept = []
        for patch in reversed(layer.patches):  # from the end, so that positions before it hold
            stays = keep(patch)
            at = self._carry_out(patch, stays, strict=patch.edit != USER and not layer.imports)
            if stays:
                kept.append(at)
        return Layer(tuple(reversed(kept)), layer.imports, layer.cell)

    def _carry_out(self, patch: Patch, stays: bool, *, strict: bool) -> Patch:
        first, last = self._range(patch.start, patch.end)
        gone = self._pieces[first:last]
        if stays and (not all(p.old and p.new for p in gone) or (strict and self._touches(first, last))):
            raise Conflict(patch.edit, self._line(first))
        start = sum(len(piece.text) for piece in self._pieces[:first] if piece.new)
        end = start + sum(len(piece.text) for piece in gone if piece.new)
        for piece in gone:
            piece.old = False
            piece.new = piece.new and not stays
            piece.layer = self._count
        left = [piece for piece in gone if piece.new]
        self._pieces[first:last] = [*left, _Piece(patch.text, True, stays, self._count)]
        return Patch(start, end, patch.text, patch.edit)

    def _range(self, start: int, end: int) -> tuple[int, int]:
        """The pieces that hold [start, end) of the old text, split where they have to be."""
        self._split(start)
        self._split(end)
        offset = 0
        first = None
        for number, piece in enumerate(self._pieces):
            if offset == start and first is None and (piece.old or piece.layer == self._count):
                first = number
            if first is not None and offset == end and (start == end or number > first):
                return first, number
            offset += piece.width
        count = len(self._pieces)
        return (count if first is None else first), count

    def _split(self, at: int) -> None:
        offset = 0
        for number, piece in enumerate(self._pieces):
            if piece.old and offset < at < offset + len(piece.text):
                cut = at - offset
                halves = [
                    _Piece(part, piece.old, piece.new, piece.layer)
                    for part in (piece.text[:cut], piece.text[cut:])
                ]
                self._pieces[number : number + 1] = halves
                return
            offset += piece.width

    def _touches(self, first: int, last: int) -> bool:
        """Whether what stands right before or behind differs, by an earlier layer, and on the same line."""
        before, behind = self._neighbour(first - 1, -1), self._neighbour(last, 1)
        ends = before is not None and not before.text.endswith(("\n", "\r"))
        starts = behind is not None
        return (ends and before is not None and before.old != before.new) or (
            starts and behind is not None and behind.old != behind.new and not self._at_line_start(last)
        )

    def _neighbour(self, at: int, step: int) -> _Piece | None:
        """The next piece that was there before this layer and is not empty."""
        while 0 <= at < len(self._pieces):
            piece = self._pieces[at]
            if piece.layer == self._count:
                return None
            if piece.text:
                return piece
            at += step
        return None

    def _at_line_start(self, at: int) -> bool:
        text = "".join(piece.text for piece in self._pieces[:at] if piece.old)
        return not text or text.endswith(("\n", "\r"))

    def _line(self, at: int) -> int:
        return "".join(piece.text for piece in self._pieces[:at] if piece.old).count("\n") + 1


def replay(text: str, layers: Sequence[Layer]) -> str:
    """The text after all layers, for layers of one unit."""
    for layer in layers:
        text = layer.apply(text)
    return text
