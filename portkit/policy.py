"""The policy of the gate: what [tool.portkit.gate] asks for, read from the settings and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portkit import tomlfile
from portkit.config import Config
from portkit.errors import ConfigError, UsageError
from portkit.finding import Phase


@dataclass(frozen=True)
class Proof:
    """Parity reports that have to hold."""

    phase: Phase | None  # whose verdicts have to be in them; None: whatever is in them
    files: tuple[Path, ...]


@dataclass(frozen=True)
class Policy:
    """What has to be so; a field that is empty asks for nothing."""

    file: Path  # where it stands
    coverage: Mapping[Phase, float]  # minimum in percent
    baseline: Path | None  # of findings that are known: there may be no others
    parity: tuple[Proof, ...]
    max_slowdown: float | None  # time of a step after the migration, at most this many times that before it

    def place(self, *keys: str) -> str:
        """`file:line` of a key."""
        return tomlfile.place(self.file, "gate", *keys)

    def line(self, *keys: str) -> int:
        """The line of a key; 1 where it has none."""
        tail = self.place(*keys).rpartition(":")[2]
        return int(tail) if tail.isdigit() else 1

    @property
    def reports(self) -> tuple[Path, ...]:
        """Every parity report, once."""
        return tuple(dict.fromkeys(file for proof in self.parity for file in proof.files))


def read(config: Config, folder: Path) -> Policy:
    """The policy of a configuration; paths are relative to its file, or else to `folder`.

    Raises ConfigError for a wrong value and UsageError where no gate is configured.
    """
    file = config.file or folder
    if not config.gate:
        raise UsageError(
            "No gate is configured.",
            place=str(file),
            remedy="`portkit init` writes one from today's coverage.",
        )
    base = config.file.parent if config.file else folder
    policy = Policy(
        file=file,
        coverage=dict(_minima(config.gate.get("coverage", {}), file)),
        baseline=_baseline(config.gate.get("baseline", ""), file, base),
        parity=tuple(_proofs(config.gate.get("parity", []), file, base)),
        max_slowdown=_slowdown(config.gate.get("max-slowdown"), file),
    )
    if policy.max_slowdown is not None and not policy.parity:
        what = "needs the times of a parity report"
        remedy = (
            "Name one in parity; `portkit parity --training SCRIPT --format json --output FILE` makes it."
        )
        raise tomlfile.wrong(file, ("gate", "max-slowdown"), what, remedy)
    return policy


def _minima(value: Any, file: Path) -> Iterator[tuple[Phase, float]]:
    keys = ("gate", "coverage")
    if not isinstance(value, Mapping):
        raise tomlfile.wrong(file, keys, "must be a table of phase = percent")
    for name, minimum in value.items():
        phase = _phase(name, keys, file)
        if not _is_number(minimum) or not 0 <= minimum <= 100:
            raise tomlfile.wrong(file, (*keys, name), "must be a number from 0 to 100")
        yield phase, float(minimum)


def _phase(name: str, keys: tuple[str, ...], file: Path) -> Phase:
    known = {phase.value: phase for phase in Phase}
    if name not in known:
        place = tomlfile.place(file, *keys, name)
        remedy = f"Phases: {', '.join(known)}."
        raise ConfigError(f"{'.'.join(keys)} names no phase: {name}.", place=place, remedy=remedy)
    return known[name]


def _proofs(value: Any, file: Path, base: Path) -> Iterator[Proof]:
    keys = ("gate", "parity")
    if not isinstance(value, Mapping):
        names = _names(value, keys, file, "must be a list of files, or a table of phase = files")
        yield from (Proof(None, (base / name,)) for name in names)
        return
    for name, files in value.items():
        phase = _phase(name, keys, file)
        names = _names(files, (*keys, name), file, "must be a list of files")
        if not names:
            raise tomlfile.wrong(file, (*keys, name), "names no file")
        yield Proof(phase, tuple(base / one for one in names))


def _names(value: Any, keys: tuple[str, ...], file: Path, what: str) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise tomlfile.wrong(file, keys, what)
    return value


def _baseline(value: Any, file: Path, base: Path) -> Path | None:
    if not isinstance(value, str):
        raise tomlfile.wrong(file, ("gate", "baseline"), "must be the name of a file")
    return base / value if value else None


def _slowdown(value: Any, file: Path) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or not 0 < value < float("inf"):
        what = "must be a number above 0: 1.1 allows a tenth more time"
        raise tomlfile.wrong(file, ("gate", "max-slowdown"), what)
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
