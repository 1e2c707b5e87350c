"""The timeline of a recorded run as data: whether it is whole, and the form that Perfetto reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KIND = "portkit-timeline"  # says that a file is ours; readers of traces take it for a note
KINDS = ("step", "module", "operator", "ours", "kernel")
_EVENT: tuple[Any, ...] = (
    int,
    int,
    str,
    int,
    (int, float),
    (int, float),
)  # lane, name, kind, depth, start, duration
_OPERATOR: dict[str, Any] = {
    "name": str,
    "calls": int,
    "seconds": (int, float),
    "bytes": int,
    "flops": int,
    "dtype": str,
}
_PEAK: dict[str, Any] = {"what": str, "unit": str, "dtype": str, "rate": (int, float)}


def checked(found: Any) -> Mapping[str, Any] | None:
    """A timeline as it was read; None where there is none.  Raises ValueError for one that is damaged."""
    if found is None:
        return None
    whole = isinstance(found, dict) and all(
        isinstance(found.get(key), kind)
        for key, kind in {"device": str, "name": str, "threads": int, "steps": int, "left": int}.items()
    )
    if not whole or not all(
        isinstance(found.get(key), list) for key in ("lanes", "names", "events", "operators", "peaks")
    ):
        raise ValueError("its timeline is not whole")
    for event in found["events"]:
        if not _is_event(event, len(found["lanes"]), len(found["names"])):
            raise ValueError(f"an event of its timeline is wrong: {str(event)[:80]}")
    for rows, keys in ((found["operators"], _OPERATOR), (found["peaks"], _PEAK)):
        if not all(isinstance(row, dict) and _fits(row, keys) for row in rows):
            raise ValueError("a measurement of its timeline is wrong")
    return dict(found)


def _is_event(event: Any, lanes: int, names: int) -> bool:
    if not isinstance(event, list) or len(event) != len(_EVENT):
        return False
    if not all(isinstance(value, kind) for value, kind in zip(event, _EVENT, strict=True)):
        return False
    lane, name, kind, depth, start, duration = event
    return 0 <= lane < lanes and 0 <= name < names and kind in KINDS and min(depth, start, duration) >= 0


def _fits(row: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    return all(
        isinstance(row.get(key), kind) and (isinstance(row[key], str) or row[key] >= 0)
        for key, kind in keys.items()
    )


def perfetto(found: Mapping[str, Any], title: str) -> dict[str, Any]:
    """The events in the Trace Event Format, which ui.perfetto.dev and chrome://tracing read."""
    named: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"{title} on {found['device']}"}}
    ]
    for lane, name in enumerate(found["lanes"]):
        named.append({"ph": "M", "pid": 1, "tid": lane, "name": "thread_name", "args": {"name": name}})
        named.append(
            {"ph": "M", "pid": 1, "tid": lane, "name": "thread_sort_index", "args": {"sort_index": lane}}
        )
    events = [
        {
            "ph": "X",
            "pid": 1,
            "tid": lane,
            "name": found["names"][name],
            "cat": kind,
            "ts": start,
            "dur": duration,
        }
        for lane, name, kind, _, start, duration in found["events"]
    ]
    return {"kind": KIND, "displayTimeUnit": "ms", "traceEvents": [*named, *events]}
