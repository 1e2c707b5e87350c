"""Each feature that `language.toml` declares compiles and runs: what the scanner promises of kernels holds.

A name without a snippet of its own is tried as a function of one tile, then of two.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portkit.errors import KernelError
from portkit.runtime import triton
from portkit.runtime.tile.frontend import introspect

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = tomllib.loads(introspect.TABLE.read_text(encoding="utf-8"))

# A kernel has: x, y (float32), i, j (int32), m (int1), all of 16 items; s, a scalar;
# q, of 4 x 4; p, of 16 x 16; w (uint32); x_ptr, i_ptr, o_ptr.
HEAD = """\
import portkit.runtime.triton as triton
import portkit.runtime.tile.language as tl
from portkit.runtime.tile.language.extra import libdevice
from portkit.runtime.tile.language.extra import cuda as extra

@triton.jit
def both(a, b):
    return a + b

@triton.jit
def either(a, b):
    return a | b

@triton.jit
def kernel(x_ptr, i_ptr, o_ptr, N: tl.constexpr):
    r = tl.arange(0, 16)
    x = tl.load(x_ptr + r)
    y = x * 0.5 + 0.125
    i = tl.load(i_ptr + r)
    j = i + 3
    m = x < 0.5
    s = tl.load(x_ptr)
    q = tl.reshape(x, (4, 4))
    p = tl.reshape(tl.load(x_ptr + tl.arange(0, 256) % 16), (16, 16))
    w = tl.full((16,), 7, tl.uint32)
"""
TAIL = "    tl.store(o_ptr + r, (z + tl.zeros((16,), tl.float32)).to(tl.float32))\n"

# expression or statements that end with `z = ...`, which fits 16 floats
SNIPPETS = {
    "advance": "z = tl.load(tl.advance(tl.make_block_ptr(x_ptr, (16,), (1,), (0,), (16,), (0,)), (0,)))",
    "arange": "z = tl.arange(0, 16)",
    "argmax": "z = tl.argmax(x, 0)",
    "argmin": "z = tl.argmin(x, 0)",
    "associative_scan": "z = tl.associative_scan(x, 0, both)",
    "assume": "tl.assume(N > 0)\nz = x",
    **{f"atomic_{name}": f"tl.atomic_{name}(i_ptr + r, i)\nz = x" for name in ("and", "or", "xor", "xchg")},
    **{f"atomic_{name}": f"tl.atomic_{name}(i_ptr + r, i)\nz = x" for name in ("add", "max", "min")},
    "atomic_cas": "tl.atomic_cas(i_ptr + r, i, j)\nz = x",
    "broadcast": "z = tl.sum(tl.broadcast(q, tl.sum(q, 0)[None, :])[0])",
    "broadcast_to": "z = tl.broadcast_to(s, (16,))",
    "cast": "z = tl.cast(i, tl.float32)",
    "cat": "z = tl.sum(tl.reshape(tl.cat(x, y), (2, 16)), 0)",
    "xor_sum": "z = x + tl.xor_sum(i)",
    "cdiv": "z = tl.cdiv(i, 4)",
    "clamp": "z = tl.clamp(x, 0.2, 0.8)",
    "constexpr": "c: tl.constexpr = N + 1\nz = x + c",
    "cumprod": "z = tl.cumprod(x, 0)",
    "cumsum": "z = tl.cumsum(x, 0)",
    "debug_barrier": "tl.debug_barrier()\nz = x",
    "device_assert": "tl.device_assert(s < 100.0)\nz = x",
    "dot": "z = tl.sum(tl.dot(p, p), 0)",
    "expand_dims": "z = tl.sum(tl.expand_dims(x, 0), 0)",
    "fma": "z = tl.fma(x, y, x)",
    "full": "z = tl.full((16,), 1.5, tl.float32)",
    "gather": "z = tl.gather(x, i & 15, 0)",
    "histogram": "z = tl.histogram(i & 15, 16)",
    "interleave": "z = tl.sum(tl.interleave(x, y), 0)",
    "isfinited": "z = libdevice.isfinited(x.to(tl.float64)).to(tl.float32)",
    "join": "z = tl.sum(tl.join(x, y), 1)",
    "load": "z = tl.load(x_ptr + r, mask=m, other=0.0)",
    "load_tensor_descriptor": (
        "z = tl.load_tensor_descriptor(tl.make_tensor_descriptor(x_ptr, [16], [1], [16]), [0])"
    ),
    "logical_and": "z = tl.logical_and(m, m).to(tl.float32)",
    "logical_or": "z = tl.logical_or(m, m).to(tl.float32)",
    "make_block_ptr": "z = tl.load(tl.make_block_ptr(x_ptr, (16,), (1,), (0,), (16,), (0,)))",
    "make_tensor_descriptor": "z = tl.make_tensor_descriptor(x_ptr, [16], [1], [16]).load([0])",
    "max": "z = tl.max(x, 0)",
    "max_constancy": "z = tl.max_constancy(i, 1)",
    "max_contiguous": "z = tl.max_contiguous(i, 1)",
    "min": "z = tl.min(x, 0)",
    "multiple_of": "z = tl.multiple_of(i, 1)",
    "num_programs": "z = x + tl.num_programs(0)",
    "pair_uniform_to_normal": "a, b = tl.pair_uniform_to_normal(x, y)\nz = a + b",
    "permute": "z = tl.reshape(tl.permute(q, (1, 0)), (16,))",
    "philox": "a, b, c, d = tl.philox(1, w, w, w, w)\nz = a.to(tl.float32)",
    "pointer_type": "a = tl.load(i_ptr.to(tl.pointer_type(tl.float32)) + r)\nz = x",
    "program_id": "z = x + tl.program_id(0)",
    "rand": "z = tl.rand(1, i)",
    "rand4x": "a, b, c, d = tl.rand4x(1, i)\nz = a + d",
    "randint": "z = tl.randint(1, i).to(tl.float32)",
    "randint4x": "a, b, c, d = tl.randint4x(1, i)\nz = a.to(tl.float32)",
    "randn": "z = tl.randn(1, i)",
    "randn4x": "a, b, c, d = tl.randn4x(1, i)\nz = a + d",
    "range": "z = x\nfor k in tl.range(0, 4):\n    z += k",
    "ravel": "z = tl.ravel(q)",
    "reduce": "z = tl.reduce(x, 0, both)",
    "reduce_or": "z = tl.reduce_or(i, 0)",
    "reshape": "z = tl.reshape(q, (16,))",
    "dot_scaled": (
        "b = tl.zeros((16, 32), tl.uint8)\nu = tl.zeros((16, 1), tl.uint8)\n"
        "z = x + tl.sum(tl.sum(tl.dot_scaled(b, u, 'e4m3', tl.trans(b), u, 'e5m2'), 0), 0)"
    ),
    "sort": "z = tl.sort(x)",
    "topk": "z = tl.sum(tl.topk(x, 4), 0) + x",
    "map_elementwise": "z = tl.map_elementwise(both, x, y)",
    "device_print": "z = x\ntl.device_print('x', x)",
    "split": "a, b = tl.split(tl.join(x, y))\nz = a + b",
    "static_assert": "tl.static_assert(N == 4)\nz = x",
    "static_print": "tl.static_print(N)\nz = x",
    "static_range": "z = x\nfor k in tl.static_range(4):\n    z += k",
    "store": "tl.store(o_ptr + r, x, mask=m)\nz = x",
    "store_tensor_descriptor": (
        "d = tl.make_tensor_descriptor(o_ptr, [16], [1], [16])\ntl.store_tensor_descriptor(d, [0], x)\nz = x"
    ),
    "sum": "z = tl.sum(x, 0)",
    "swizzle2d": "a, b = tl.swizzle2d(i, j, 4, 4, 2)\nz = a + b",
    "trans": "z = tl.reshape(tl.trans(q), (16,))",
    "uint_to_uniform_float": "z = tl.uint_to_uniform_float(w)",
    "umulhi": "z = tl.umulhi(i, j)",
    "view": "z = tl.view(q, (16,))",
    "where": "z = tl.where(m, x, y)",
    "zeros": "z = tl.zeros((16,), tl.float32)",
    "zeros_like": "z = tl.zeros_like(x)",
    "to": "z = i.to(tl.float32)",
    "gdc_wait": "extra.gdc_wait()\nz = x",
    "gdc_launch_dependents": "extra.gdc_launch_dependents()\nz = x",
}
INTEGERS = frozenset(
    {
        "cdiv",
        "multiple_of",
        "max_constancy",
        "max_contiguous",
        "umulhi",
        "histogram",
        "reduce_or",
        "popc",
        "clz",
        "ffs",
    }
)
ATTRIBUTES = {
    "T": "z = tl.reshape(q.T, (16,))",
    "dtype": "z = i.to(x.dtype)",
    "numel": "z = x + x.numel",
    "shape": "z = x + x.shape[0]",
    "type": "z = x + x.type.scalar.primitive_bitwidth",
    "element_ty": "z = tl.load(x_ptr + r).to(x_ptr.dtype.element_ty)",
    "scalar": "z = i.to(x.type.scalar)",
    "name": "tl.static_assert(x.dtype.name == 'fp32')\nz = x",
}
BUILTINS = {
    "abs": "z = abs(x)",
    "bool": "z = x + bool(N)",
    "float": "z = x + float(N)",
    "getattr": "z = getattr(tl, 'exp')(x)",
    "hasattr": "tl.static_assert(hasattr(tl, 'exp') and not hasattr(tl, 'expp'))\nz = x",
    "int": "z = x + int(N)",
    "isinstance": "tl.static_assert(isinstance(4, int))\nz = x",
    "len": "z = x + len(x.shape)",
    "list": "z = x + list((1, 2))[0]",
    "max": "z = x + max(N, 2)",
    "min": "z = x + min(N, 2)",
    "print": "z = x\nprint('x', N)",
    "round": "z = x + round(2.5)",
    "str": "tl.static_assert(str(4) == '4')\nz = x",
    "sum": "z = x + sum((1, 2))",
    "tuple": "z = x + tuple((1, 2))[0]",
}
SYNTAX = {
    "AnnAssign": "c: tl.constexpr = 3\nz = x + c",
    "Assert": "assert N == 4, 'four'\nz = x",
    "Assign": "z = x",
    "Attribute": "z = x + q.shape[0]",
    "AugAssign": "z = x\nz += y",
    "BinOp": "z = x + y * x - y / (x + 1)",
    "BoolOp": "z = x\nif N == 4 and N > 2:\n    z = y",
    "Call": "z = both(x, y)",
    "Compare": "z = (x < y).to(tl.float32)",
    "Constant": "z = x + 1",
    "Expr": "tl.static_print(1)\nz = x",
    "For": "z = x\nfor k in range(3):\n    z += k",
    "If": "z = x\nif s > 0.5:\n    z = y",
    "IfExp": "z = x if N == 4 else y",
    "JoinedStr": "tl.static_assert(N == 4, f'{N} is not 4')\nz = x",
    "List": "z = tl.reshape(q, [16])",
    "Name": "z = x",
    "NamedExpr": "z = x\nif (c := N) == 4:\n    z += c",
    "Pass": "if N == 4:\n    pass\nz = x",
    "Raise": "if N != 4:\n    raise ValueError('four')\nz = x",
    "Return": "z = x\nif N != 4:\n    return",
    "Subscript": "z = tl.sum(x[None, :], 0)",
    "Tuple": "a, b = (x, y)\nz = a + b",
    "UnaryOp": "z = -x",
    "While": "z = x\nk = 0\nwhile k < 3:\n    z += k\n    k += 1",
}


def tries(name: str, call: str, extra: str = "") -> list[str]:
    """The bodies to try for a function spelled `call`; a snippet of its own is the only one."""
    if name in SNIPPETS:
        return [SNIPPETS[name].replace(f"tl.{name}(", f"{call}(")]
    first = "i" if name in INTEGERS else "x"
    return [f"z = {call}({first}){extra}", f"z = {call}(x, y){extra}", f"z = {call}(x, y, x){extra}"]


def _end_of_argument(text: str) -> int:
    depth = 0
    for position, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if (character == "," and depth == 0) or depth < 0:
            return position
    raise AssertionError(text)


def methods(name: str) -> list[str]:
    """A method is the function of the same name on its first argument."""
    if name == "to":
        return [SNIPPETS["to"]]
    if name in SNIPPETS:
        before, _, rest = SNIPPETS[name].partition(f"tl.{name}(")
        end = _end_of_argument(rest)
        more = rest[end + 1 :].lstrip() if rest[end] == "," else rest[end:]
        return [f"{before}({rest[:end]}).{name}({more}"]
    return [f"z = x.{name}()", f"z = x.{name}(y)", f"z = x.{name}(y, x)"]


def _cases() -> list[Any]:
    found = [("functions", name, tries(name, f"tl.{name}")) for name in TABLE["functions"]]
    found += [("math", name, tries(name, f"tl.math.{name}")) for name in TABLE["math"]]
    found += [("libdevice", name, tries(name, f"libdevice.{name}")) for name in TABLE["libdevice"]]
    found += [("extra", name, tries(name, f"extra.{name}")) for name in TABLE["extra"]]
    found += [("methods", name, methods(name)) for name in TABLE["methods"]]
    found += [("attributes", name, [ATTRIBUTES[name]]) for name in TABLE["attributes"]]
    found += [("type_attributes", name, _of_type(name)) for name in TABLE["type_attributes"]]
    found += [("dtypes", name, [f"z = i.to(tl.{name}).to(tl.float32)"]) for name in TABLE["dtypes"]]
    found += [("builtins", name, [BUILTINS[name]]) for name in TABLE["builtins"]]
    found += [("syntax", name, [SYNTAX[name]]) for name in TABLE["syntax"]]
    return [pytest.param(bodies, id=f"{section}-{name}") for section, name, bodies in found]


def _of_type(name: str) -> list[str]:
    if name in ATTRIBUTES:
        return [ATTRIBUTES[name]]
    return [
        f"z = x + x.dtype.{name}",
        f"z = x\nif x.dtype.{name}():\n    z = y",
        f"z = x + x.type.{name}[0]",
        f"z = x + x.type.{name}",
    ]


def _run(body: str, folder: Path) -> None:
    path = folder / f"kernel_{abs(hash(body))}.py"
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    path.write_text(HEAD + lines + TAIL)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = np.full(16, -99.0, np.float32)
    module.kernel[(1,)](np.linspace(0.1, 0.9, 16, dtype=np.float32), np.arange(16, dtype=np.int32), out, N=4)
    assert not (out == -99.0).any()


@pytest.mark.parametrize("bodies", _cases())
def test_each_declared_feature_compiles_and_runs(bodies: list[str], tmp_path: Path) -> None:
    said = [_refusal(body, tmp_path) for body in bodies]
    assert "" in said, "\n".join(said)


def _refusal(body: str, folder: Path) -> str:
    """What the compiler says against a kernel; empty if it runs."""
    try:
        _run(body, folder)
    except KernelError as error:
        return f"{body}\n{error}"
    return ""


@pytest.mark.parametrize("name", TABLE["triton"])
def test_each_name_of_triton_is_there(name: str) -> None:
    assert hasattr(triton, name)


@pytest.mark.parametrize("name", sorted(TABLE["refused"]))
def test_what_is_refused_is_in_no_list(name: str) -> None:
    assert not [key for key, names in TABLE.items() if isinstance(names, list) and name in names]


def test_a_kernel_with_something_that_is_not_declared_does_not_compile(tmp_path: Path) -> None:
    for body in ("z = tl.no_such_function(x)", "z = x.double()", "z = sum([k for k in range(3)]) + x"):
        with pytest.raises(KernelError):
            _run(body, tmp_path)
