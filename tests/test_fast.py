"""The quick launch takes what fits, leaves everything else alone, and counts references right."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import portkit
import portkit.runtime.tile.language as tl
from portkit.errors import KernelError, UsageError
from portkit.runtime.tile import fast
from portkit.runtime.tile.jit import interpreted


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path / "cache"))


def make_kernel():
    @portkit.jit
    def affine(x, y, a, n, flag, BLOCK: tl.constexpr, KIND: tl.constexpr = "plus"):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        value = tl.load(x + offsets, mask=inside) * a
        if KIND == "plus":
            value += tl.where(flag, 1.0, 0.0)
        tl.store(y + offsets, value, mask=inside)

    return affine


X = np.arange(64, dtype=np.float32)
GOOD = (X, np.zeros(64, np.float32), 2.0, 64, True, 64, "plus")


@pytest.fixture
def kernel():
    """A kernel that the quick launch knows for arguments like `GOOD`."""
    made = make_kernel()
    made[1,](*GOOD)
    assert made._dispatcher is not None
    return made


def quick(kernel, grid, *args):
    return kernel._dispatcher.call(grid, *args)


def changed(index, value):
    return (*GOOD[:index], value, *GOOD[index + 1 :])


def test_it_is_available_here():
    assert fast.available() == (sys.platform == "linux")


def test_it_runs_what_fits(kernel):
    y = np.zeros(64, np.float32)
    for a, flag in [(2.0, True), (-0.5, False), (float("inf"), False)]:
        with np.errstate(invalid="ignore"):
            expected = X * np.float32(a) + (1 if flag else 0)
        assert quick(kernel, (1,), X, y, a, 64, flag, 64, "plus") is None
        assert np.array_equal(y, expected, equal_nan=True)
    for n in (32, 48, 16):  # other sizes with the same facts
        y[:] = 0
        assert quick(kernel, (1, 1, 1), X, y, 1.0, n, False, 64, "plus") is None
        assert np.array_equal(y, np.where(np.arange(64) < n, X, 0))


UNALIGNED = np.zeros(65, np.float32)[1:]
READ_ONLY = np.zeros(64, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "args",
    [
        changed(0, X.astype(np.float64)),
        changed(0, X.astype(">f4")),
        changed(0, UNALIGNED),
        changed(0, X.view(np.recarray)),
        changed(0, None),
        changed(0, 5),
        changed(1, READ_ONLY),
        changed(2, 2),
        changed(2, np.float32(2)),
        changed(3, 17),
        changed(3, 1),
        changed(3, 2**40),
        changed(3, 2**70),
        changed(3, True),
        changed(3, 64.0),
        changed(4, 1),
        changed(5, 32),
        changed(5, 2**70),
        changed(5, True),
        changed(6, "minus"),
        GOOD[:6],
        (*GOOD, 1),
        (),
    ],
    ids=str,
)
def test_it_leaves_what_does_not_fit(kernel, args):
    before = GOOD[1].copy()
    assert quick(kernel, (1,), *args) is NotImplemented
    assert np.array_equal(GOOD[1], before)


@pytest.mark.parametrize(
    "grid",
    [
        (),
        (1, 1, 1, 1),
        (1.0,),
        (True,),
        (-1,),
        (2**31,),
        (2**70,),
        [1],
        1,
        None,
        (np.int64(1),),
        (1, "2"),
        len,
    ],
    ids=str,
)
def test_it_leaves_grids_that_it_does_not_know(kernel, grid):
    assert quick(kernel, grid, *GOOD) is NotImplemented


def test_it_is_called_with_nothing(kernel):
    assert kernel._dispatcher.call() is NotImplemented


def test_an_empty_grid_runs_nothing(kernel):
    y = np.zeros(64, np.float32)
    assert quick(kernel, (0,), X, y, 2.0, 64, True, 64, "plus") is None
    assert quick(kernel, (1, 0, 5), X, y, 2.0, 64, True, 64, "plus") is None
    assert not y.any()


def test_long_work_is_left_to_threads(kernel):
    (launcher,) = kernel._launchers.values()
    launcher.program_ns = 15_000.0
    assert quick(kernel, (1,), *GOOD) is None  # one program has no use for threads
    assert quick(kernel, (2,), *GOOD) is NotImplemented
    launcher.program_ns = 5.0
    assert quick(kernel, (2,), *GOOD) is None
    assert launcher.program_ns != 5.0  # it was measured
    assert quick(kernel, (2**31 - 1, 2**31 - 1, 2**31 - 1), *GOOD) is NotImplemented


def test_equal_constants_need_not_be_the_same_object():
    made = make_kernel()
    made[1,](X, GOOD[1], 2.0, 64, True, int("1024"))
    assert made._dispatcher.call((1,), X, GOOD[1], 2.0, 64, True, int("1024"), "plus") is None


def test_tensors():
    torch = pytest.importorskip("torch")
    made = make_kernel()
    x, y = torch.arange(64.0), torch.zeros(64)
    made[1,](x, y, 3.0, 64, False, 64, "plus")
    made[1,](x, y, 3.0, 64, False, 64, "plus")
    y.zero_()
    assert quick(made, (1,), x, y, 3.0, 64, False, 64, "plus") is None
    assert torch.equal(y, x * 3)
    for other in (
        x.double(),
        x.bfloat16(),
        torch.zeros(65)[1:],
        torch.empty(64, device="meta"),
        torch.zeros(64).to_sparse(),
        x.numpy(),
        torch.nn.Parameter(x),
    ):
        assert quick(made, (1,), other, y, 3.0, 64, False, 64, "plus") is NotImplemented


def test_faults_are_still_reported_in_words(kernel):
    with pytest.raises(KernelError, match="read-only"):
        kernel[1,](*changed(1, READ_ONLY))
    with pytest.raises(UsageError, match="over the grid"):
        kernel[-1,](*GOOD)
    with pytest.raises(UsageError, match="called without"):
        kernel[1,](*GOOD[:4])


def test_the_interpreter_is_not_passed_by(kernel):
    calls = []
    kernel._dispatcher.call = lambda *args: calls.append(args)
    with interpreted():
        kernel[1,](*GOOD)
    assert calls == []


def test_floats_beyond_f32_are_infinite_on_both_ways(kernel):
    for _ in range(2):
        made = make_kernel()
        y = np.zeros(64, np.float32)
        made[1,](X[1:17], y, 1e300, 16, False, 16)
        assert np.isinf(y[:16]).all()
    y = np.zeros(64, np.float32)
    assert quick(kernel, (1,), X, y, -1e300, 64, False, 64, "plus") is None
    assert np.isneginf(y[1:]).all()


def test_only_the_first_specialisations_are_known():
    made = make_kernel()
    for power in range(fast.MAX_ENTRIES + 3):
        y = np.zeros(64, np.float32)
        for _ in range(2):
            made[1,](X, y, 1.0, 64, False, 1 << power)
        assert np.array_equal(y[: min(64, 1 << power)], X[: min(64, 1 << power)])
    assert made._dispatcher._entries == fast.MAX_ENTRIES


def test_references_are_given_back():
    torch = pytest.importorskip("torch")
    made = make_kernel()
    x, y = torch.zeros(64), torch.zeros(64)
    a, n = 1.5, 640
    args = (x, y, a, n, True, 64, "plus")
    watched = [*args, x.dtype, (1,), 1]
    made[1,](*args)
    made[1,](*args)

    def run(count):
        for _ in range(count):
            assert quick(made, (1,), *args) is None
            assert quick(made, (1,), y, x.bool(), *args[2:]) is NotImplemented

    run(10)
    gc.collect()
    before = [sys.getrefcount(item) for item in watched]
    run(1000)
    gc.collect()
    after = [sys.getrefcount(item) for item in watched]
    assert max(abs(b - a) for a, b in zip(before, after, strict=True)) < 50


def test_where_it_is_not_available_launches_go_the_other_way(monkeypatch):
    monkeypatch.setattr(fast, "available", lambda: False)
    made = make_kernel()
    y = np.zeros(64, np.float32)
    for _ in range(2):
        made[1,](X, y, 2.0, 64, False, 64)
    assert made._dispatcher is None
    assert np.array_equal(y, X * 2)
