"""The timeline of a recorded run as bars: lanes of threads and streams, with events in each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from portkit.reports._chart import nice

DRAWN = 1500  # bars: the longest
ROWS = 8  # bars above each other in a lane
TABLE = 12
WORDS = {
    "step": "optimizer step",
    "module": "module",
    "operator": "operator of torch",
    "ours": "operator of portkit",
    "kernel": "kernel",
}


def timeline(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Lanes with bars, ticks of the axis, and the kernels that took longest; None without a timeline."""
    if not found or not found["events"]:
        return None
    end = max(start + duration for *_, start, duration in found["events"])
    shown = sorted((e for e in found["events"] if e[3] < ROWS), key=lambda e: -e[5])[:DRAWN]
    lanes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in sorted(shown, key=lambda e: (e[0], e[4], e[3])):
        lanes[event[0]].append(_bar(event, found["names"], end or 1.0))
    ticks = [value for value in nice(0.0, (end or 1.0) / 1000) if value <= end / 1000]
    kinds = [kind for kind in WORDS if any(event[2] == kind for event in shown)]
    return {
        "lanes": [
            {"name": found["lanes"][lane], "bars": bars, "rows": 1 + max(bar["row"] for bar in bars)}
            for lane, bars in sorted(lanes.items())
        ],
        "ticks": [{"at": _percent(1000 * value / (end or 1.0)), "text": f"{value:g}"} for value in ticks],
        "kinds": [(kind, WORDS[kind]) for kind in kinds],
        "summary": _summary(found, len(shown), end),
        "kernels": _kernels(found),
    }


def _bar(event: Sequence[Any], names: Sequence[str], end: float) -> dict[str, Any]:
    _, name, kind, depth, start, duration = event
    share = duration / end
    return {
        "kind": kind,
        "row": depth,
        "style": f"left:{_percent(start / end)};width:{_percent(share)};top:{1.3 * depth:.2f}rem",
        "label": f"{names[name]}: {spoken(duration / 1e6)}, from {start / 1000:.3f} ms",
        "text": names[name].removeprefix("module ").removeprefix("kernel ") if share > 0.004 else "",
    }


def _percent(share: float) -> str:
    return f"{100 * share:.4f}".rstrip("0").rstrip(".") + "%"


def _summary(found: Mapping[str, Any], drawn: int, end: float) -> str:
    total = len(found["events"])
    part = "" if drawn == total else f" The {drawn:,} longest of {total:,} events are drawn."
    left = f" {found['left']:,} shorter ones were not recorded." if found["left"] else ""
    steps = found["steps"]
    return f"{steps} optimizer step{'' if steps == 1 else 's'} in {end / 1000:.1f} ms.{part}{left}"


def _kernels(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The kernels that took longest, all their launches together."""
    taken: dict[str, list[float]] = defaultdict(list)
    for _, name, kind, _, _, duration in found["events"]:
        if kind == "kernel":
            taken[found["names"][name].removeprefix("kernel ")].append(duration)
    total = sum(map(sum, taken.values()))
    rows = sorted(taken.items(), key=lambda item: (-sum(item[1]), item[0]))
    return [
        {
            "name": name,
            "launches": len(each),
            "total": spoken(sum(each) / 1e6),
            "mean": spoken(sum(each) / len(each) / 1e6),
            "share": f"{100 * sum(each) / total:.1f} %" if total else "",
        }
        for name, each in rows[:TABLE]
    ]


def spoken(seconds: float) -> str:
    """A duration with its unit."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
