"""Programs that import Triton get portkit's modules within `as_triton`; then what was there is back."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
import types
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portkit.runtime.tile.language as tl
import portkit.runtime.triton as triton
from portkit.errors import KernelError, UsageError
from portkit.runtime.tile import as_triton, native
from portkit.runtime.tile.descriptor import TensorDescriptor
from portkit.runtime.tile.jit import interpreted

ROOT = Path(__file__).parent.parent

SCRIPT = """
import sys
import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda.libdevice import exp2
from triton.runtime.jit import JITFunction

@triton.autotune([triton.Config({"BLOCK": 32})], key=["n"])
@triton.jit
def scale(x, n, a, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, libdevice.floor(tl.load(x + i, mask=i < n) * a), mask=i < n)

x = np.arange(50, dtype=np.float32)
scale[lambda meta: (triton.cdiv(50, meta["BLOCK"]),)](x, 50, 1.5)
assert (x == np.floor(np.arange(50) * 1.5)).all()
assert triton.runtime.driver.active.get_current_target().backend == "cpu"
print(sys.argv[1:], __name__)
"""


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "portkit.run", *arguments]
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "PORTKIT_CACHE_DIR": str(cwd / "cache")}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env)


def test_a_script_runs_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    for how in (["script.py"], ["-m", "script"]):
        done = run(*how, "--size", "3", cwd=tmp_path)
        assert done.stdout == "['--size', '3'] __main__\n", done.stderr


def test_without_a_script(tmp_path: Path) -> None:
    done = run("nothing.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no file nothing.py" in done.stderr
    assert "Traceback" not in done.stderr
    assert run(cwd=tmp_path).returncode == 2


def test_what_was_installed_is_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = types.ModuleType("triton")
    monkeypatch.setitem(sys.modules, "triton", theirs)
    monkeypatch.setitem(sys.modules, "triton.theirs", types.ModuleType("triton.theirs"))
    with contextlib.suppress(KeyError), as_triton() as ours:
        assert importlib.import_module("triton") is ours is triton
        assert importlib.import_module("triton.language") is tl
        with pytest.raises(ImportError):
            importlib.import_module("triton.theirs")
        assert not native._has_driver()  # nothing goes back and forth between ours and itself
        raise KeyError
    assert sys.modules["triton"] is theirs
    assert "triton.theirs" in sys.modules
    assert "triton.language" not in sys.modules


@pytest.mark.parametrize(
    "name",
    [
        *("triton.language.core", "triton.language.standard", "triton.language.math"),
        *("triton.language.extra.libdevice", "triton.language.extra.cpu.libdevice"),
        *("triton.runtime.driver", "triton.runtime.autotuner", "triton.backends.compiler"),
        *("triton.compiler.errors", "triton.tools.tensor_descriptor", "triton.testing", "triton.knobs"),
    ],
)
def test_modules_that_libraries_import(name: str) -> None:
    with as_triton():
        assert importlib.import_module(name).__doc__


def test_core_has_the_language() -> None:
    assert tl.core.load is tl.load
    assert tl.standard.sum is tl.sum
    assert tl.str_to_ty("*fp16", None) == tl.pointer_type(tl.float16)
    assert tl.dtype("fp32") == tl.float32
    assert tl.bfloat16.is_bf16()
    assert tl.float8e5.is_fp8()
    assert tl.uint8.is_int_unsigned()
    assert tl.uint8.is_int()
    assert not tl.float16.is_int()
    assert not tl.float32.is_fp16()
    assert repr(tl.float8e5) == "triton.language.float8e5"
    with pytest.raises(AttributeError):
        _ = tl.core.nothing_of_the_kind


# --- launching -------------------------------------------------------------------------------------

Pair = namedtuple("Pair", ["array", "factor"])


@triton.jit
def in_tuples(out, pair, ints, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(pair.array + i) * pair.factor + ints[0] * ints[1][0])


@pytest.fixture(params=["compiled", "interpreted"])
def mode(request: pytest.FixtureRequest) -> Any:
    with interpreted(request.param == "interpreted"):
        yield request.param


def test_tuples_as_arguments(mode: str) -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for ints in ((3, (5,)), (1, (16,))):
        in_tuples[(1,)](out, Pair(x, 2.0), ints, 8)
        np.testing.assert_array_equal(out, x * 2 + ints[0] * ints[1][0])


@triton.jit
def typed(out, a: tl.int64, b: tl.float64):
    tl.static_assert(a.dtype == tl.int64 and b.dtype == tl.float64)
    tl.store(out, a * 2 + b)


def test_annotations_give_numbers_their_type(mode: str) -> None:
    out = np.zeros(1, np.float64)
    for _ in range(2):
        typed[(1,)](out, 2**30, 0.1)
        assert out[0] == 2**31 + 0.1


@triton.jit
def add(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) + 1)


def test_the_handle_of_a_launch_launches_again() -> None:
    x, out = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    handle = add.run(out, x, N=16, grid=(1,))
    assert "addptr" in handle.asm["ttir"]
    other = np.zeros(16, np.int32)
    handle[(1, 1, 1)](other, x)
    np.testing.assert_array_equal(other, x + 1)
    handle[(1, 1, 1)](other, other, 16)
    np.testing.assert_array_equal(other, x + 2)
    assert add.arg_names == ["out", "x", "N"]
    assert add.params[2].is_constexpr
    assert add.src.startswith("def add(")
    ahead = triton.compile(
        triton.compiler.ASTSource(add, {"out": "*i32", "x": "*i32", "N": "constexpr"}, {(2,): 16})
    )
    assert ahead.compiled.params == handle.compiled.params


@triton.jit
def template(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, EXPRESSION)  # noqa: F821


def test_another_text_for_a_kernel() -> None:
    x, out = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    for factor in (3, 5):
        kernel = triton.JITFunction(template.fn)
        kernel._unsafe_update_src(kernel.src.replace("EXPRESSION", f"tl.load(x + i) * {factor}"))
        kernel[(1,)](out, x, 16)
        np.testing.assert_array_equal(out, x * factor)
    with pytest.raises(KernelError, match="EXPRESSION"):
        template[(1,)](out, x, 16)


def test_arrays_of_another_type() -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.arange(16, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    add[(1,)](triton.reinterpret(out, tl.uint32), triton.reinterpret(x, tl.uint32), 16)
    assert torch.equal(out, x + 1)


@triton.jit
def copy_block(out, desc, row, M: tl.constexpr, N: tl.constexpr):
    block = desc.load([row, 0])
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, block)


def test_descriptors_made_on_the_host(mode: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(60, dtype=torch.float32).reshape(5, 12)
    desc = triton.tools.tensor_descriptor.TensorDescriptor.from_tensor(x, [4, 16])
    for row in (0, 3):
        out = torch.full((4, 16), -1.0)
        copy_block[(1,)](out, desc, row, 4, 16)
        want = torch.zeros(4, 16)
        want[: min(4, 5 - row), :12] = x[row : row + 4]
        assert torch.equal(out, want)


def test_arrays_without_a_descriptor() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UsageError, match="rows are not aligned"):
        TensorDescriptor.from_tensor(torch.zeros(4, 5), [4, 4])
    with pytest.raises(UsageError, match="size 3"):
        TensorDescriptor.from_tensor(torch.zeros(4, 8), [4, 3])


def test_timing_ends_when_the_device_has_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    calls: list[str] = []
    monkeypatch.setattr("portkit.runtime.triton.testing.synchronize", lambda: calls.append("wait"))
    triton.testing.do_bench(lambda: calls.append("run"), warmup=0, rep=0)
    assert calls[:3] == ["wait", "run", "wait"]
    assert calls.count("wait") == 2 * calls.count("run")


def test_timing() -> None:
    assert triton.testing.do_bench(lambda: None, warmup=1, rep=1) >= 0
    low, high = triton.testing.do_bench(lambda: None, warmup=1, rep=1, quantiles=[0.2, 0.8])
    assert low <= high
    mark = triton.testing.perf_report(
        triton.testing.Benchmark(["n"], [1, 2], "by", ["a"], ["a"], "name", {"k": 3})
    )(lambda n, by, k: n * k)
    assert mark.run(return_df=True) == [[[1, 3], [2, 6]]]


class View:
    """A library's own view of a tensor."""

    def __init__(self, base: Any, offset: int) -> None:
        self._base, self.dtype = base, base.dtype
        self.offset = offset

    def data_ptr(self) -> int:
        return self._base.data_ptr() + self.offset * self._base.element_size()


@triton.jit
def backwards(out, last, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(last - i))


def test_views_that_libraries_define(mode: str) -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.arange(20.0), torch.zeros(16)
    backwards[(1,)](out, View(x, 19), 16)
    assert torch.equal(out, x.flip(0)[:16])


def test_a_grid_of_tensors(mode: str) -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.arange(16.0), torch.zeros(16)
    add[(torch.tensor(1), 1)](out, x, 16)
    assert torch.equal(out, x + 1)


def test_what_torch_compile_asks_for_is_there() -> None:
    with as_triton():
        from triton.compiler.compiler import make_backend
        from triton.runtime.driver import driver

        backend = make_backend(driver.active.get_current_target())
    assert backend.hash() == make_backend(backend.target).hash()
    assert backend.parse_options({"num_warps": 4}).num_warps == 4
    assert not backend.parse_options({}).extern_libs
