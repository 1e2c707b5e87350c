"""The accelerator's random numbers: seeds and states, which a machine without one leaves alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from portkit.runtime._torch import call, device_module, torch
from portkit.runtime.devices import current_device, device_count, index_of


def manual_seed(seed: int) -> None:
    """Seed the current accelerator's generator.

    On the CPU nothing happens, as with `torch.cuda.manual_seed` there: the CPU's generator, which also
    shuffles data, belongs to `torch.manual_seed`.
    """
    call(("manual_seed",), int(seed), None)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all accelerators; on the CPU nothing happens (see `manual_seed`)."""
    call(("manual_seed_all", "manual_seed"), int(seed), None)


def get_rng_state(device: Any = None) -> Any:
    """State of the accelerator's generator, or of the CPU's where there is none: a ByteTensor on the CPU."""
    module = device_module()
    if module is None:
        return torch().get_rng_state()
    index = index_of(device)
    if index is None or index == current_device():
        return module.get_rng_state()
    return module.get_rng_state(index)


def set_rng_state(state: Any, device: Any = None) -> None:
    """Set the state of the accelerator's generator, or of the CPU's where there is no accelerator.

    `state` may lie on any device (`torch.load(map_location=...)` moves it).  A state that another kind of
    device made can't be set: then a warning says so and the generator keeps its state.
    """
    module = device_module() or torch()
    state = state.cpu()
    index = index_of(device)
    if module.get_rng_state().numel() != state.numel():
        warnings.warn(
            "the RNG state comes from another kind of device and was not restored", UserWarning, stacklevel=2
        )
        return
    if index is None or module is torch() or index == current_device():
        module.set_rng_state(state)
    else:
        module.set_rng_state(state, index)


def get_rng_state_all() -> list[Any]:
    """The states of all accelerators' generators; an empty list on the CPU."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(states: Iterable[Any]) -> None:
    """Set the states of all accelerators' generators; states beyond the last accelerator are left out."""
    for index, state in zip(range(device_count()), states, strict=False):
        set_rng_state(state, index)
