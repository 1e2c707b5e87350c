"""What operator parity runs: the operators that a repository uses, and one sample turned into one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from portkit import coverage
from portkit.engine import ScanResult
from portkit.errors import UsageError
from portkit.parity.compare import Array

if TYPE_CHECKING:
    from portkit.runtime.ops._operator import Operator, Sample

DTYPES = ("float32", "bfloat16", "float16")
IMPLEMENTATIONS = ("tile", "composite", "vendor")
OURS = ("tile", "composite")  # torch's own kernel is what they are compared with


def used(result: ScanResult) -> list[str]:
    """Names of the portable operators that the scanned program needs: for torch calls and CUDA libraries."""
    called = (item.name for item in result.operators.every)
    names = {*called, *(f.qualified_name for f in result.findings if f.qualified_name)}
    known = coverage.kernels()
    return sorted({known[name]["operator"] for name in names if name in known})


def chosen(names: Iterable[str]) -> list[str]:
    """Operator names as given, checked.  Raises UsageError for one that there is not."""
    from portkit.runtime.ops import operators

    known = operators()
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise UsageError(f"There is no operator {name}.", remedy=f"Operators: {', '.join(known)}.")
    return wanted


def torch_installed() -> bool:
    """Whether torch can be imported; it is not imported to find out."""
    return find_spec("torch") is not None


def devices() -> list[str]:
    """The devices that operators are compared on: the CPU, and this machine's accelerator if it has one."""
    if not torch_installed():
        return ["cpu"]
    import torch

    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return ["cpu", *([found.type] if found else [])]


@dataclass(frozen=True)
class Call:
    """One sample in one dtype: arguments for an implementation, and the same numbers for the oracle."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    exact: tuple[Any, ...]
    exact_kwargs: dict[str, Any]
    differentiable: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What an implementation gave: result and gradients as float64 arrays."""

    result: Array
    gradients: tuple[Array, ...]


def numpy_call(sample: Sample, dtype: str) -> Call:
    """A sample as NumPy arrays, floating-point ones in `dtype` (float16, float32 or float64)."""

    def convert(value: Any) -> Any:
        floating = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        return value.astype(dtype) if floating else value

    args = tuple(convert(value) for value in sample.args)
    kwargs = {name: convert(value) for name, value in sample.kwargs.items()}
    return Call(args, kwargs, args, kwargs, ())


def torch_call(sample: Sample, dtype: str, device: str = "cpu") -> Call:
    """A sample as torch tensors of the same strides on a device, floating-point ones in `dtype`.

    The oracle gets the numbers after rounding to `dtype`, so that only the operator's own error counts.
    """
    args = tuple(
        _tensor(value, dtype, device, i in sample.differentiable) for i, value in enumerate(sample.args)
    )
    kwargs = {name: _tensor(value, dtype, device, False) for name, value in sample.kwargs.items()}
    exact = tuple(as_numpy(value) for value in args)
    return Call(args, kwargs, exact, {k: as_numpy(v) for k, v in kwargs.items()}, sample.differentiable)


def _tensor(value: Any, dtype: str, device: str, differentiable: bool) -> Any:
    import torch

    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f":
        return torch.from_numpy(np.asarray(value)).to(device)
    strides = [step // value.itemsize for step in value.strides]
    tensor = torch.empty_strided(value.shape, strides, dtype=getattr(torch, dtype), device=device)
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(value)))
    return tensor.requires_grad_(differentiable)


def as_numpy(value: Any) -> Any:
    """A tensor as an array (floating point as float64); anything else as it is."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.double() if value.is_floating_point() else value).numpy()


def upstream(shape: Sequence[int], dtype: str) -> Any:
    """The gradient that flows into a result: the same for every implementation (tensor on the CPU)."""
    import torch

    values = np.random.default_rng(11).standard_normal(tuple(shape))
    return torch.from_numpy(np.asarray(values)).to(getattr(torch, dtype))


def run_torch(operator: Operator, call: Call, dtype: str) -> Outcome:
    """Run an operator forward and backward on torch tensors, as PORTKIT_FORCE says."""
    import torch

    result = operator.function(*call.args, **call.kwargs)
    wanted = [call.args[i] for i in call.differentiable]
    grads: Sequence[Any] = ()
    if wanted:
        grads = torch.autograd.grad(result, wanted, upstream(result.shape, dtype).to(result))
    return Outcome(as_numpy(result), tuple(as_numpy(grad) for grad in grads))


def oracle(operator: Operator, call: Call, dtype: str) -> Outcome:
    """Result and gradients in float64."""
    result = np.asarray(operator.reference(*call.exact, **call.exact_kwargs))
    if not call.differentiable:
        return Outcome(result, ())
    grad = as_numpy(upstream(result.shape, dtype))
    grads = operator.reference_backward(grad, *call.exact, **call.exact_kwargs)
    return Outcome(result, tuple(np.asarray(g) for g in grads if g is not None))
