"""Where two recorded runs part: the first step, module and operator whose results differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from portkit.parity.trace import Run

Call = Mapping[str, Any]
_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
# Differences, relative to the size of a tensor, that are rounding in any case.
FLOORS = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
FACTOR = 10.0


@dataclass(frozen=True)
class Place:
    """The first place where the migrated run gives something else than the original."""

    step: int
    module: str  # by its name in the model
    operator: str  # empty: no operator that is known by itself
    original_site: str  # file and line in the original
    site: str  # in the migrated tree
    what: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        where = f"module {self.module}" if self.module else "outside modules"
        operator = f", operator {self.operator}" if self.operator else ""
        site = f" ({self.site})" if self.site else ""
        return f"step {self.step}, {where}{operator}{site}: {self.what}"


def first(original: Run, migrated: Run, noise: Sequence[Run] = ()) -> Place | None:
    """The first place where two runs differ by more than rounding; None if they do not, or don't tell."""
    others = dict(_keyed(migrated.calls))
    disturbed = [dict(_keyed(run.calls)) for run in noise]
    last = ""
    for key, call in _keyed(original.calls):
        other = others.get(key)
        if other is None:
            continue
        disturbances = [run[key] for run in disturbed if key in run]
        found = _compare(call, other, disturbances, last)
        if found is not None:
            return found
        last = other.get("site", "") or last
    return None


def _keyed(calls: Sequence[Call]) -> Iterator[tuple[Hashable, Call]]:
    """Each call with what finds it again in another run: step, module, operator, and a count of the same."""
    seen: Counter[Hashable] = Counter()
    for call in calls:
        kind = "operator" if "operator" in call else "module" if "module" in call else "gradients"
        within = call.get("within", call.get("module", ""))
        base = (call["step"], kind, within, call.get("operator", ""))
        yield (*base, seen[base]), call
        seen[base] += 1


def _compare(call: Call, other: Call, noise: Sequence[Call], last: str) -> Place | None:
    if "gradients" in call:
        return _gradients(call, other, noise)
    inputs = _differs(call["inputs"], other["inputs"], [one["inputs"] for one in noise])
    outputs = _differs(call["outputs"], other["outputs"], [one["outputs"] for one in noise])
    if not inputs and not outputs:
        return None
    operator = call.get("operator", "")
    site = other.get("site", "")
    if not outputs and "module" in call:
        return None  # it is told what it was never asked: arguments that change nothing
    if inputs and operator:
        after = f" after {last}" if last else ""
        what = f"what goes into it differs{after}: {inputs}"
    elif inputs:
        what = f"its input differs: {inputs}"
    else:
        what = f"from the same input it gives something else: {outputs}{_arguments(call, other)}"
    module = str(call.get("within", call.get("module", "")))
    return Place(call["step"], module, operator, str(call.get("site", "")), site, what)


def _arguments(call: Call, other: Call) -> str:
    """Plain arguments, given by name to both, that differ."""
    mine, theirs = call.get("arguments", {}), other.get("arguments", {})
    names = [name for name in mine if name in theirs and mine[name] != theirs[name]]
    changed = [f"{name} was {mine[name]}, is {theirs[name]}" for name in names]
    return f" ({', '.join(changed)})" if changed else ""


def _gradients(call: Call, other: Call, noise: Sequence[Call]) -> Place | None:
    mine, theirs = call["gradients"], other["gradients"]
    for name in reversed(list(mine)):  # the last parameter gets its gradient first
        if name not in theirs:
            return Place(call["step"], name.rpartition(".")[0], "", "", "", f"{name} has no gradient")
        disturbed = [[one["gradients"][name]] for one in noise if name in one["gradients"]]
        found = _differs([mine[name]], [theirs[name]], disturbed)
        if found:
            module = name.rpartition(".")[0]
            return Place(call["step"], module, "", "", "", f"the gradient of {name} differs: {found}")
    return None


def _differs(
    mine: Sequence[Mapping[str, Any]],
    theirs: Sequence[Mapping[str, Any]],
    noise: Sequence[Sequence[Mapping[str, Any]]],
) -> str:
    """How the first of some tensors differs; empty if none does by more than rounding."""
    for index, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        if one["shape"] != other["shape"]:
            return f"shape {other['shape']}, not {one['shape']}"
        lower = _BITS.get(other["dtype"], 64) < _BITS.get(one["dtype"], 64)
        if lower and one["dtype"] in _BITS:
            return f"{other['dtype']}, not {one['dtype']}"
        if one["nonfinite"] != other["nonfinite"]:
            return f"{other['nonfinite']} elements are NaN or infinite, not {one['nonfinite']}"
        gap = distance(one, other)
        usual = max((distance(one, run[index]) for run in noise if index < len(run)), default=0.0)
        allowed = max(FLOORS.get(one["dtype"], 0.0), FLOORS.get(other["dtype"], 0.0), FACTOR * usual)
        if gap > allowed:
            return f"by {gap:.2g} of its size, where rounding accounts for {allowed:.2g}"
    return ""


def distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """How far two digests are apart, relative to the size of the tensor."""
    size = max(one["rms"], other["rms"])
    if size == 0.0:
        return 0.0
    pairs = [(one["rms"], other["rms"]), *zip(one["numbers"], other["numbers"], strict=True)]
    return float(max(abs(a - b) for a, b in pairs) / size)
