"""Every public name of the installed torch.cuda and its neighbours is found when a program uses it."""

from __future__ import annotations

import importlib
import types
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from portkit import engine
from portkit.rewriters import _references

torch = pytest.importorskip("torch")

SUBMODULES = (
    "nccl",
    "comm",
    "jiterator",
    "tunable",
    "gds",
    "green_contexts",
    "sparse",
    "nvtx",
    "profiler",
    "amp",
)


def _members(module: Any, name: str) -> Iterator[str]:
    """Public functions, classes and values of a module that belong to it."""
    public = set(getattr(module, "__all__", ()))
    for member in sorted(public):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = getattr(module, member, None)
        if not isinstance(value, types.ModuleType):
            yield f"{name}.{member}"


def _public() -> list[str]:
    found = list(_members(torch.cuda, "torch.cuda"))
    for name in SUBMODULES:
        qualified = f"torch.cuda.{name}"
        try:
            found += _members(importlib.import_module(qualified), qualified)
        except ImportError:  # newer or older than the installed torch
            continue
    return found


def test_every_public_name_of_torch_cuda_has_a_row() -> None:
    """New names of a new torch fail here: they want a row in the table, with what becomes of them."""
    names = _public()
    assert len(names) > 150
    assert [name for name in names if name not in _references.known()] == []


@pytest.mark.parametrize("name", _public())
def test_a_use_is_found(name: str) -> None:
    found = engine.check_text(f"import torch\nx = {name}\n")
    assert [item.qualified_name or item.rule for item in found], name


@pytest.mark.parametrize("name", [n for n in dir(torch.cuda) if n.startswith("_") and not n.startswith("__")])
def test_private_names_are_left_to_a_person(name: str) -> None:
    if isinstance(getattr(torch.cuda, name), types.ModuleType):
        return
    found = engine.check_text(f"import torch\ntorch.cuda.{name}\n")
    assert {item.support.value for item in found} == {"manual"}, name


@pytest.mark.parametrize("module", ["cuda", "cudnn"])
def test_every_name_of_the_back_ends_has_a_row(module: str) -> None:
    backends = getattr(torch.backends, module)
    # cudnn's module is replaced by an object when it is imported: its class has the settings
    names = getattr(backends, "__all__", None) or [
        item for item in dir(type(backends)) if not item.startswith("_")
    ]
    whole = {"matmul", "cuBLASModule", "cuFFTPlanCacheAttrContextProp"}  # objects: their members count
    modules = {"m", "name", "conv", "disable_global_flags", "flags_frozen"}
    for name in set(names) - whole - modules:
        code = f"import torch\nx = torch.backends.{module}.{name}\n"
        assert engine.check_text(code), code
