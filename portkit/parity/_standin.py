"""A stand-in for CUDA in a child process, so that the program from before the migration runs on a CPU.

Calls that name a CUDA device work on the CPU, `torch.cuda` does nothing, and the few packages that exist for
CUDA alone are replaced by torch's own modules.  Tensors say that they are on CUDA, for programs assert it;
`torch.cuda.is_available()` says no, so that a program that has a way without CUDA takes it.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_SILENT = ("nvtx.range_push", "nvtx.range_pop", "nvtx.mark", "set_device", "synchronize", "empty_cache")
_NOUGHT = ("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved",
           "max_memory_reserved", "nvtx.range_start")  # fmt: skip
_RESETS = ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached", "ipc_collect",
           "nvtx.range_end", "init")  # fmt: skip


def on_cpu(value: Any) -> Any:
    """What stands for a device: the CPU in the place of a CUDA device, anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return value


class OnCpu(TorchFunctionMode):
    """Every call of torch, with CUDA devices among its arguments replaced by the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name == "cuda" and args and isinstance(args[0], torch.Tensor):
            return args[0]
        if name == "__get__" and getattr(func, "__self__", None) is torch.Tensor.is_cuda:
            return True
        if name == "pin_memory" and args and isinstance(args[0], torch.Tensor):
            return args[0]
        if name in ("type", "is_pinned"):
            return func(*args, **(kwargs or {}))
        plain = {key: on_cpu(value) for key, value in (kwargs or {}).items()}
        if plain.get("pin_memory"):
            plain["pin_memory"] = False
        return func(*[on_cpu(value) for value in args], **plain)


class Stream:
    """A stream, an event or a guard that does nothing; whatever it is asked, it is done at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.device = torch.device("cuda")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def elapsed_time(self, other: object) -> float:
        return 0.0

    def query(self) -> bool:
        return True

    def _done(self, *args: Any, **options: Any) -> None:
        return None

    record = wait = synchronize = wait_stream = wait_event = record_event = _done


def install() -> OnCpu:
    """Put the stand-in in place; the mode that is returned has to be entered."""
    cuda = torch.cuda
    for names, answer in ((_SILENT, None), (_NOUGHT, 0), (_RESETS, None)):
        for name in names:
            _put(cuda, name, _answering(answer))
    for name in ("Stream", "Event", "stream", "device", "device_of"):
        setattr(cuda, name, Stream)
    for name in ("current_stream", "default_stream"):
        setattr(cuda, name, lambda *args, **options: Stream())
    cuda.device_count = lambda: 0
    cuda.get_device_name = lambda *args: "stand-in"
    cuda.get_device_capability = lambda *args: (8, 0)
    cuda.is_bf16_supported = lambda *args, **options: True
    _mapped(torch.amp.autocast_mode.autocast, "__init__")
    _mapped(torch.amp.GradScaler, "__init__")
    _loading()
    _packages()
    return OnCpu()


def _answering(value: Any) -> Callable[..., Any]:
    return lambda *args, **options: value


def _put(owner: Any, path: str, value: Any) -> None:
    *folders, name = path.split(".")
    for folder in folders:
        owner = getattr(owner, folder)
    setattr(owner, name, value)


def _mapped(owner: Any, name: str) -> None:
    """Let a method take the CPU where it is given a CUDA device."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def mapped(self: Any, *args: Any, **options: Any) -> Any:
        plain = {key: on_cpu(value) for key, value in options.items()}
        if owner is torch.amp.GradScaler and not args and "device" not in plain:
            plain["device"] = "cpu"
        return method(self, *[on_cpu(value) for value in args], **plain)

    setattr(owner, name, mapped)


def _loading() -> None:
    load = torch.load

    @functools.wraps(load)
    def mapped(*args: Any, **options: Any) -> Any:
        options["map_location"] = "cpu"
        return load(*args, **options)

    torch.load = mapped


# --- packages -------------------------------------------------------------------------------------------


def _packages() -> None:
    if not _found("apex"):
        _apex()
    if not _found("triton") or not torch.cuda.is_available():
        _triton()


def _found(name: str) -> bool:
    with contextlib.suppress(ImportError, ValueError):
        return importlib.util.find_spec(name) is not None
    return False


def _module(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(members, __path__=[])
    sys.modules[name] = module
    owner, _, last = name.rpartition(".")
    if owner:
        setattr(sys.modules[owner], last, module)
    return module


def _apex() -> None:
    """apex's norms are those of torch, computed in one kernel."""
    nn = torch.nn
    options = ("memory_efficient",)

    def named(name: str, base: type) -> type:
        def build(self: Any, *args: Any, **given: Any) -> None:
            base.__init__(self, *args, **{k: v for k, v in given.items() if k not in options})  # type: ignore[misc]

        return type(name, (base,), {"__init__": build, "__module__": "apex.normalization"})

    norms = {
        name: named(name, base)
        for name, base in (
            ("FusedLayerNorm", nn.LayerNorm),
            ("MixedFusedLayerNorm", nn.LayerNorm),
            ("FusedRMSNorm", nn.RMSNorm),
            ("MixedFusedRMSNorm", nn.RMSNorm),
        )
    }
    _module("apex")
    _module("apex.normalization", **norms)
    _module("apex.normalization.fused_layer_norm", **norms)


def _triton() -> None:
    """Triton's kernels, compiled for the CPU, for the program's own files; torch looks for the real one."""
    import portkit.runtime.triton as ours

    real = builtins.__import__
    root = os.getcwd()

    def imported(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> types.ModuleType:
        file = str((globals or {}).get("__file__") or "")
        if level or name.partition(".")[0] != "triton" or not os.path.abspath(file).startswith(root):
            return real(name, globals, locals, fromlist, level)
        if name == "triton" or not fromlist:
            return ours
        return real(
            f"portkit.runtime.{name}".replace(".triton.language", ".tile.language"), fromlist=fromlist
        )

    builtins.__import__ = imported


@contextlib.contextmanager
def standing_in(wanted: bool) -> Iterator[None]:
    """The stand-in while the block runs, if it is wanted."""
    with install() if wanted else contextlib.nullcontext():
        yield
