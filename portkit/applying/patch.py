"""Patches: the text changes that edits come down to, their order, conflicts and application."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from portkit.errors import ApplyError

# At one position, what closes an expression comes before what opens the next one, and both before the text
# that is replaced there.
CLOSES, OPENS, REPLACES = 0, 1, 2


@dataclass(frozen=True, order=True)
class Patch:
    """Put `text` in the place of the characters [start, end)."""

    start: int
    phase: int
    rank: int  # among insertions at one position: lower comes first
    end: int
    text: str

    @property
    def is_insertion(self) -> bool:
        return self.start == self.end


def replace(start: int, end: int, text: str) -> Patch:
    """Replace [start, end)."""
    return Patch(start, REPLACES, 0, end, text)


def opening(position: int, text: str, size: int) -> Patch:
    """Insert before an expression of `size` characters: around larger expressions first."""
    return Patch(position, OPENS, -size, position, text)


def closing(position: int, text: str, size: int) -> Patch:
    """Insert after an expression of `size` characters: around smaller expressions first."""
    return Patch(position, CLOSES, size, position, text)


def check_order(patches: Sequence[Patch]) -> None:
    """Raise ApplyError if patches of one finding overlap."""
    for before, after in pairwise(patches):
        if after.start < before.end:
            raise ApplyError("two edits of this rewrite overlap")


class Taken:
    """Patches that are chosen already, none of which overlap, in order."""

    def __init__(self) -> None:
        self._patches: list[Patch] = []

    def add(self, patch: Patch) -> None:
        """Note a patch that conflicts with none of another finding."""
        bisect.insort(self._patches, patch)

    def conflicts(self, patch: Patch) -> bool:
        """Whether a patch of another finding conflicts with one that is chosen."""
        at = bisect.bisect_left(self._patches, patch)
        before = at - 1
        while before >= 0 and self._patches[before].end >= patch.start:
            if conflict(self._patches[before], patch):
                return True
            before -= 1
        while at < len(self._patches) and self._patches[at].start <= patch.end:
            if conflict(self._patches[at], patch):
                return True
            at += 1
        return False


def conflict(one: Patch, other: Patch) -> bool:
    """Whether patches of two findings may not be applied in one round.

    An insertion conflicts with whatever touches its position, since their order would be a guess.
    """
    if one.is_insertion or other.is_insertion:
        return one.start <= other.end and other.start <= one.end
    return one.start < other.end and other.start < one.end


def carry_out(text: str, patches: Iterable[Patch]) -> str:
    """The text after all patches, which must not overlap; the rest is copied, character by character."""
    out: list[str] = []
    done = 0
    for patch in sorted(patches):
        if patch.start < done:
            raise ApplyError("two edits overlap")
        out += (text[done : patch.start], patch.text)
        done = patch.end
    out.append(text[done:])
    return "".join(out)


def unchanged(text: str, new: str, patches: Iterable[Patch]) -> bool:
    """Whether `new` holds every stretch of `text` between the patches, in order and at the right place."""
    old_at = new_at = 0
    for patch in sorted(patches):
        width = patch.start - old_at
        if text[old_at : patch.start] != new[new_at : new_at + width]:
            return False
        old_at, new_at = patch.end, new_at + width + len(patch.text)
    return text[old_at:] == new[new_at:]
