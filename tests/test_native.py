"""Kernels on devices without a target are handed to Triton, with Triton's names in the place of ours."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from typing import Any

import pytest

import portkit.runtime.tile.language as tl
import portkit.runtime.triton as triton
from portkit.errors import KernelError
from portkit.runtime.tile import native
from portkit.runtime.tile.language import where

torch = pytest.importorskip("torch")

WIDTH = tl.constexpr(4)
KIND = tl.float32


@triton.jit
def twice(x):
    return x + x


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(KIND)
    tl.store(x_ptr + i, where(i < n, twice(x), 0.0) * WIDTH)


class FakeKernel:
    """Stands for Triton's JITFunction, and notes its launches."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.launches: list[Any] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.launches.append((grid, args, kwargs))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A package `triton` with the names that the kernels of this file use."""
    language = types.ModuleType("triton.language")
    package = types.ModuleType("triton")
    runtime = types.ModuleType("triton.runtime")
    runtime.driver = types.SimpleNamespace(active=types.SimpleNamespace(get_current_target=lambda: "a GPU"))
    for module in (package, language, runtime):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    language.constexpr = type(
        "constexpr", (), {"__init__": lambda self, value: setattr(self, "value", value)}
    )
    language.where, language.float32 = object(), object()
    package.language, package.runtime, package.jit = language, runtime, FakeKernel
    monkeypatch.setattr(native, "_made", {})
    return package


def test_kernel_goes_to_triton_with_its_options(fake: types.ModuleType) -> None:
    x = torch.ones(8, device="meta")
    double[(2,)](x, 8, BLOCK=8, num_warps=2)
    made = native.theirs(double)
    ((grid, args, kwargs),) = made.launches
    assert grid == (2, 1, 1)
    assert args[0] is x
    assert args[1:] == (8,)
    assert kwargs == {"BLOCK": 8, "num_warps": 2}


def test_globals_are_those_of_triton(fake: types.ModuleType) -> None:
    language = fake.language
    names = native.theirs(double).fn.__globals__
    assert names["tl"] is language
    assert names["triton"] is fake
    assert names["where"] is language.where
    assert names["KIND"] is language.float32
    assert names["WIDTH"].value == 4
    assert isinstance(names["twice"], FakeKernel)
    assert names["torch"] is torch
    assert native.theirs(double).fn.__code__ is double.fn.__code__


def test_without_triton_the_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(KernelError, match="tensor on meta"):
        double[(1,)](torch.ones(8, device="meta"), 8, BLOCK=8)


def test_without_a_device_of_triton_the_device_is_refused(
    fake: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_active() -> None:
        raise RuntimeError("0 active drivers")

    monkeypatch.setattr(fake.runtime.driver.active, "get_current_target", none_active)
    with pytest.raises(KernelError, match="tensor on meta"):
        double[(1,)](torch.ones(8, device="meta"), 8, BLOCK=8)
