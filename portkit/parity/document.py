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
from portkit.parity import modules
from portkit.parity.operator import Row
from portkit.parity.training import TrainingReport

SCHEMA_VERSION = 1
KIND = "portkit-parity"
_PACKAGES = ("torch", "numpy", "llvmlite")


def build(
    rows: Sequence[Row], training: TrainingReport | None, modules: Sequence[modules.Row] = ()
) -> dict[str, Any]:
    """Operator rows, module rows and a training comparison as plain data."""
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
        "modules": [row.to_dict() for row in modules],
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
    if not _is_whole(data):
        raise ConfigError("This parity report is damaged.", place=str(path), remedy=remedy)
    return data


def merged(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rows, modules and training comparisons of several documents."""
    return {
        "rows": [row for found in documents for row in found["rows"]],
        "modules": [row for found in documents for row in found.get("modules") or ()],
        "trainings": [found["training"] for found in documents if found["training"]],
    }


_ROW = ("operator", "implementation", "dtype", "status", "reason")
_MODULE = ("module", "status", "reason")
_TRAINING = ("script", "status", "reason")


def _is_whole(data: Mapping[str, Any]) -> bool:
    """Whether a document has all that its verdicts are read from."""
    training, modules = data.get("training"), data.get("modules") or []
    return (
        _are(data.get("rows"), _ROW)
        and _are(modules, _MODULE)
        and (training is None or _are([training], _TRAINING))
    )


def _are(rows: Any, keys: Sequence[str]) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, dict) and all(isinstance(row.get(key), str) for key in keys) for row in rows
    )


def verdicts(document: Mapping[str, Any], level: str | None = None) -> Iterator[tuple[str, str, str]]:
    """Each verdict of a document, of one level or of all: what was compared, its status, the reason."""
    if level in (None, "operator"):
        for row in document["rows"]:
            device = row.get("device", "cpu")
            where = "" if device == "cpu" else f", {device}"
            yield (
                f"{row['operator']} ({row['implementation']}, {row['dtype']}{where})",
                row["status"],
                row["reason"],
            )
    if level in (None, "module"):
        for row in document.get("modules") or ():
            yield f"module {row['module']}", row["status"], row["reason"]
    training = document["training"]
    if training and level in (None, "full-model"):
        yield f"training {training['script']}", training["status"], training["reason"]


def failures(document: Mapping[str, Any], level: str | None = None) -> list[str]:
    """What did not hold: all but what passed or was skipped, each in a line."""
    bad = [item for item in verdicts(document, level) if item[1] not in ("pass", "skipped")]
    return [f"{what}: {status}: {reason}" for what, status, reason in bad]
