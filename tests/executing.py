"""Programs given as text, run in this process; what they return compared."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import torch


def load(text: str, path: Path) -> dict[str, Any]:
    """The names of a program, which is written to a file first: kernels are compiled from their source."""
    path.write_text(text, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "program", "__file__": str(path)}
    exec(compile(text, str(path), "exec"), names)
    return names


def run(text: str, path: Path) -> Any:
    """What `main` of a program returns."""
    state = torch.get_rng_state()
    default = torch.get_default_dtype()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load(text, path)["main"]()
    finally:
        torch.set_rng_state(state)
        torch.set_default_dtype(default)
        torch.set_default_device(None)
        _end_process_group()


def _end_process_group() -> None:
    """End the process group of a program once gloo's threads are idle.

    Destroying a group joins those threads with the GIL held, while one that has just finished a collective
    may wait for the GIL to drop what it worked on: neither would go on.  A moment without the GIL lets it
    finish.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        time.sleep(0.5)
        torch.distributed.destroy_process_group()


def same(a: Any, b: Any, where: str) -> None:
    """Fail unless two results are alike: tensors within rounding, all else equal."""
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, msg=lambda text: f"{where}: {text}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for position, (one, other) in enumerate(zip(a, b, strict=True)):
            same(one, other, f"{where}[{position}]")
    else:
        assert a == b, where
