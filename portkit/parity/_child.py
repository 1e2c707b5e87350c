"""Runs a training script and records its losses and gradient norms: `python -m portkit.parity._child`.

    python -m portkit.parity._child RECORD SCRIPT [ARGUMENTS...]

The script runs as `__main__`, unchanged.  One JSON line goes to RECORD for each backward pass
(`{"loss": ...}`) and for each optimizer step (`{"norm": ..., "time": seconds}`), and one last line says how
it ended.
Settings come in the environment variable PORTKIT_PARITY (JSON: seed, steps, fault).
"""

from __future__ import annotations

import json
import os
import random
import runpy
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

SCALE = "_portkit_scale"  # attribute of a scaled loss: by how much


class Enough(SystemExit):
    """Ends the script after the wanted number of optimizer steps."""


class Recorder:
    """Writes what happens to a file, one JSON object a line."""

    def __init__(self, file: TextIO, steps: int, fault: bool) -> None:
        self.file = file
        self.steps = steps
        self.fault = fault
        self.done = 0

    def write(self, **record: Any) -> None:
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()

    def loss(self, roots: Any) -> None:
        """Record the sum of the tensors that a backward pass starts from, without their loss scale."""
        tensors = roots if isinstance(roots, (list, tuple)) else [roots]
        total = sum(float(t.detach().double().sum()) / getattr(t, SCALE, 1.0) for t in tensors)
        self.write(loss=total)

    def before_step(self, optimizer: Any) -> None:
        """Record the norm of all gradients; with a fault asked for, lose the largest gradient first."""
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        squares = [float(p.grad.detach().double().square().sum()) for p in parameters]
        if self.fault and squares:
            largest = max(range(len(squares)), key=squares.__getitem__)
            parameters[largest].grad.zero_()
            squares[largest] = 0.0
        self.write(norm=sum(squares) ** 0.5, time=time.perf_counter())

    def after_step(self) -> None:
        self.done += 1
        if self.steps and self.done >= self.steps:
            raise Enough(0)


def _watch(recorder: Recorder) -> None:
    """Observe backward passes and optimizer steps of this process."""
    import torch
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    backward: Callable[..., None] = torch.autograd.backward

    def recorded(tensors: Any, *args: Any, **options: Any) -> None:
        recorder.loss(tensors)
        backward(tensors, *args, **options)

    torch.autograd.backward = recorded
    scale = torch.amp.GradScaler.scale

    def remembered(self: Any, outputs: Any) -> Any:
        scaled = scale(self, outputs)
        if isinstance(scaled, torch.Tensor):
            setattr(scaled, SCALE, float(self.get_scale()))
        return scaled

    setattr(torch.amp.GradScaler, "scale", remembered)  # noqa: B010  (a method, as far as types go)
    register_optimizer_step_pre_hook(lambda optimizer, args, options: recorder.before_step(optimizer))
    register_optimizer_step_post_hook(lambda optimizer, args, options: recorder.after_step())


def _seed(value: int) -> None:
    import numpy as np
    import torch

    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def _run(script: str, arguments: Iterable[str]) -> None:
    """Run a script as `python script arguments` does."""
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


def main(argv: list[str]) -> int:
    """Run the script in argv[1] and record into argv[0]; returns the script's exit code."""
    record, script, *arguments = argv
    settings = json.loads(os.environ.get("PORTKIT_PARITY", "{}"))
    with Path(record).open("w", encoding="utf-8") as file:
        recorder = Recorder(file, settings.get("steps", 0), settings.get("fault", False))
        _watch(recorder)
        _seed(settings.get("seed", 0))
        try:
            _run(script, arguments)
        except Enough:
            recorder.write(end="enough")
            return 0
        except SystemExit as stop:
            recorder.write(end="exit", code=str(stop.code))
            raise
        recorder.write(end="finished")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
