"""Mathematical functions as polynomials in IR: no library is called, and every lane costs the same.

f32 is good to 2 ulp, f64 to about 2 ulp; NaN, infinities, denormals and signed zeros come out right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from portkit.errors import KernelError
from portkit.runtime.targets import Target
from portkit.runtime.tile.lower.emit import Code, V

Operand: TypeAlias = "V | float"

EXP_F32 = (1.98527617612853646e-4, 1.39304355252534151e-3, 8.33336077630519866943e-3,
           4.16664853692054748535e-2, 1.66666671633720397949e-1, 0.5)  # fmt: skip
EXP2_F32 = (1.5461447460322846e-4, 1.3390867351310359e-3, 9.618056669894421e-3, 5.550357104253142e-2,
            2.402265092234269e-1, 6.931471880293424e-1)  # fmt: skip
TANH_F32 = (2.198873595117113e-3, -8.234838140832238e-3, 2.1722463841874755e-2, -5.395046331428795e-2,
            1.3333233046209605e-1, -3.333333142898053e-1)  # fmt: skip
ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
LOG_ODD = (-0.130310059, -0.121483512, -0.166846126, -0.249996200)
LOG_EVEN = (0.140869141, 0.139814854, 0.200120345)
LOG_F64_EVEN = (1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01)
LOG_F64_ODD = (1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01,
               6.666666666666735130e-01)  # fmt: skip
TANH_F64_P = (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3)
TANH_F64_Q = (1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3)
SIN_F32 = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS_F32 = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
SIN_F64 = (1.58969099521155010221e-10, -2.50507602534068634195e-8, 2.75573137070700676789e-6,
           -1.98412698298579493134e-4, 8.33333333332248946124e-3, -1.66666666666666324348e-1)  # fmt: skip
COS_F64 = (-1.13596475577881948265e-11, 2.08757232129817482790e-9, -2.75573143513906633035e-7,
           2.48015872894767294178e-5, -1.38888888888741095749e-3, 4.16666666666666019037e-2)  # fmt: skip
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)  # π/2 in three f64 pieces
LOG2_E, LOG2_E_LOW = 1.44269502162933349609375, 1.925963033500617e-8  # f32 pieces
TURN = (42722829, 194220293, 78114973, 99908941, 58131309, 145057359, 17711367)  # 1 / 2π, 28 bits each


class Math:
    """Emits functions of one argument, scalar or vector, of "float" or "double"."""

    def __init__(self, code: Code, target: Target) -> None:
        self.code = code
        self.target = target
        x86 = target.name == "x86_64"
        self.has_fma = not x86 or target.has("fma") or target.has("avx512f")
        self.has_floor = (x86 and target.has("sse4.1")) or target.name == "aarch64"
        self.has_scalef = x86 and target.has("avx512f")

    # --- small words ----------------------------------------------------------------------------------

    def lift(self, like: V, *operands: Operand) -> list[V]:
        return [o if isinstance(o, V) else self.code.const(o, like.type) for o in operands]

    def add(self, a: V, b: Operand) -> V:
        return self.code.bin("fadd", a, self.lift(a, b)[0])

    def sub(self, a: Operand, b: V) -> V:
        return self.code.bin("fsub", self.lift(b, a)[0], b)

    def mul(self, a: V, b: Operand) -> V:
        return self.code.bin("fmul", a, self.lift(a, b)[0])

    def div(self, a: Operand, b: V) -> V:
        return self.code.bin("fdiv", self.lift(b, a)[0], b)

    def fma(self, a: V, b: Operand, c: Operand) -> V:
        """a·b + c, in one rounding where the target can."""
        b, c = self.lift(a, b, c)
        if self.has_fma:
            return self.code.call(f"llvm.fma.{a.type.suffix}", a.type, a, b, c)
        return self.code.bin("fadd", self.code.bin("fmul", a, b), c)

    def exact_fma(self, a: V, b: V, c: V) -> V:
        """a·b + c with one rounding on every target."""
        if self.has_fma:
            return self.fma(a, b, c)
        if a.type.elt == "double":
            raise KernelError("this processor has no fused multiply-add for f64")
        wide = [self.code.cast("fpext", v, "double") for v in (a, b, c)]
        product = self.code.bin("fmul", wide[0], wide[1])
        return self.code.cast("fptrunc", self.code.bin("fadd", product, wide[2]), "float")

    def horner(self, x: V, coefficients: Sequence[float]) -> V:
        """A polynomial, highest power first."""
        p = self.code.const(coefficients[0], x.type)
        for c in coefficients[1:]:
            p = self.fma(p, x, c)
        return p

    def below(self, a: V, limit: float) -> V:
        return self.code.compare("fcmp olt", a, *self.lift(a, limit))

    def pick(self, c: V, a: Operand, b: Operand, like: V) -> V:
        return self.code.select(c, *self.lift(like, a, b))

    def clamp(self, x: V, low: float, high: float) -> V:
        """x within [low, high]; NaN stays."""
        lo, hi = self.lift(x, low, high)
        x = self.code.select(self.code.compare("fcmp olt", hi, x), hi, x)
        return self.code.select(self.code.compare("fcmp ogt", lo, x), lo, x)

    def fabs(self, x: V) -> V:
        return self.code.call(f"llvm.fabs.{x.type.suffix}", x.type, x)

    def copysign(self, magnitude: V, sign: V) -> V:
        return self.code.call(f"llvm.copysign.{sign.type.suffix}", sign.type, magnitude, sign)

    def round(self, x: V) -> V:
        """To the nearest integer, for |x| below 2^22 (f32) or 2^51 (f64)."""
        magic = 12582912.0 if x.type.elt == "float" else 6755399441055744.0
        return self.code.bin("fsub", self.add(x, magic), self.code.const(magic, x.type))

    def integer(self, whole: V) -> V:
        """The bits of an integral float within the range of `round`, as i32 or i64."""
        single = whole.type.elt == "float"
        magic, image, elt = (12582912.0, 0x4B400000, "i32") if single else (
            6755399441055744.0, 0x4338000000000000, "i64")  # fmt: skip
        bits = self.code.cast("bitcast", self.add(whole, magic), elt)
        return self.code.bin("sub", bits, self.code.const(image, bits.type))

    def scale(self, p: V, n: V) -> V:
        """p · 2^n for an integral float n."""
        code, single = self.code, p.type.elt == "float"
        if self.has_scalef and (p.type.elt, p.type.lanes) in (("float", 16), ("double", 8)):
            name, mask = ("ps", "i16") if single else ("pd", "i8")
            name = f"llvm.x86.avx512.mask.scalef.{name}.512"
            code.declarations.add(f"declare {p.type} @{name}({p.type}, {p.type}, {p.type}, {mask}, i32)")
            args = f"{p.type} {{}}, {p.type} {{}}, {p.type} zeroinitializer, {mask} -1, i32 4"
            return code.op(f"call {p.type} @{name}({args})", p.type, p, n)
        whole = self.integer(n)
        half = code.bin("ashr", whole, code.const(1, whole.type))
        bias, shift = (127, 23) if single else (1023, 52)
        for part in (half, code.bin("sub", whole, half)):
            biased = code.bin("add", part, code.const(bias, part.type))
            power = code.cast("bitcast", code.bin("shl", biased, code.const(shift, part.type)), p.type.elt)
            p = code.bin("fmul", p, power)
        return p

    # --- exponentials ---------------------------------------------------------------------------------

    def exp(self, x: V) -> V:
        if x.type.elt == "double":
            return self._exp_f64(self.clamp(x, -746.0, 710.0))
        return self._exp_f32(self.clamp(x, -104.0, 89.0))

    def _exp_f32(self, x: V) -> V:
        n = self.round(self.mul(x, 1.44269504088896341))
        r = self.fma(n, -0.693145751953125, x)
        r = self.fma(n, -1.428606765330187045e-06, r)
        p = self.fma(self.horner(r, EXP_F32), r, 1.0)
        return self.scale(self.fma(p, r, 1.0), n)

    def _exp_f64(self, x: V) -> V:
        n = self.round(self.mul(x, 1.4426950408889634074))
        r = self.fma(n, -6.93147180369123816490e-01, x)
        r = self.fma(n, -1.90821492927058770002e-10, r)
        return self.scale(self._exp_series(r), n)

    def _exp_series(self, r: V) -> V:
        return self.horner(r, [1.0 / math.factorial(k) for k in range(13, -1, -1)])

    def exp2(self, x: V) -> V:
        if x.type.elt == "double":
            x = self.clamp(x, -1076.0, 1025.0)
            n = self.round(x)
            return self.scale(self._exp_series(self.mul(self.code.bin("fsub", x, n), math.log(2.0))), n)
        x = self.clamp(x, -151.0, 129.0)
        n = self.round(x)
        r = self.code.bin("fsub", x, n)
        return self.scale(self.fma(self.horner(r, EXP2_F32), r, 1.0), n)

    def sigmoid(self, x: V) -> V:
        # the smaller of the two tails is exp(-|x|) / (1 + exp(-|x|)): accurate where it is tiny
        e = self.exp(self.code.op(f"fneg {x.type} {{}}", x.type, self.fabs(x)))
        negative = self.below(x, 0.0)
        return self.div(self.pick(negative, e, 1.0, x), self.add(e, 1.0))

    def tanh(self, x: V) -> V:
        t, s = self.fabs(x), self.mul(x, x)
        single = x.type.elt == "float"
        if single:
            small = self.fma(self.mul(self.horner(s, TANH_F32), s), x, x)
            e = self._exp_f32(self.mul(self.clamp(t, 0.0, 9.5), 2.0))
        else:
            ratio = self.code.bin("fdiv", self.horner(s, TANH_F64_P), self.horner(s, TANH_F64_Q))
            small = self.fma(self.mul(ratio, s), x, x)
            e = self._exp_f64(self.mul(self.clamp(t, 0.0, 20.0), 2.0))
        big = self.sub(1.0, self.div(2.0, self.add(e, 1.0)))
        result = self.code.select(self.below(t, 0.6 if single else 0.625), small, self.copysign(big, x))
        return self.code.select(self.code.compare("fcmp oeq", *self.lift(x, x, 0.0)), x, result)

    def erf(self, x: V) -> V:
        if x.type.elt == "double":
            raise KernelError("erf of f64 has no lowering yet", remedy="Compute erf in f32.")
        t, s = self.fabs(x), self.mul(x, x)
        t = self.clamp(t, 0.0, 10.0)
        r = self.fma(self.code.const(-1.72853470e-5, x.type), t, 3.83197126e-4)
        u = self.fma(self.code.const(-3.88396438e-3, x.type), t, 2.42546219e-2)
        r = self.fma(r, self.mul(t, t), u)
        for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
            r = self.fma(r, t, c)
        r = self.fma(r, t, self.code.op(f"fneg {t.type} {{}}", t.type, t))
        big = self.copysign(self.sub(1.0, self._exp_f32(self.clamp(r, -100.0, 0.0))), x)
        small = self.fma(self.horner(s, ERF_SMALL), x, x)
        result = self.code.select(self.below(t, 0.927734375), small, big)
        return self.code.select(self.code.compare("fcmp oeq", *self.lift(x, x, 0.0)), x, result)

    # --- logarithms -----------------------------------------------------------------------------------

    def log(self, x: V) -> V:
        exponent, m = self._split(x)
        if x.type.elt == "double":
            return self._log_special(x, self._log_f64(exponent, m))
        return self._log_special(x, self.fma(exponent, 0.693147182, self._log_mantissa(m)))

    def log2(self, x: V) -> V:
        exponent, m = self._split(x)
        if x.type.elt == "double":
            part = self._log_f64(self.code.const(0.0, x.type), m)
            return self._log_special(x, self.fma(part, 1.4426950408889634, exponent))
        # f·log2(e) and the exponent are added in two pieces: they cancel where x is between √½ and 1
        f, tail = self._log_parts(m)
        high = self.fma(f, LOG2_E, exponent)
        rest = self.fma(f, LOG2_E, self.code.bin("fsub", exponent, high))
        rest = self.fma(tail, LOG2_E, self.fma(f, LOG2_E_LOW, rest))
        return self._log_special(x, self.code.bin("fadd", high, rest))

    def _split(self, x: V) -> tuple[V, V]:
        """Exponent and mantissa in [2/3, 4/3) (f32) or [√½, √2) (f64) of a positive number."""
        code, single = self.code, x.type.elt == "float"
        tiny, lift, up = (1.17549435e-38, 8388608.0, -23.0) if single else (2.0**-1022, 2.0**54, -54.0)
        small = self.below(x, tiny)
        x = code.select(small, self.mul(x, lift), x)
        offset = self.pick(small, up, 0.0, x)
        bits = code.cast("bitcast", x, "i32" if single else "i64")
        t = bits.type
        origin, field = (0x3F2AAAAB, -(1 << 23)) if single else (0x3FE6A09E667F3BCD, -(1 << 52))
        e = code.bin("and", code.bin("sub", bits, code.const(origin, t)), code.const(field, t))
        m = code.cast("bitcast", code.bin("sub", bits, e), x.type.elt)
        if single:
            return self.fma(code.cast("sitofp", e, "float"), 2.0**-23, offset), m
        whole = code.bin("ashr", e, code.const(52, t))
        image = code.bin("add", whole, code.const(0x4338000000000000, t))
        number = code.bin(
            "fsub", code.cast("bitcast", image, "double"), code.const(6755399441055744.0, x.type)
        )
        return code.bin("fadd", number, offset), m

    def _log_mantissa(self, m: V) -> V:
        f, tail = self._log_parts(m)
        return self.code.bin("fadd", tail, f)

    def _log_parts(self, m: V) -> tuple[V, V]:
        """m - 1, and what log m has beyond it."""
        f = self.add(m, -1.0)
        s = self.mul(f, f)
        r = self.fma(self.code.const(LOG_ODD[0], f.type), s, LOG_ODD[1])
        q = self.fma(self.code.const(LOG_EVEN[0], f.type), s, LOG_EVEN[1])
        r = self.fma(r, s, LOG_ODD[2])
        q = self.fma(q, s, LOG_EVEN[2])
        r = self.fma(r, s, LOG_ODD[3])
        r = self.fma(q, f, r)
        r = self.fma(r, f, 0.333331972)
        r = self.fma(r, f, -0.5)
        return f, self.mul(r, s)

    def _log_f64(self, exponent: V, m: V) -> V:
        f = self.add(m, -1.0)
        s = self.code.bin("fdiv", f, self.add(f, 2.0))
        z = self.mul(s, s)
        w = self.mul(z, z)
        series = self.add(self.mul(self.horner(w, LOG_F64_EVEN), w), self.mul(self.horner(w, LOG_F64_ODD), z))
        half = self.mul(self.mul(f, f), 0.5)
        low = self.fma(s, self.add(half, series), self.mul(exponent, 1.90821492927058770002e-10))
        rest = self.code.bin("fsub", self.code.bin("fsub", half, low), f)
        return self.code.bin("fsub", self.mul(exponent, 6.93147180369123816490e-01), rest)

    def _log_special(self, x: V, r: V) -> V:
        compare, inf = self.code.compare, math.inf
        r = self.pick(compare("fcmp oeq", *self.lift(x, x, 0.0)), -inf, r, x)
        r = self.pick(self.below(x, 0.0), math.nan, r, x)
        return self.code.select(compare("fcmp ueq", *self.lift(x, x, inf)), x, r)

    # --- roots, rounding ------------------------------------------------------------------------------

    def sqrt(self, x: V) -> V:
        return self.code.call(f"llvm.sqrt.{x.type.suffix}", x.type, x)

    def rsqrt(self, x: V) -> V:
        return self.div(1.0, self.sqrt(x))

    def floor(self, x: V) -> V:
        return self._whole(x, "floor")

    def ceil(self, x: V) -> V:
        return self._whole(x, "ceil")

    def _whole(self, x: V, name: str) -> V:
        if self.has_floor:
            return self.code.call(f"llvm.{name}.{x.type.suffix}", x.type, x)
        code = self.code
        single = x.type.elt == "float"
        limit = 8388608.0 if single else 2.0**52
        t = self.fabs(x)
        # adding and taking away 2^23 (2^52) rounds to an integer, which is then moved by one if it went wrong
        nearest = code.bin("fsub", self.add(t, limit), code.const(limit, x.type))
        nearest = self.copysign(nearest, x)
        order, step = ("ogt", -1.0) if name == "floor" else ("olt", 1.0)
        moved = code.select(code.compare(f"fcmp {order}", nearest, x), self.add(nearest, step), nearest)
        return code.select(self.below(t, limit), self.copysign(moved, x), x)

    # --- circular functions ---------------------------------------------------------------------------

    def sin(self, x: V) -> V:
        return self._circular(x, 0)

    def cos(self, x: V) -> V:
        return self._circular(x, 1)

    def _circular(self, x: V, quarter: int) -> V:
        code = self.code
        wide = x.type.elt == "double"
        quadrant, r = self._reduce_f64(x) if wide else self._reduce(x)
        s = self.mul(r, r)
        sine = self.fma(self.mul(self.horner(s, SIN_F64 if wide else SIN_F32), s), r, r)
        cosine = self.horner(s, COS_F64 if wide else COS_F32)
        cosine = self.fma(self.mul(cosine, s), s, self.fma(s, -0.5, 1.0))
        quadrant = code.bin("add", quadrant, code.const(quarter, quadrant.type))
        odd = code.cast("trunc", quadrant, "i1")
        value = code.select(odd, cosine, sine)
        flip = code.bin("and", quadrant, code.const(2, quadrant.type))
        negated = code.op(f"fneg {value.type} {{}}", value.type, value)
        result = code.select(code.compare("icmp ne", flip, code.const(0, flip.type)), negated, value)
        if quarter:
            return result
        return code.select(code.compare("fcmp oeq", *self.lift(x, x, 0.0)), x, result)

    def _reduce_f64(self, x: V) -> tuple[V, V]:
        """Quadrant (i64) and remainder within ±π/4 by Cody and Waite: full precision for |x| up to 2^20.

        Beyond that the remainder has fewer and fewer right bits, and none from 2^53 on.
        """
        whole = self.round(self.mul(x, 2.0 / math.pi))
        r = x
        for part in HALF_PI:
            r = self.fma(whole, -part, r)
        return self.integer(whole), r

    def _reduce(self, x: V) -> tuple[V, V]:
        """Quadrant (i64) and remainder within ±π/4 (f32) of any f32, from 196 bits of 1/2π.

        x times 28 bits is exact in f64, and so is taking whole turns away from it.
        """
        code = self.code
        wide = code.cast("fpext", x, "double")
        turns = code.const(0.0, wide.type)
        for k, chunk in enumerate(TURN):
            part = self.mul(wide, chunk * 2.0 ** (-28 * (k + 1)))
            turns = code.bin("fadd", turns, code.bin("fsub", part, self.round(part)))
            turns = code.bin("fsub", turns, self.round(turns))
        quarters = self.mul(turns, 4.0)
        whole = self.round(quarters)
        r = self.mul(code.bin("fsub", quarters, whole), math.pi / 2)
        return self.integer(whole), code.cast("fptrunc", r, "float")
