"""From a kernel and the kinds of its arguments to object code: the stages in order, each can be dumped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from portkit.errors import UsageError
from portkit.runtime.targets import Target, _llvm
from portkit.runtime.tile import cache, ir
from portkit.runtime.tile.signature import ArgSpec
from portkit.runtime.tile.stores import stored_params

if TYPE_CHECKING:
    from portkit.runtime.tile.jit import JitFunction

SUFFIXES = {"ir": "ir", "llvm": "ll", "asm": "s"}  # of the stages' files
STAGES = tuple(SUFFIXES)


@dataclass(frozen=True)
class Compiled:
    """Object code for one specialisation of a kernel, and what the launcher needs to know of it."""

    name: str
    entry: cache.Entry
    params: tuple[ir.Type, ...]  # of the run-time parameters, in order
    stored: frozenset[int]  # those that the kernel writes through
    from_cache: bool
    asserts: bool = False  # whether there is an assertion, checked or not


def optimised(kernel: JitFunction, specs: Sequence[ArgSpec], checked: bool = False) -> ir.Function:
    """The kernel's tile IR after all passes; valid before and after each.  Assertions stay in if `checked`.

    Raises KernelError where the kernel uses what the compiler does not take.
    """
    from portkit.runtime.tile import frontend, verify

    func = frontend.build(kernel, specs)
    verify.verify(func)
    return _through_passes(func, checked)


def _through_passes(func: ir.Function, checked: bool) -> ir.Function:
    from portkit.runtime.tile import verify
    from portkit.runtime.tile.passes import PIPELINE, unchecked

    func = func if checked else unchecked.run(func)
    for step in PIPELINE:
        func = step(func)
    verify.verify(func)
    return func


def compile_kernel(
    kernel: JitFunction, specs: Sequence[ArgSpec], target: Target, checked: bool = False
) -> Compiled:
    """Object code of a kernel for a target, from the cache on disk where it is there.

    `checked` leaves its assertions in.
    """
    from portkit.runtime.tile import frontend, verify

    built = frontend.build(kernel, specs)
    verify.verify(built)
    asserts = any(op.opcode == "assert" for op in built.walk())
    func = _through_passes(built, checked)
    text = ir.dump(func)
    key = cache.key_of(text, target.triple, target.cpu, target.features, target.abi, _llvm.versions())
    store = cache.shared()
    wanted = dumped()
    entry = None if wanted else store.get(key)
    hit = entry is not None
    if entry is None:
        entry = generate(func, text, target, wanted)
        store.put(key, entry)
    return Compiled(func.name, entry, tuple(p.type for p in func.params), stored_params(func), hit, asserts)


def generate(func: ir.Function, text: str, target: Target, wanted: frozenset[str]) -> cache.Entry:
    """Object code for optimised tile IR; `wanted` names the stages to write to the dump folder."""
    from portkit.runtime.tile.lower import lower

    lowered = lower(func, target)
    stem = f"{func.name}-{target.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    _dump("ir", wanted, stem, lambda: text)
    _dump("llvm", wanted, stem, lambda: lowered.text)
    module = _llvm.parse(target, lowered.text)
    machine = target.target_machine()
    _dump("asm", wanted, stem, lambda: str(machine.emit_assembly(module)))
    code = bytes(machine.emit_object(module))
    return cache.Entry(code, lowered.symbol, lowered.scratch_bytes)


def stages(kernel: JitFunction, specs: Sequence[ArgSpec], target: Target) -> dict[str, str]:
    """A kernel as text: tile IR (also under Triton's name `ttir`), LLVM IR, assembly."""
    from portkit.runtime.tile.lower import lower

    func = optimised(kernel, specs)
    text = ir.dump(func)
    lowered = lower(func, target)
    module = _llvm.parse(target, lowered.text)
    assembly = str(target.target_machine().emit_assembly(module))
    return {"ir": text, "ttir": text, "llir": lowered.text, "asm": assembly}


def dumped() -> frozenset[str]:
    """The stages that `PORTKIT_DUMP` names ("ir,llvm,asm"); raises UsageError for one that there is not."""
    return _stages(os.environ.get("PORTKIT_DUMP", ""))


@lru_cache(maxsize=8)
def _stages(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(names.difference(STAGES))
    if unknown:
        raise UsageError(
            f"PORTKIT_DUMP names the stage {unknown[0]!r}, which there is not",
            remedy=f"Stages are {', '.join(STAGES)}.",
        )
    return names


def _dump(stage: str, wanted: frozenset[str], stem: str, text: Callable[[], str]) -> None:
    if stage not in wanted:
        return
    folder = Path(os.environ.get("PORTKIT_DUMP_DIR", "portkit-dump"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.{SUFFIXES[stage]}").write_text(text(), encoding="utf-8")
