"""In the child process: what some steps of a run spent their time on, and the work that one step is.

After `skip` steps, torch's profiler records `steps` of them: operators, kernels on a device, modules,
portkit's operators and tile kernels.  During one more step, nothing is timed, but counted: calls, bytes and
arithmetic of each operator.  Both lie side by side in the row that is written at the end.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch.nn.modules import module as modules

from portkit.parity._peaks import peaks
from portkit.parity._work import Work, of_call

_profiler: Any = torch.profiler  # without types
record_function = _profiler.record_function

LARGEST = 20_000  # events that are kept: the longest
STEP, MODULE, OURS, KERNEL = "step ", "module ", "portkit::", "kernel "  # how the names of scopes begin
_ENGINE = "autograd::engine::evaluate_function: "


class Profile:
    """Starts and stops the profiler as steps pass by, then counts; `close` writes what there is."""

    def __init__(self, write: Callable[..., None], skip: int, steps: int) -> None:
        self.write = write
        self.first, self.last = skip, skip + steps
        self.done = 0
        self.profiler: Any = None
        self.scope: Any = None
        self.recorded = 0
        self.work = Work()
        self.counting = ExitStack()
        self.names: dict[int, str] = {}

    def install(self) -> None:
        """Name modules, operators of portkit and tile kernels from now on."""
        scopes: list[Any] = []

        def enter(module: Any, args: Any) -> None:
            if not scopes and id(module) not in self.names:
                self.names.update((id(part), name or "model") for name, part in module.named_modules())
            scope = record_function(MODULE + self.names.get(id(module), type(module).__name__))
            scope.__enter__()
            scopes.append(scope)

        def leave(module: Any, args: Any, result: Any) -> None:
            if scopes:
                scopes.pop().__exit__(None, None, None)

        modules.register_module_forward_pre_hook(enter)
        modules.register_module_forward_hook(leave, always_call=True)
        self._name_ours()

    def _name_ours(self) -> None:
        from portkit.runtime import torch_bridge
        from portkit.runtime.ops import _dispatch
        from portkit.runtime.tile import jit

        self._named(torch_bridge.Bridge, "forward", lambda one: OURS + str(one.name))
        self._named(torch_bridge.Bridge, "backward", lambda one: f"{OURS}{one.name}_backward")
        self._named(jit.JitFunction, "launch", _kernel)
        _dispatch.chosen = self._counted(_dispatch.chosen)

    def _named(self, owner: Any, method: str, name: Callable[[Any], str]) -> None:
        inner = getattr(owner, method)

        @functools.wraps(inner)
        def scoped(this: Any, *args: Any, **kwargs: Any) -> Any:
            with record_function(name(this)):
                return self.work.call(name(this), functools.partial(inner, this), args, kwargs)

        setattr(owner, method, scoped)

    def _counted(self, chosen: Any) -> Any:
        """The choice of an implementation: kernels of ours have the arithmetic of torch's own."""

        @functools.wraps(chosen)
        def counted(operator: Any, args: Any, kwargs: Any) -> Any:
            choice = chosen(operator, args, kwargs)
            if choice == "tile" and self.work.counting:
                with self.work.apart():
                    self.work.more(OURS + operator.name, of_call(operator.vendor, args, kwargs))
            return choice

        return counted

    # --- steps ------------------------------------------------------------------------------------------

    def after_step(self) -> None:
        """One more optimizer step is over."""
        self.done += 1
        if self.first < self.done <= self.last:
            self._end_step()
        if self.done == self.first:
            self.profiler = _profiler.profile(activities=_profiler.supported_activities(), acc_events=True)
            self.profiler.start()
        if self.first <= self.done < self.last:
            self.scope = record_function(f"{STEP}{self.done}")
            self.scope.__enter__()
        elif self.done == self.last:
            self.profiler.stop()
            self.counting.enter_context(self.work)
        elif self.done > self.last:
            self.counting.close()

    def _end_step(self) -> None:
        self.scope.__exit__(None, None, None)
        self.scope = None
        self.recorded += 1

    def close(self) -> None:
        """Write what was recorded: nothing, for a script that ended before its first step did."""
        counted = self.done > self.last
        self.counting.close()
        if self.profiler is None or not self.recorded:
            return
        if self.scope is not None:
            self.scope.__exit__(None, None, None)
            self.profiler.stop()
        events = list(self.profiler.events())
        device = str(_accelerator(events) or "cpu")
        found = self.work.rows(_times(events, self.work.names), self.recorded) if counted else []
        dtypes = [row["dtype"] for row in found if row["dtype"]]
        self.write(
            timeline={
                "device": device,
                "name": _name(device),
                "threads": torch.get_num_threads(),
                "steps": self.recorded,
                **_compact(events),
                "operators": found,
                "peaks": peaks(device, list(dict.fromkeys(dtypes))),
            }
        )


def _kernel(function: Any) -> str:
    """The name of a tile kernel; of those of portkit's operators, whose names recur, with the operator."""
    module = str(function.fn.__module__)
    owner = f"{module.rpartition('.')[2].strip('_')}." if module.startswith("portkit.") else ""
    return f"{KERNEL}{owner}{function.__name__}"


def _accelerator(events: list[Any]) -> Any:
    """The device of the kernels among the events; None if all ran on the CPU."""
    found = Counter(_kind(event) for event in events)["kernel"]
    return torch.accelerator.current_accelerator() if found else None


def _name(device: str) -> str:
    return str(torch.cuda.get_device_name()) if device == "cuda" else ""


def _on_device(event: Any) -> bool:
    return str(event.device_type) != "DeviceType.CPU"


def _kind(event: Any) -> str:
    """What an event is; empty for one that only repeats another."""
    name = str(event.name)
    if _on_device(event):
        return "" if event.is_user_annotation or name.startswith((STEP, MODULE, OURS, KERNEL)) else "kernel"
    scopes = (STEP, "step"), (MODULE, "module"), ("Optimizer.", "module"), (OURS, "ours"), (KERNEL, "kernel")
    for start, kind in scopes:
        if name.startswith(start):
            return kind
    return "" if name.startswith((_ENGINE, "cuda", "hip")) else "operator"


def _compact(events: list[Any]) -> dict[str, Any]:
    """Lanes, names, and [lane, name, kind, depth, start, duration] of the longest events, in microseconds."""
    rows = [(kind, event) for event in events if (kind := _kind(event))]
    rows.sort(key=lambda row: row[1].time_range.end - row[1].time_range.start, reverse=True)
    left = len(rows) - LARGEST
    rows = sorted(rows[:LARGEST], key=lambda row: (row[1].time_range.start, -row[1].time_range.end))
    origin = min((event.time_range.start for _, event in rows), default=0.0)
    names: dict[str, int] = {}
    lanes: dict[str, int] = {}
    ends: dict[int, list[float]] = {}
    found = []
    for kind, event in rows:
        lane = lanes.setdefault(_lane(event), len(lanes))
        start, end = event.time_range.start - origin, event.time_range.end - origin
        open_ = ends.setdefault(lane, [])
        while open_ and open_[-1] < max(start + 1e-3, end):  # over, or not around this one
            open_.pop()
        name = names.setdefault(str(event.name)[:200], len(names))
        found.append([lane, name, kind, len(open_), round(start, 3), round(max(0.0, end - start), 3)])
        open_.append(end)
    return {"lanes": list(lanes), "names": list(names), "events": found, "left": max(0, left)}


def _lane(event: Any) -> str:
    if _on_device(event):
        kind = str(event.device_type).rpartition(".")[2].lower()
        return f"{kind}:{event.device_index} stream {getattr(event, 'device_resource_id', 0)}"
    return f"thread {event.thread}"


def _times(events: list[Any], counted: set[str]) -> Iterator[tuple[str, float]]:
    """Name and microseconds of each call of a counted operator, without what it calls in turn.

    Where kernels run on a device, their time counts, not that of launching them.
    """
    device = any(_on_device(event) for event in events)
    for event in events:
        if _on_device(event) or event.name not in counted:
            continue
        parent = event.cpu_parent
        while parent is not None and parent.name not in counted:
            parent = parent.cpu_parent
        if parent is None:
            yield str(event.name), event.device_time_total if device else event.time_range.elapsed_us()
