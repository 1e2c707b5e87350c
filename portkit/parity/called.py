"""Samples for operator parity from a recorded run: shapes, dtypes and options of what was really called."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from portkit import coverage
from portkit.parity.trace import Run

if TYPE_CHECKING:
    from portkit.runtime.ops._operator import Operator, Sample

LARGEST = 1 << 22  # elements of all tensors of a call; larger ones take the oracle too long


@dataclass(frozen=True)
class Called:
    """One kind of call: an operator with options, and tensors of these shapes and dtypes."""

    operator: str
    sample: Sample
    dtype: str
    count: int


def samples(run: Run) -> tuple[list[Called], list[str]]:
    """One sample for each kind of call in a run, and why some calls are left out."""
    from portkit.runtime.ops import operators

    known = operators()
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for call in run.calls:
        if call.get("operator") in known:
            kinds.setdefault(_kind(call), []).append(call)
    found: list[Called] = []
    left: list[str] = []
    for calls in kinds.values():
        name = str(calls[0]["operator"])
        try:
            sample, dtype = _sample(known[name], calls[0], f"recorded-{len(found) + 1}")
        except _LeftOut as error:
            left.append(f"{name} at {calls[0].get('site') or 'a library'}: {error}")
            continue
        found.append(Called(name, sample, dtype, len(calls)))
    return found, sorted(set(left))


class _LeftOut(Exception):
    """A call can't be repeated."""


def _kind(call: Mapping[str, Any]) -> str:
    tensors = [(one["shape"], one["dtype"]) for one in call["inputs"]]
    return json.dumps([call["operator"], call["arguments"], call["tensors"], tensors], sort_keys=True)


def _sample(operator: Operator, call: Mapping[str, Any], name: str) -> tuple[Sample, str]:
    """Random numbers in the recorded shapes.  Raises _LeftOut."""
    from portkit.runtime.ops._operator import Sample

    size = sum(int(np.prod(one["shape"])) for one in call["inputs"])
    if size > LARGEST:
        raise _LeftOut(f"{size:,} elements are too many for the float64 oracle")
    if len(call["tensors"]) != len(call["inputs"]):
        raise _LeftOut("it takes lists of tensors")
    rng = np.random.default_rng(17)
    values = dict(call["arguments"])
    values.update(
        (place, _numbers(one, rng)) for place, one in zip(call["tensors"], call["inputs"], strict=True)
    )
    args, kwargs = _arranged(operator, values)
    floating = [one["dtype"] for one in call["inputs"] if "float" in one["dtype"]]
    if not floating:
        raise _LeftOut("it takes no floating-point tensor")
    whole = tuple(i for i, value in enumerate(args) if _is_floating(value))
    differentiable = next(iter(operator.samples())).differentiable
    kept = tuple(i for i in differentiable if i in whole)
    return Sample(name, args, kwargs, kept), str(floating[0])


def _arranged(operator: Operator, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Recorded arguments as the public function takes them."""
    renamed = dict(_renamed(operator.name))
    positions = sorted(int(key) for key in values if key.isdigit())
    if positions != list(range(len(positions))):
        raise _LeftOut("some of its arguments can't be recorded")
    given = [values[str(i)] for i in positions]
    named = {renamed.get(key, key): value for key, value in values.items() if not key.isdigit()}
    signature = inspect.signature(operator.function)
    for key in [key for key in named if key not in signature.parameters]:
        if named[key] is None or key.startswith("_"):  # not given, or torch's own affair
            del named[key]
    try:
        bound = signature.bind(*given, **named)
    except TypeError as error:
        raise _LeftOut(str(error)) from None
    return bound.args, bound.kwargs


def _renamed(name: str) -> Iterator[tuple[str, str]]:
    """Names of parameters in torch → names in the operator of portkit."""
    for data in coverage.kernels().values():
        if data["operator"] == name:
            for replaced in data.get("replaces", ()):
                yield from replaced.get("map", {}).items()


def _is_floating(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _numbers(one: Mapping[str, Any], rng: np.random.Generator) -> Any:
    """An array like a recorded tensor: as large, and within its range where it holds integers."""
    shape = tuple(one["shape"])
    if "float" in one["dtype"]:
        return np.asarray(rng.standard_normal(shape, np.float32) * np.float32(one["rms"] or 1.0))
    if one["dtype"] == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    low, high = one.get("range", (0, 1))
    return np.asarray(rng.integers(low, high + 1, shape))
