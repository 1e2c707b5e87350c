"""LLVM IR of the launcher: runs a kernel's grid on one thread, on an OpenMP team, or on a pool of our own.

A job is an array of 8-byte slots: kernel, number of programs, programs per chunk, threads, scratch, scratch
bytes per thread, pool, unused; then the kernel's own arguments.  `@portkit_run` takes a job and returns when
all its programs have run.  Threads take chunks from one counter, so that none waits for a slow one.

The pool: helpers wait for `generation` to change, for a while spinning, then in the kernel (futex).
Entering a job they add 1 to `state`, whose sign bit says that the job is closed: a helper that comes too
late turns back, and the launching thread waits only for those inside.  `busy` lets one launch at a time have
the helpers; another one that comes meanwhile runs its grid alone.  A thread beyond those that the job asks
for, and has scratch memory for, turns back too.
"""

from __future__ import annotations

from string import Template

from portkit.runtime.targets import Target

HEADER_SLOTS = 8
POOL_BYTES = 512  # generation, state, sleeping, job, busy, stop: each on its own cache line

_COMMON = Template("""
define internal void @work(ptr %block) {
entry:
  %job = load ptr, ptr %block
  %counter = getelementptr i8, ptr %block, i64 64
  %members = getelementptr i8, ptr %block, i64 128
  %kernel = load ptr, ptr %job
  %total_at = getelementptr i8, ptr %job, i64 8
  %total = load i64, ptr %total_at
  %chunk_at = getelementptr i8, ptr %job, i64 16
  %chunk = load i64, ptr %chunk_at
  %base_at = getelementptr i8, ptr %job, i64 32
  %base = load ptr, ptr %base_at
  %stride_at = getelementptr i8, ptr %job, i64 40
  %stride = load i64, ptr %stride_at
  %args = getelementptr i8, ptr %job, i64 64
  %threads_at = getelementptr i8, ptr %job, i64 24
  %threads = load i64, ptr %threads_at
  %member = atomicrmw add ptr %members, i64 1 monotonic
  %welcome = icmp slt i64 %member, %threads
  br i1 %welcome, label %join, label %done
join:
  %offset = mul i64 %member, %stride
  %scratch = getelementptr i8, ptr %base, i64 %offset
  br label %next
next:
  %begin = atomicrmw add ptr %counter, i64 %chunk monotonic
  %some = icmp slt i64 %begin, %total
  br i1 %some, label %run, label %done
run:
  %limit = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %limit, i64 %total)
  call void %kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  br label %next
done:
  ret void
}

define void @portkit_work(ptr %block) {
  call void @work(ptr %block)
  ret void
}

define void @portkit_run(ptr %job) {
entry:
  %threads_at = getelementptr i8, ptr %job, i64 24
  %threads = load i64, ptr %threads_at
  %many = icmp sgt i64 %threads, 1
  br i1 %many, label %together, label %alone
alone:
  %kernel = load ptr, ptr %job
  %total_at = getelementptr i8, ptr %job, i64 8
  %total = load i64, ptr %total_at
  %base_at = getelementptr i8, ptr %job, i64 32
  %base = load ptr, ptr %base_at
  %args = getelementptr i8, ptr %job, i64 64
  call void %kernel(ptr %args, i64 0, i64 %total, ptr %base)
  ret void
together:
  %block = alloca [24 x i64], align 64
  store ptr %job, ptr %block
  %counter = getelementptr i8, ptr %block, i64 64
  store i64 0, ptr %counter
  %members = getelementptr i8, ptr %block, i64 128
  store i64 0, ptr %members
  $together
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)
""")

_OPENMP_CALL = """%count = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @work, ptr %block, i32 %count, i32 0)"""

_POOL_CALL = """%pool_at = getelementptr i8, ptr %job, i64 48
  %pool = load ptr, ptr %pool_at
  call void @share(ptr %pool, ptr %block)"""

_POOL = Template("""
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)

define internal void @wake(ptr %pool) {
  %all = add i32 0, 2147483647
  %woken = call i64 (i64, ...) @syscall(i64 $futex, ptr %pool, i32 129, i32 %all, ptr null, ptr null, i32 0)
  ret void
}

define internal void @share(ptr %pool, ptr %block) {
entry:
  %state = getelementptr i8, ptr %pool, i64 64
  %sleeping = getelementptr i8, ptr %pool, i64 128
  %job = getelementptr i8, ptr %pool, i64 192
  %busy = getelementptr i8, ptr %pool, i64 256
  %claim = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %claimed = extractvalue { i32, i1 } %claim, 1
  br i1 %claimed, label %open, label %alone
alone:
  call void @work(ptr %block)
  ret void
open:
  store atomic ptr %block, ptr %job release, align 8
  %opened = atomicrmw and ptr %state, i32 2147483647 seq_cst
  %generation = atomicrmw add ptr %pool, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleeping seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %mine
wake:
  call void @wake(ptr %pool)
  br label %mine
mine:
  call void @work(ptr %block)
  %closed = atomicrmw or ptr %state, i32 -2147483648 seq_cst
  br label %wait
wait:
  %turn = phi i32 [0, %mine], [%turned, %spin], [0, %yield]
  %now = load atomic i32, ptr %state acquire, align 4
  %inside = and i32 %now, 2147483647
  %alldone = icmp eq i32 %inside, 0
  br i1 %alldone, label %leave, label %again
again:
  %short = icmp slt i32 %turn, 2000
  br i1 %short, label %spin, label %yield
spin:
  call void asm sideeffect "$pause", ""()
  %turned = add i32 %turn, 1
  br label %wait
yield:
  %yielded = call i32 @sched_yield()
  br label %wait
leave:
  store atomic i32 0, ptr %busy release, align 4
  ret void
}

define ptr @helper(ptr %pool) {
entry:
  %state = getelementptr i8, ptr %pool, i64 64
  %sleeping = getelementptr i8, ptr %pool, i64 128
  %job = getelementptr i8, ptr %pool, i64 192
  %stop = getelementptr i8, ptr %pool, i64 320
  br label %idle
idle:
  %seen = phi i32 [0, %entry], [%current, %next]
  br label %look
look:
  %turn = phi i32 [0, %idle], [%turned, %pause]
  %generation = load atomic i32, ptr %pool acquire, align 4
  %fresh = icmp ne i32 %generation, %seen
  br i1 %fresh, label %enter, label %pause
pause:
  call void asm sideeffect "$pause", ""()
  %turned = add i32 %turn, 1
  %patient = icmp slt i32 %turned, 500
  br i1 %patient, label %look, label %sleep
sleep:
  %more = atomicrmw add ptr %sleeping, i32 1 seq_cst
  %slept = call i64 (i64, ...) @syscall(i64 $futex, ptr %pool, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  %less = atomicrmw sub ptr %sleeping, i32 1 seq_cst
  %later = load atomic i32, ptr %pool acquire, align 4
  %changed = icmp ne i32 %later, %seen
  br i1 %changed, label %enter, label %sleep
enter:
  %current = load atomic i32, ptr %pool acquire, align 4
  %ending = load atomic i32, ptr %stop acquire, align 4
  %ended = icmp ne i32 %ending, 0
  br i1 %ended, label %exit, label %join
join:
  %before = atomicrmw add ptr %state, i32 1 acq_rel
  %late = icmp slt i32 %before, 0
  br i1 %late, label %next, label %help
help:
  %block = load atomic ptr, ptr %job acquire, align 8
  call void @work(ptr %block)
  br label %next
next:
  %after = atomicrmw sub ptr %state, i32 1 acq_rel
  br label %idle
exit:
  ret ptr null
}

define i32 @portkit_start(ptr %pool, i32 %helpers) {
entry:
  %state = getelementptr i8, ptr %pool, i64 64
  store atomic i32 -2147483648, ptr %state release, align 4
  %thread = alloca i64
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%n, %made]
  %more = icmp slt i32 %i, %helpers
  br i1 %more, label %make, label %done
make:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @helper, ptr %pool)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %made, label %done
made:
  %n = add i32 %i, 1
  br label %loop
done:
  ret i32 %i
}

define void @portkit_stop(ptr %pool) {
  %stop = getelementptr i8, ptr %pool, i64 320
  store atomic i32 1, ptr %stop seq_cst, align 4
  %generation = atomicrmw add ptr %pool, i32 1 seq_cst
  call void @wake(ptr %pool)
  ret void
}
""")


def text(kind: str, target: Target) -> str:
    """The launcher for a kind of threads.

    "openmp" calls `GOMP_parallel`; "pool" (Linux) also has `@portkit_start(pool, helpers)`, which returns the
    number of helpers started, and `@portkit_stop(pool)`; "python" has no threads: those of Python call
    `@portkit_work`.
    """
    if kind == "openmp":
        return _COMMON.substitute(together=_OPENMP_CALL) + "declare void @GOMP_parallel(ptr, ptr, i32, i32)\n"
    if kind == "pool":
        parts = _POOL.substitute(futex=str(target.futex), pause=target.pause)
        return _COMMON.substitute(together=_POOL_CALL) + parts
    return _COMMON.substitute(together="call void @work(ptr %block)")
