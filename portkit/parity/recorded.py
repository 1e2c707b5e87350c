"""Recorded runs for the report: their timelines as plain data, and as files that Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from portkit.files import write_atomically
from portkit.parity import timeline, trace


def of(file: Path) -> dict[str, Any]:
    """What the report shows of a trace.  Raises UsageError for a file that is none, or is damaged."""
    found = trace.read(file)
    return {
        "name": file.stem,
        "label": file.name,
        "script": found.script,
        "seconds": found.run.seconds,
        "timeline": found.run.timeline,
    }


def exported(runs: Sequence[Mapping[str, Any]], page: Path) -> list[dict[str, Any]]:
    """The runs, each timeline also written beside the page, under the name that is put with it."""
    beside = page.is_file() or not page.exists()  # and no pipe or device
    return [{**run, "perfetto": _written(run, page) if beside else ""} for run in runs]


def _written(run: Mapping[str, Any], page: Path) -> str:
    if run["timeline"] is None:
        return ""
    file = page.with_name(f"{page.stem}.{run['name']}.perfetto.json")
    data = json.dumps(timeline.perfetto(run["timeline"], run["script"]), allow_nan=False)
    write_atomically(file, data.encode("utf-8", "backslashreplace"))
    return file.name
