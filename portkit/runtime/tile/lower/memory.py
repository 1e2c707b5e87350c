"""Loads and stores of one vector or scalar: contiguous, uniform, strided or scattered, under exact masks.

Nothing that a mask excludes is touched: vectors use masked instructions, scalars go to a dummy address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import ONE, Affine, source_dims
from portkit.runtime.tile.lower import floats
from portkit.runtime.tile.lower.elementwise import memory_element
from portkit.runtime.tile.lower.emit import I1, PTR, T, V
from portkit.runtime.tile.lower.place import Index, Known, Place
from portkit.runtime.tile.lower.storage import Buffer, element_bytes

if TYPE_CHECKING:
    from portkit.runtime.tile.lower.evaluate import Evaluator


class Memory:
    """Memory accesses for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.code = evaluator.code

    # --- kernel memory --------------------------------------------------------------------------------

    def load(self, op: ir.Op, place: Place) -> V:
        """A `load` at a place."""
        form = self.evaluator.context.analysis.of(op.operands[0])
        vector = next((k for k, i in enumerate(place) if i.vec), None)
        mask_value = op.operands[1] if op.attrs.get("has_mask") else None
        other_value = op.operands[2] if op.attrs.get("has_other") else None
        dtype = op.result.type.dtype
        if vector is None or not form.varies(vector):
            return self._load_uniform(form, mask_value, other_value, dtype, place)
        mask = self.mask(mask_value, place)
        other = None if other_value is None or mask is None else self.evaluator.at(other_value, place)
        pointer, offsets, moves = self.address(form, place, dtype)
        if not moves:  # the lanes turn out to have one address
            return self.scalar_load(pointer, dtype, mask, other)
        if offsets is None:
            return self.vector_load(pointer, dtype, mask, other)
        if wraps(form, vector) and not pointer.type.lanes:
            return self._run_or_gather(pointer, offsets, dtype, mask, other)
        return self.gather(pointer, offsets, dtype, mask, other)

    def _run_or_gather(self, pointer: V, offsets: V, dtype: ir.DType, mask: V | None, other: V | None) -> V:
        """A vector load where the lanes turn out to follow one another, as they mostly do; else a gather."""
        code = self.code
        first = code.extract(offsets, 0)
        lanes = offsets.type.lanes
        run = code.bin("add", code.splat(first, lanes), code.iota("i64", lanes))
        same = code.compare("icmp eq", offsets, run)
        together = code.call(f"llvm.vector.reduce.and.{same.type.suffix}", I1, same)
        elt = memory_element(dtype)
        return code.either(
            together,
            lambda: self.vector_load(code.gep(elt, pointer, first), dtype, mask, other),
            lambda: self.gather(pointer, offsets, dtype, mask, other),
        )

    def mask(self, value: ir.Value | None, place: Place) -> V | None:
        """The mask at a place together with the lanes that exist; None: all."""
        mask = None if value is None else self.evaluator.condition(value, place)
        valid = self.evaluator.valid
        if valid is None:
            return mask
        return valid if mask is None else self.code.bin("and", self.code.splat(mask, valid.type.lanes), valid)

    def _load_uniform(
        self,
        form: Affine,
        mask_value: ir.Value | None,
        other_value: ir.Value | None,
        dtype: ir.DType,
        place: Place,
    ) -> V:
        """One address for all lanes: loaded once, where it last changes, under its own full mask."""
        evaluator = self.evaluator
        with evaluator.assuming(Known()):
            pointer, _, moves = self.address(form, place, dtype)
            assert not moves
            mask = None if mask_value is None else evaluator.condition(mask_value, place)
            other = None if other_value is None or mask is None else evaluator.at(other_value, place)
        return self.scalar_load(pointer, dtype, mask, other)

    def scalar_load(self, pointer: V, dtype: ir.DType, mask: V | None, other: V | None) -> V:
        """One element; where the mask (of one lane, or of several) is off, `other` or 0."""
        code = self.code
        elt = memory_element(dtype)
        if mask is None:
            return self.unpack(dtype, code.op(f"load {elt}, ptr {{}}", T(elt), pointer))
        some = self.any_lane(mask)
        safe = code.op("select i1 {}, ptr {}, ptr {}", PTR, some, pointer, self.evaluator.context.dummy)
        value = self.unpack(dtype, code.op(f"load {elt}, ptr {{}}", T(elt), safe))
        return self.blend(mask, value, other)

    def blend(self, mask: V, value: V, other: V | None) -> V:
        code = self.code
        if other is None:
            other = code.const(0, value.type)
        lanes = max(mask.type.lanes, value.type.lanes, other.type.lanes)
        mask = code.splat(mask, lanes)
        return code.select(mask, code.splat(value, lanes), code.splat(other, lanes))

    def any_lane(self, mask: V) -> V:
        if not mask.type.lanes:
            return mask
        return self.code.call(f"llvm.vector.reduce.or.{mask.type.suffix}", I1, mask)

    def address(self, form: Affine, place: Place, dtype: ir.DType) -> tuple[V, V | None, bool]:
        """Address of lane 0; offsets of the lanes (elements), None if contiguous; whether the lanes differ.

        Lanes that may differ by the form may still have one address: their offsets are made of equal parts.
        """
        evaluator, code = self.evaluator, self.code
        assert form.pointer is not None, "a pointer has a base"
        term = form.pointer
        pointer = evaluator.at(term.value, tuple(self._index(d, place) for d in term.dims))
        parts = [evaluator.poly(form.base)]
        lanes: list[V] = []
        step: V | None = None  # distance of the lanes, where it is regular
        for stride, index in zip(form.strides, place, strict=True):
            if stride.terms:
                factor = evaluator.poly(stride)
                parts.append(code.mul(factor, index.base))
                step = factor if index.vec else step
        for other, coefficient in sorted(form.others, key=lambda t: evaluator.context.number(t[0].value)):
            value = evaluator.at(other.value, tuple(self._index(d, place) for d in other.dims))
            wide = evaluator.wide(other.value, value)
            factor = code.splat(evaluator.poly(coefficient), wide.type.lanes)
            product = wide if factor.const == 1 else code.bin("mul", wide, factor)
            (lanes if wide.type.lanes else parts).append(product)
        scattered = bool(pointer.type.lanes or lanes) or (step is not None and step.const != 1)
        pointer = self._advance(pointer, parts, memory_element(dtype))
        if not scattered:
            return pointer, None, step is not None
        if step is not None:
            iota = code.iota("i64", evaluator.lanes)
            ramp = iota if step.const == 1 else code.bin("mul", iota, code.splat(step, evaluator.lanes))
            lanes.append(ramp)
        total = lanes[0] if lanes else code.const(0, T("i64", evaluator.lanes))
        for part in lanes[1:]:
            total = code.bin("add", total, part)
        return pointer, total, True

    def _index(self, dim: int | None, place: Place) -> Index:
        return Index(self.code.i64(0)) if dim is None else place[dim]

    def _advance(self, pointer: V, parts: list[V], elt: str) -> V:
        """Pointer plus the parts, outermost first, so that what is invariant is added outside the loops."""
        by_depth: dict[int, V] = {}
        for part in parts:
            depth = max(part.depth, self.code.floor)
            by_depth[depth] = self.code.add(by_depth[depth], part) if depth in by_depth else part
        for depth in sorted(by_depth):
            key = ("gep", elt, pointer.text, by_depth[depth].text)
            memo = self.code.scopes[max(depth, pointer.depth)].memo
            if key not in memo:
                memo[key] = self.code.gep(elt, pointer, by_depth[depth])
            pointer = memo[key]
        return pointer

    def vector_load(self, pointer: V, dtype: ir.DType, mask: V | None, other: V | None) -> V:
        code = self.code
        t = T(memory_element(dtype), self.evaluator.lanes)
        align = element_bytes(dtype)
        if mask is None:
            return self.unpack(dtype, code.op(f"load {t}, ptr {{}}, align {align}", t, pointer))
        mask = code.splat(mask, t.lanes)
        name = f"llvm.masked.load.{t.suffix}.p0"
        code.declare(name, t, PTR, T("i1", t.lanes), t)
        text = f"call {t} @{name}(ptr align {align} {{}}, {mask.type} {{}}, {t} zeroinitializer)"
        return self._other(mask, self.unpack(dtype, code.op(text, t, pointer, mask)), other)

    def _other(self, mask: V, value: V, other: V | None) -> V:
        return value if other is None or other.const == 0 else self.blend(mask, value, other)

    def gather(self, pointer: V, offsets: V, dtype: ir.DType, mask: V | None, other: V | None) -> V:
        code, lanes = self.code, self.evaluator.lanes
        t = T(memory_element(dtype), lanes)
        pointers = code.gep(t.elt, pointer, offsets)
        on = code.splat(mask if mask is not None else code.const(True, I1), lanes)
        name = f"llvm.masked.gather.{t.suffix}.{pointers.type.suffix}"
        code.declare(name, t, pointers.type, on.type, t)
        align = element_bytes(dtype)
        text = f"call {t} @{name}({pointers.type} align {align} {{}}, {on.type} {{}}, {t} zeroinitializer)"
        value = self.unpack(dtype, code.op(text, t, pointers, on))
        return value if mask is None else self._other(on, value, other)

    def store(self, op: ir.Op, place: Place, value: V) -> None:
        """A `store` of a computed value at a place."""
        evaluator, code = self.evaluator, self.code
        dtype = op.operands[0].type.dtype
        form = evaluator.context.analysis.of(op.operands[0])
        mask = self.mask(op.operands[2] if op.attrs.get("has_mask") else None, place)
        pointer, offsets, moves = self.address(form, place, dtype)
        value = self.pack(dtype, value)
        vector = next((k for k, i in enumerate(place) if i.vec), None)
        if vector is None:
            self.scalar_store(pointer, value, mask)
            return
        lanes = evaluator.lanes
        value = code.splat(value, lanes)
        if not moves:
            offsets = code.const(0, T("i64", lanes))
        align = element_bytes(dtype)
        if offsets is None and mask is None:
            code.line(f"store {value.type} {value.text}, ptr {pointer.text}, align {align}")
            return
        on = code.splat(mask if mask is not None else code.const(True, I1), lanes)
        where = pointer if offsets is None else code.gep(value.type.elt, pointer, offsets)
        kind = "store" if offsets is None else "scatter"
        name = f"llvm.masked.{kind}.{value.type.suffix}.{where.type.suffix}"
        code.declare(name, "void", value.type, where.type, on.type)
        args = f"{value.type} {value.text}, {where.type} align {align} {where.text}, {on.type} {on.text}"
        code.line(f"call void @{name}({args})")

    def scalar_store(self, pointer: V, value: V, mask: V | None) -> None:
        """One packed element, or nothing where the mask is off."""
        if mask is not None:
            dummy = self.evaluator.context.dummy
            pointer = self.code.op("select i1 {}, ptr {}, ptr {}", PTR, mask, pointer, dummy)
        self.code.line(f"store {value.type} {value.text}, ptr {pointer.text}")

    # --- buffers --------------------------------------------------------------------------------------

    def read(self, buffer: Buffer, place: Place) -> V:
        """An element, or a vector, of a kept tile."""
        pointer, step = self._locate(buffer, place)
        code, lanes = self.code, self.evaluator.lanes
        dtype = buffer.element
        elt = memory_element(dtype)
        if step == 0:
            return self._kept(buffer, code.op(f"load {elt}, ptr {{}}", T(elt), pointer))
        t = T(elt, lanes)
        if step == 1:
            align = element_bytes(dtype)
            return self._kept(buffer, code.op(f"load {t}, ptr {{}}, align {align}", t, pointer))
        ramp = code.bin("mul", code.iota("i64", lanes), code.const(step, T("i64", lanes)))
        pointers = code.gep(elt, pointer, ramp)
        name = f"llvm.masked.gather.{t.suffix}.{pointers.type.suffix}"
        on = code.const(True, T("i1", lanes))
        if self.evaluator.valid is not None:
            on = self.evaluator.valid
        code.declare(name, t, pointers.type, on.type, t)
        align = element_bytes(dtype)
        text = f"call {t} @{name}({pointers.type} align {align} {{}}, {on.type} {{}}, {t} zeroinitializer)"
        return self._kept(buffer, code.op(text, t, pointers, on))

    def read_now(self, buffer: Buffer) -> V:
        """The only element of a kept tile of rank 0."""
        elt = memory_element(buffer.element)
        value = self.code.here(f"load {elt}, ptr {buffer.pointer.text}", T(elt))
        return self._kept(buffer, value)

    def _kept(self, buffer: Buffer, value: V) -> V:
        return value if isinstance(buffer.element, ir.Pointer) else self.unpack(buffer.element, value)

    def write(self, buffer: Buffer, place: Place, value: V) -> None:
        """Puts an element, or a vector, into a kept tile."""
        pointer, step = self._locate(buffer, place)
        code, lanes = self.code, self.evaluator.lanes
        if isinstance(buffer.element, ir.DType):
            value = self.pack(buffer.element, value)
        if step == 0:
            code.line(f"store {value.type} {value.text}, ptr {pointer.text}")
            return
        value = code.splat(value, lanes)
        align = element_bytes(buffer.element)
        if step == 1:
            code.line(f"store {value.type} {value.text}, ptr {pointer.text}, align {align}")
            return
        ramp = code.bin("mul", code.iota("i64", lanes), code.const(step, T("i64", lanes)))
        pointers = code.gep(value.type.elt, pointer, ramp)
        on = code.const(True, T("i1", lanes)) if self.evaluator.valid is None else self.evaluator.valid
        name = f"llvm.masked.scatter.{value.type.suffix}.{pointers.type.suffix}"
        code.declare(name, "void", value.type, pointers.type, on.type)
        args = (
            f"{value.type} {value.text}, {pointers.type} align {align} {pointers.text}, {on.type} {on.text}"
        )
        code.line(f"call void @{name}({args})")

    def _locate(self, buffer: Buffer, place: Place) -> tuple[V, int]:
        """Address of lane 0, and the distance of lanes (0: one element)."""
        code = self.code
        parts, step = [], 0
        if buffer.panel:
            return self._locate_panel(buffer, place)
        for stride, index in zip(buffer.strides, place, strict=True):
            parts.append(code.mul(index.base, code.i64(stride)))
            if index.vec:
                step = stride
        return self._advance(buffer.pointer, parts, memory_element(buffer.element)), step

    def _locate_panel(self, buffer: Buffer, place: Place) -> tuple[V, int]:
        code, (row, column), width = self.code, place, buffer.panel
        shift, low = code.i64(width.bit_length() - 1), code.i64(width - 1)
        rows = buffer.shape[0]
        inside = column.base if column.base.const == 0 else code.bin("and", column.base, low)
        panel = column.base if column.base.const == 0 else code.bin("lshr", column.base, shift)
        parts = [code.mul(panel, code.i64(rows * width)), code.mul(row.base, code.i64(width)), inside]
        step = width if row.vec else 1 if column.vec else 0
        return self._advance(buffer.pointer, parts, memory_element(buffer.element)), step

    # --- memory and register forms ----------------------------------------------------------------------

    def unpack(self, dtype: ir.DType, value: V) -> V:
        """What was loaded, as it is in registers."""
        if dtype.is_bool:
            return self.code.compare("icmp ne", value, self.code.const(0, value.type))
        if dtype.is_float and dtype.bits == 16:
            return floats.widen(self.code, self.evaluator.context.target, dtype.kind, value)
        return value

    def pack(self, dtype: ir.DType, value: V) -> V:
        """What is in registers, as it is stored."""
        if dtype.is_bool:
            return self.code.cast("zext", value, "i8")
        if dtype.is_float and dtype.bits == 16:
            return floats.narrow(self.code, self.evaluator.context.target, dtype.kind, value)
        return value


def wraps(form: Affine, dim: int) -> bool:
    """Whether offsets change along a dimension by a remainder: mostly by 1, and now and then back to 0."""
    return any(
        coefficient == ONE and term.follows(dim) and _is_remainder(term.value)
        for term, coefficient in form.others
    )


def _is_remainder(value: ir.Value) -> bool:
    op = value.owner
    while op is not None and (source_dims(op) is not None or op.opcode == "cast"):
        op = op.operands[0].owner
    return op is not None and op.opcode == "irem"
