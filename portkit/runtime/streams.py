"""Streams and events: the accelerator's own, and stand-ins on the CPU, where calls return when done."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from portkit.runtime._torch import device_module, torch
from portkit.runtime.devices import device_type, index_of, synchronize


class Stream:
    """A stream of the accelerator (`torch.cuda.Stream`, `torch.xpu.Stream`, ...).

    On the CPU, and on devices without streams, a `HostStream`.  `device` is an index, string or device; other
    options go to the accelerator's class.
    """

    def __new__(cls, device: Any = None, priority: int = 0, **options: Any) -> Any:
        maker = getattr(device_module(), "Stream", None) if cls is Stream else None
        if maker is None:
            return object.__new__(HostStream)
        index = index_of(device)
        if index is None:
            return maker(priority=priority, **options)
        return maker(torch().device(device_type(), index), priority=priority, **options)


class HostStream(Stream):
    """A stand-in with the methods of a stream, on which everything is done at once.

    `with stream:` makes it the current one and may be nested.
    """

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        self.priority = priority
        self._outer: list[HostStream] = []

    @property
    def device(self) -> Any:
        """The device that the work runs on."""
        return torch().device(device_type())

    def synchronize(self) -> None:
        """Wait for all work."""
        synchronize()

    def query(self) -> bool:
        """Whether all work is done: after waiting for it, it is."""
        synchronize()
        return True

    def wait_stream(self, stream: Any) -> None:
        """Make later work wait for another stream: there is one order of work already."""

    def wait_event(self, event: Any) -> None:
        """Make later work wait for an event: there is one order of work already."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event (a new one if none is given) and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> HostStream:
        self._outer.append(_current_host())
        _LOCAL.current = self
        return self

    def __exit__(self, *error: object) -> None:
        _LOCAL.current = self._outer.pop()


class Event:
    """An event of the accelerator (`torch.cuda.Event`, ...); a `HostEvent` on the CPU.

    `elapsed_time(end)` is in milliseconds and needs `enable_timing=True` on both events.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
        maker = getattr(device_module(), "Event", None) if cls is Event else None
        if maker is None:
            return object.__new__(HostEvent)
        options = {"blocking": blocking, "interprocess": interprocess}
        given = {name: value for name, value in options.items() if value}
        with contextlib.suppress(TypeError):  # torch.xpu.Event and torch.mps.Event have no such options
            return maker(enable_timing=enable_timing, **given)
        return maker(enable_timing=enable_timing)


class HostEvent(Event):
    """A stand-in with the methods of an event, timed by `time.perf_counter`."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.enable_timing = enable_timing
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Note the time at which all work so far is done."""
        synchronize()
        self._time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Make a stream wait for this event: there is one order of work already."""

    def query(self) -> bool:
        """Whether the work before the event is done: it is."""
        return True

    def synchronize(self) -> None:
        """Wait for the event: it has happened."""

    def elapsed_time(self, end_event: HostEvent) -> float:
        """Milliseconds between this event and a later one.

        Raises RuntimeError as torch's events do: when timing is off, or an event was not recorded.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("both events need enable_timing=True to measure the time between them")
        if self._time is None or end_event._time is None:
            raise RuntimeError("both events must be recorded before the time between them is asked for")
        return (end_event._time - self._time) * 1000.0


_LOCAL = threading.local()
_DEFAULT = HostStream()


def _current_host() -> HostStream:
    current: HostStream = getattr(_LOCAL, "current", _DEFAULT)
    return current


@contextlib.contextmanager
def stream(target: Any) -> Iterator[None]:
    """`with stream(s):` makes `s` the current stream, as `torch.cuda.stream(s)` does; None changes nothing.

    May be entered again while it is active, which `with s:` of a `torch.Stream` refuses.
    """
    if target is None:
        yield
    elif isinstance(target, HostStream):
        with target:
            yield
    else:
        enter = getattr(device_module(), "stream", _generic)
        with enter(target):
            yield


@contextlib.contextmanager
def _generic(target: Any) -> Iterator[None]:
    """`with stream(s)` for a device whose module has no `stream`."""
    api = torch().accelerator
    previous = api.current_stream()
    api.set_stream(target)
    try:
        yield
    finally:
        api.set_stream(previous)


def current_stream(device: Any = None) -> Any:
    """The stream that work is queued on now; on the CPU a `HostStream`."""
    return _of_device("current_stream", device) or _current_host()


def default_stream(device: Any = None) -> Any:
    """The device's default stream; on the CPU a `HostStream`, always the same."""
    return _of_device("default_stream", device) or _DEFAULT


def _of_device(name: str, device: Any) -> Any:
    module = device_module()
    if not hasattr(module, "Stream") or not hasattr(module, name):
        return None
    index = index_of(device)
    function = getattr(module, name)
    return function() if index is None else function(index)


def record_stream(tensor: Any, target: Any) -> None:
    """`tensor.record_stream(target)` on an accelerator; nothing on the CPU, whose tensors refuse it.

    `tensor` may be any object with such a method.
    """
    kind = getattr(getattr(tensor, "device", None), "type", None)  # None: a user's own holder of tensors
    if not isinstance(target, HostStream) and kind not in ("cpu", "meta"):
        tensor.record_stream(target)
