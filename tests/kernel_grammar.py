"""Random kernels as source text: what a choice function picks decides the whole kernel and its arguments.

The kernels are written so that their results are defined: floats meet comparisons, casts to integers and
further arithmetic only while they are exact in any order of evaluation that the compiler may choose; others
("rough" ones) are moved about, compared by no one, and stored to be compared within a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import portkit
import portkit.runtime.tile.language as tl
from portkit.runtime.tile.language.extra import libdevice

Choose = Callable[[int], int]  # one of 0, ..., n - 1

INTS = ("int8", "int16", "int32", "int64", "uint8", "uint32")
FLOATS = ("float16", "float32", "float64")
ROUGH = ("exp", "exp2", "tanh", "sigmoid", "sin", "cos", "erf")
SHAPES = ((1,), (4,), (16,), (64,), (128,), (8, 8), (16, 16), (2, 32), (32, 2), (4, 4, 4), (16, 1), (1, 16))
COUNT = 4  # arrays that are read; two more are written only


@portkit.jit
def collatz(n, most):
    steps = 0
    while (n != 1) & (steps < most):
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@portkit.jit
def larger(a, b):
    if a > b:
        return a
    return b


@portkit.jit
def add(a, b):
    return a + b


@portkit.jit
def mix(x, y, FLAG: tl.constexpr):
    if FLAG:
        return x + y
    return x - y


NAMES: dict[str, Any] = {
    "tl": tl,
    "libdevice": libdevice,
    "collatz": collatz,
    "larger": larger,
    "add": add,
    "mix": mix,
}


@dataclass
class Var:
    """A name of the kernel: a tile of the common shape, or a scalar."""

    name: str
    dtype: str
    scalar: bool = False


@dataclass
class Kernel:
    """A kernel as text, with what it is launched with."""

    text: str
    arrays: list[np.ndarray[Any, Any]]
    scalars: list[int]
    programs: int

    def __str__(self) -> str:
        kinds = ", ".join(f"{a.dtype}[{a.size}]" for a in self.arrays)
        return f"{self.text}\n# arrays: {kinds}; scalars: {self.scalars}; programs: {self.programs}"


@dataclass
class Grammar:
    """Grows one kernel."""

    choose: Choose
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    count: int = 0

    def __post_init__(self) -> None:
        self.shape = self.one(SHAPES)
        self.size = int(np.prod(self.shape))
        self.kinds = [self.one((*INTS, *FLOATS)) for _ in range(COUNT + 2)]
        self.ints: list[Var] = []
        self.floats: list[Var] = []  # exact ones
        self.bools: list[Var] = []
        self.rough: list[Var] = []

    # --- choices and text ---

    def one(self, items: Sequence[Any]) -> Any:
        return items[self.choose(len(items))]

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def let(self, text: str, dtype: str, where: list[Var], scalar: bool = False) -> Var:
        var = Var(self.fresh(), dtype, scalar)
        self.line(f"{var.name} = {text}")
        where.append(var)
        return var

    def integer(self) -> Var:
        return self.one(self.ints)

    def tile_of(self, var: Var) -> str:
        return f"tl.zeros({list(self.shape)}, tl.{var.dtype}) + {var.name}" if var.scalar else var.name

    def small(self, limit: int = 8) -> str:
        """An integer tile within [-limit, limit] as i32."""
        var = self.integer()
        return f"({self.tile_of(var)}).to(tl.int64) % {limit + 1}"

    def exact(self, dtype: str = "float32") -> str:
        """A float tile of small multiples of 1/8."""
        if self.floats and self.choose(3):
            var = self.one(self.floats)
            whole = f"tl.clamp(({var.name}).to(tl.float32), -8.0, 8.0) * 8.0"
            return f"(tl.floor({whole}) * 0.125).to(tl.{dtype})"
        return f"({self.small()}).to(tl.{dtype}) * 0.125"

    # --- the kernel ---

    def build(self, steps: int) -> Kernel:
        params = [*(f"p{k}" for k in range(COUNT + 2)), "n", "s"]
        self.lines.append(f"def kernel({', '.join(params)}):")
        self.line("pid = tl.program_id(0)")
        self.line(f"local = {self.offsets()}")
        self.line(f"at = pid * {self.size} + local")
        self.line("mask = at < n")
        self.ints = [Var("local", "int32"), Var("pid", "int32", True), Var("s", "int32", True)]
        self.bools = [Var("mask", "int1")]
        self.load()
        for _ in range(steps):
            self.step()
        self.store(COUNT)
        self.store(COUNT + 1)
        programs = 1 + self.choose(3)
        n = max(1, programs * self.size - self.choose(self.size))
        return Kernel("\n".join(self.lines) + "\n", self.arrays(n), [n, self.choose(6)], programs)

    def arrays(self, n: int) -> list[np.ndarray[Any, Any]]:
        rng = np.random.default_rng(self.choose(1 << 16))
        found = []
        for kind in self.kinds:
            values = rng.integers(0 if kind.startswith("u") else -40, 41, n)
            found.append((values / 8 if kind in FLOATS else values).astype(kind))
        return found

    def offsets(self) -> str:
        parts, step = [], 1
        for axis in reversed(range(len(self.shape))):
            index = ", ".join(":" if k == axis else "None" for k in range(len(self.shape)))
            row = f"tl.arange(0, {self.shape[axis]})"
            parts.append(f"{row}{f'[{index}]' if len(self.shape) > 1 else ''} * {step}")
            step *= self.shape[axis]
        return " + ".join(parts)

    def load(self) -> None:
        number = self.choose(COUNT)
        kind = self.kinds[number]
        where = self.floats if kind in FLOATS else self.ints
        index = "at"
        if self.choose(4) == 0:
            index = f"(pid * {self.size} + ({self.small(self.size - 1)} + {self.size}) % {self.size})"
        mask = f"{index} < n" if index != "at" or self.choose(2) else "mask"
        if self.choose(4) == 0:
            mask = f"({mask}) & {self.one(self.bools).name}"
        other = self.one(("", ", other=1", ", other=0"))
        self.let(f"tl.load(p{number} + {index}, mask={mask}{other})", kind, where)

    def store(self, number: int) -> None:
        kind = self.kinds[number]
        pool = self.ints if kind not in FLOATS else self.floats + self.rough
        if not pool:
            pool = self.ints
        var = self.one(pool)
        value = self.tile_of(var)
        if var.dtype == "float64" and kind == "float16":
            value = f"({value}).to(tl.float32)"
        self.line(f"tl.store(p{number} + at, {value}, mask=mask)")

    def step(self) -> None:
        getattr(self, self.one(_STEPS))()

    # --- steps ---

    def arithmetic(self) -> None:
        a, b = self.integer(), self.integer()
        op = self.one(("+", "-", "*", "//", "%", "&", "|", "^"))
        self.let(
            f"({a.name}).to(tl.int64) {op} ({b.name}).to(tl.int64)", "int64", self.ints, a.scalar and b.scalar
        )

    def narrow(self) -> None:
        a, kind = self.integer(), self.one(INTS)
        self.let(f"({a.name}).to(tl.{kind})", kind, self.ints, a.scalar)

    def mixed(self) -> None:
        """Arithmetic with the promotions of the language, between signed types of any width."""
        signed = [v for v in self.ints if not v.dtype.startswith("u")]
        a, b = self.one(signed), self.one(signed)
        op = self.one(("+", "-", "*", "&", "|", "^"))
        wide = max(a.dtype, b.dtype, key=lambda d: int(d[3:]))
        self.let(f"{a.name} {op} {b.name}", wide, self.ints, a.scalar and b.scalar)

    def shifts(self) -> None:
        a = self.integer()
        op = self.one(("<<", ">>"))
        self.let(f"({a.name}).to(tl.int32) {op} {self.choose(8)}", "int32", self.ints, a.scalar)

    def float_arithmetic(self) -> None:
        dtype = self.one(("float32", "float64"))
        a, b = self.exact(dtype), self.exact(dtype)
        text = self.one(("{} + {}", "{} - {}", "{} * {}", "tl.minimum({}, {})", "tl.maximum({}, {})"))
        self.let(text.format(f"({a})", f"({b})"), dtype, self.floats)

    def float_functions(self) -> None:
        a = self.exact(self.one(("float32", "float64")))
        name = self.one(("tl.abs", "tl.floor", "tl.ceil", "libdevice.trunc", "libdevice.rint", "-"))
        dtype = "float64" if "float64" in a.rpartition(".to")[2] else "float32"
        self.let(f"{name}({a})", dtype, self.floats)

    def halves(self) -> None:
        a, b = self.exact("float16"), self.exact("float16")
        self.let(f"({a}) {self.one('+-')} ({b})", "float16", self.floats)

    def rough_functions(self) -> None:
        self.let(f"tl.math.{self.one(ROUGH)}({self.exact()})", "float32", self.rough)

    def rough_quotient(self) -> None:
        self.let(f"({self.exact()}) / (tl.abs({self.exact()}) + 1.0)", "float32", self.rough)

    def compare(self) -> None:
        op = self.one(("<", "<=", ">", ">=", "==", "!="))
        if self.choose(2):
            self.let(f"({self.exact()}) {op} ({self.exact()})", "int1", self.bools)
        else:
            self.let(f"({self.small()}) {op} ({self.small()})", "int1", self.bools)

    def logic(self) -> None:
        a, b = self.one(self.bools), self.one(self.bools)
        self.let(f"{a.name} {self.one('&|^')} {b.name}", "int1", self.bools)

    def choice(self) -> None:
        test = self.one(self.bools).name
        if self.rough and self.choose(3) == 0:
            a, b = self.one(self.rough), self.one(self.rough)
            self.let(f"tl.where({test}, {a.name}, {b.name})", "float32", self.rough)
        elif self.choose(2):
            self.let(f"tl.where({test}, {self.exact()}, {self.exact()})", "float32", self.floats)
        else:
            self.let(f"tl.where({test}, {self.small()}, {self.small(3)})", "int64", self.ints)

    def reduction(self) -> None:
        """Along one axis, spread over the tile again."""
        axis = self.choose(len(self.shape))
        kind = self.one(("sum", "max", "min", "argmax", "argmin", "xor_sum"))
        if kind in ("argmax", "argmin"):
            text = f"tl.{kind}({self.one((self.small(), self.exact()))}, {axis}, keep_dims=True)"
            return self._spread(text, "int32", self.ints)
        if kind == "xor_sum" or self.choose(2):
            return self._spread(f"tl.{kind}({self.small(100)}, {axis}, keep_dims=True)", "int64", self.ints)
        return self._spread(f"tl.{kind}({self.exact()}, {axis}, keep_dims=True)", "float32", self.floats)

    def _spread(self, text: str, dtype: str, where: list[Var]) -> None:
        self.let(f"tl.broadcast_to({text}, {list(self.shape)})", dtype, where)

    def custom_reduction(self) -> None:
        axis = self.choose(len(self.shape))
        self._spread(f"tl.reduce({self.small(100)}, {axis}, add, keep_dims=True)", "int64", self.ints)

    def scan(self) -> None:
        axis = self.choose(len(self.shape))
        backwards = self.one(("", ", reverse=True"))
        kind = self.choose(3)
        if kind == 0:
            self.let(f"tl.cumsum({self.exact()}, {axis}{backwards})", "float32", self.floats)
        elif kind == 1:
            self.let(f"tl.cumsum({self.small(50)}, {axis}{backwards})", "int64", self.ints)
        else:
            self.let(f"tl.associative_scan({self.small(50)}, {axis}, add{backwards})", "int64", self.ints)

    def order(self) -> None:
        value, dtype, where = self.one(
            ((self.small(50), "int64", self.ints), (self.exact(), "float32", self.floats))
        )
        text = self.one(("tl.sort({})", "tl.sort({}, descending=True)", "tl.flip({})"))
        self.let(text.format(value), dtype, where)

    def top(self) -> None:
        last = self.shape[-1]
        k = 1 << self.choose(last.bit_length())
        text = f"tl.sum(tl.topk({self.small(50)}, {k}), {len(self.shape) - 1}, keep_dims=True)"
        self._spread(text, "int64", self.ints)

    def pick(self) -> None:
        axis = self.choose(len(self.shape))
        index = f"(({self.small()}) + 9).to(tl.int32) % {self.shape[axis]}"
        self.let(f"tl.gather({self.exact()}, {index}, {axis})", "float32", self.floats)

    def reshaped(self) -> None:
        """There and back, with the elements moved in between."""
        flat = f"tl.reshape({self.exact()}, [{self.size}])"
        if self.size > 1 and self.choose(2):
            flat = f"tl.ravel(tl.trans(tl.reshape({flat}, [2, {self.size // 2}])))"
        self.let(f"tl.reshape({flat}, {list(self.shape)})", "float32", self.floats)

    def pairs(self) -> None:
        name = self.fresh()
        self.line(f"{name}a, {name}b = tl.split(tl.join({self.exact()}, {self.exact()}))")
        self.let(f"{name}a - {name}b", "float32", self.floats)

    def counts(self) -> None:
        bins = 1 << self.choose(5)
        flat = f"tl.ravel((({self.small(50)}) + 51).to(tl.int32) % {bins})"
        self._spread_scalar(f"tl.sum(tl.histogram({flat}, {bins}) * tl.arange(0, {bins}), 0)", "int32")

    def _spread_scalar(self, text: str, dtype: str) -> None:
        self.let(text, dtype, self.ints, scalar=True)

    def product(self) -> None:
        if len(self.shape) != 2 or min(self.shape) < 16:
            return self.float_arithmetic()
        kind = self.one(("float32", "float16", "bfloat16"))
        a, b = (f"(({self.exact()}) * 8.0).to(tl.{kind})" for _ in range(2))
        self.let(f"tl.dot({a}, tl.trans({b})) * 0.125", "float32", self.floats)
        return None

    def mapped(self) -> None:
        if self.choose(2):
            value = f"((({self.small(30)}) + 31) % 31 + 1).to(tl.int32)"
            self.let(f"tl.map_elementwise(collatz, {value}, {4 + self.choose(20)})", "int32", self.ints)
        else:
            text = f"tl.map_elementwise(larger, {self.exact()}, {self.exact()})"
            self.let(text, "float32", self.floats)

    def called(self) -> None:
        flag = self.one(("True", "False"))
        self.let(f"mix({self.exact()}, {self.exact()}, {flag})", "float32", self.floats)

    def scalar(self) -> None:
        text = self.one(("tl.num_programs(0) * 3 - s", "pid * s + 1", "tl.cdiv(n, 7)", "min(s, pid)"))
        self.let(text, "int32", self.ints, scalar=True)

    def memory(self) -> None:
        """A store in the middle, so that later loads see it; or an atomic on the program's own elements."""
        number = self.choose(COUNT)
        kind = self.kinds[number]
        if kind in ("int32", "int64") and self.choose(2):
            name = self.one(("add", "max", "min", "and", "or", "xor"))
            value = f"({self.small(50)}).to(tl.{kind})"
            self.let(f"tl.atomic_{name}(p{number} + at, {value}, mask=mask)", kind, self.ints)
        elif kind in FLOATS:
            self.line(f"tl.store(p{number} + at, {self.exact()}, mask=mask)")
        else:
            self.line(f"tl.store(p{number} + at, {self.small(50)}, mask=mask)")
        self.load()

    def loop(self) -> None:
        """A tile and a scalar carried round."""
        name, count = self.fresh(), self.one(("s", "3", "tl.cdiv(n, 40)", "pid + 1"))
        self.line(f"{name} = {self.exact()}")
        self.line(f"{name}n = 0")
        head = self.one(("range({})", "tl.range(0, {})", "range(1, {}, 2)")).format(count)
        self.line(f"for k{name} in {head}:")
        self.indent += 1
        saved = [list(pool) for pool in (self.ints, self.floats, self.bools, self.rough)]
        self.ints.append(Var(f"k{name}", "int32", True))
        self.step()
        self.line(f"{name} = tl.clamp({name} * 0.5, -8.0, 8.0) + ({self.exact()})")
        self.line(f"{name} = tl.floor({name} * 8.0) * 0.125")
        self.line(f"{name}n += k{name}")
        self.indent -= 1
        self.ints, self.floats, self.bools, self.rough = saved
        self.floats.append(Var(name, "float32"))
        self.ints.append(Var(f"{name}n", "int32", True))

    def unrolled(self) -> None:
        name = self.fresh()
        self.line(f"{name} = {self.small()}")
        self.line(f"for k{name} in tl.static_range({1 + self.choose(3)}):")
        self.line(f"    {name} = ({name} + ({self.small()})) * (k{name} + 1) % 97")
        self.ints.append(Var(name, "int64"))

    def branch(self) -> None:
        name = self.fresh()
        test = self.one(("pid % 2 == 0", "s > 2", "n > 50", f"tl.sum(tl.ravel({self.small()}), 0) > 3"))
        self.line(f"{name} = {self.exact()}")
        self.line(f"if {test}:")
        self.indent += 1
        saved = [list(pool) for pool in (self.ints, self.floats, self.bools, self.rough)]
        self.step()
        self.line(f"{name} = {self.exact()}")
        self.indent -= 1
        self.ints, self.floats, self.bools, self.rough = (list(pool) for pool in saved)
        if self.choose(2):
            self.line("else:")
            self.indent += 1
            self.step()
            self.line(f"{name} = ({self.exact()}) + 1.0")
            self.indent -= 1
            self.ints, self.floats, self.bools, self.rough = saved
        self.floats.append(Var(name, "float32"))

    def while_loop(self) -> None:
        name = self.fresh()
        self.line(f"{name} = {self.one(('s', 'pid', 'n % 7'))}")
        self.line(f"{name}t = {self.exact()}")
        self.line(f"while {name} > 0:")
        self.line(f"    {name}t = tl.floor(({name}t + ({self.exact()})) * 4.0) * 0.125")
        self.line(f"    {name} -= {1 + self.choose(2)}")
        self.ints.append(Var(name, "int32", True))
        self.floats.append(Var(f"{name}t", "float32"))


_STEPS = (
    *("arithmetic", "narrow", "mixed", "shifts", "float_arithmetic", "float_functions", "halves"),
    *("rough_functions", "rough_quotient", "compare", "logic", "choice", "reduction", "custom_reduction"),
    *("scan", "order", "top", "pick", "reshaped", "pairs", "counts", "product", "mapped", "called", "scalar"),
    *("memory", "memory", "loop", "loop", "unrolled", "branch", "branch", "while_loop", "load", "load"),
)
