"""The JSON document that `portkit parity` writes and that the gate and the HTML page read."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import portkit
from portkit.errors import ConfigError
from portkit.parity.operator import Row
from portkit.parity.training import TrainingReport

SCHEMA_VERSION = 1
KIND = "portkit-parity"
_PACKAGES = ("torch", "numpy", "llvmlite")


def build(rows: Sequence[Row], training: TrainingReport | None) -> dict[str, Any]:
    """Operator rows and a training comparison as plain data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "environment": {
            "portkit": portkit.__version__,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}",
            **{name: _version(name) for name in _PACKAGES},
        },
        "rows": [row.to_dict() for row in rows],
        "training": training.to_dict() if training else None,
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def read(path: Path) -> dict[str, Any]:
    """A document from its file.  Raises ConfigError that says what is wrong with it."""
    remedy = "Make it with `portkit parity --format json --output FILE`."
    if not path.is_file():
        raise ConfigError("There is no such parity report.", place=str(path), remedy=remedy)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"This is no parity report: {error}", place=str(path), remedy=remedy) from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise ConfigError("This is no parity report.", place=str(path), remedy=remedy)
    if data.get("schema_version") != SCHEMA_VERSION:
        raise ConfigError(
            "This parity report was made by another version of portkit.", place=str(path), remedy=remedy
        )
    return data


def verdicts(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each verdict of a document: what was compared, its status, the reason."""
    for row in document["rows"]:
        yield (
            f"{row['operator']} ({row['implementation']}, {row['dtype']})",
            row["status"],
            row["reason"],
        )
    training = document["training"]
    if training:
        yield f"training {training['script']}", training["status"], training["reason"]


def failures(document: Mapping[str, Any]) -> list[str]:
    """What did not hold: failed and blind comparisons, each in a line."""
    bad = [item for item in verdicts(document) if item[1] in ("fail", "blind")]
    return [f"{what}: {status}: {reason}" for what, status, reason in bad]
