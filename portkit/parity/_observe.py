"""What a program calls while it trains: its modules and the operators that portkit knows, with digests."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode, resolve_name

from portkit import coverage
from portkit.parity._digest import arguments, digest, mapped, tensors

Write = Callable[..., None]
_OURS = "portkit.runtime.ops."


class Calls:
    """Writes a line for each call of a module and of a known operator, in the order in which they end."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self.active = True
        self.inside = 0  # of an operator: what it calls is its own affair
        self.names: dict[int, str] = {}  # of modules, by id
        self.parameters: dict[int, str] = {}  # names, by id
        self.stack: list[str] = []
        self.before: list[list[dict[str, Any]]] = []
        self.known = {name: data["operator"] for name, data in coverage.kernels().items()}
        self.root = Path.cwd()

    def install(self) -> TorchFunctionMode:
        """Watch modules and portkit's operators; the mode that is returned has to be entered."""
        modules.register_module_forward_pre_hook(self._enter)
        modules.register_module_forward_hook(self._leave, always_call=True)
        self._wrap_ours()
        return _Watching(self)

    def _enter(self, module: Any, args: Any) -> None:
        if not self.stack and id(module) not in self.names:
            self.names.update((id(part), name or "model") for name, part in module.named_modules())
            self.parameters.update((id(p), name) for name, p in module.named_parameters())
        self.stack.append(self.names.get(id(module), type(module).__name__))
        self.before.append([digest(t) for t in tensors(args)] if self.active else [])

    def _leave(self, module: Any, args: Any, result: Any) -> None:
        if not self.stack:
            return
        name, before = self.stack.pop(), self.before.pop()
        if not self.active:
            return
        kind = type(module)
        code = getattr(kind.forward, "__code__", None)
        self.write(
            module=name,
            type=f"{kind.__module__}.{kind.__qualname__}",
            site=self._shown(code.co_filename, code.co_firstlineno) if code else "",
            training=module.training,
            inputs=before,
            outputs=[digest(t) for t in tensors(result)],
        )

    def call(self, operator: str, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Call an operator and write down what it got and gave."""
        if not self.active or self.inside:
            return function(*args, **kwargs)
        before = [digest(t) for t in tensors([args, kwargs])]
        self.inside += 1
        try:
            result = function(*args, **kwargs)
        finally:
            self.inside -= 1
        plain, places = arguments(args, kwargs)
        self.write(
            operator=operator,
            within=self.stack[-1] if self.stack else "",
            site=self._site(),
            arguments=plain,
            tensors=places,
            inputs=before,
            outputs=[digest(t) for t in tensors(result)],
        )
        return result

    def gradients(self, parameters: Any, scale: float) -> None:
        """Write the digests of all gradients, without the scale of the loss, by their parameters."""
        named = ((self.parameters.get(id(p), f"parameter {i}"), p) for i, p in enumerate(parameters))
        if self.active:
            self.write(gradients={name: digest(p.grad / scale) for name, p in named if p.grad is not None})

    def _wrap_ours(self) -> None:
        import portkit.runtime.ops as ops

        for name, operator in self.known.items():
            if not name.startswith(_OURS):
                continue
            public = name.removeprefix(_OURS)
            try:
                function = getattr(ops, public)
            except AttributeError:
                continue
            setattr(ops, public, self._wrapped(operator, function))

    def _wrapped(self, operator: str, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return self.call(operator, function, args, kwargs)

        return wrapped

    def _site(self) -> str:
        """File and line of the program that is being called from."""
        frame = sys._getframe(2)
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(str(self.root)) or not os.path.isabs(path):
                return self._shown(path, frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    def _shown(self, path: str, line: int) -> str:
        """A place in a file of the program; empty for one of a library."""
        try:
            return f"{Path(path).resolve().relative_to(self.root.resolve()).as_posix()}:{line}"
        except ValueError:
            return ""


class _Watching(TorchFunctionMode):
    """Passes calls of torch on, those of known operators through `Calls.call`."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls
        self.found: dict[Any, str] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        operator = self._operator(func)
        if not operator:
            return func(*args, **(kwargs or {}))
        return self.calls.call(operator, func, args, kwargs or {})

    def _operator(self, func: Any) -> str:
        try:
            if func not in self.found:
                name = resolve_name(func) or ""
                self.found[func] = self.calls.known.get(name, "")
            return self.found[func]
        except TypeError:
            return ""


class Rounding:
    """Noise of about one unit in the last place, from its own generator, on parameters and module outputs.

    Where a device rounds the factors of its float32 products, to TF32 for one, that is the unit.
    """

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.units: dict[Any, float] = {}

    def install(self) -> Any:
        """Disturb what every module gives from now on, until the handle is removed."""
        return modules.register_module_forward_hook(
            lambda module, args, result: mapped(
                result, lambda tensor: self.disturbed(tensor, isinstance(module, _CONVOLUTIONS))
            )
        )

    def disturbed(self, tensor: Any, convolved: bool = False) -> Any:
        """A tensor that was rounded otherwise; one that holds no floating-point numbers as it is."""
        if not tensor.is_floating_point() or tensor.numel() == 0:
            return tensor
        return tensor + self._noise(tensor.detach(), convolved)

    def disturb(self, tensor: Any) -> None:
        """The same in place."""
        if tensor.is_floating_point():
            with torch.no_grad():
                tensor.add_(self._noise(tensor, tensor.ndim > 2))

    def _noise(self, tensor: Any, convolved: bool) -> Any:
        with torch.no_grad():
            draws = torch.rand(tensor.shape, generator=self.generator, dtype=torch.float32)
            share = (2.0 * draws - 1.0) * self._unit(tensor, convolved)
            return (share.to(tensor.device) * tensor).to(tensor.dtype)

    def _unit(self, tensor: Any, convolved: bool) -> float:
        eps = float(torch.finfo(tensor.dtype).eps)
        if tensor.dtype is not torch.float32:
            return eps
        key = (tensor.device, convolved, _setting())
        if key not in self.units:
            self.units[key] = product_unit(tensor.device, convolved)
        return max(eps, self.units[key])


_CONVOLUTIONS = torch.nn.modules.conv._ConvNd
_SIDE = 128


def _setting() -> str:
    """How exact a program asks products to be: it may change its mind."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:  # set through both of torch's interfaces
        return ""


def product_unit(device: Any, convolved: bool = False) -> float:
    """The relative unit of the factors of a float32 product on a device: found by multiplying with one.

    About 1e-3 for TF32; 0 where nothing is rounded.  No mode that watches a program sees the product.
    """
    unseen: Any = torch._C.DisableTorchFunction()
    with unseen, torch.no_grad(), torch.autocast(torch.device(device).type, enabled=False):
        values = 1.0 + 2.0 ** -(torch.arange(_SIDE, dtype=torch.float32) % 24.0)
        rows = values.expand(_SIDE, _SIDE).contiguous().to(device)
        one = torch.eye(_SIDE, device=device)
        if convolved:
            image = rows.reshape(1, _SIDE, _SIDE, 1).transpose(1, 2).contiguous()
            got = torch.nn.functional.conv2d(image, one.reshape(_SIDE, _SIDE, 1, 1))
            return float(2.0 * ((got - image) / image).abs().max())
        return float(2.0 * ((torch.mm(rows, one) - rows) / rows).abs().max())
