"""Functions that are called around launches: of all kernels, or of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Hook = Callable[..., Any]
WATCHING: list[Hook] = []
"""All hooks around launches of every kernel; empty while nobody watches."""


class HookChain:
    """Functions that are called one after the other; `backwards` calls the last one first."""

    def __init__(self, backwards: bool = False) -> None:
        self.calls: list[Hook] = []
        self.reversed = backwards

    def add(self, hook: Hook) -> None:
        """Call it, too."""
        if hook not in self.calls:
            self.calls.append(hook)
            WATCHING.append(hook)

    def remove(self, hook: Hook) -> None:
        """No longer call it."""
        if hook in self.calls:
            self.calls.remove(hook)
            WATCHING.remove(hook)

    def become(self, hook: Hook | None) -> None:
        """Call this one alone, or none."""
        for known in list(self.calls):
            self.remove(known)
        if hook is not None:
            self.add(hook)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for hook in list(reversed(self.calls) if self.reversed else self.calls):
            hook(*args, **kwargs)


ENTER, EXIT = HookChain(), HookChain(backwards=True)
"""Called before and after each launch with a `LaunchMetadata`."""


class LaunchMetadata(Mapping[str, Any]):
    """What is launched: name, function, stream, and what the kernel's `launch_metadata` adds when asked."""

    def __init__(self, values: dict[str, Any], more: Callable[[], Mapping[str, Any]] | None = None) -> None:
        self._values = values
        self._more = more

    def get(self, *args: Any) -> Any:
        """Everything as a dict, as Triton has it; with arguments, as of any mapping."""
        if self._more is not None:
            more, self._more = self._more, None
            self._values = {**self._values, **more()}
        return self._values.get(*args) if args else self._values

    def __getitem__(self, name: str) -> Any:
        return self.get()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.get())

    def __len__(self) -> int:
        return len(self.get())
