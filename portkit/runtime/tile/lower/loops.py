"""One fused loop nest: all roots of a group, over native vectors along one dimension.

The vector loop runs unmasked and unrolled as far as all masks hold, then masked, one vector at a time.
"""

from __future__ import annotations

from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import ONE, Dims
from portkit.runtime.tile.lower.bounds import Bounds
from portkit.runtime.tile.lower.emit import Code, T, V
from portkit.runtime.tile.lower.evaluate import Evaluator
from portkit.runtime.tile.lower.group import Grouper, Root
from portkit.runtime.tile.lower.place import Context, Index, Known, Place
from portkit.runtime.tile.lower.reduce import Reducer

SMALL, MEDIUM = 14, 48  # operations in a loop body: up to here it is unrolled 4 times, 2 times


class Nest:
    """Emits one group; the results of reductions to scalars are put into the context."""

    def __init__(self, context: Context, grouper: Grouper, roots: list[Root]) -> None:
        self.context = context
        self.code: Code = context.code
        self.evaluator = Evaluator(context)
        self.grouper = grouper
        self.roots = roots
        self.shape = roots[0].shape
        self.axis = next((r.axis for r in roots if r.axis is not None), None)
        self.vector = self._vector_dim()
        size = self.shape[self.vector] if self.vector is not None else 1
        lanes = min(context.target.lanes(32), 1 << (size.bit_length() - 1))
        self.lanes = lanes if lanes > 1 else 0
        if not self.lanes:
            self.vector = None
        self.evaluator.lanes = self.lanes
        self.reducers = {
            r: Reducer(self.code, str(r.op.attrs["kind"]), r.value.type.dtype)
            for r in roots
            if r.kind == "reduce" and r.op is not None
        }

    def emit(self) -> None:
        """Emits the loops."""
        with self.code.scope():
            inner = {self.vector, self.axis} if self.axis is not None else {self.vector}
            outer = [d for d in range(len(self.shape)) if d not in inner and self.shape[d] > 1]
            fixed = {d: Index(self.code.i64(0), False, d) for d in range(len(self.shape))}
            self._outer(outer, fixed)
        for root in self.roots:
            if root.result is not None and root.result in self.context.scalars:
                value = self.context.scalars[root.result]
                self.context.scalars[root.result] = value._replace(depth=min(value.depth, self.code.depth))
            if root.buffer is not None and root.result is not None:
                self.context.buffers[root.result] = root.buffer

    # --- the shape of the nest ------------------------------------------------------------------------

    def _vector_dim(self) -> int | None:
        sizes = self.shape
        dims = [d for d in range(len(sizes)) if sizes[d] > 1]
        if not dims:
            return None
        scores = {d: self._score(d) for d in dims}
        return max(dims, key=lambda d: (scores[d], d))

    def _score(self, dim: int) -> float:
        """How well vectors along a dimension suit the accesses of the group."""
        last = len(self.shape) - 1
        score = -4.0 if self.shape[dim] < 4 and max(self.shape) >= 8 else 0.0
        for root in self.roots:
            if root.kind == "keep":
                score += 2.0 if dim == last else -2.0
            elif root.kind == "store" and root.op is not None:
                score += 2.0 * self._fit(root.op, tuple(range(len(self.shape))), dim)
            leaves = self.grouper.leaves(root)
            score += sum(2.0 * self._fit(op, dims, dim) for op, dims in leaves.loads)
            for _, dims in leaves.kept:
                if dim in dims:
                    score += 2.0 if dims and dims[-1] == dim else -2.0
        return score

    def _fit(self, op: ir.Op, dims: Dims, dim: int) -> float:
        if dim not in dims:
            return 0.0
        form, own = self.context.analysis.of(op.operands[0]), dims.index(dim)
        if not form.varies(own):
            return 0.25
        return 1.0 if form.strides[own] == ONE and form.regular(own) else -1.0

    def _outer(self, dims: list[int], fixed: dict[int, Index]) -> None:
        if not dims:
            self._inner(fixed)
            return

        def body(index: V, _: list[V]) -> list[V]:
            self._outer(dims[1:], {**fixed, dims[0]: Index(index, False, dims[0])})
            return []

        self.code.loop(self.code.i64(0), self.code.i64(self.shape[dims[0]]), 1, [], body)

    def _inner(self, fixed: dict[int, Index]) -> None:
        if self.axis is not None and self.vector is not None and self.axis != self.vector:
            self._down(fixed)
        else:
            self._along(fixed)

    def _bounds(self, banned: int | None = None) -> Bounds:
        bounds = Bounds(self.context.analysis, self.vector if self.vector is not None else -1)
        if self.vector is None:
            return bounds
        for root in self.roots:
            if root.kind == "store" and root.op is not None and root.op.attrs.get("has_mask"):
                bounds.take(root.op.operands[2], tuple(range(len(self.shape))), banned)
            for op, dims in self.grouper.leaves(root).loads:
                if op.attrs.get("has_mask") and self.vector in dims:
                    bounds.take(op.operands[1], dims, banned)
        return bounds

    def _unroll(self) -> int:
        if self.vector is None:
            return 1
        size = sum(self.grouper.leaves(r).size for r in self.roots)
        if any(r.is_arg for r in self.reducers.values()):
            return 1
        heavy = any(
            op.opcode in ("exp", "log", "tanh", "erf", "sigmoid", "sin", "cos", "exp2", "log2")
            for r in self.roots
            for op in [r.value.owner]
            if op is not None
        )
        best = 1 if size > MEDIUM else 2 if size > SMALL or heavy else 4
        while best > 1 and best * self.lanes > self.shape[self.vector]:
            best //= 2
        return best

    def _place(self, fixed: dict[int, Index], at: V | None) -> Place:
        items = dict(fixed)
        if self.vector is not None and at is not None:
            items[self.vector] = Index(at, True, self.vector)
        return tuple(items[d] for d in range(len(self.shape)))

    # --- roots ----------------------------------------------------------------------------------------

    def _visit(self, places: list[Place], accs: list[list[list[V]]]) -> list[list[list[V]]]:
        """Computes every root at some places; accs[copy][reduction] are accumulators."""
        done: list[tuple[Root, Place, V]] = []
        new = [list(copy) for copy in accs]
        for root in self.roots:
            values = [self.evaluator.at(root.value, place) for place in places]
            if root in self.reducers:
                k = list(self.reducers).index(root)
                for copy, place, value in zip(new, places, values, strict=True):
                    copy[k] = self._reduce(root, copy[k], place, value)
            else:
                done += [(root, place, v) for place, v in zip(places, values, strict=True)]
        for root, place, value in done:
            if root.kind == "store" and root.op is not None:
                self.evaluator.memory.store(root.op, place, value)
            elif root.buffer is not None:
                self.evaluator.memory.write(root.buffer, place, value)
        return new

    def _reduce(self, root: Root, acc: list[V], place: Place, value: V) -> list[V]:
        reducer = self.reducers[root]
        index: V | None = None
        if reducer.is_arg:
            assert root.axis is not None
            at = place[root.axis]
            index = (
                self.code.cast("trunc", at.base, "i32")
                if at.base.const is None
                else self.code.const(int(at.base.const), T("i32"))
            )
            if at.vec:
                ramp = self.code.iota("i32", self.lanes)
                index = self.code.bin("add", self.code.splat(index, self.lanes), ramp)
        return reducer.step(acc, reducer.masked(self.evaluator.valid, value), index)

    # --- along the vector dimension -------------------------------------------------------------------

    def _along(self, fixed: dict[int, Index]) -> None:
        code = self.code
        reducers = list(self.reducers.values())
        accs = [r.start(self.lanes) for r in reducers]
        if self.vector is None:
            self._finish(fixed, self._visit([self._place(fixed, None)], [accs])[0])
            return
        size, lanes, unroll = self.shape[self.vector], self.lanes, self._unroll()
        bounds = self._bounds()
        limit = bounds.limit(self.evaluator, size, fixed)
        step = unroll * lanes
        if limit.const is not None:
            main = code.i64(int(limit.const) // step * step)
        else:
            main = code.bin("and", limit, code.i64(-step))
        copies = self._loop(fixed, code.i64(0), main, [accs] * unroll, bounds.known(), False)
        accs = copies[0]
        for other in copies[1:]:
            accs = [r.merge(a, b) for r, a, b in zip(reducers, accs, other, strict=True)]
        stop = limit if self._clipped(bounds) else code.i64(size)
        accs = self._loop(fixed, main, stop, [accs], Known(), size % lanes != 0)[0]
        self._finish(fixed, accs)

    def _clipped(self, bounds: Bounds) -> bool:
        """Whether nothing happens beyond the limit: only stores under the one condition there is."""
        return (
            all(r.kind == "store" and r.op is not None and r.op.attrs.get("has_mask") for r in self.roots)
            and len(bounds.forms) + len(bounds.flags) == 1
            and all(self._stores_under(r, bounds) for r in self.roots)
        )

    def _stores_under(self, root: Root, bounds: Bounds) -> bool:
        own = Bounds(self.context.analysis, bounds.vector)
        assert root.op is not None
        own.take(root.op.operands[2], tuple(range(len(self.shape))))
        return own.forms == bounds.forms and own.flags == bounds.flags

    def _loop(
        self,
        fixed: dict[int, Index],
        start: V,
        stop: V,
        copies: list[list[list[V]]],
        known: Known,
        partial: bool,
    ) -> list[list[list[V]]]:
        """`for at in range(start, stop, vectors of all copies)`; partial: the last vector may stick out."""
        code, lanes = self.code, self.lanes
        flat, rebuild = _flatten(copies)

        def body(at: V, carried: list[V]) -> list[V]:
            places = [self._place(fixed, code.add(at, code.i64(u * lanes))) for u in range(len(copies))]
            valid = self._valid(at) if partial else None
            with self.evaluator.assuming(known, valid):
                return _flatten(self._visit(places, rebuild(carried)))[0]

        return rebuild(code.loop(start, stop, lanes * len(copies), flat, body))

    def _valid(self, at: V) -> V:
        """Lanes at, at + 1, … that are inside the tile."""
        code = self.code
        assert self.vector is not None
        left = code.sub(code.i64(self.shape[self.vector]), at)
        ramp = code.iota("i64", self.lanes)
        return code.compare("icmp slt", ramp, code.splat(left, self.lanes))

    def _finish(self, fixed: dict[int, Index], accs: list[list[V]]) -> None:
        for (root, reducer), acc in zip(self.reducers.items(), accs, strict=True):
            value = reducer.across(acc)
            assert root.result is not None
            if root.buffer is None:
                self.context.scalars[root.result] = value
            else:
                place = tuple(fixed[d] for d in range(len(self.shape)) if d != root.axis)
                self.evaluator.memory.write(root.buffer, place, value)

    # --- down another dimension -----------------------------------------------------------------------

    def _down(self, fixed: dict[int, Index]) -> None:
        """Reductions along an outer axis: a stripe of columns at a time, accumulators in registers."""
        code = self.code
        assert self.vector is not None
        size, lanes, unroll = self.shape[self.vector], self.lanes, self._unroll()
        bounds = self._bounds(banned=self.axis)
        limit = bounds.limit(self.evaluator, size, fixed)
        step = unroll * lanes
        if limit.const is not None:
            main = code.i64(int(limit.const) // step * step)
        else:
            main = code.bin("and", limit, code.i64(-step))
        self._stripes(fixed, code.i64(0), main, unroll, bounds.known(), False)
        self._stripes(fixed, main, code.i64(size), 1, Known(), size % lanes != 0)

    def _stripes(
        self, fixed: dict[int, Index], start: V, stop: V, unroll: int, known: Known, partial: bool
    ) -> None:
        code, lanes, axis = self.code, self.lanes, self.axis
        assert axis is not None
        reducers = list(self.reducers.values())

        def stripe(at: V, _: list[V]) -> list[V]:
            ats = [code.add(at, code.i64(u * lanes)) for u in range(unroll)]
            valid = self._valid(at) if partial else None
            flat, rebuild = _flatten([[r.start(lanes) for r in reducers] for _ in ats])

            def row(index: V, carried: list[V]) -> list[V]:
                here = {**fixed, axis: Index(index, False, axis)}
                with self.evaluator.assuming(known, valid):
                    return _flatten(self._visit([self._place(here, a) for a in ats], rebuild(carried)))[0]

            result = rebuild(code.loop(code.i64(0), code.i64(self.shape[axis]), 1, flat, row))
            with self.evaluator.assuming(known, valid):
                for a, accs in zip(ats, result, strict=True):
                    self._write_stripe(fixed, a, accs)
            return []

        code.loop(start, stop, lanes * unroll, [], stripe)

    def _write_stripe(self, fixed: dict[int, Index], at: V, accs: list[list[V]]) -> None:
        place = self._place(fixed, at)
        for (root, reducer), acc in zip(self.reducers.items(), accs, strict=True):
            assert root.buffer is not None
            value = reducer.unset(acc[-1]) if reducer.is_arg else acc[0]
            where = tuple(i for d, i in enumerate(place) if d != root.axis)
            self.evaluator.memory.write(root.buffer, where, value)


def _flatten(copies: list[list[list[V]]]) -> tuple[list[V], _Rebuild]:
    return [v for copy in copies for acc in copy for v in acc], _Rebuild(copies)


class _Rebuild:
    """Puts a flat list of values back into the nesting of another."""

    def __init__(self, like: list[list[list[V]]]) -> None:
        self.shape = [[len(acc) for acc in copy] for copy in like]

    def __call__(self, flat: list[V]) -> list[list[list[V]]]:
        values = iter(flat)
        return [[[next(values) for _ in range(n)] for n in copy] for copy in self.shape]
