"""What a result depends on besides the file: portkit, Python, the rules, the settings."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import portkit
from portkit.config import Config
from portkit.rule import Rule

_ROOT = Path(__file__).parent
_TEXTS = (".py", ".toml", ".txt", ".json")


def of_run(rules: Sequence[type[Rule]], config: Config) -> bytes | None:
    """A hash that changes whenever the same file might give another result; None where that can't be told."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (portkit.__version__, sys.version, sys.implementation.name, config.operators, _ours()):
        _add(digest, part.encode())
    for rule in rules:
        source = _source(rule)
        if source is None:
            return None
        _add(digest, f"{rule.__module__}:{rule.__qualname__}:{source}:{rule.facts()}".encode())
    return digest.digest()


def of_file(data: bytes, *more: str) -> bytes:
    """The key of a result: a hash of a file's bytes, and of all else that was made use of."""
    digest = hashlib.blake2b(data, digest_size=16)
    for part in more:
        _add(digest, part.encode(errors="surrogateescape"))
    return digest.digest()


def _add(digest: hashlib.blake2b, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "little"))
    digest.update(part)


def _source(rule: type[Rule]) -> str | None:
    """A hash of the package that a rule comes from; None for a rule that was made on the spot."""
    if "<locals>" in rule.__qualname__ and not rule.facts():
        return None
    package = rule.__module__.partition(".")[0]
    return _ours() if package == "portkit" else _theirs(package)


@cache
def _ours() -> str:
    """A hash of the sources and tables of the scan half, and of the tables of the other one."""
    return _hash(_ROOT)


@cache
def _theirs(package: str) -> str | None:
    file = getattr(sys.modules.get(package), "__file__", None)
    if file is None:
        return None
    place = Path(file)
    return _hash(place.parent if place.name == "__init__.py" else place)


def _hash(place: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(_files(place)):
        _add(digest, os.path.relpath(file, place).encode(errors="surrogateescape"))
        _add(digest, Path(file).read_bytes())
    return digest.hexdigest()


def _files(place: Path) -> Iterator[str]:
    if place.is_file():
        yield os.fspath(place)
        return
    skipped = os.fspath(_ROOT / "runtime")
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if name != "__pycache__"]
        wanted = (".toml",) if folder.startswith(skipped) else _TEXTS
        yield from (os.path.join(folder, name) for name in files if name.endswith(wanted))
