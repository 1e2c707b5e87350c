"""What kernels tell the host: printed values and assertions that fail, compiled and interpreted alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portkit
import portkit.runtime.tile.language as tl
from portkit.errors import KernelError
from portkit.runtime.tile.jit import interpreted
from portkit.runtime.triton import knobs


@pytest.fixture(params=["compiled", "interpreted"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with interpreted(request.param == "interpreted"):
        yield request.param


@portkit.jit
def show(x_ptr, n, N: tl.constexpr, HEX: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.device_print("val", x, hex=HEX)
    tl.device_print("both", x > 1, n)


def test_each_element_is_printed_with_its_place(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    show[(1, 2)](np.array([1, -2], np.int16), 7, 2, False)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(
        line
        for y in (0, 1)
        for line in (
            f"pid (0, {y}, 0) idx (0) val: 1",
            f"pid (0, {y}, 0) idx (1) val: -2",
            f"pid (0, {y}, 0) idx (0) both: (operand 0) 0",
            f"pid (0, {y}, 0) idx (1) both: (operand 0) 0",
            f"pid (0, {y}, 0) idx () both: (operand 1) 7",
        )
    )


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.array([1, -2], np.int8), ["0x01", "0xfe"]),
        (np.array([1.0, -0.0], np.float32), ["0x3f800000", "0x80000000"]),
        (np.array([1.0, 2.0], np.float16), ["0x3c00", "0x4000"]),
        (np.array([2**63, 1], np.uint64), ["0x8000000000000000", "0x0000000000000001"]),
    ],
)
def test_bits_are_printed_as_hexadecimal_numbers(
    mode: str, capsys: pytest.CaptureFixture[str], values: Any, wanted: list[str]
) -> None:
    show[(1,)](values, 1, 2, True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("val: ")[2] for line in lines[:2]] == wanted


@portkit.jit
def show_matrix(x_ptr, o_ptr):
    at = tl.arange(0, 2)[:, None] * 2 + tl.arange(0, 2)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, x * 2)
    print("before", x)
    print("after:", tl.load(x_ptr + at) + 0.5)
    print("alone")
    for k in range(2):
        if k > 0:
            tl.device_print(" in loop ", tl.sum(x))
    tl.store(o_ptr, 1.0)


def test_values_are_those_of_their_time(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros(1, np.float32)
    show_matrix[(1,)](x, out)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [f"pid (0, 0, 0) idx ({k // 2}, {k % 2}) before: {k}.0" for k in range(4)]
    assert lines[4:8] == [f"pid (0, 0, 0) idx ({k // 2}, {k % 2}) after: {2 * k}.5" for k in range(4)]
    assert lines[8:] == ["pid (0, 0, 0) idx () alone:", "pid (0, 0, 0) idx () in loop: 6.0"]
    assert out[0] == 1


def test_many_programs_print_from_many_threads(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):  # the first launch runs on one thread
        show[(500,)](np.array([1, 2], np.int32), 3, 2, False)
    lines = capsys.readouterr().out.splitlines()
    wanted = {f"pid ({n}, 0, 0) idx (1) val: 2" for n in range(500)}
    assert len(lines) == 3 * 500 * 5
    assert wanted <= set(lines)


def test_what_is_printed_first_is_a_constant(mode: str) -> None:
    @portkit.jit
    def wrong(x_ptr):
        tl.device_print(tl.load(x_ptr))

    with pytest.raises(KernelError, match="constant text"):
        wrong[(1,)](np.zeros(1, np.float32))


@portkit.jit
def guarded(x_ptr, limit, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.device_assert(x < limit, "x is too large", mask=i > 0)
    tl.store(out_ptr + i, x)


def launch(kernel: Any, limit: int, **options: Any) -> Any:
    out = np.full(4, -1, np.int32)
    kernel[(1,)](np.array([9, 1, 2, 3], np.int32), limit, out, 4, **options)
    return out


def test_an_assertion_that_does_not_hold_ends_the_launch(mode: str) -> None:
    out = np.full(4, -1, np.int32)
    with pytest.raises(KernelError, match=r"program \(0, 0, 0\) .*: x is too large") as error:
        guarded[(1,)](np.array([9, 1, 2, 3], np.int32), 3, out, 4, debug=True)
    assert error.value.place.startswith(__file__)
    assert "tl.device_assert(x < limit" in error.value.source
    assert out.tolist() == [-1] * 4, "nothing behind the assertion has run"
    assert launch(guarded, 4, debug=True).tolist() == [9, 1, 2, 3], "masked elements are not looked at"


def test_assertions_are_checked_where_debugging_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch(guarded, 3).tolist() == [9, 1, 2, 3]
    checked = portkit.jit(debug=True)(guarded.fn)
    with pytest.raises(KernelError, match="too large"):
        launch(checked, 3)
    with knobs.runtime.scope():
        knobs.runtime.debug = True
        with pytest.raises(KernelError, match="too large"):
            launch(guarded, 3)
    assert launch(guarded, 3).tolist() == [9, 1, 2, 3]
    monkeypatch.setenv("TRITON_DEBUG", "1")
    with pytest.raises(KernelError, match="too large"):
        launch(guarded, 3)
    with interpreted(), pytest.raises(KernelError, match="too large"):
        launch(guarded, 3)


def test_an_assertion_that_is_not_checked_costs_nothing() -> None:
    plain = guarded.warmup("*i32", "i32", "*i32", 4).asm["llir"]
    assert "portkit_host" not in plain
    checked = portkit.jit(debug=True)(guarded.fn).warmup("*i32", "i32", "*i32", 4)
    assert b"portkit_host" in checked.compiled.entry.code


@portkit.jit
def python_assert(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    assert x > 0, "x is positive"
    tl.store(out_ptr, x)


def test_assert_of_python_is_the_same(mode: str) -> None:
    out = np.zeros(1, np.int32)
    python_assert[(1,)](np.ones(1, np.int32), out, debug=True)
    assert out[0] == 1
    with pytest.raises(KernelError, match="x is positive"):
        python_assert[(1,)](np.zeros(1, np.int32), out, debug=True)


@portkit.jit
def in_loops(x_ptr, out_ptr, n):
    for k in range(n):
        x = tl.load(x_ptr + k)
        if x > 1:
            tl.device_assert(x != 5)
        tl.store(out_ptr + k, x)


def test_an_assertion_in_control_flow(mode: str) -> None:
    x, out = np.array([1, 2, 5, 7], np.int32), np.zeros(4, np.int32)
    with pytest.raises(KernelError, match="assertion failed"):
        in_loops[(1,)](x, out, 4, debug=True)
    assert out.tolist() == [1, 2, 0, 0]
    in_loops[(1,)](x, out, 2, debug=True)


def test_each_launch_tells_of_its_own_assertions() -> None:
    checked = portkit.jit(debug=True)(guarded.fn)
    x, out = np.array([9, 9, 9, 9], np.int32), np.zeros(4, np.int32)
    for _ in range(2):
        with pytest.raises(KernelError):
            checked[(2000,)](x, 3, out, 4)
    checked[(2000,)](x, 10, out, 4)
    assert out.tolist() == [9] * 4
