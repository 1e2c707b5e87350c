"""Tile IR to LLVM IR: the text of one function that runs a range of block programs."""

from __future__ import annotations

from dataclasses import dataclass

from portkit.runtime.targets import Target
from portkit.runtime.tile import ir


@dataclass(frozen=True)
class Lowered:
    """LLVM IR text that defines `void @symbol(ptr args, i64 begin, i64 end, ptr scratch)`.

    `args` points to 8-byte slots: grid x, y, z, then the parameters; `scratch` to `scratch_bytes` of memory,
    aligned to 64 bytes, that no other thread uses.
    """

    text: str
    symbol: str
    scratch_bytes: int


def lower(func: ir.Function, target: Target) -> Lowered:
    """Lowers a verified function; raises KernelError for what the compiler can't do, with its place."""
    from portkit.runtime.tile.lower.program import ABI, Program

    program = Program(func, target)
    program.run()
    symbol = "".join(c if c.isalnum() and c.isascii() else "_" for c in func.name)
    body = program.code.text(f"void @{symbol}({ABI}) #0")
    text = "\n".join(
        [
            f'target triple = "{target.triple}"',
            *sorted(program.code.declarations),
            *program.globals,
            body,
            "attributes #0 = { nounwind }",
            "",
        ]
    )
    return Lowered(text, symbol, program.arena.peak)
