"""Which implementation of an operator runs: tile kernels, torch's own kernel, or a composite of plain calls.

`PORTKIT_FORCE=tile|vendor|composite` overrides the choice.  A call that the forced implementation cannot
compute (tile kernels on a device without a target, torch's kernel for NumPy arrays) runs as composite.
For NumPy arrays the composite is the float64 reference, rounded to the dtype of the input.
"""

from __future__ import annotations

import functools
import os
from importlib.util import find_spec
from typing import Any

import numpy as np

from portkit.errors import UsageError
from portkit.runtime.ops._arrays import contiguous, dtype_name, is_compiling, is_tensor
from portkit.runtime.ops._operator import Array, Core, Operator

IMPLEMENTATIONS = ("tile", "vendor", "composite")


def call(operator: Operator, /, *args: Any, **kwargs: Any) -> Array:
    """Run an operator, whose arguments are already checked, with the implementation chosen for them."""
    if isinstance(args[0], np.ndarray):
        return _call_numpy(operator, args, kwargs)
    choice = chosen(operator, args, kwargs)
    if choice == "vendor":
        return operator.vendor(*args, **kwargs)
    if choice == "composite":
        return operator.composite(*args, **kwargs)
    from portkit.runtime import torch_bridge

    assert operator.tile is not None
    return operator.tile(torch_bridge.core(operator), *args, **kwargs)


def chosen(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The implementation that `call` uses for these arguments: "tile", "vendor" or "composite"."""
    force = forced()
    if isinstance(args[0], np.ndarray):
        tile = force != "composite" and tile_runs(operator, args, kwargs)
        return "tile" if tile and (force == "tile" or operator.faster(*args, **kwargs)) else "composite"
    if force == "tile":
        return "tile" if tile_runs(operator, args, kwargs) else "composite"
    if force:
        return force
    if operator.core is None or is_compiling() or not operator.faster(*args, **kwargs):
        return "vendor"  # a compiler knows torch's own calls, and fuses them with others
    return "tile" if tile_runs(operator, args, kwargs) and _is_plain(args) else "vendor"


def forced() -> str:
    """The value of PORTKIT_FORCE, checked; empty if it is not set."""
    value = os.environ.get("PORTKIT_FORCE", "")
    if value and value not in IMPLEMENTATIONS:
        raise UsageError(
            f"PORTKIT_FORCE is {value!r}, which is no implementation",
            remedy=f"Use one of {', '.join(IMPLEMENTATIONS)}, or unset it.",
        )
    return value


def tile_runs(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether tile kernels compute this call here: CPU data of at most 32-bit floats, and a compiler."""
    if operator.core is None or not tile_available():
        return False
    tensors = [x for x in args if is_tensor(x)]
    if any(x.device.type != "cpu" or x.is_sparse or x.is_nested for x in tensors):
        return False
    if tensors and _is_transformed():
        return False
    # No tile kernel computes in float64; sizes of zero leave nothing to launch.
    sized = [x for x in args if isinstance(x, np.ndarray) or is_tensor(x)]
    if any(dtype_name(x) == "float64" or 0 in x.shape for x in sized):
        return False
    return operator.takes(*args, **kwargs)


_HAS_LLVM = find_spec("llvmlite") is not None


def tile_available() -> bool:
    """Whether this machine has a tile compiler: llvmlite is installed."""
    return _HAS_LLVM


def _is_plain(args: tuple[Any, ...]) -> bool:
    """Whether the tensors are ordinary ones: no subclass, no functorch transform around the call."""
    import torch

    ordinary = (torch.Tensor, torch.nn.Parameter)
    if any(isinstance(x, torch.Tensor) and type(x) not in ordinary for x in args):
        return False
    return not _is_transformed()


def _is_transformed() -> bool:
    """Whether a transform of torch.func (vmap, grad, jvp) is around the call: kernels would not see it."""
    import torch

    return torch._C._functorch.peek_interpreter_stack() is not None


def _call_numpy(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
    if chosen(operator, args, kwargs) == "tile":
        assert operator.core is not None
        assert operator.tile is not None
        return operator.tile(functools.partial(_run_core, operator.core), *args, **kwargs)
    result = operator.reference(*args, **kwargs)
    return np.asarray(result, dtype=result_dtype(args, kwargs))


def result_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The dtype of a NumPy result: the one asked for, or that of the first array."""
    return args[0].dtype if kwargs.get("dtype") is None else np.dtype(kwargs["dtype"])


def _run_core(core: Core, *tensors: Any, **attrs: Any) -> Array:
    if not core.strided:
        tensors = tuple(x if x is None else contiguous(x) for x in tensors)
    outputs = core.allocate(*tensors, **attrs)
    core.forward(outputs, *tensors, **attrs)
    return outputs[0]
