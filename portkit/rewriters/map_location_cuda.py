"""Checkpoints that are loaded onto CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import Edit, Finding, Phase, Replace, SetArgument, Support
from portkit.rewriters import _calls, _devices
from portkit.rule import Context, Rule
from portkit.scopes import walk

# function → position of its map_location
_LOADERS = {
    "torch.load": 1,
    "torch.jit.load": 1,
    "torch.hub.load_state_dict_from_url": 2,
    "torch.utils.model_zoo.load_url": 2,
}


class MapLocationCuda(Rule):
    """A checkpoint is loaded onto CUDA.

    What: `map_location="cuda:0"`, an ordinal, `lambda s, l: s.cuda(i)`; `torch.load(path)`,
    `torch.jit.load(path)` or `torch.hub.load_state_dict_from_url(url)` without `map_location`, which put
    tensors back on the device that they were saved from.
    Why: loading fails where that device does not exist; an ordinal is an error even with CUDA.
    Instead: `map_location=pk.device(i)`. In a dictionary, the keys are tags that stand in the file and
    stay; the values become devices of this machine. Without `map_location`: `map_location="cpu"`, after a
    review.
    Safety: the same devices on CUDA. With `map_location="cpu"`, tensors that were saved from CUDA are on
    the CPU after loading, also where there is CUDA; `load_state_dict` copies them to where the module is.
    """

    id = "PK310"
    name = "map_location_cuda"
    phase = Phase.FULL_MODEL
    triggers = (b"map_location", b"load")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node.func) or ""
        position = _LOADERS.get(name)
        is_load = position is not None
        given = _calls.argument(node, position, "map_location")
        if given is not None:
            yield from self._given(given.node, is_load, ctx)
        elif position is not None and not _calls.is_starred(node) and len(node.args) <= position:
            yield ctx.finding(
                self,
                node,
                "Tensors go back to the device that they were saved from",
                support=Support.REVIEW,
                remedy='Add map_location="cpu", and move what is used directly.',
                note="Tensors that were saved from CUDA are on the CPU after loading, on CUDA too.",
                edits=[SetArgument(ctx.span(node), "map_location", '"cpu"')],
                qualified_name=name,
            )

    def _given(self, value: ast.expr, is_load: bool, ctx: Context) -> Iterator[Finding]:
        found = (
            _devices.spelling(value, ctx)
            or _devices.choice(value, ctx)
            or _ordinal(value)
            or _moved(value, ctx)
        )
        if found is None:
            if isinstance(value, ast.Lambda) and _calls_cuda(value.body):
                yield self._finding(value, ctx, Support.MANUAL, "Use map_location=pk.device().", [])
            return
        text, imports = _devices.portable(ctx, found, as_text=not is_load)
        yield self._finding(
            value, ctx, Support.AUTO, f"Use {text}.", [Replace(ctx.span(value), text), *imports]
        )

    def _finding(
        self, node: ast.expr, ctx: Context, support: Support, remedy: str, edits: list[Edit]
    ) -> Finding:
        return ctx.finding(
            self, node, "The checkpoint is loaded onto CUDA", support=support, remedy=remedy, edits=edits
        )


def _ordinal(node: ast.expr) -> _devices.Spelling | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _devices.Spelling(str(node.value))
    return None


def _moved(node: ast.expr, ctx: Context) -> _devices.Spelling | None:
    """The device of `lambda storage, location: storage.cuda(i)`."""
    if not isinstance(node, ast.Lambda) or not isinstance(node.body, ast.Call):
        return None
    body, names = node.body, [a.arg for a in node.args.args]
    if (
        not isinstance(body.func, ast.Attribute)
        or body.func.attr != "cuda"
        or body.keywords
        or len(body.args) > 1
    ):
        return None
    if not isinstance(body.func.value, ast.Name) or names[:1] != [body.func.value.id]:
        return None
    used = {item.id for argument in body.args for item in walk(argument) if isinstance(item, ast.Name)}
    if used & set(names):
        return None
    return _devices.Spelling(ctx.source(body.args[0]) if body.args else None)


def _calls_cuda(node: ast.expr) -> bool:
    return any(isinstance(item, ast.Attribute) and item.attr == "cuda" for item in walk(node))
