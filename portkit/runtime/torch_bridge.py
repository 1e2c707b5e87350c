"""Tile kernels for torch tensors: every operator's core becomes `torch.ops.portkit.<name>`, in one loop.

Each core is registered with its schema, fake tensors, and a gradient through the backward kernels, so that
`torch.compile`, `torch.export` and `opcheck` see it as any other operator.  Eager calls take a shorter way
around the dispatcher, with the same kernels.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from portkit.runtime.ops import operators
from portkit.runtime.ops._arrays import contiguous
from portkit.runtime.ops._operator import Core, Operator

NAMESPACE = "portkit"
_untyped: Any = torch
_LIBRARY = _untyped.library.Library(NAMESPACE, "DEF")
_SCHEMA = {
    "Array": "Tensor",
    "Array | None": "Tensor?",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
}


@dataclass(frozen=True)
class Bridge:
    """A core with its names taken apart: which values go in, come out, and are kept for the gradient."""

    name: str
    core: Core
    inputs: tuple[str, ...]
    attrs: tuple[str, ...]
    saved: tuple[str, ...]

    def forward(self, *values: Any) -> tuple[torch.Tensor, ...]:
        """All outputs of the core, for its tensors followed by its attributes."""
        tensors, attrs = self._split(values)
        outputs = self.core.allocate(*tensors, **attrs)
        self.core.forward(outputs, *tensors, **attrs)
        return outputs

    def allocate(self, *values: Any) -> tuple[torch.Tensor, ...]:
        """The outputs, not filled."""
        tensors, attrs = self._split(values)
        return self.core.allocate(*tensors, **attrs)

    def backward(self, grad: torch.Tensor, *rest: Any) -> list[torch.Tensor]:
        """Gradients of the inputs that `needs`, the last of `rest`, asks for; before it what was kept, and
        the attributes."""
        grads = self._gradients(grad, rest)
        count = len(self.saved)
        kept = rest[:count] if self.core.strided else [_dense(x) for x in rest[:count]]
        attrs = dict(zip(self.attrs, rest[count:-1], strict=True))
        self.core.backward(grads, grad if self.core.strided else contiguous(grad), *kept, **attrs)
        return [g for g in grads if g is not None]

    def allocate_gradients(self, grad: torch.Tensor, *rest: Any) -> list[torch.Tensor]:
        """The gradients, not filled."""
        return [g for g in self._gradients(grad, rest) if g is not None]

    def keep(self, context: Any, values: tuple[Any, ...], outputs: tuple[torch.Tensor, ...]) -> None:
        """Store on an autograd context what `backward` needs."""
        known = dict(zip((*self.inputs, *self.attrs, *self.core.outputs), (*values, *outputs), strict=True))
        context.save_for_backward(*(known[name] for name in self.saved))
        context.attrs = tuple(known[name] for name in self.attrs)
        context.set_materialize_grads(False)

    def gradients(self, context: Any, grad: torch.Tensor | None, backward: Callable[..., Any]) -> list[Any]:
        """One gradient, or None, for each input and attribute."""
        size = len(self.inputs)
        needed = dict(zip(self.inputs, context.needs_input_grad[-size - len(self.attrs) :], strict=False))
        needs = [needed[name] for name in self.core.like]
        if grad is None or not any(needs):
            return [None] * (size + len(self.attrs))
        found = iter(backward(grad, *context.saved_tensors, *context.attrs, needs))
        by_name = {name: next(found) for name, need in zip(self.core.like, needs, strict=True) if need}
        return [by_name.get(name) for name in (*self.inputs, *self.attrs)]

    def _split(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        size = len(self.inputs)
        tensors = values[:size] if self.core.strided else tuple(_dense(x) for x in values[:size])
        return tensors, dict(zip(self.attrs, values[size:], strict=True))

    def _gradients(self, grad: torch.Tensor, rest: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
        known = {"grad": grad, **dict(zip(self.saved, rest, strict=False))}
        pairs = zip(self.core.like.values(), rest[-1], strict=True)
        return tuple(known[n].new_empty(known[n].shape) if need else None for n, need in pairs)


def _dense(x: torch.Tensor | None) -> torch.Tensor | None:
    return x if x is None else x.contiguous()


def _run(operator: Operator, *tensors: Any, **attrs: Any) -> torch.Tensor:
    """The first output of an operator's core, differentiable, under the autocast that is on."""
    bridge = BRIDGES[operator.name]
    if torch.is_autocast_enabled("cpu"):
        tensors = tuple(_autocast(x, operator.autocast) for x in tensors)
    values = (*tensors, *(attrs[name] for name in bridge.attrs))
    if torch.compiler.is_compiling() or any(type(x) not in _PLAIN for x in tensors):
        outputs = getattr(torch.ops.portkit, operator.name)(*values)
        only: torch.Tensor = outputs[0] if isinstance(outputs, tuple) else outputs
        return only
    if not torch.is_grad_enabled() or not any(x is not None and x.requires_grad for x in tensors):
        return bridge.forward(*values)[0]
    eager: Any = _Eager
    first: torch.Tensor = eager.apply(bridge, *values)
    return first


_PLAIN = (torch.Tensor, torch.nn.Parameter, type(None))


def _autocast(x: Any, policy: str) -> Any:
    if not policy or x is None or not x.is_floating_point():
        return x
    return x.to(torch.get_autocast_dtype("cpu") if policy == "lower" else torch.float32)


class _Eager(torch.autograd.Function):
    """The short way: kernels called directly, without torch's dispatcher."""

    @staticmethod
    def forward(context: Any, bridge: Bridge, *values: Any) -> torch.Tensor:
        outputs = bridge.forward(*values)
        context.bridge = bridge
        bridge.keep(context, values, outputs)
        return outputs[0]

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(context: Any, grad: torch.Tensor) -> Any:
        return (None, *context.bridge.gradients(context, grad, context.bridge.backward))


# --- registration ----------------------------------------------------------------------------------


def _bridge(operator: Operator) -> Bridge:
    assert operator.core is not None
    inputs, attrs = _names(operator.core.allocate, 0)
    saved, used = _names(operator.core.backward, 2)
    assert used == attrs, f"{operator.name}: forward and backward take different attributes"
    return Bridge(operator.name, operator.core, inputs, attrs, saved)


def _names(function: Callable[..., Any], skip: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    positional = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
    return positional, tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _schema(function: Callable[..., Any], skip: int) -> str:
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    return ", ".join(f"{_SCHEMA[p.annotation]} {p.name}" for p in parameters)


def _unpacked(function: Callable[..., tuple[torch.Tensor, ...]]) -> Callable[..., Any]:
    """A schema with one result wants it bare."""

    def bare(*values: Any) -> Any:
        outputs = function(*values)
        return outputs if len(outputs) > 1 else outputs[0]

    return bare


def _register(bridge: Bridge) -> None:
    name, core = bridge.name, bridge.core
    results = ", ".join(["Tensor"] * len(core.outputs))
    _LIBRARY.define(f"{name}({_schema(core.allocate, 0)}) -> ({results})")
    _LIBRARY.define(f"{name}_backward({_schema(core.backward, 1)}, bool[] needs) -> Tensor[]")
    _LIBRARY.impl(name, _unpacked(bridge.forward), "CPU")
    _LIBRARY.impl(f"{name}_backward", bridge.backward, "CPU")
    torch.library.register_fake(f"{NAMESPACE}::{name}", _unpacked(bridge.allocate), lib=_LIBRARY)
    backward = f"{NAMESPACE}::{name}_backward"
    torch.library.register_fake(backward, bridge.allocate_gradients, lib=_LIBRARY)

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        bridge.keep(ctx, inputs, output if isinstance(output, tuple) else (output,))

    def gradient(ctx: Any, grad: torch.Tensor, *unused: Any) -> Any:
        return tuple(bridge.gradients(ctx, grad, getattr(torch.ops.portkit, f"{name}_backward")))

    torch.library.register_autograd(f"{NAMESPACE}::{name}", gradient, setup_context=setup, lib=_LIBRARY)


BRIDGES = {o.name: _bridge(o) for o in operators().values() if o.core is not None}
for _one in BRIDGES.values():
    _register(_one)


def core(operator: Operator) -> Callable[..., torch.Tensor]:
    """The core of an operator as a function of its tensors and attributes: its first output."""
    return functools.partial(_run, operator)
