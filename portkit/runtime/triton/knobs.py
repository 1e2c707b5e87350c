"""Settings that libraries read or set.

`runtime.debug` has assertions of kernels checked, `runtime.launch_enter_hook` and `launch_exit_hook` are
called around launches, `autotuning.cache` keeps results of tuning; the others change nothing on a CPU.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

from portkit.runtime.tile import hooks


class base_knobs:
    """A group of settings; any name may be set, and one that is not set is None."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)
        self._first = dict(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @property
    def knob_descriptors(self) -> dict[str, Any]:
        """Environment variables that the settings are read from: none."""
        return {}

    def copy(self) -> base_knobs:
        """A group of its own with the same settings."""
        return copy.copy(self)

    def reset(self) -> base_knobs:
        """Forget what was set."""
        first = self._first
        self.__dict__.clear()
        self.__dict__.update(first, _first=first)
        return self

    @contextlib.contextmanager
    def scope(self) -> Iterator[base_knobs]:
        """Settings made within this context end with it."""
        before = dict(self.__dict__)
        try:
            yield self
        finally:
            self.__dict__.clear()
            self.__dict__.update(before)


class _Runtime(base_knobs):
    """Settings of launches; the hooks are those of the compiler."""

    @property
    def launch_enter_hook(self) -> hooks.HookChain:
        """Called before each launch."""
        return hooks.ENTER

    @launch_enter_hook.setter
    def launch_enter_hook(self, hook: Any) -> None:
        hooks.ENTER.become(None if hook is hooks.ENTER else hook)

    @property
    def launch_exit_hook(self) -> hooks.HookChain:
        """Called after each launch."""
        return hooks.EXIT

    @launch_exit_hook.setter
    def launch_exit_hook(self, hook: Any) -> None:
        hooks.EXIT.become(None if hook is hooks.EXIT else hook)


HookChain = hooks.HookChain
propagate_env = True
autotuning = base_knobs(cache=False, print=False)
build = base_knobs()
cache = base_knobs(dir="")
compilation = base_knobs(override=False, always_compile=False, instrumentation_mode="")
language = base_knobs(fp32_default="tf32", default_fp_fusion=True)
nvidia = base_knobs()
amd = base_knobs()
cpu = base_knobs()
proton = base_knobs()
redis = base_knobs()
runtime = _Runtime(interpret=False, debug=False)
