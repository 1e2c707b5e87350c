"""Functions that are called around launches, as Triton's profilers set them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portkit
import portkit.runtime.tile.language as tl
from portkit.runtime.tile import hooks
from portkit.runtime.triton import knobs


@pytest.fixture(autouse=True)
def _no_hooks() -> Iterator[None]:
    yield
    knobs.runtime.launch_enter_hook = None
    knobs.runtime.launch_exit_hook = None
    assert not hooks.WATCHING


def make(**options: Any) -> Any:
    @portkit.jit(**options)
    def fill(x_ptr, value, N: tl.constexpr):
        tl.store(x_ptr + tl.program_id(0) * N + tl.arange(0, N), value)

    return fill


def launch(kernel: Any, value: int) -> Any:
    x = np.zeros(32, np.int32)
    kernel[(2,)](x, value, 16)
    return x


def test_hooks_see_each_launch_in_order() -> None:
    kernel, seen = make(), []
    assert launch(kernel, 3).tolist() == [3] * 32  # the quick launch is there from now on
    knobs.runtime.launch_enter_hook.add(lambda about: seen.append(("enter", about.get()["name"])))
    knobs.runtime.launch_exit_hook.add(lambda about: seen.append(("exit", about["name"])))
    knobs.runtime.launch_exit_hook.add(lambda about: seen.append(("exit first", len(about))))
    assert launch(kernel, 4).tolist() == [4] * 32
    assert seen == [("enter", "fill"), ("exit first", 3), ("exit", "fill")]
    knobs.runtime.launch_enter_hook = None
    knobs.runtime.launch_exit_hook = None
    launch(kernel, 5)
    assert len(seen) == 3


def test_a_hook_may_be_set_and_removed() -> None:
    seen: list[str] = []

    def hook(about: Any) -> None:
        seen.append(about["name"])

    knobs.runtime.launch_enter_hook = hook
    knobs.runtime.launch_enter_hook.add(hook)  # a second time changes nothing
    launch(make(), 1)
    knobs.runtime.launch_enter_hook.remove(hook)
    knobs.runtime.launch_enter_hook.remove(hook)
    launch(make(), 1)
    assert seen == ["fill"]


def test_a_kernel_adds_what_is_known_of_its_launch() -> None:
    def about(grid: Any, metadata: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        asked.append(1)
        return {"name": f"{metadata.name} of {arguments['value']}", "flops": grid[0] * arguments["N"]}

    asked: list[int] = []
    kernel, seen = make(launch_metadata=about), []
    knobs.runtime.launch_enter_hook = lambda found: None
    launch(kernel, 6)
    assert not asked, "it is made only when asked for"
    knobs.runtime.launch_enter_hook = lambda found: seen.append(dict(found))
    launch(kernel, 7)
    assert len(asked) == 1
    assert (seen[0]["name"], seen[0]["flops"]) == ("fill of 7", 32)


def test_hooks_of_one_kernel_get_the_arguments() -> None:
    kernel, seen = make(), []
    launch(kernel, 1)
    kernel.add_pre_run_hook(lambda *args, **named: seen.append((args[1], named)))
    launch(kernel, 2)
    launch(kernel, 3)
    launch(make(), 4)
    assert seen == [(2, {}), (3, {})]
