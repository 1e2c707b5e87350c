"""How much work the operators of one step are: calls, bytes, and arithmetic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _python_dispatch, flop_counter

from portkit.parity._digest import mapped, tensors

_formulas: Any = flop_counter  # without types
_Mode: Any = _python_dispatch.TorchDispatchMode
_ATTENTION = "aten::_scaled_dot_product"
_IDLE = ("aten::empty", "aten::new_empty")  # memory that nothing is written to


@dataclass
class Count:
    """One operator in one step."""

    calls: int = 0
    bytes: int = 0  # of all arguments and results, each read or written once
    flops: int = 0  # matrix products as torch counts them; of others, one an element
    dtypes: Counter[str] = field(default_factory=Counter)


class Work(_Mode):  # type: ignore[misc]
    """While it is entered, every operator that does work is counted under the name that the profiler uses."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, Count] = defaultdict(Count)
        self.active = False
        self.depth = 0  # of operators of portkit: what they call is part of them

    @property
    def counting(self) -> bool:
        """Whether what is called now is counted."""
        return self.active and not self.depth

    @property
    def names(self) -> set[str]:
        return set(self.counts)

    def __enter__(self) -> Any:
        self.active = True
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        self.active = False
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func._schema.name)
        counts = name.startswith("aten::") and not name.startswith(_IDLE)
        if counts and not self.depth and not _is_view(func, args, result):
            given = [*args, *(kwargs or {}).values()]
            self._add(name, given, result, _flops(func, args, kwargs or {}, result))
        return result

    def call(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a scope of our own, an operator of portkit or a tile kernel: it is counted as one."""
        if not self.counting:
            return function(*args, **kwargs)
        with self.apart():
            result = function(*args, **kwargs)
        self._add(name, [*args, *kwargs.values()], result, 0)
        return result

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is called in here is not counted."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def more(self, name: str, flops: tuple[int, int]) -> None:
        """Add the arithmetic of an operator of portkit and of its gradients."""
        self.counts[name].flops += flops[0]
        if flops[1]:
            self.counts[f"{name}_backward"].flops += flops[1]

    def _add(self, name: str, given: Any, result: Any, flops: int) -> None:
        count = self.counts[name]
        read, written = _unique(tensors(list(given))), _unique(tensors(result))
        count.calls += 1
        count.bytes += sum(map(_bytes, [*read, *written]))
        count.flops += flops
        for tensor in read:
            if tensor.is_floating_point():
                count.dtypes[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()

    def rows(self, times: Iterable[tuple[str, float]], steps: int) -> list[dict[str, Any]]:
        """What each operator did in a step and how long it took in the fastest, the longest first.

        One that was called another number of times while it was timed is left out: the two do not belong
        together.
        """
        taken: dict[str, list[float]] = defaultdict(list)
        for name, duration in times:
            taken[name].append(duration)
        found = [
            {
                "name": name,
                "calls": count.calls,
                "seconds": _fastest(taken[name], steps) / 1e6,
                "bytes": count.bytes,
                "flops": count.flops,
                "dtype": count.dtypes.most_common(1)[0][0] if count.dtypes else "",
            }
            for name, count in self.counts.items()
            if len(taken[name]) == count.calls * steps
        ]
        return sorted(found, key=lambda row: (-float(row["seconds"]), row["name"]))


def _fastest(durations: list[float], steps: int) -> float:
    """The time of an operator in the step in which it took the least; steps have the same number of calls."""
    calls = len(durations) // steps
    return min(sum(durations[step * calls : (step + 1) * calls]) for step in range(steps))


def _unique(found: Iterable[Any]) -> list[Any]:
    return list({id(tensor): tensor for tensor in found}.values())


def _bytes(tensor: Any) -> int:
    """What is read or written of a tensor: of one that repeats its elements, each once."""
    size = int(tensor.numel()) * int(tensor.element_size())
    with suppress(NotImplementedError, RuntimeError):
        return min(size, int(tensor.untyped_storage().nbytes()))
    return size


def _is_view(func: Any, args: Any, result: Any) -> bool:
    """Whether a call moved nothing: all that it gave is memory that it was given."""
    if func._schema.is_mutable:
        return False
    if all(one.alias_info is not None for one in func._schema.returns):
        return True
    given = {_address(tensor) for tensor in tensors(list(args))}
    made = [_address(tensor) for tensor in tensors(result)]
    return all(address in given for address in made)


def _address(tensor: Any) -> int:
    """Where a tensor's memory is; of one that has none, a number that no other has."""
    with suppress(NotImplementedError, RuntimeError):
        return int(tensor.untyped_storage().data_ptr()) or -id(tensor)
    return -id(tensor)


def _flops(func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> int:
    known = _formulas.flop_registry.get(func._overloadpacket)
    if known is not None:
        return int(known(*args, **kwargs, out_val=result))
    name = str(func._schema.name)
    if name.startswith(_ATTENTION):  # that of a CPU is not in the register
        shapes = [tensor.shape for tensor in list(tensors(list(args)))]
        if "backward" in name:
            return int(_formulas.sdpa_backward_flop_count(*shapes[:4]))
        return int(_formulas.sdpa_flop_count(*shapes[:3]))
    return max((_elements(one) for one in (*args, result)), default=0)


def _elements(value: Any) -> int:
    return sum(int(tensor.numel()) for tensor in tensors(value) if tensor.is_floating_point())


def of_call(function: Any, args: Any, kwargs: Any) -> tuple[int, int]:
    """The arithmetic of a call and of its gradients, found on tensors that hold nothing."""

    def empty(tensor: Any) -> Any:
        made = torch.empty_like(tensor, device="meta")
        return made.requires_grad_(bool(tensor.requires_grad)) if tensor.is_floating_point() else made

    given, named = mapped(tuple(args), empty), mapped(dict(kwargs), empty)
    forward, backward = Work(), Work()
    with torch.enable_grad():
        with forward:
            result = function(*given, **named)
        wanted = [tensor for tensor in tensors([given, named]) if tensor.requires_grad]
        if wanted and result.requires_grad:
            with backward:
                torch.autograd.grad(result, wanted, torch.empty_like(result), allow_unused=True)
    first, second = (sum(one.flops for one in work.counts.values()) for work in (forward, backward))
    return first, second
