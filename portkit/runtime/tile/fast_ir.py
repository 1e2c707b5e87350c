"""LLVM IR of the quick launch: one C function that checks a call's arguments and runs a short kernel itself.

`@portkit_fast(self, args, nargs)` is called by CPython (METH_FASTCALL) with a grid and the arguments; `self`
is an int, the address of the head.  It looks for an entry that fits every argument, packs the slots and runs
the grid on this thread; gives None, or NotImplemented when no entry fits or the work is worth more threads.

Head, in 8-byte fields: first entry; None; NotImplemented; the types int and tuple; the attribute names dtype,
is_cpu, data_ptr; True.  Entry: next entry, number of arguments, kernel, scratch, address of the nanoseconds
that a program takes, unused; then 32 bytes for each argument: kind, two pointers to compare, facts.
"""

from __future__ import annotations

from string import Template

HEAD_FIELDS = 9
ENTRY_FIELDS = 6
ARGUMENT_FIELDS = 4
MAX_ARGUMENTS = 60

# Kinds of arguments; what the two pointers and the facts are.
SAME = 0  # the object itself
CONSTANT = 1  # the type int, a value
ARRAY = 2  # numpy.ndarray, its dtype; 1: aligned, 2: must be writable
TENSOR = 3  # the type, its dtype; 1: aligned
INT = 4  # the type int; 1: fits in 32 bits, 2: divisible by 16, 4: is 1
FLOAT = 5  # the type float
BOOL = 6  # the type bool, True

_MATCH = """
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @clock_gettime(i32, ptr)

define internal ptr @field(ptr %base, i64 %index) {
  %at = getelementptr ptr, ptr %base, i64 %index
  %value = load ptr, ptr %at
  ret ptr %value
}

define internal ptr @type(ptr %object) {
  %value = call ptr @field(ptr %object, i64 1)
  ret ptr %value
}

; The value of an attribute as a borrowed reference (the owner keeps it alive), or null.
define internal ptr @attribute(ptr %object, ptr %name) {
entry:
  %value = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %none = icmp eq ptr %value, null
  br i1 %none, label %failed, label %found
failed:
  call void @PyErr_Clear()
  ret ptr null
found:
  call void @Py_DecRef(ptr %value)
  ret ptr %value
}

define internal i1 @aligned(i64 %address, i64 %facts) {
  %low = and i64 %address, 15
  %is = icmp eq i64 %low, 0
  %bit = and i64 %facts, 1
  %should = icmp ne i64 %bit, 0
  %right = icmp eq i1 %is, %should
  ret i1 %right
}

; 0: the argument does not fit; 1: it does; 2: it does, and its number is in the slot.
define internal i32 @match(ptr %head, ptr %record, ptr %object, ptr %slot) {
entry:
  %overflow = alloca i32
  %receiver = alloca [2 x ptr]
  %kind = load i64, ptr %record
  %want = call ptr @field(ptr %record, i64 1)
  %second = call ptr @field(ptr %record, i64 2)
  %facts_at = getelementptr i8, ptr %record, i64 24
  %facts = load i64, ptr %facts_at
  %type = call ptr @type(ptr %object)
  %typed = icmp eq ptr %type, %want
  switch i64 %kind, label %same [
    i64 1, label %constant
    i64 2, label %array
    i64 3, label %tensor
    i64 4, label %int
    i64 5, label %float
    i64 6, label %bool
  ]
no:
  ret i32 0
number:
  ret i32 2
same:
  %itself = icmp eq ptr %object, %want
  %one = zext i1 %itself to i32
  ret i32 %one

constant:
  br i1 %typed, label %constant.value, label %no
constant.value:
  %c = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %c.wide = load i32, ptr %overflow
  %c.fits = icmp eq i32 %c.wide, 0
  %c.want = ptrtoint ptr %second to i64
  %c.equal = icmp eq i64 %c, %c.want
  %c.right = and i1 %c.fits, %c.equal
  %c.one = zext i1 %c.right to i32
  ret i32 %c.one

array:
  br i1 %typed, label %array.look, label %no
array.look:
  %descr = call ptr @field(ptr %object, i64 7)
  %a.dtype = icmp eq ptr %descr, %second
  %data = call ptr @field(ptr %object, i64 2)
  %a = ptrtoint ptr %data to i64
  %a.aligned = call i1 @aligned(i64 %a, i64 %facts)
  %flags_at = getelementptr i8, ptr %object, i64 64
  %flags = load i32, ptr %flags_at
  %writable = and i32 %flags, 1024
  %a.writable = icmp ne i32 %writable, 0
  %needed = and i64 %facts, 2
  %a.free = icmp eq i64 %needed, 0
  %a.may = or i1 %a.writable, %a.free
  %a.both = and i1 %a.dtype, %a.aligned
  %a.right = and i1 %a.both, %a.may
  store i64 %a, ptr %slot
  br i1 %a.right, label %number, label %no

tensor:
  br i1 %typed, label %tensor.dtype, label %no
tensor.dtype:
  %dtype_name = call ptr @field(ptr %head, i64 5)
  %dtype = call ptr @attribute(ptr %object, ptr %dtype_name)
  %t.dtype = icmp eq ptr %dtype, %second
  br i1 %t.dtype, label %tensor.place, label %no
tensor.place:
  %cpu_name = call ptr @field(ptr %head, i64 6)
  %cpu = call ptr @attribute(ptr %object, ptr %cpu_name)
  %true = call ptr @field(ptr %head, i64 8)
  %t.cpu = icmp eq ptr %cpu, %true
  br i1 %t.cpu, label %tensor.data, label %no
tensor.data:
  %method = call ptr @field(ptr %head, i64 7)
  %first = getelementptr ptr, ptr %receiver, i64 1
  store ptr %object, ptr %first
  %address = call ptr @PyObject_VectorcallMethod(ptr %method, ptr %first, i64 -9223372036854775807, ptr null)
  %t.none = icmp eq ptr %address, null
  br i1 %t.none, label %tensor.failed, label %tensor.value
tensor.failed:
  call void @PyErr_Clear()
  ret i32 0
tensor.value:
  %t = call i64 @PyLong_AsLongLongAndOverflow(ptr %address, ptr %overflow)
  call void @Py_DecRef(ptr %address)
  store i64 %t, ptr %slot
  %t.aligned = call i1 @aligned(i64 %t, i64 %facts)
  br i1 %t.aligned, label %number, label %no

int:
  br i1 %typed, label %int.value, label %no
int.value:
  %i = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %i.wide = load i32, ptr %overflow
  %i.fits = icmp eq i32 %i.wide, 0
  %i.short = trunc i64 %i to i32
  %i.back = sext i32 %i.short to i64
  %i.small = icmp eq i64 %i, %i.back
  %i.low = and i64 %i, 15
  %i.sixteen = icmp eq i64 %i.low, 0
  %i.is1 = icmp eq i64 %i, 1
  %bit0 = zext i1 %i.small to i64
  %bit1 = select i1 %i.sixteen, i64 2, i64 0
  %bit2 = select i1 %i.is1, i64 4, i64 0
  %bits01 = or i64 %bit0, %bit1
  %bits = or i64 %bits01, %bit2
  %i.facts = icmp eq i64 %bits, %facts
  %i.right = and i1 %i.fits, %i.facts
  store i64 %i, ptr %slot
  br i1 %i.right, label %number, label %no

float:
  br i1 %typed, label %float.value, label %no
float.value:
  %f = call double @PyFloat_AsDouble(ptr %object)
  %f.short = fptrunc double %f to float
  store i64 0, ptr %slot
  store float %f.short, ptr %slot
  br label %number

bool:
  br i1 %typed, label %bool.value, label %no
bool.value:
  %b = icmp eq ptr %object, %second
  %b.byte = zext i1 %b to i64
  store i64 %b.byte, ptr %slot
  br label %number
}
"""

_LAUNCH = Template("""
; One size of a grid: 1 beyond its end, -1 for what is no size.
define internal i64 @size(ptr %head, ptr %grid, i64 %index, i64 %count) {
entry:
  %overflow = alloca i32
  %beyond = icmp sge i64 %index, %count
  br i1 %beyond, label %one, label %item
one:
  ret i64 1
item:
  %object = call ptr @PyTuple_GetItem(ptr %grid, i64 %index)
  %type = call ptr @type(ptr %object)
  %int = call ptr @field(ptr %head, i64 3)
  %typed = icmp eq ptr %type, %int
  br i1 %typed, label %value, label %bad
value:
  %n = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %over = icmp ugt i64 %n, 2147483647
  br i1 %over, label %bad, label %good
good:
  ret i64 %n
bad:
  ret i64 -1
}

define internal i64 @now() {
  %time = alloca [2 x i64]
  %done = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %part_at = getelementptr i64, ptr %time, i64 1
  %part = load i64, ptr %part_at
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %part
  ret i64 %ns
}

define ptr @portkit_fast(ptr %self, ptr %args, i64 %nargs) {
entry:
  %slots = alloca [64 x i64], align 64
  %head = call ptr @PyLong_AsVoidPtr(ptr %self)
  %some = icmp sgt i64 %nargs, 0
  br i1 %some, label %look, label %miss
look:
  %grid = load ptr, ptr %args
  %grid.type = call ptr @type(ptr %grid)
  %tuple = call ptr @field(ptr %head, i64 4)
  %typed = icmp eq ptr %grid.type, %tuple
  br i1 %typed, label %sizes, label %miss
sizes:
  %count = call i64 @PyTuple_Size(ptr %grid)
  %less = sub i64 %count, 1
  %many = icmp ugt i64 %less, 2
  br i1 %many, label %miss, label %three
three:
  %x = call i64 @size(ptr %head, ptr %grid, i64 0, i64 %count)
  %y = call i64 @size(ptr %head, ptr %grid, i64 1, i64 %count)
  %z = call i64 @size(ptr %head, ptr %grid, i64 2, i64 %count)
  %xy = or i64 %x, %y
  %xyz = or i64 %xy, %z
  %wrong = icmp slt i64 %xyz, 0
  br i1 %wrong, label %miss, label %search
search:
  %given = sub i64 %nargs, 1
  %first = load ptr, ptr %head
  br label %try
try:
  %entry.now = phi ptr [ %first, %search ], [ %following, %next ]
  %end = icmp eq ptr %entry.now, null
  br i1 %end, label %miss, label %arity
arity:
  %following = load ptr, ptr %entry.now
  %expected_at = getelementptr i64, ptr %entry.now, i64 1
  %expected = load i64, ptr %expected_at
  %fits = icmp eq i64 %expected, %given
  br i1 %fits, label %argument, label %next
next:
  br label %try
argument:
  %i = phi i64 [ 0, %arity ], [ %i.next, %matched ]
  %s = phi i64 [ 3, %arity ], [ %s.next, %matched ]
  %all = icmp eq i64 %i, %given
  br i1 %all, label %weigh, label %one
one:
  %i.next = add i64 %i, 1
  %object = call ptr @field(ptr %args, i64 %i.next)
  %offset = mul i64 %i, $argument
  %offset.all = add i64 %offset, $header
  %record = getelementptr i8, ptr %entry.now, i64 %offset.all
  %slot = getelementptr i64, ptr %slots, i64 %s
  %code = call i32 @match(ptr %head, ptr %record, ptr %object, ptr %slot)
  %mismatch = icmp eq i32 %code, 0
  br i1 %mismatch, label %next, label %matched
matched:
  %slotted = icmp eq i32 %code, 2
  %step = zext i1 %slotted to i64
  %s.next = add i64 %s, %step
  br label %argument
weigh:
  %plane = mul i64 %x, %y
  %big = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %plane, i64 %z)
  %total = extractvalue { i64, i1 } %big, 0
  %huge = extractvalue { i64, i1 } %big, 1
  br i1 %huge, label %miss, label %weigh.few
weigh.few:
  %cost = call ptr @field(ptr %entry.now, i64 4)
  %each = load double, ptr %cost
  %total.f = sitofp i64 %total to double
  %work = fmul double %each, %total.f
  %short = fcmp ole double %work, $limit
  %single = icmp sle i64 %total, 1
  %here = or i1 %short, %single
  br i1 %here, label %run, label %miss
run:
  store i64 %x, ptr %slots
  %y_at = getelementptr i64, ptr %slots, i64 1
  store i64 %y, ptr %y_at
  %z_at = getelementptr i64, ptr %slots, i64 2
  store i64 %z, ptr %z_at
  %kernel = call ptr @field(ptr %entry.now, i64 2)
  %scratch = call ptr @field(ptr %entry.now, i64 3)
  br i1 %single, label %once, label %timed
once:
  call void %kernel(ptr %slots, i64 0, i64 %total, ptr %scratch)
  br label %done
timed:
  %start = call i64 @now()
  call void %kernel(ptr %slots, i64 0, i64 %total, ptr %scratch)
  %stop = call i64 @now()
  %taken = sub i64 %stop, %start
  %taken.f = sitofp i64 %taken to double
  %average = fdiv double %taken.f, %total.f
  store double %average, ptr %cost
  br label %done
done:
  %none = call ptr @field(ptr %head, i64 1)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
miss:
  %not = call ptr @field(ptr %head, i64 2)
  call void @Py_IncRef(ptr %not)
  ret ptr %not
}
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
""")

SYMBOLS = (
    *("PyLong_AsLongLongAndOverflow", "PyLong_AsVoidPtr", "PyFloat_AsDouble", "PyObject_GetAttr"),
    *(
        "PyObject_VectorcallMethod",
        "PyTuple_Size",
        "PyTuple_GetItem",
        "PyErr_Clear",
        "Py_IncRef",
        "Py_DecRef",
    ),
)


def text(limit_ns: float) -> str:
    """The function; work of more than `limit_ns` nanoseconds is left to the launcher with threads."""
    fields = {"argument": 8 * ARGUMENT_FIELDS, "header": 8 * ENTRY_FIELDS, "limit": f"{limit_ns:.6e}"}
    return _MATCH + _LAUNCH.substitute(fields)
