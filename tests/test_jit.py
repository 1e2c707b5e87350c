"""Kernels from call to result: specialisation, arguments of every kind, grids, mistakes, tuning."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import portkit
import portkit.runtime.tile.language as tl
from portkit.errors import KernelError, UsageError
from portkit.runtime.tile import cache, compile, ir, stores
from portkit.runtime.tile.autotune import Config, autotune, heuristics
from portkit.runtime.tile.describe import array_address
from portkit.runtime.tile.jit import cdiv, interpreted, next_power_of_2
from portkit.runtime.tile.signature import Constexpr, Param, Runtime, bind, constant_key, spec_of


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path / "cache"))


def make_scale():
    """A new kernel, of which nothing is compiled yet: y = a * x."""

    @portkit.jit
    def scale(x, y, a, n, BLOCK: tl.constexpr = 64):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        tl.store(y + offsets, tl.load(x + offsets, mask=inside) * a, mask=inside)

    return scale


def make_strided():
    @portkit.jit
    def strided(x, y, stride, n, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        inside = offsets < n
        tl.store(y + offsets, tl.load(x + offsets * stride, mask=inside), mask=inside)

    return strided


def make_ids():
    @portkit.jit
    def ids(out, marker):
        x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
        at = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
        tl.store(out + at, x * 10000 + y * 100 + z)

    return ids


@pytest.fixture(params=["compiled", "interpreted"])
def mode(request):
    with interpreted(request.param == "interpreted"):
        yield request.param


# --- results -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_numpy(mode, n):
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    y = np.full(n + 3, 7, np.float32)
    make_scale()[(cdiv(n, 64),)](x, y, 2.5, n)
    assert np.array_equal(y[:n], x * np.float32(2.5))
    assert (y[n:] == 7).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_torch(mode, dtype):
    torch = pytest.importorskip("torch")
    x = torch.randn(100).to(getattr(torch, dtype))
    y = torch.empty_like(x)
    make_scale()[2,](x, y, 2.0, 100)
    assert torch.equal(y, x * 2)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers(mode, dtype):
    x = np.arange(100).astype(dtype)
    y = np.zeros_like(x)
    make_scale()[2,](x, y, 1, 100)
    assert np.array_equal(x, y)


def test_strides_and_offsets(mode):
    x = np.arange(200, dtype=np.float32)
    y = np.zeros(32, np.float32)
    make_strided()[1,](x[3::5], y, 5, 20, BLOCK=32)
    assert np.array_equal(y[:20], x[3::5][:20])
    make_strided()[1,](x[::-1], y, -1, 20, BLOCK=32)
    assert np.array_equal(y[:20], x[::-1][:20])


@pytest.mark.parametrize(
    "grid", [(3,), (3, 2), (3, 2, 4), 3, [3, 2], (np.int64(3),), (3, 0), lambda meta: (meta["marker"],)]
)
def test_grids(mode, grid):
    out = np.full(24, -1, np.int32)
    make_ids()[grid](out, 5)
    sizes = {int: lambda g: (g,)}.get(type(grid), lambda g: (5,) if callable(g) else tuple(g))(grid)
    x, y, z = (*(int(s) for s in sizes), 1, 1)[:3]
    expected = [i * 10000 + j * 100 + k for k in range(z) for j in range(y) for i in range(x)]
    assert out[: len(expected)].tolist() == expected
    assert (out[len(expected) :] == -1).all()


def test_numpy_scalars_bools_and_none(mode):
    @portkit.jit
    def pick(y, flag, value, nothing, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        if nothing is None:
            tl.store(y + offsets, tl.where(flag, value, 0.0))

    y = np.zeros(16, np.float32)
    pick[1,](y, True, np.float64(1.5), None, 16)
    assert (y == 1.5).all()
    pick[1,](y, np.bool_(False), np.float32(2.5), None, 16)
    assert (y == 0).all()


def test_launch_options_of_triton_change_nothing(mode):
    x = np.ones(64, np.float32)
    y = np.zeros(64, np.float32)
    make_scale()[1,](x, y, 3.0, n=64, BLOCK=64, num_warps=8, num_stages=2)
    assert (y == 3).all()


# --- specialisation ----------------------------------------------------------------------------------


def launchers(kernel):
    return len(kernel._launchers)


def test_sizes_compile_nothing_new():
    kernel = make_scale()
    memory = np.zeros(5000, np.float32)
    start = -array_address(memory) % 16 // 4  # an aligned place
    for n in (160, 320, 1600):
        x = memory[start : start + n]
        kernel[cdiv(n, 64),](x, x, 1.0, n)
    assert launchers(kernel) == 1
    kernel[1,](x, x, 1.0, 17)  # no multiple of 16
    assert launchers(kernel) == 2
    kernel[1,](x, x, 1.0, 19)
    assert launchers(kernel) == 2
    kernel[1,](memory[start + 1 :], x, 1.0, 16)  # unaligned
    assert launchers(kernel) == 3


def test_dtypes_constants_and_ones_compile_anew():
    kernel = make_scale()
    x = np.zeros(64, np.float32)
    kernel[1,](x, x, 1.0, 16)
    kernel[1,](x, x, 1.0, 16, 32)
    kernel[1,](x.astype(np.float64), x, 1.0, 16)
    kernel[1,](x, x, 1, 16)
    kernel[1,](x, x, 2, 16)
    assert launchers(kernel) == 5


def test_one_true_and_one_point_zero_are_different_constants():
    assert len({constant_key(v) for v in (1, 1.0, True, "1")}) == 4
    assert constant_key(0.0) != constant_key(-0.0)
    assert constant_key(float("nan")) == constant_key(float("nan"))
    assert constant_key([1, (2,)]) == constant_key([1, (2,)])


def test_numpy_and_torch_share_code():
    torch = pytest.importorskip("torch")
    kernel = make_scale()
    x = np.zeros(64, np.float32)
    kernel[1,](x, x, 1.0, 16)
    kernel[1,](torch.from_numpy(x), torch.from_numpy(x), 1.0, 16)
    assert launchers(kernel) == 1


def test_do_not_specialize():
    @portkit.jit(do_not_specialize=["n", 0])
    def keep(x, n):
        tl.store(x, n)

    x = np.zeros(4, np.int32)
    for n in (1, 16, 17):
        keep[1,](x, n)
        assert x[0] == n
    assert launchers(keep) == 1
    assert keep.params[0].specialize is False


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (3, Runtime(ir.Type(ir.I32))),
        (1, Runtime(ir.Type(ir.I32), ir.ParamFacts(equal_to_1=True))),
        (32, Runtime(ir.Type(ir.I32), ir.ParamFacts(divisible_by_16=True))),
        (2**31, Runtime(ir.Type(ir.I64), ir.ParamFacts(divisible_by_16=True))),
        (-(2**63), Runtime(ir.Type(ir.I64), ir.ParamFacts(divisible_by_16=True))),
        (2**64 - 1, Runtime(ir.Type(ir.U64))),
        (np.int64(5), Runtime(ir.Type(ir.I32))),
        (0.5, Runtime(ir.Type(ir.F32))),
        (True, Runtime(ir.Type(ir.I1))),
        (None, Constexpr(None)),
    ],
    ids=repr,
)
def test_specifications(value, spec):
    assert spec_of(Param("p"), value, "k") == spec


def test_array_address_is_numpys():
    x = np.arange(10)
    for view in (x, x[3:], x[::-1], x[:0], np.asfortranarray(np.ones((3, 4)))[1:]):
        assert array_address(view) == view.ctypes.data


# --- mistakes ----------------------------------------------------------------------------------------

X = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X, X, 1.0), {}, "called without `n`"),
        ((X,), {}, "called without `y`, `a`, `n`"),
        ((X, X, 1.0, 4, 64, 5), {}, "takes 5 arguments, 6 were given"),
        ((X, X, 1.0, 4), {"x": X}, "given argument `x` twice"),
        ((X, X, 1.0, 4), {"block": 3}, "has no parameter `block`"),
    ],
)
def test_wrong_arguments(args, kwargs, message):
    with pytest.raises(UsageError, match=message):
        make_scale()[1,](*args, **kwargs)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([None, 1]), "elements of type object"),
        (np.zeros(3, np.complex64), "elements of type complex64"),
        (np.array(["a"]), "elements of type <U1"),
        (np.zeros(3, ">f4"), "foreign byte order"),
        ("text", "takes no str"),
        ([1.0, 2.0], "takes no list"),
        (2**64, "does not fit in 64 bits"),
        (-(2**63) - 1, "does not fit in 64 bits"),
        (1j, "takes no complex"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_values_that_no_kernel_takes(mode, value, message):
    with pytest.raises(KernelError, match=f"argument `x` of kernel `scale`.*{message}"):
        make_scale()[1,](value, X, 1.0, 4)


def test_tensors_elsewhere_are_refused_with_the_way_out():
    torch = pytest.importorskip("torch")
    with pytest.raises(
        KernelError, match=r"`y` of kernel `scale` is a tensor on meta(?s:.*)portkit.runtime.ops"
    ):
        make_scale()[1,](X, torch.empty(64, device="meta"), 1.0, 4)
    with pytest.raises(KernelError, match=r"`y`.*layout torch.sparse_coo"):
        make_scale()[1,](X, torch.zeros(64).to_sparse(), 1.0, 4)
    with pytest.raises(KernelError, match=r"`y`.*complex64"):
        make_scale()[1,](X, torch.zeros(64, dtype=torch.complex64), 1.0, 4)


@pytest.mark.parametrize("grid", [(-1,), (1.5,), (), (1, 1, 1, 1), "1", (True,), (2**31,), lambda meta: None])
def test_grids_that_are_none(grid):
    with pytest.raises(UsageError, match="over the grid"):
        make_scale()[grid](X, X, 1.0, 4)


def test_a_read_only_array_is_refused_only_where_it_is_stored_to(mode):
    x = np.ones(64, np.float32)
    x.flags.writeable = False
    y = np.zeros(64, np.float32)
    kernel = make_scale()
    kernel[1,](x, y, 2.0, 64)
    assert (y == 2).all()
    with pytest.raises(KernelError, match="read-only"):
        kernel[1,](y, x, 2.0, 64)
    assert (x == 1).all()


def test_a_kernel_is_not_a_function():
    with pytest.raises(KernelError, match=r"scale\[grid\]"):
        make_scale()(X, X, 1.0, 4)


def test_a_constant_that_can_change_is_refused():
    with pytest.raises(KernelError, match="dict can't be a constant"):
        make_scale()[1,](X, X, 1.0, 4, BLOCK={})


def test_star_arguments_are_refused_where_the_kernel_is_made():
    with pytest.raises(KernelError, match=r"parameter `\*rest`"):

        @portkit.jit
        def k(x, *rest):
            pass


def test_a_kernel_without_source_says_so():
    space = {"jit": portkit.jit}
    exec("def k(x): pass\nk = jit(k)", space)
    with pytest.raises(KernelError, match="source of kernel `k`"):
        space["k"].source


def test_a_fault_in_the_kernel_names_its_line():
    @portkit.jit
    def bad(x):
        tl.store(x, undefined_name)  # noqa: F821

    with pytest.raises(KernelError, match=r"test_jit\.py:\d+.*undefined_name"):
        bad[1,](X)


# --- compiling ---------------------------------------------------------------------------------------


def test_warmup_compiles_and_runs_nothing():
    kernel = make_scale()
    y = np.zeros(64, np.float32)
    launcher = kernel.warmup(np.float32, np.dtype("float32"), 1.0, 64, grid=(1,))
    assert launcher.compiled.entry.code
    start = -array_address(y) % 16 // 4
    assert start == 0
    kernel[1,](y, y, 1.0, 64)
    assert launchers(kernel) == 1
    assert (y == 0).all()


def test_code_comes_from_the_cache_on_disk(monkeypatch):
    first = make_scale()
    x = np.ones(64, np.float32)
    first[1,](x, x, 2.0, 64)
    (made,) = first._launchers.values()
    assert not made.compiled.from_cache

    def fail(*args):
        raise AssertionError("compiled again")

    monkeypatch.setattr(compile, "generate", fail)
    second = make_scale()
    second[1,](x, x, 2.0, 64)
    (found,) = second._launchers.values()
    assert found.compiled.from_cache
    assert (x == 4).all()


def test_a_damaged_cache_is_rebuilt():
    x = np.ones(64, np.float32)
    make_scale()[1,](x, x, 2.0, 64)
    for path, _, _ in cache.shared().files():
        path.write_bytes(path.read_bytes()[:-1])
    make_scale()[1,](x, x, 2.0, 64)
    assert (x == 4).all()


def test_dump_writes_each_stage(tmp_path, monkeypatch):
    monkeypatch.setenv("PORTKIT_DUMP", "ir, llvm,asm")
    monkeypatch.setenv("PORTKIT_DUMP_DIR", str(tmp_path / "dump"))
    make_scale()[1,](X, X, 1.0, 4)
    files = {path.suffix: path.read_text() for path in (tmp_path / "dump").iterdir()}
    assert set(files) == {".ir", ".ll", ".s"}
    assert "kernel scale(" in files[".ir"]
    assert "define" in files[".ll"]


def test_a_stage_that_there_is_not_is_refused(monkeypatch):
    monkeypatch.setenv("PORTKIT_DUMP", "ptx")
    with pytest.raises(UsageError, match="'ptx'"):
        make_scale()[1,](X, X, 1.0, 4)


def test_two_threads_launch_one_kernel():
    kernel = make_scale()
    faults = []

    def work(seed):
        x = np.full(1000, seed, np.float32)
        y = np.zeros(1000, np.float32)
        for _ in range(50):
            y[:] = 0
            kernel[cdiv(1000, 64),](x, y, 2.0, 1000)
            if not (y == 2 * seed).all():
                faults.append(seed)

    crowd = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert not faults


def test_stored_params_are_followed_through_loops():
    @portkit.jit
    def walk(x, y, z, n):
        p = y
        for _ in range(n):
            tl.store(p, tl.load(x))
            p += 1
        tl.atomic_add(z, 1.0)

    kinds = [Runtime(ir.Type(ir.Pointer(ir.F32)))] * 3 + [Runtime(ir.Type(ir.I32))]
    from portkit.runtime.tile import frontend

    assert stores.stored_params(frontend.build(walk, kinds)) == {1, 2}


def test_importing_portkit_and_making_a_kernel_loads_neither_torch_nor_llvm(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(
        textwrap.dedent(
            """
            import sys
            import portkit
            assert "portkit.runtime" not in sys.modules
            @portkit.jit
            def k(x):
                pass
            print([m for m in ("torch", "llvmlite") if m in sys.modules])
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# --- tuning ------------------------------------------------------------------------------------------


def make_tuned(**options):
    return autotune(
        [Config({"BLOCK": 16}), Config({"BLOCK": 128}, num_warps=8)], ["n", "no_such"], **options
    )(make_scale())


def test_autotune_chooses_once_for_each_key(mode):
    kernel = make_tuned()
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    grid = lambda meta: (cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731
    kernel[grid](x, y, 2.0, 1000)
    assert (y == 2).all()
    assert kernel.best_config in kernel.configs
    kernel[grid](x, y, 2.0, 1000)
    assert len(kernel.cache) == 1
    kernel[grid](x, y, 2.0, n=500)
    assert len(kernel.cache) == 2


def test_autotune_restores_and_zeroes_what_it_must():
    grid = lambda meta: (cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731
    x = np.ones(100, np.float32)
    make_tuned(restore_value=["x"])[grid](x, x, 2.0, 100)
    assert (x == 2).all()

    @autotune([Config({"BLOCK": 16}), Config({"BLOCK": 32})], key=[], reset_to_zero=["total"])
    @portkit.jit
    def count(total, n, BLOCK: tl.constexpr):
        inside = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) < n
        tl.atomic_add(total, tl.sum(inside.to(tl.int32), axis=0))

    total = np.zeros(1, np.int32)
    count[grid](total, 100)
    assert total[0] == 100


def test_autotune_passes_over_what_does_not_compile():
    kernel = autotune([Config({"BLOCK": 17}), Config({"BLOCK": 32})], key=["n"])(make_scale())
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    kernel[1,](x, y, 2.0, 32)
    assert kernel.best_config.kwargs == {"BLOCK": 32}
    nothing = autotune([Config({"BLOCK": 17}), Config({"BLOCK": 19})], key=["n"])(make_scale())
    with pytest.raises(KernelError):
        nothing[1,](x, y, 2.0, 32)


def test_autotune_prunes_and_hooks():
    seen = []
    kernel = autotune(
        [Config({"BLOCK": b}, pre_hook=lambda args: seen.append(args["BLOCK"])) for b in (16, 32, 64)],
        key=["n"],
        prune_configs_by={
            "early_config_prune": lambda configs, named, **_: [c for c in configs if c.kwargs["BLOCK"] > 16],
            "perf_model": lambda BLOCK, **_: -BLOCK,
            "top_k": 1,
        },
    )(make_scale())
    x = np.ones(64, np.float32)
    kernel[1,](x, x, 1.0, 64)
    assert set(seen) == {64}


@portkit.jit
def amount():
    return 1


@portkit.jit
def add_all(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + amount(), mask=i < n)


@portkit.jit
def add_two(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 2 * amount(), mask=i < n)


@pytest.mark.parametrize("how", ["decorator", "environment"])
def test_autotune_keeps_results_on_disk(how, monkeypatch, tmp_path):
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path))
    if how == "environment":
        monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    asked = []

    def bench(run, quantiles):
        asked.append(1)
        run()
        return [len(asked)] * 3

    def tuner(blocks=(16, 32), body=add_all):
        configs = [Config({"BLOCK": block}) for block in blocks]
        return autotune(configs, ["n"], do_bench=bench, cache_results=how == "decorator")(body)

    x = np.ones(40, np.float32)

    def tried(kernel, n=40):
        asked.clear()
        kernel[(3,)](x, n)
        return len(asked)

    assert tried(tuner()) == 2
    again = tuner()
    assert tried(again) == 0
    assert again.best_config.kwargs == {"BLOCK": 16}
    assert list(again.configs_timings.values()) == [[1] * 3, [2] * 3]
    assert tried(tuner(), n=39) == 2, "another key"
    assert tried(tuner((16, 64))) == 2, "other configurations"
    assert tried(tuner(body=add_two)) == 2, "another kernel"
    for file in tmp_path.glob("*.pktune"):
        file.write_text(file.read_text().replace('"best": ', '"best": 9'))
    assert tried(tuner()) == 2, "a damaged file counts as absent"


def test_autotune_keeps_nothing_on_disk_unless_asked(monkeypatch, tmp_path):
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRITON_CACHE_AUTOTUNING", raising=False)
    x = np.ones(40, np.float32)
    autotune([Config({"BLOCK": 16}), Config({"BLOCK": 32})], ["n"])(add_all)[(3,)](x, 40)
    assert not list(tmp_path.glob("*.pktune"))


def test_a_tuned_constant_is_not_given_by_the_call():
    with pytest.raises(UsageError, match="`BLOCK`, which its autotuner chooses"):
        make_tuned()[1,](X, X, 1.0, 64, BLOCK=64)


def test_heuristics_compute_constants(mode):
    kernel = heuristics({"BLOCK": lambda args: next_power_of_2(args["n"])})(make_scale())
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    kernel[1,](x, y, 2.0, 100)
    assert (y == 2).all()
    both = autotune([Config({"a": 3.0})], key=[])(kernel)
    both[1,](x, y, n=100)
    assert (y == 3).all()
    assert both.base_kernel.names == ("x", "y", "a", "n", "BLOCK")


@pytest.mark.parametrize(("n", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (1025, 2048)])
def test_next_power_of_2(n, power):
    assert next_power_of_2(n) == power


def test_bind_fills_in_defaults():
    params = [Param("a"), Param("b", default=2), Param("c", is_constexpr=True, default=None)]
    assert bind(params, (1,), {"c": 5}, "k") == [1, 2, 5]
    assert bind(params, (1,), {}, "k") == [1, 2, None]
