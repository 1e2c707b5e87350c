"""Grids over threads: every program runs once, on each kind of team, from several threads, and after a fork.

The kernel here is LLVM IR by hand, so that these tests need no part of the compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from portkit.errors import KernelError, UsageError
from portkit.runtime.targets import host
from portkit.runtime.tile import cache, ir, launch, load, threads
from portkit.runtime.tile.compile import Compiled

# For each program: adds 1 to its counter; and writes, through scratch memory, its id next to it.
KERNEL = """
define void @count(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %at = getelementptr i8, ptr %args, i64 24
  %counts = load ptr, ptr %at
  br label %next
next:
  %i = phi i64 [%begin, %entry], [%n, %run]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %run, label %done
run:
  %twice = mul i64 %i, 2
  %counter = getelementptr i64, ptr %counts, i64 %twice
  %value = atomicrmw add ptr %counter, i64 1 monotonic
  store volatile i64 %i, ptr %scratch
  %beside = getelementptr i64, ptr %counter, i64 1
  %back = load volatile i64, ptr %scratch
  store i64 %back, ptr %beside
  %n = add i64 %i, 1
  br label %next
done:
  ret void
}
"""
I64_POINTER = ir.Type(ir.Pointer(ir.I64))


def make_launcher(stored=frozenset({0})):
    entry = cache.Entry(load.text_to_code(KERNEL, host()), "count", 8)
    return launch.Launcher(Compiled("count", entry, (I64_POINTER,), stored, False), [0], ["counts"])


def run(launcher, grid):
    counts = np.zeros((grid[0] * grid[1] * grid[2], 2), np.int64)
    launcher(grid, [counts.ctypes.data], [counts])
    return counts


def check(counts, times=1):
    assert (counts[:, 0] == times).all()
    assert (counts[:, 1] == np.arange(len(counts))).all()


@pytest.fixture
def fresh(monkeypatch):
    """A new team by the environment variables that a test sets."""
    before = list(threads._CHOSEN)
    threads._CHOSEN.clear()
    yield monkeypatch
    threads._CHOSEN[:] = before


@pytest.mark.parametrize("kind", ["pool", "python"])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_program_runs_once(fresh, kind, count):
    fresh.setitem(sys.modules, "torch", None)
    fresh.setenv("PORTKIT_THREADS", kind)
    fresh.setenv("PORTKIT_NUM_THREADS", str(count))
    assert (threads.current().kind, threads.current().size()) == (kind, count)
    launcher = make_launcher()
    for grid in [(1, 1, 1), (2, 1, 1), (3, 5, 7), (10_007, 1, 1)]:
        launcher.program_ns = float("inf")  # takes all threads
        check(run(launcher, grid))


def test_torchs_team_is_shared(fresh):
    torch = pytest.importorskip("torch")
    if threads.openmp_library() is None:
        assert threads.current().kind in ("pool", "python")
        return
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert (threads.current().kind, threads.current().size()) == ("openmp", 2)
        launcher = make_launcher()
        for _ in range(20):
            launcher.program_ns = float("inf")
            check(run(launcher, (1001, 1, 1)))
        torch.set_num_threads(1)
        assert threads.current().size() == 1
    finally:
        torch.set_num_threads(before)


def test_an_empty_grid_runs_nothing(fresh):
    assert run(make_launcher(), (0, 5, 1)).size == 0


def test_short_work_stays_on_one_thread(fresh):
    launcher = make_launcher()
    seen = []
    team = threads.current()
    launcher.alone = lambda job: seen.append(int.from_bytes(job[24:32], "little"))
    fresh.setattr(team, "run", launcher.alone)
    fresh.setattr(team, "size", lambda: 4)
    launcher.program_ns = 10.0
    run(launcher, (100, 1, 1))
    launcher.program_ns = 1e6
    run(launcher, (3, 1, 1))
    assert seen == [1, 3]


def test_many_launches_in_a_row_neither_hang_nor_miss(fresh):
    fresh.setitem(sys.modules, "torch", None)
    fresh.setenv("PORTKIT_NUM_THREADS", "4")
    launcher = make_launcher()
    counts = np.zeros((16, 2), np.int64)
    for _ in range(3000):
        launcher.program_ns = float("inf")
        launcher((16, 1, 1), [counts.ctypes.data], [counts])
    check(counts, 3000)


def test_helpers_wake_from_sleep(fresh):
    fresh.setitem(sys.modules, "torch", None)
    fresh.setenv("PORTKIT_NUM_THREADS", "3")
    launcher = make_launcher()
    for _ in range(5):
        launcher.program_ns = float("inf")
        check(run(launcher, (5000, 1, 1)))
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["pool", "python"])
def test_launches_from_several_threads_do_not_mix(fresh, kind):
    fresh.setitem(sys.modules, "torch", None)
    fresh.setenv("PORTKIT_THREADS", kind)
    fresh.setenv("PORTKIT_NUM_THREADS", "3")
    launcher = make_launcher()
    faults = []

    def work():
        try:
            for _ in range(100):
                launcher.program_ns = float("inf")
                check(run(launcher, (97, 3, 1)))
        except BaseException as error:
            faults.append(error)
            raise

    crowd = [threading.Thread(target=work) for _ in range(4)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join(60)
    assert not faults
    assert not any(thread.is_alive() for thread in crowd)


FORK = """
import os, sys
sys.path.insert(0, {tests!r})
{first}
import test_threads as t
launcher = t.make_launcher()
def go():
    for _ in range(50):
        launcher.program_ns = float("inf")
        t.check(t.run(launcher, (501, 1, 1)))
    return t.threads.current().kind
before = go()
child = os.fork()
if child == 0:
    after = go()
    os._exit(0 if after == "pool" else 3)
assert os.waitpid(child, 0)[1] == 0
go()
print(before)
"""


@pytest.mark.parametrize("first", ["", "import torch; torch.set_num_threads(2)"])
def test_a_forked_child_makes_its_own_pool(first):
    if first:
        pytest.importorskip("torch")
    code = textwrap.dedent(FORK).format(tests=os.path.dirname(__file__), first=first)
    environment = {**os.environ, "PORTKIT_NUM_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in threads.KINDS


def test_the_process_ends_while_helpers_sleep():
    code = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import test_threads as t
        launcher = t.make_launcher()
        t.check(t.run(launcher, (501, 1, 1)))
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_read_only_array_is_refused_where_the_kernel_stores():
    counts = np.zeros((4, 2), np.int64)
    counts.flags.writeable = False
    with pytest.raises(KernelError, match="`counts` of kernel `count` is a read-only array"):
        make_launcher()((4, 1, 1), [counts.ctypes.data], [counts])
    make_launcher(stored=frozenset())((0, 1, 1), [counts.ctypes.data], [counts])


@pytest.mark.parametrize("text", ["0", "-1", "many", "2.5"])
def test_a_number_of_threads_that_is_none_is_refused(fresh, text):
    fresh.setenv("PORTKIT_NUM_THREADS", text)
    with pytest.raises(UsageError, match="PORTKIT_NUM_THREADS"):
        threads.current()


def test_a_kind_of_threads_that_there_is_not_is_refused(fresh):
    fresh.setenv("PORTKIT_THREADS", "green")
    with pytest.raises(UsageError, match="PORTKIT_THREADS"):
        threads.current()


@pytest.mark.parametrize(
    ("kind", "value", "packed"),
    [
        (ir.Type(ir.I1), True, b"\x01" + bytes(7)),
        (ir.Type(ir.I32), -1, b"\xff" * 8),
        (ir.Type(ir.I64), -(2**63), bytes(7) + b"\x80"),
        (ir.Type(ir.U64), 2**64 - 1, b"\xff" * 8),
        (ir.Type(ir.F32), 1.0, b"\x00\x00\x80\x3f" + bytes(4)),
        (ir.Type(ir.F64), 1.0, bytes(6) + b"\xf0\x3f"),
        (ir.Type(ir.F16), 1.0, b"\x00\x3c" + bytes(6)),
        (I64_POINTER, 258, b"\x02\x01" + bytes(6)),
    ],
    ids=lambda v: str(v) if isinstance(v, ir.Type) else "",
)
def test_arguments_lie_in_slots_as_kernels_expect(kind, value, packed):
    import struct

    assert struct.pack(f"<{launch.slot_format(kind)}", value) == packed
