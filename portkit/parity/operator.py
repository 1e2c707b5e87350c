"""Each operator, device, implementation and dtype against the float64 oracle, forward and every gradient."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from portkit.errors import PortkitError
from portkit.parity import called, cases
from portkit.parity.cases import Call, Outcome
from portkit.parity.compare import Limits, Metrics, Status, Verdict, judge, plain
from portkit.parity.trace import Run

if TYPE_CHECKING:
    from portkit.runtime.ops._operator import Operator, Sample

# torch's own kernels sum some gradients in 16 bits; they are what we replace, not what we answer for.
VENDOR_SLACK = 4.0
_ORDER = (Status.FAIL, Status.BLIND, Status.PASS, Status.SKIPPED)


@dataclass(frozen=True)
class Compared:
    """One output (the result, or one gradient) of one sample."""

    sample: str
    output: str
    verdict: Verdict


@dataclass(frozen=True)
class Row:
    """One operator, implementation, dtype and device over all samples; metrics are the worst of them."""

    operator: str
    implementation: str
    dtype: str
    status: Status
    reason: str
    cases: int
    metrics: Metrics | None
    original: Metrics | None
    compared: tuple[Compared, ...]
    device: str = "cpu"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "operator": self.operator,
            "implementation": self.implementation,
            "dtype": self.dtype,
            "device": self.device,
            "status": self.status.value,
            "reason": self.reason,
            "cases": self.cases,
            "metrics": self.metrics.to_dict() if self.metrics else None,
            "original": self.original.to_dict() if self.original else None,
            "compared": [_compared_data(one) for one in self.compared if one.verdict.metrics],
        }


def _compared_data(one: Compared) -> dict[str, Any]:
    metrics = one.verdict.metrics
    return {
        "sample": one.sample,
        "output": one.output,
        "status": one.verdict.status.value,
        "reason": one.verdict.reason,
        "max_abs": plain(metrics.max_abs) if metrics else None,
        "ulp_max": plain(metrics.ulp_max) if metrics else None,
        "excess": plain(metrics.excess) if metrics else None,
        "controls": len(one.verdict.controls),
    }


def run(
    names: Sequence[str],
    *,
    dtypes: Sequence[str] = cases.DTYPES,
    implementations: Sequence[str] = cases.OURS,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """Rows for every operator named, in order: operator, dtype, device, implementation.

    With torch installed, forward and gradients on tensors, on every device; without it, tile kernels forward
    on NumPy arrays.
    """
    from portkit.runtime.ops import operators

    known = operators()
    rows: list[Row] = []
    for name in names:
        progress(f"parity of {name}")
        for dtype in dtypes:
            if cases.torch_installed():
                for device in cases.devices():
                    rows += _torch_rows(known[name], dtype, implementations, device=device)
            else:
                rows += _numpy_rows(known[name], dtype, implementations)
    return rows


def recorded(run: Run, *, implementations: Sequence[str] = cases.OURS) -> tuple[list[Row], list[str]]:
    """Rows for the calls of a recorded run, and a line for each call that is left out.  Needs torch."""
    from portkit.runtime.ops import operators

    known = operators()
    found, left = called.samples(run)
    groups: dict[tuple[str, str], list[Sample]] = {}
    for one in found:
        groups.setdefault((one.operator, one.dtype), []).append(one.sample)
    rows: list[Row] = []
    for (name, dtype), samples in groups.items():
        for device in cases.devices():
            rows += _torch_rows(known[name], dtype, implementations, samples, device=device)
    return rows, left


@contextmanager
def forced(implementation: str) -> Iterator[None]:
    """PORTKIT_FORCE set to an implementation while the block runs."""
    before = os.environ.get("PORTKIT_FORCE")
    os.environ["PORTKIT_FORCE"] = implementation
    try:
        yield
    finally:
        if before is None:
            del os.environ["PORTKIT_FORCE"]
        else:
            os.environ["PORTKIT_FORCE"] = before


def _torch_rows(
    operator: Operator,
    dtype: str,
    implementations: Sequence[str],
    samples: Iterable[Sample] | None = None,
    *,
    device: str = "cpu",
) -> Iterator[Row]:
    if dtype not in operator.tolerance:
        for name in implementations:
            yield replace(_skipped(operator, name, dtype, f"has no bound for {dtype}"), device=device)
        return
    found: dict[str, list[Compared]] = {name: [] for name in implementations}
    for sample in operator.samples() if samples is None else samples:
        call = cases.torch_call(sample, dtype, device)
        for name, compared in _torch_sample(
            operator, sample.id, call, dtype, implementations, samples is not None
        ):
            found[name].append(compared)
    yield from (replace(_row(operator, name, dtype, found[name]), device=device) for name in implementations)


def _torch_sample(
    operator: Operator, sample: str, call: Call, dtype: str, implementations: Sequence[str], recorded: bool
) -> Iterator[tuple[str, Compared]]:
    try:
        truth = cases.oracle(operator, call, dtype)
        with forced("vendor"):
            original = cases.run_torch(operator, call, dtype)
    except PortkitError as error:  # random numbers, for one: there is no oracle for them
        skipped = Verdict(Status.SKIPPED, error.message)
        yield from ((name, Compared(sample, "result", skipped)) for name in implementations)
        return
    for name in implementations:
        if name == "vendor":
            verdicts = _judge(operator, dtype, original, truth, original, VENDOR_SLACK, recorded=recorded)
        elif reason := _not_run(operator, name, call):
            yield name, Compared(sample, "result", Verdict(Status.SKIPPED, reason))
            continue
        else:
            with forced(name):
                ours = cases.run_torch(operator, call, dtype)
            verdicts = _judge(operator, dtype, ours, truth, original, 1.0, recorded=recorded)
        yield from ((name, Compared(sample, output, verdict)) for output, verdict in verdicts)


def _judge(
    operator: Operator,
    dtype: str,
    ours: Outcome,
    truth: Outcome,
    original: Outcome,
    slack: float,
    *,
    recorded: bool = False,
) -> Iterator[tuple[str, Verdict]]:
    """A verdict for the result and each gradient.

    The absolute tolerance is meant for numbers of size 1, as samples have them; where numbers are as
    `recorded`, it grows with the largest.
    """
    bound = operator.tolerance[dtype]
    results = (ours.result, *ours.gradients)
    truths = (truth.result, *truth.gradients)
    others = (original.result, *original.gradients)
    for index, (a, b, c) in enumerate(zip(results, truths, others, strict=True)):
        size = max(1.0, float(np.abs(b).max(initial=0.0, where=np.isfinite(b))))
        limits = Limits(bound.atol * slack * (size if recorded else 1.0), bound.rtol * slack)
        yield f"gradient {index - 1}" if index else "result", judge(a, b, dtype, limits, c)


def _not_run(operator: Operator, implementation: str, call: Call) -> str:
    """Why an implementation would not be what runs this call; empty if it would."""
    from portkit.runtime.ops import _dispatch

    with forced(implementation):
        if _dispatch.chosen(operator, call.args, call.kwargs) == implementation:
            return ""
    return "there is no tile kernel for it" if operator.core is None else "no tile kernel takes this call"


def _numpy_rows(operator: Operator, dtype: str, implementations: Sequence[str]) -> Iterator[Row]:
    for name in implementations:
        if name != "tile":
            yield _skipped(operator, name, dtype, "needs torch")
        elif dtype == "bfloat16" or dtype not in operator.tolerance:
            yield _skipped(operator, name, dtype, f"NumPy has no {dtype}")
        else:
            yield _row(operator, name, dtype, list(_numpy_samples(operator, dtype)))


def _numpy_samples(operator: Operator, dtype: str) -> Iterator[Compared]:
    for sample in operator.samples():
        call = cases.numpy_call(sample, dtype)
        if reason := _not_run(operator, "tile", call):
            yield Compared(sample.id, "result", Verdict(Status.SKIPPED, reason))
            continue
        with forced("tile"):
            result = operator.function(*call.args, **call.kwargs)
        truth = cases.oracle(operator, call, dtype)
        rounded = Outcome(truth.result.astype(dtype), ())  # there is no original: the best that there can be
        for output, verdict in _judge(operator, dtype, Outcome(result, ()), truth, rounded, 1.0):
            yield Compared(sample.id, output, verdict)


def _skipped(operator: Operator, implementation: str, dtype: str, reason: str) -> Row:
    return Row(operator.name, implementation, dtype, Status.SKIPPED, reason, 0, None, None, ())


def _row(operator: Operator, implementation: str, dtype: str, compared: Sequence[Compared]) -> Row:
    """All comparisons of one implementation and dtype in one row."""
    statuses = {one.verdict.status for one in compared}
    status = next((s for s in _ORDER if s in statuses), Status.SKIPPED)
    done = [one for one in compared if one.verdict.metrics is not None]
    return Row(
        operator=operator.name,
        implementation=implementation,
        dtype=dtype,
        status=status,
        reason=_reason(status, compared),
        cases=len(done),
        metrics=_worst([one.verdict.metrics for one in done]),
        original=_worst([one.verdict.original for one in done]),
        compared=tuple(compared),
    )


def _reason(status: Status, compared: Sequence[Compared]) -> str:
    left_out = [one for one in compared if one.verdict.status is Status.SKIPPED]
    if status is Status.SKIPPED:
        return left_out[0].verdict.reason if left_out else "no samples"
    if status is Status.PASS:
        noun = "sample" if len(left_out) == 1 else "samples"
        return f"{len(left_out)} {noun} left out: {left_out[0].verdict.reason}" if left_out else ""
    at_fault = [one for one in compared if one.verdict.status is status]
    first = at_fault[0]
    more = f" (and {len(at_fault) - 1} more)" if len(at_fault) > 1 else ""
    return f"sample {first.sample}, {first.output}: {first.verdict.reason}{more}"


def _worst(found: Sequence[Metrics | None]) -> Metrics | None:
    """The worst of each metric."""
    metrics = [one for one in found if one is not None]
    if not metrics:
        return None
    worst = metrics[0]
    for one in metrics[1:]:
        pairs = {f.name: (getattr(worst, f.name), getattr(one, f.name)) for f in fields(Metrics)}
        over = {key: max(value, one.over[key]) for key, value in worst.over.items()}
        changed = {
            name: max(pair) for name, pair in pairs.items() if name not in ("over", "cosine", "elements")
        }
        worst = replace(
            worst, **changed, over=over, cosine=min(pairs["cosine"]), elements=sum(pairs["elements"])
        )
    return worst


def summary(rows: Sequence[Row]) -> dict[str, int]:
    """How many rows came to each status."""
    return {status.value: sum(row.status is status for row in rows) for status in Status}
