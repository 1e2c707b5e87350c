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
from portkit.runtime.ops._arrays import is_compiling
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
    """A core with its names turned into places: which values go in, come out, and are kept for the gradient.

    `keep_at` are the places of what is kept among inputs, attributes and outputs; `like_at` has, for each
    differentiable input, its place and the place of its likeness among the gradient and what is kept.
    """

    name: str
    core: Core
    inputs: int
    attrs: tuple[str, ...]
    keep_at: tuple[int, ...]
    like_at: tuple[tuple[int, int], ...]

    def forward(self, *values: Any) -> tuple[torch.Tensor, ...]:
        """All outputs of the core, for its tensors followed by its attributes."""
        tensors: Any = values[: self.inputs]
        if not self.core.strided:
            tensors = [x if x is None else x.contiguous() for x in tensors]
        attrs = dict(zip(self.attrs, values[self.inputs :], strict=True))
        outputs = self.core.allocate(*tensors, **attrs)
        self.core.forward(outputs, *tensors, **attrs)
        return outputs

    def allocate(self, *values: Any) -> tuple[torch.Tensor, ...]:
        """The outputs, not filled."""
        attrs = dict(zip(self.attrs, values[self.inputs :], strict=True))
        return self.core.allocate(*values[: self.inputs], **attrs)

    def backward(self, grad: torch.Tensor, *rest: Any) -> list[torch.Tensor]:
        """Gradients of the inputs that `needs`, the last of `rest`, asks for; before it what was kept, and
        the attributes."""
        sources, grads = self._gradients(grad, rest)
        if not self.core.strided:
            sources = [x if x is None else x.contiguous() for x in sources]
        attrs = dict(zip(self.attrs, rest[len(self.keep_at) : -1], strict=True))
        self.core.backward(grads, *sources, **attrs)
        return [g for g in grads if g is not None]

    def again(self, grad: torch.Tensor, *rest: Any) -> list[Any]:
        """What `backward` gives, in torch calls that can be differentiated again."""
        attrs = dict(zip(self.attrs, rest[len(self.keep_at) : -1], strict=True))
        found = self.core.again(grad, *rest[: len(self.keep_at)], **attrs)
        return [g for g, need in zip(found, rest[-1], strict=True) if need]

    def allocate_gradients(self, grad: torch.Tensor, *rest: Any) -> list[torch.Tensor]:
        """The gradients, not filled."""
        return [g for g in self._gradients(grad, rest)[1] if g is not None]

    def _gradients(self, grad: torch.Tensor, rest: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        sources = (grad, *rest[: len(self.keep_at)])
        pairs = zip(self.like_at, rest[-1], strict=True)
        grads = [
            torch.empty_like(sources[like], memory_format=torch.contiguous_format) if need else None
            for (_, like), need in pairs
        ]
        return sources, grads

    def keep(self, context: Any, values: tuple[Any, ...], outputs: tuple[torch.Tensor, ...]) -> None:
        """Store on an autograd context what `backward` needs."""
        known = (*values, *outputs)
        context.save_for_backward(*[known[i] for i in self.keep_at])
        context.attrs = values[self.inputs :]
        context.set_materialize_grads(False)

    def gradients(self, context: Any, grad: torch.Tensor | None, backward: Callable[..., Any]) -> list[Any]:
        """One gradient, or None, for each input and attribute."""
        size = self.inputs + len(self.attrs)
        wanted = context.needs_input_grad[-size:]
        needs = [wanted[place] for place, _ in self.like_at]
        results: list[Any] = [None] * size
        if grad is not None and any(needs):
            found = iter(backward(grad, *context.saved_tensors, *context.attrs, needs))
            for (place, _), need in zip(self.like_at, needs, strict=True):
                if need:
                    results[place] = next(found)
        return results


def _run(operator: Operator, *tensors: Any, **attrs: Any) -> torch.Tensor:
    """The first output of an operator's core, differentiable, under the autocast that is on."""
    bridge = BRIDGES[operator.name]
    if operator.autocast and torch.is_autocast_enabled("cpu"):
        tensors = tuple(_autocast(x, operator.autocast) for x in tensors)
    values = (*tensors, *[attrs[name] for name in bridge.attrs])
    if is_compiling() or any(type(x) not in _PLAIN for x in tensors):
        outputs = getattr(torch.ops.portkit, operator.name)(*values)
        only: torch.Tensor = outputs[0] if isinstance(outputs, tuple) else outputs
        return only
    if not (torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)):
        return bridge.forward(*values)[0]
    eager: Any = _Eager
    first: torch.Tensor = eager.apply(bridge, *values)
    return first


_PLAIN = (torch.Tensor, torch.nn.Parameter, type(None))


def _autocast(x: Any, policy: str) -> Any:
    if x is None or not x.is_floating_point():
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
    def backward(context: Any, grad: torch.Tensor) -> Any:
        bridge = context.bridge
        # Gradients are recorded in a backward pass only for the sake of gradients of gradients.
        how = bridge.again if torch.is_grad_enabled() else bridge.backward
        return (None, *bridge.gradients(context, grad, how))


# --- registration ----------------------------------------------------------------------------------


def _bridge(operator: Operator) -> Bridge:
    core = operator.core
    assert core is not None
    inputs, attrs = _names(core.allocate, 0)
    saved, used = _names(core.backward, 2)
    assert used == attrs, f"{operator.name}: forward and backward take different attributes"
    known = (*inputs, *attrs, *core.outputs)
    sources = ("grad", *saved)
    like_at = tuple((inputs.index(name), sources.index(like)) for name, like in core.like.items())
    return Bridge(operator.name, core, len(inputs), attrs, tuple(map(known.index, saved)), like_at)


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
