"""Runs a training script and records its losses and gradient norms: `python -m portkit.parity._child`.

    python -m portkit.parity._child RECORD SCRIPT [ARGUMENTS...]

The script runs as `__main__`, unchanged.  One JSON line goes to RECORD for each backward pass
(`{"loss": ..., "norm": ..., "scale": ...}`: the norm of all gradients after it, before any clipping) and for
each optimizer step (`{"time": seconds, "rates": ..., "parameters": norm}`), and one last line says how it
ended.  Settings come in the environment variable PORTKIT_PARITY (JSON): seed, steps, fault; calls: during how
many steps modules and operators are recorded; timeline: how many steps pass before how many are profiled;
noise: seed of disturbed rounding; standin: a stand-in for CUDA; float16: mixed precision on the CPU as on an
accelerator.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

SCALE = "_portkit_scale"  # attribute of a scaled loss: by how much


class Enough(SystemExit):
    """Ends the script after the wanted number of optimizer steps."""


class Recorder:
    """Writes what happens to a file, one JSON object a line."""

    def __init__(self, file: TextIO, settings: Mapping[str, Any]) -> None:
        self.file = file
        self.steps: int = settings.get("steps", 0)
        self.fault: bool = settings.get("fault", False)
        self.detailed: int = settings.get("calls", 0)
        self.done = 0
        self.process = os.getpid()
        self.parameters: dict[int, Any] = {}  # of every optimizer, by id
        self.calls: Any = None
        self.rounding: Any = None
        self.profile: Any = None

    def write(self, **record: Any) -> None:
        if os.getpid() == self.process:  # not in a worker that loads data
            self.file.write(json.dumps(record) + "\n")
            self.file.flush()

    def know(self, group: Mapping[str, Any]) -> None:
        """Remember the parameters of a group that an optimizer got."""
        new = {id(p): p for p in group["params"] if id(p) not in self.parameters}
        self.parameters.update(new)
        if self.rounding is not None:
            for parameter in new.values():
                self.rounding.disturb(parameter)

    def after_backward(self, roots: Any) -> None:
        """Record the sum of the tensors that a backward pass started from, and the norm of the gradients.

        Both without the scale of a GradScaler; with a fault asked for, the largest gradient is lost first.
        """
        if self.profile is not None:  # the program's own work is what is looked at
            return
        tensors = roots if isinstance(roots, (list, tuple)) else [roots]
        scale = getattr(tensors[0], SCALE, 1.0)
        loss = sum(float(t.detach().double().sum()) for t in tensors) / scale
        gradients = [p.grad.detach() for p in self.parameters.values() if p.grad is not None]
        squares = [float(g.double().square().sum()) for g in gradients]
        if self.fault and squares:
            largest = max(range(len(squares)), key=squares.__getitem__)
            gradients[largest].zero_()
            squares[largest] = 0.0
        self.write(loss=loss, norm=sum(squares) ** 0.5 / scale, scale=scale)
        if self.calls is not None:
            self.calls.gradients(self.parameters.values(), scale)

    def after_step(self, optimizer: Any) -> None:
        """Count an optimizer step, and end the script after the last one that is wanted."""
        self.done += 1
        if self.profile is not None:
            self.profile.after_step()
        else:
            self._note(optimizer)
        if self.calls is not None and self.done >= self.detailed:
            self.calls.active = False
        if self.steps and self.done >= self.steps:
            raise Enough(0)

    def _note(self, optimizer: Any) -> None:
        """Record the time of a step, and what it left."""
        squares = [float(p.detach().double().square().sum()) for p in self.parameters.values()]
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        self.write(time=time.perf_counter(), rates=rates, parameters=sum(squares) ** 0.5)


def _watch(recorder: Recorder) -> None:
    """Observe backward passes and optimizer steps of this process."""
    import torch
    from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

    backward: Callable[..., None] = torch.autograd.backward

    def recorded(tensors: Any, *args: Any, **options: Any) -> None:
        backward(tensors, *args, **options)
        recorder.after_backward(tensors)

    torch.autograd.backward = recorded
    scale = torch.amp.GradScaler.scale

    def remembered(self: Any, outputs: Any) -> Any:
        scaled = scale(self, outputs)
        if isinstance(scaled, torch.Tensor):
            setattr(scaled, SCALE, float(self.get_scale()))
        return scaled

    setattr(torch.amp.GradScaler, "scale", remembered)  # noqa: B010  (a method, as far as types go)
    add = Optimizer.add_param_group

    def noted(self: Any, group: dict[str, Any]) -> None:
        add(self, group)
        recorder.know(self.param_groups[-1])

    setattr(Optimizer, "add_param_group", noted)  # noqa: B010  (the same)
    register_optimizer_step_post_hook(lambda optimizer, args, options: recorder.after_step(optimizer))


def _observe(recorder: Recorder, settings: Mapping[str, Any], stack: ExitStack) -> None:
    """What was asked for beyond curves."""
    from portkit.parity import _observe as observing
    from portkit.parity import _standin

    if settings.get("float16") or settings.get("standin"):
        os.environ["PORTKIT_CPU_FLOAT16"] = "1"
    if settings.get("noise"):
        recorder.rounding = observing.Rounding(settings["noise"])
        recorder.rounding.install()
    stack.enter_context(_standin.standing_in(settings.get("standin", False)))
    if settings.get("timeline"):
        from portkit.parity._profile import Profile

        recorder.profile = Profile(recorder.write, *settings["timeline"])
        recorder.profile.install()
        stack.callback(recorder.profile.close)
    if recorder.detailed:
        recorder.calls = observing.Calls(recorder.write)
        stack.enter_context(recorder.calls.install())


def _seed(value: int) -> None:
    import numpy as np
    import torch

    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def _run(script: str, arguments: Iterable[str]) -> None:
    """Run a script as `python script arguments` does."""
    sys.argv = [script, *arguments]
    sys.path[0:1] = [str(Path(script).resolve().parent)]
    runpy.run_path(script, run_name="__main__")


def main(argv: list[str]) -> int:
    """Run the script in argv[1] and record into argv[0]; returns the script's exit code."""
    sys.dont_write_bytecode = True  # a file that changes within a second would be taken for the old one
    record, script, *arguments = argv
    settings = json.loads(os.environ.get("PORTKIT_PARITY", "{}"))
    with Path(record).open("w", encoding="utf-8") as file, ExitStack() as stack:
        recorder = Recorder(file, settings)
        _watch(recorder)
        _observe(recorder, settings, stack)
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
