"""The units of a file (its text, or the sources of its cells) as layers change them, and back to bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portkit.applying import notebook
from portkit.errors import ApplyError
from portkit.layers import Layer, replay
from portkit.source import Kind, Source, Unreadable, load


class Unknown(Exception):
    """A version of a file can't be worked out; the message says why."""


@dataclass(frozen=True)
class Version:
    """One state of a file."""

    source: Source
    units: tuple[str, ...]  # one text, or one for each code cell

    def with_units(self, units: Sequence[str]) -> bytes:
        """The bytes of the file with other units, all else as it is here.  Raises Unknown."""
        changed = {i: new for i, (old, new) in enumerate(zip(self.units, units, strict=True)) if old != new}
        if not changed:
            return self.source.data
        try:
            if self.source.kind is Kind.NOTEBOOK:
                return self.source.encode(notebook.write(self.source.text, changed))
            return self.source.encode(units[0])
        except ApplyError as error:
            raise Unknown(error.message) from None
        except UnicodeEncodeError:
            raise Unknown("its encoding can't hold the text") from None


def of(data: bytes, path: str, kind: Kind) -> Version:
    """The version that some bytes are.  Raises Unknown."""
    try:
        source = load(data, path, kind)
    except Unreadable as error:
        raise Unknown(f"it {error.reason}") from None
    return Version(source, tuple(unit.text for unit in source.units))


def after(version: Version, layers: Sequence[Layer]) -> bytes:
    """The bytes after all layers.  Raises Unknown."""
    units = [
        replay(text, [layer for layer in layers if (layer.cell or 0) == number])
        for number, text in enumerate(version.units)
    ]
    return version.with_units(units)
