"""What this machine can run, found by trying it: compiler, targets, torch and its devices, threads, cache."""

from __future__ import annotations

import importlib
import os
import platform
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import portkit
from portkit.errors import PortkitError

Report = dict[str, Any]
Problems = list[dict[str, str]]
OLDEST_TORCH = (2, 6)
FEATURES = (  # of processors, that decide how fast kernels are; by LLVM's names
    *("avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512bf16", "avx512fp16"),
    *("avx512vnni", "amx-tile", "amx-bf16", "amx-int8"),
    *("neon", "fullfp16", "bf16", "dotprod", "i8mm", "sve", "sve2", "sme"),
    *("v", "zvl256b", "zvl512b", "zvfh", "lsx", "lasx"),
)
_ADD = """
define void @add(ptr %a, ptr %b) {{
  %x = load <{n} x float>, ptr %a, align 4
  %y = load <{n} x float>, ptr %b, align 4
  %z = fadd <{n} x float> %x, %y
  store <{n} x float> %z, ptr %a, align 4
  ret void
}}
"""


def examine() -> Report:
    """The whole report, as plain data: one entry for each part, and `problems` with their remedies.

    A part that fails is reported and ends nothing.
    """
    problems: Problems = []
    parts: dict[str, Callable[[Problems], Report]] = {
        "software": _software,
        "processor": _processor,
        "targets": _targets,
        "torch": _torch,
        "threads": _threads,
        "cache": _cache,
        "kernels": _kernels,
    }
    report: Report = {"schema_version": 1}
    for name, part in parts.items():
        report[name] = _tried(name, part, problems)
    report["problems"] = problems
    return report


def _tried(name: str, part: Callable[[Problems], Report], problems: Problems) -> Report:
    try:
        return part(problems)
    except PortkitError as error:
        _add(problems, "error", error.message, error.remedy)
        return {"error": error.message}
    except (ImportError, OSError, RuntimeError) as error:
        _add(problems, "error", f"{name} can't be examined: {error}", _REMEDIES.get(name, ""))
        return {"error": f"{type(error).__name__}: {error}"}


_REMEDIES = {
    "processor": "Install the compiler again: pip install --force-reinstall llvmlite.",
    "targets": "Install the compiler again: pip install --force-reinstall llvmlite.",
    "torch": "Install torch again: pip install --force-reinstall 'portkit[torch]'.",
    "kernels": "PORTKIT_INTERPRET=1 runs kernels without the compiler.",
}


def _add(problems: Problems, severity: str, message: str, remedy: str) -> None:
    entry = {"severity": severity, "message": message, "remedy": remedy}
    if message not in [p["message"] for p in problems]:
        problems.append(entry)


def _software(problems: Problems) -> Report:
    return {
        "portkit": portkit.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        **{name: _version(name) for name in ("numpy", "llvmlite", "libcst", "torch")},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor(problems: Problems) -> Report:
    from portkit.runtime.devices import processor_name
    from portkit.runtime.targets import _llvm, host

    target = host()
    if not target.vector_feature:
        remedy = "Check PORTKIT_CPU_FEATURES." if "PORTKIT_CPU_FEATURES" in os.environ else ""
        _add(problems, "warning", "no vector unit that portkit knows: kernels will be slow", remedy)
    return {
        "name": processor_name(),
        "target": target.name,
        "cpu": target.cpu,
        "compiler": _llvm.versions(),
        "vector_bits": target.vector_bits,
        "vector_registers": target.registers,
        "f16_arithmetic": target.native_f16,
        "bf16_conversion": target.native_bf16,
        "features": [name for name in FEATURES if target.has(name)],
    }


def _targets(problems: Problems) -> Report:
    from portkit.runtime.targets import targets

    found: Report = {}
    for name, target in targets().items():
        text = _ADD.format(n=target.lanes(32))
        found[name] = {
            "emits": "add" in target.assembly(text),
            "runs_here": target.runs_here,
            "vector_bits": target.vector_bits,
        }
    return found


def _torch(problems: Problems) -> Report:
    from portkit.runtime import devices, distributed

    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        remedy = "To train migrated code: pip install 'portkit[torch]'."
        _add(
            problems,
            "info",
            "torch is not installed; scanning, migrating and tile kernels work without",
            remedy,
        )
        return {"version": None, "devices": []}
    numbers = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if numbers < OLDEST_TORCH:
        _add(
            problems, "error", f"torch {torch.__version__} is too old", "pip install --upgrade 'torch>=2.6'."
        )
        return {"version": torch.__version__, "devices": []}
    if torch.backends.cuda.is_built() and not devices.is_available():
        _add(
            problems,
            "info",
            "torch is a CUDA build but sees no GPU: everything runs on the CPU",
            "If there is a GPU, check its driver; if not, torch's CPU build is smaller.",
        )
    count = devices.device_count()
    named = [
        {"type": devices.device_type(), "index": i, "name": devices.device_name(i)} for i in range(count)
    ]
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "device": devices.device_type(),
        "devices": named,
        "bf16": devices.is_bf16_supported(),
        "distributed_backend": distributed.distributed_backend(),
        "threads": torch.get_num_threads(),
    }


def _threads(problems: Problems) -> Report:
    from portkit.runtime.tile import threads

    team = threads.current()
    return {"kind": team.kind, "threads": team.size(), "processors": threads.processors()}


def _cache(problems: Problems) -> Report:
    from portkit.runtime.tile import cache

    store = cache.shared()
    files = store.files()
    writable = store.folder is not None and _writable(store.folder)
    if not writable:
        message = f"compiled kernels can't be kept in {store.folder}: each process compiles its own"
        _add(problems, "warning", message, "Set PORTKIT_CACHE_DIR to a folder that can be written.")
    return {
        "folder": None if store.folder is None else str(store.folder),
        "writable": writable,
        "entries": len(files),
        "bytes": sum(size for _, size, _ in files),
        "limit": store.limit,
    }


def _writable(folder: Any) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _kernels(problems: Problems) -> Report:
    """Compile a kernel, run it, and look at the result."""
    import numpy as np

    from portkit.runtime.tile import jit
    from portkit.runtime.tile.checkup_kernel import double

    if jit.interpreting():
        _add(problems, "warning", "kernels run in the interpreter, which is slow", "Unset PORTKIT_INTERPRET.")
    x = np.arange(1000, dtype=np.float32)
    y = np.zeros_like(x)
    double[(4,)](x, y, 1000, 256)
    right = bool((y == 2 * x).all())
    if not right:
        _add(
            problems, "error", "a compiled kernel gives a wrong result", "Please report this with the output."
        )
    return {"interpreted": jit.interpreting(), "result_is_right": right}


def render(report: Report) -> str:
    """The report for a terminal."""
    rows = [
        line for name in report if name not in ("schema_version", "problems") for line in _part(name, report)
    ]
    problems = report["problems"]
    rows.append("problems" if problems else "no problems")
    for problem in problems:
        rows.append(f"  {problem['severity']}: {problem['message']}")
        rows += [f"    {problem['remedy']}"] if problem["remedy"] else []
    return "\n".join(rows)


def _part(name: str, report: Report) -> list[str]:
    rows = [name]
    for key, value in report[name].items():
        label = key if name == "targets" else key.replace("_", " ")
        rows.append(f"  {label:<20} {_text(value)}")
    return rows


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key.replace('_', ' ')}: {_text(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return (
            "; ".join(_text(inner) for inner in value)
            if value and isinstance(value[0], dict)
            else " ".join(value) or "none"
        )
    return str(value)
