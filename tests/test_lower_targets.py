"""Code for every target: object code comes out, and it calls no library."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import test_lower as kernels
import test_lower_dot as products
from tile_harness import build, optimise

from portkit.runtime.targets import Target, targets
from portkit.runtime.tile import load
from portkit.runtime.tile.lower import lower

F32, F64 = np.zeros(9, np.float32), np.zeros(9, np.float64)
F16, I32, I64 = np.zeros(9, np.float16), np.zeros(9, np.int32), np.zeros(9, np.int64)
I8, I16 = np.zeros(9, np.int8), np.zeros(9, np.int16)
CASES: dict[str, tuple[Any, list[Any], dict[str, int]]] = {
    "softmax": (kernels.softmax2, [F32, F32, 64, 16, 64], {"BM": 8, "BN": 64}),
    "layernorm of f16": (kernels.layernorm, [F16, F16, F16, F16, F32, F32, 64, 64, 1e-5], {"BLOCK": 64}),
    "arg reductions": (kernels.argm, [F32, I32, F32, 30], {"BM": 8, "BN": 32}),
    "integers": (kernels.ints, [I32, I32, I32, 9], {"BLOCK": 16}),
    "long integers": (kernels.ints, [I64, I64, I64, 9], {"BLOCK": 16}),
    "casts": (kernels.casts, [F32, I16, I8, I64, F16, F64, 9], {"BLOCK": 64}),
    "casts of f64": (kernels.casts, [F64, I16, I8, I64, F16, F64, 9], {"BLOCK": 64}),
    "functions": (kernels.unary, [F32, F32, 9], {"BLOCK": 64}),
    "functions of f64": (kernels.unary, [F64, F64, 9], {"BLOCK": 64}),
    "functions of f16": (kernels.unary, [F16, F16, 9], {"BLOCK": 64}),
    "sin": (kernels.unary2, [F32, F32, 9], {"BLOCK": 64}),
    "atomics": (kernels.atom, [F32, F32, 9], {"BLOCK": 32}),
    "gather": (kernels.gather, [F16, I32, F16, 9], {"BLOCK": 64}),
    "matmul": (products.matmul, [F32, F32, F32, *[16] * 9], {"BM": 16, "BN": 32, "BK": 16}),
    "flash": (products.flash, [F32, F32, F32, F32, 16, 0.5], {"BM": 16, "BN": 16, "D": 32}),
}
X86 = targets()["x86_64"]
TARGETS = {**targets(), "x86_64-sse2": X86.configure(X86.triple, "x86-64", "+sse2")}


def undefined(code: bytes) -> set[str]:
    """Names that an ELF64 object expects from elsewhere."""
    assert code[:5] == b"\x7fELF\x02"
    order = "<" if code[5] == 1 else ">"
    (table,) = struct.unpack_from(f"{order}Q", code, 40)
    size, count = struct.unpack_from(f"{order}HH", code, 58)
    sections = [struct.unpack_from(f"{order}IIQQQQIIQQ", code, table + size * k) for k in range(count)]
    found: set[str] = set()
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, index = struct.unpack_from(f"{order}IBBH", code, at)
            if index == 0 and name:
                end = code.index(b"\0", strings + name)
                found.add(code[strings + name : end].decode())
    return found - {".TOC."}  # a table of the linker's on POWER


@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_no_library_is_called(target: Target, case: str) -> None:
    kernel, args, constants = CASES[case]
    lowered = lower(optimise(build(kernel, args, constants)), target)
    assert undefined(load.text_to_code(lowered.text, target)) == set()


def test_undefined_symbols_are_seen() -> None:
    body = "define float @f(float %x) {\n  %y = call float @expf(float %x)\n  ret float %y\n}\n"
    text = f"declare float @expf(float)\n{body}"
    assert undefined(load.text_to_code(text, X86)) == {"expf"}
