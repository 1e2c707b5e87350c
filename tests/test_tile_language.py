"""What kernels written for Triton rely on, each compiled and interpreted against NumPy or torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portkit.runtime.tile.language as tl
import portkit.runtime.triton as triton
from portkit.runtime.tile.jit import interpreted

torch = pytest.importorskip("torch")


@pytest.fixture(params=["compiled", "interpreted"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Any:
    with interpreted(request.param == "interpreted"):
        yield request.param


def numbers(*shape: int, dtype: Any = None, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * 4).to(dtype or torch.float32)


# --- products --------------------------------------------------------------------------------------


@triton.jit
def products(a, b, start, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M)[None, :, None], tl.arange(0, N)[None, None, :], tl.arange(0, K)
    x = tl.load(a + batch * M * K + m * K + k[None, None, :])
    y = tl.load(b + batch * K * N + k[None, :, None] * N + n)
    out = batch * M * N + m * N + n
    total = tl.load(start + out)
    for _ in range(2):
        total = tl.dot(x, y, acc=total)
    tl.store(c + out, total)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("shape", [(4, 16, 32, 64), (1, 16, 16, 16), (2, 4, 8, 2)])
def test_rows_of_products(dtype: Any, shape: tuple[int, int, int, int]) -> None:
    batch, m, n, k = shape
    a, b = numbers(batch, m, k, dtype=dtype), numbers(batch, k, n, dtype=dtype, seed=1)
    wide = torch.int32 if dtype is torch.int8 else torch.float32
    start, c = numbers(batch, m, n, dtype=wide, seed=2), torch.zeros(batch, m, n, dtype=wide)
    products[(1,)](a, b, start, c, *shape)
    want = start.double() + 2 * (a.double() @ b.double())
    torch.testing.assert_close(c.double(), want, atol=1e-3, rtol=1e-4)


# --- atomics ---------------------------------------------------------------------------------------


@triton.jit
def gathered(x, old, values, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(values + i)
    tl.store(old + i, tl.atomic_add(x + i % 4, value, mask=i > 0))
    tl.atomic_max(x + 4 + i % 4, value)
    tl.atomic_xchg(x + 8, tl.load(values + 3))
    tl.store(old + N, tl.atomic_cas(x + 9, tl.load(values), tl.load(values + 5)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.float32])
def test_atomics_of_any_width(dtype: Any) -> None:
    x, old, values = torch.zeros(10, dtype=dtype), torch.zeros(17, dtype=dtype), torch.arange(16).to(dtype)
    gathered[(1,)](x, old, values, 16)
    assert x.tolist() == [24, 28, 32, 36, 12, 13, 14, 15, 3, 5]
    assert old[:8].tolist() == [0, 0, 0, 0, 0, 1, 2, 3]
    assert old[16] == 0


@triton.jit
def counted(x, values):
    tl.atomic_add(x, tl.load(values + tl.program_id(0)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8])
def test_atomics_of_many_programs(dtype: Any) -> None:
    x, values = torch.zeros(1, dtype=dtype), torch.ones(100, dtype=dtype)
    counted[(100,)](x, values)
    assert x.item() == 100


# --- shapes ----------------------------------------------------------------------------------------


@triton.jit
def joined(x, y, out, N: tl.constexpr, DIM: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    both = tl.cat(tl.load(x + i), tl.load(y + i), dim=DIM)
    rows: tl.constexpr = both.shape[0]
    columns: tl.constexpr = both.shape[1]
    tl.store(out + tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :], both)


@pytest.mark.parametrize("dim", [0, 1])
def test_cat(dim: int) -> None:
    x, y = numbers(8, 8), numbers(8, 8, seed=1)
    want = torch.cat([x, y], dim)
    out = torch.zeros_like(want)
    joined[(1,)](x, y, out, 8, dim)
    assert torch.equal(out, want)


@triton.jit
def indexed(out):
    row = tl.arange(0, 8)
    tl.static_assert(row[None, None:].shape == [1, 8])
    tl.static_assert(row[None, ::None, None].shape == [1, 8, 1])
    one = tl.full([], 1, tl.int32)
    tl.static_assert(one.shape == [] and one[None].shape == [1])
    tl.static_assert(isinstance(one, tl.tensor) and not isinstance(3, tl.tensor))
    first, second = tl.split(tl.reshape(row, (4, 2)))
    low, high = tl.split(tl.arange(5, 7))
    tl.static_assert(low.shape == [])
    tl.store(out + tl.arange(0, 4), first * 10 + second + high - low)


def test_indices_that_insert_axes() -> None:
    out = np.zeros(4, np.int32)
    indexed[(1,)](out)
    assert out.tolist() == [2, 24, 46, 68]


# --- reductions, scans, sorting --------------------------------------------------------------------


@triton.jit
def less(a, i, b, j):
    takes = (a < b) | ((a == b) & (i < j))
    return tl.where(takes, a, b), tl.where(takes, i, j)


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def folded(x, ints, out, xors, running, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + i)
    places = tl.broadcast_to(tl.arange(0, N)[None, :] if AXIS else tl.arange(0, M)[:, None], (M, N))
    best, where = tl.reduce((value, places), AXIS, less)
    count: tl.constexpr = M if AXIS else N
    tl.store(out + tl.arange(0, count), best + where * 1000)
    tl.store(xors + tl.arange(0, count), tl.xor_sum(tl.load(ints + i), AXIS))
    tl.store(running + i, tl.associative_scan(value, AXIS, times, reverse=True))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(4, 16), (16, 4), (1, 8), (32, 1)])
def test_reductions_and_scans_by_a_function(axis: int, shape: tuple[int, int]) -> None:
    x = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(0)).float() / 2
    ints = torch.randint(-99, 99, shape, dtype=torch.int32)
    out, xors = torch.zeros(shape[1 - axis]), torch.zeros(shape[1 - axis], dtype=torch.int32)
    running = torch.zeros(shape)
    folded[(1,)](x, ints, out, xors, running, *shape, axis)
    best = torch.from_numpy(np.argmin(x.numpy(), axis))
    assert torch.equal(out, x.amin(axis) + best * 1000)
    assert xors.tolist() == np.bitwise_xor.reduce(ints.numpy(), axis).tolist()
    assert torch.equal(running, x.flip(axis).cumprod(axis).flip(axis))


@triton.jit
def ordered(x, out, M: tl.constexpr, N: tl.constexpr, DOWN: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + i)
    tl.store(out + i, tl.sort(value, descending=DOWN) + tl.flip(value, 1))


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float16])
def test_sort_and_flip(down: bool, dtype: Any) -> None:
    x = numbers(4, 32, dtype=dtype)
    out = torch.zeros_like(x)
    ordered[(1,)](x, out, 4, 32, down)
    torch.testing.assert_close(out, x.sort(1, descending=down).values + x.flip(1))


# --- operators -------------------------------------------------------------------------------------


@triton.jit
def remainders(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) % tl.load(y + i))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_remainders_of_floats(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=64) * 2.0 ** rng.integers(-3, 12, 64)).astype(dtype)
    y = np.where(rng.integers(2, size=64), 0.75, -1.3).astype(dtype)
    out = np.zeros_like(x)
    remainders[(1,)](x, y, out, 64)
    np.testing.assert_array_equal(out, np.fmod(x.astype(np.float64), y).astype(dtype))


@triton.jit
def shifted(x, by, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) >> tl.load(by + i))


def test_the_left_operand_says_what_is_shifted_in() -> None:
    x, by, out = np.arange(-8, 8, dtype=np.int8), np.full(16, 1, np.uint8), np.zeros(16, np.int8)
    shifted[(1,)](x, by, out, 16)
    np.testing.assert_array_equal(out, x >> 1)
    wide, high = np.zeros(16, np.uint8), np.arange(240, 256, dtype=np.uint8)
    shifted[(1,)](high, by, wide, 16)
    np.testing.assert_array_equal(wide, high >> 1)


@triton.jit
def through(table, out, N: tl.constexpr):
    i = tl.arange(0, N)
    where = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(0) * N + i, tl.load(where + i))
    tl.store(table + tl.program_id(0), (where + 1).to(tl.int64))


def test_addresses_in_memory(mode: str) -> None:
    x = np.arange(64, dtype=np.float32)
    starts = [x.ctypes.data, x.ctypes.data + 128] if mode == "compiled" else []
    table, out = np.array(starts, np.int64), np.zeros((2, 16), np.float32)
    if mode == "interpreted":
        pytest.skip("only memory of arguments is known there")
    through[(2,)](table, out, 16)
    np.testing.assert_array_equal(out, [x[:16], x[32:48]])
    assert table.tolist() == [start + 4 for start in starts]


@triton.jit
def round_trip(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(((x + i).to(tl.int64) + 4).to(tl.pointer_type(tl.float32))))


def test_pointers_as_integers() -> None:
    x, out = np.arange(9, dtype=np.float32), np.zeros(8, np.float32)
    round_trip[(1,)](x, out, 8)
    np.testing.assert_array_equal(out, x[1:])


# --- control flow ----------------------------------------------------------------------------------


@triton.jit
def chosen(x, mode: tl.constexpr):
    if mode == "early":
        if x > 2:
            return x * 10
        x += 1
    elif mode == "late":  # noqa: SIM102  (a choice at run time inside one made while compiling)
        if x < 2:
            x -= 5
    return x


@triton.jit
def leaves_early(x, out, mode: tl.constexpr):
    value = tl.load(x)
    if mode == "early":
        if value > 2:
            tl.store(out, -1)
            return
        tl.store(out + 1, 7)
    tl.store(out, chosen(value, mode))


@pytest.mark.parametrize(
    ("value", "kind", "want"),
    [(5, "early", [-1, 0]), (1, "early", [2, 7]), (1, "late", [-4, 0]), (5, "late", [5, 0])],
)
def test_what_follows_a_choice_that_returns(value: int, kind: str, want: list[int]) -> None:
    x, out = np.array([value], np.int32), np.zeros(2, np.int32)
    leaves_early[(1,)](x, out, kind)
    assert out.tolist() == want


# --- libraries around kernels ----------------------------------------------------------------------


@triton.jit
def scaled(x, out, n, BLOCK: tl.constexpr, TWICE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * (2.0 if TWICE else 1.0), mask=i < n)


class Tuner(triton.runtime.Autotuner):
    """A library's own: it chooses the last configuration."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        config = self.prune_configs(kwargs)[-1]
        timing = self._bench(*args, config=config, **kwargs)
        assert len(timing) == 3
        self.best_config = config
        return self.fn.run(*args, **kwargs, **config.all_kwargs())


class Entry(triton.KernelInterface):
    """A library's own: it keeps the compiled kernel."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.kept: Any = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        grid = kwargs["grid"]
        if self.kept is None:
            self.kept = self.fn.run(*args, **kwargs)
        else:
            self.kept[grid](*args)
        return self.kept


def test_classes_that_libraries_derive() -> None:
    heuristic = triton.heuristics({"TWICE": lambda args: args["n"] > 3})(scaled)
    configs = [triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16}, num_warps=2)]
    entry = Entry(Tuner(heuristic, scaled.arg_names, configs, ["n"], None, None, pre_hook=None))
    x = np.arange(16, dtype=np.float32)
    for _ in range(2):
        out = np.zeros(16, np.float32)
        entry[(1,)](x, out, 16)
        np.testing.assert_array_equal(out, x * 2)
    assert entry.fn.best_config is configs[1]
    assert entry.fn.base_fn is scaled.fn
    assert configs[0] != configs[1] != triton.Config({"BLOCK": 16})
    assert len({*configs, triton.Config({"BLOCK": 8})}) == 2


# --- special functions -----------------------------------------------------------------------------


@triton.jit
def applied(x, y, out, N: tl.constexpr, FUNCTION: tl.constexpr, TWO: tl.constexpr):
    i = tl.arange(0, N)
    if TWO:
        tl.store(out + i, FUNCTION(tl.load(x + i), tl.load(y + i)))
    else:
        tl.store(out + i, FUNCTION(tl.load(x + i)))


SPECIAL: dict[str, Any] = {
    **{name: getattr(torch, name) for name in ("lgamma", "erfc", "erfinv", "asinh", "acosh", "atanh")},
    **{name: getattr(torch, name) for name in ("log10", "hypot", "copysign", "fmod", "nextafter", "erf")},
    "erfcx": torch.special.erfcx,
    "exp10": lambda x: 10.0**x,
    "signbit": torch.signbit,
}
BY_TWO = ("hypot", "copysign", "fmod", "nextafter")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name: str, dtype: Any) -> None:
    edges = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, 30.0, -30.0, 1e-8, 0.5, 2.0, -3.0, float("inf"), float("nan")]
    )
    x = torch.cat([numbers(84), torch.linspace(-0.999, 0.999, 32), edges]).to(dtype)
    y = numbers(128, dtype=dtype, seed=1)
    out = torch.zeros(128, dtype=dtype)
    applied[(1,)](x, y, out, 128, getattr(tl.math, name), name in BY_TWO)
    operands = [v if name == "nextafter" else v.double() for v in (x, y)][: 1 + (name in BY_TWO)]
    want = SPECIAL[name](*operands).to(dtype)
    close = {torch.float32: 3e-7, torch.float64: 1e-8}[dtype]
    torch.testing.assert_close(out, want, rtol=close, atol=1e-14, equal_nan=True)
    if name in ("copysign", "asinh", "atanh", "erfinv"):
        assert torch.equal(out.signbit() & ~want.isnan(), want.signbit() & ~want.isnan())


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_functions_of_bits(dtype: Any) -> None:
    x = np.array([0, 1, 2, -1, 12, 1 << 30, -8, 7], dtype)
    bits = x.itemsize * 8
    texts = [np.binary_repr(v, bits) for v in x]
    want = {
        "popc": [t.count("1") for t in texts],
        "clz": [(t + "1").index("1") for t in texts],
        "ffs": [(t[::-1] + "1").index("1") + 1 if "1" in t else 0 for t in texts],
    }
    for name, numbers_ in want.items():
        out = np.zeros(8, np.int32)
        applied[(1,)](x, x, out, 8, getattr(tl.math, name), False)
        assert out.tolist() == numbers_


# --- long chains -----------------------------------------------------------------------------------


@triton.jit
def chained(x, ints, out, counts, N: tl.constexpr, STEPS: tl.constexpr):
    i = tl.arange(0, N)
    value, count = tl.load(x + i), tl.load(ints + i)
    first, second, places = value, value + 1.0, i
    for _ in tl.static_range(STEPS):
        first, second = second, second * 0.5 - first * 0.25 + value
        count = count * 3 + places
        places = places + 1
    tl.store(out + i, second)
    tl.store(counts + i, count)


def test_a_chain_of_many_operations() -> None:
    x, ints = np.linspace(-1, 1, 32, dtype=np.float64), np.arange(32, dtype=np.int32)
    out, counts = np.zeros(32), np.zeros(32, np.int32)
    chained[(1,)](x, ints, out, counts, 32, 400)
    first, second, count, places = x, x + 1, ints.copy(), np.arange(32, dtype=np.int32)
    for _ in range(400):
        first, second = second, second * 0.5 - first * 0.25 + x
        count = count * np.int32(3) + places
        places = places + np.int32(1)
    np.testing.assert_allclose(out, second, rtol=1e-9)
    np.testing.assert_array_equal(counts, count)


@triton.jit
def maybe(x, other, out):
    if other:
        tl.store(out, tl.load(x) + tl.load(other))
    else:
        tl.store(out, tl.load(x))


def test_a_pointer_that_may_be_none() -> None:
    x, other, out = np.ones(1, np.float32), np.full(1, 2, np.float32), np.zeros(1, np.float32)
    for second, want in ((other, 3), (None, 1)):
        maybe[(1,)](x, second, out)
        assert out[0] == want


@triton.jit
def named_types(x, out, KIND: tl.constexpr):
    kind: tl.constexpr = tl.core.get_int_dtype(KIND.value.primitive_bitwidth, True)
    tl.static_assert(tl.standard._log2(16) == 4)
    tl.store(out, tl.load(x).to(KIND).to(kind, bitcast=True))


def test_types_as_constants() -> None:
    x, out = np.ones(1, np.float64), np.zeros(1, np.int32)
    named_types[(1,)](x, out, tl.float32)
    assert out[0] == 0x3F800000


@triton.jit
def named_constant(x, out, n, N: tl.constexpr):
    width: tl.constexpr = N * n  # of run time: the annotation says less than it seems to
    for k in range(2):
        place: tl.constexpr = width + k
        tl.store(out + k, tl.load(x + place))


def test_a_value_of_run_time_under_a_constants_annotation() -> None:
    x, out = np.arange(16, dtype=np.int32), np.zeros(2, np.int32)
    named_constant[(1,)](x, out, 3, 4)
    assert out.tolist() == [12, 13]


@tl.constexpr
def doubled(x: Any) -> Any:
    return 2 * x


@triton.jit
def calls_on_constants(out, N: tl.constexpr):
    tl.store(out, doubled(N))


def test_a_function_as_a_constant() -> None:
    out = np.zeros(1, np.int32)
    calls_on_constants[(1,)](out, 4)
    assert out[0] == doubled(4) == 8


# --- windows ---------------------------------------------------------------------------------------


@triton.jit
def cast_to_the_window(x, y, N: tl.constexpr):
    source = tl.make_block_ptr(x, (N,), (1,), (0,), (N,), (0,))
    target = tl.make_block_ptr(y, (N,), (1,), (0,), (N,), (0,))
    value = tl.load(source, boundary_check=(0,)) + 0.5
    tl.store(target, value.to(target.dtype.element_ty, fp_downcast_rounding="rtne"), boundary_check=(0,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_dtype_of_a_window_is_a_pointer(dtype: Any) -> None:
    x, y = numbers(16), torch.zeros(16, dtype=dtype)
    cast_to_the_window[(1,)](x, y, 16)
    torch.testing.assert_close(y, (x + 0.5).to(dtype), atol=0, rtol=0)
