"""What an operator is: a public function, its float64 reference, its samples, and its implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # a numpy.ndarray or a torch.Tensor
Reference: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from the float64 oracle: |result - oracle| <= atol + rtol * |oracle|."""

    atol: float
    rtol: float


@dataclass(frozen=True)
class Sample:
    """Arguments of one call.  Arrays are NumPy (float32 where they hold numbers to differentiate)."""

    id: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    differentiable: tuple[int, ...] = (0,)  # positions in args, in the order of reference_backward's results


@dataclass(frozen=True)
class Core:
    """The part of an operator that tile kernels compute: tensors in, tensors out, plain attributes.

    `allocate(*tensors, **attrs)` makes the outputs without filling them (its annotations give the schema
    under which the core is registered with torch); `forward(outputs, *tensors, **attrs)` fills them.
    `backward(grads, grad, *saved, **attrs)` fills those of `grads` that are not None.  Its parameter names
    say what is kept for it: names of inputs or of `outputs`.  `like` maps each differentiable input to the
    parameter of `backward` that has its shape and dtype.
    `again(grad, *saved, **attrs)` gives what `backward` fills, in torch calls that can be differentiated once
    more: for gradients of gradients (`create_graph=True`).
    """

    allocate: Callable[..., tuple[Array, ...]]
    forward: Callable[..., None]
    backward: Callable[..., None]
    outputs: tuple[str, ...]
    like: Mapping[str, str]
    again: Callable[..., tuple[Array | None, ...]]
    strided: bool = False  # the kernels take any strides; otherwise inputs are made contiguous first


@dataclass(frozen=True)
class Operator:
    """One operator: everything that tests, parity, documentation and the torch bridge need to know of it.

    All callables take the arguments of `function`, except where said otherwise.
    """

    name: str
    function: Callable[..., Array]  # public: NumPy arrays and torch tensors alike
    reference: Callable[..., Reference]  # float64 NumPy, the oracle
    reference_backward: Callable[..., tuple[Reference | None, ...]]  # (grad, *args, **kwargs)
    samples: Callable[[], Iterator[Sample]]
    tolerance: Mapping[str, Tolerance]  # by dtype name
    vendor: Callable[..., Array]  # torch's own kernel; torch tensors only
    composite: Callable[..., Array]  # plain torch calls, differentiable; torch tensors only
    core: Core | None = None
    tile: Callable[..., Array] | None = None  # (core as a function of its tensors and attributes, arguments…)
    takes: Callable[..., bool] = lambda *args, **kwargs: True  # whether `tile` computes this call
    faster: Callable[..., bool] = lambda *args, **kwargs: False  # whether `tile` beats torch's own on a CPU
    small: float = 0  # torch tensors of fewer elements go straight to torch's own kernel
    autocast: str = ""  # under torch.autocast on a CPU: "lower" casts to its dtype, "float32" to float32


HALF = {"float16": Tolerance(2e-3, 2e-3), "bfloat16": Tolerance(1.6e-2, 1.6e-2)}
"""Bounds of operators that round once, at the end, to a 16-bit type."""

SINGLE = {"float32": Tolerance(2e-6, 4e-6), "float64": Tolerance(1e-12, 1e-12)}
"""Bounds of operators whose sums are short or compensated."""
