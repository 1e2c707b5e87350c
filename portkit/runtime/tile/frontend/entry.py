"""From a kernel and the specification of its arguments to a function of the tile IR."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import FunctionType
from typing import Any, Protocol

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend import calls
from portkit.runtime.tile.frontend.context import MAX_DEPTH, Context, Frame, read_source
from portkit.runtime.tile.frontend.library.blocks import make_tensor_descriptor
from portkit.runtime.tile.frontend.semantics import Semantics, constant, describe
from portkit.runtime.tile.frontend.statements import execute
from portkit.runtime.tile.language._base import unwrap
from portkit.runtime.tile.stores import stored_params


class RuntimeSpec(Protocol):
    """An argument passed at launch, as `signature.Runtime` has it."""

    @property
    def type(self) -> ir.Type: ...

    @property
    def facts(self) -> ir.ParamFacts: ...


def build(fn: Any, args: Sequence[Any]) -> ir.Function:
    """The IR of a kernel.

    `fn` is a Python function or a stack of @jit, autotune and heuristics around one.  `args` holds one
    `signature.Constexpr(value)` or `signature.Runtime(type, facts)` for each parameter, in order; only the
    latter become parameters of the result.  Raises KernelError, with the place, for what can't be compiled.
    """
    function = fn if isinstance(fn, FunctionType) else calls.jit_target(fn)
    if function is None:
        raise KernelError(f"{fn!r} is not a kernel", remedy="Put @portkit.jit on a function.")
    source = read_source(function)
    names = list(inspect.signature(function).parameters)
    if len(names) != len(args):
        raise KernelError(
            f"kernel `{function.__name__}` takes {len(names)} arguments, {len(args)} were given"
        )
    body = ir.Block()
    builder = ir.Builder(body)
    builder.loc = source.loc(source.tree)
    frame = Frame(function, source)
    context = Context(Semantics(builder), frame, inline)
    context.sem.call = lambda called, values: calls.call(context, called, values, {})
    parameters = _Parameters(context)
    for name, spec in zip(names, args, strict=True):
        frame.names[name] = parameters.argument(name, spec)
    outcome = execute(context, source.tree.body)
    if outcome is not None and outcome.value is not None:
        raise KernelError(
            f"kernel `{function.__name__}` returns a value",
            place=str(source.loc(source.tree)),
            remedy="A kernel gives its results through tl.store.",
        )
    builder.loc = source.loc(source.tree.body[-1])
    builder.add("return", [], [])
    func = ir.Function(function.__name__, parameters.values, parameters.facts, body, "\n".join(source.lines))
    _keep_constants(func, function, str(source.loc(source.tree)))
    return func


def _keep_constants(func: ir.Function, function: FunctionType, place: str) -> None:
    """Refuse a kernel that may store through a parameter marked `tl.const`."""
    if not any(_noted(note) == "const" for note in function.__annotations__.values()):
        return
    for index in sorted(stored_params(func)):
        name = func.params[index].name
        if _noted(function.__annotations__.get(name)) == "const":
            raise KernelError(
                f"Cannot store to a constant pointer: `{name}` of kernel `{function.__name__}` is a tl.const",
                place=place,
                remedy="Take tl.const off the parameter, or store elsewhere.",
            )


def _noted(annotation: Any) -> str:
    """The last name of an annotation."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.rpartition(".")[2]


class _Parameters:
    """The run-time parameters of a kernel, in order."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.values: list[ir.Value] = []
        self.facts: list[ir.ParamFacts] = []

    def argument(self, name: str, spec: Any) -> Any:
        """What a parameter is inside the kernel."""
        if hasattr(spec, "items"):
            return self._group(name, spec)
        if not hasattr(spec, "type"):
            return unwrap(spec.value)
        runtime: RuntimeSpec = spec
        param = ir.Value(runtime.type, name)
        self.values.append(param)
        self.facts.append(runtime.facts)
        one = runtime.facts.equal_to_1 and not runtime.type.is_pointer
        return self.ctx.sem.const(1, runtime.type.dtype) if one else param

    def _group(self, name: str, spec: Any) -> Any:
        items = [self.argument(f"{name}_{i}", item) for i, item in enumerate(spec.items)]
        block = getattr(spec.make, "shape", None)
        if block is None:
            return tuple(items) if spec.make is tuple else spec.make(*items)
        shape, strides = items[1 : 1 + len(block)], items[1 + len(block) :]
        return make_tensor_descriptor(self.ctx.sem, items[0], shape, strides, block, spec.make.padding)


def inline(ctx: Context, function: FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Emit the body of a @jit function in place of a call to it; gives what it returns."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise KernelError(f"{function.__name__}(): {error}") from error
    bound.apply_defaults()
    caller = ctx.frame
    if caller.depth >= MAX_DEPTH:
        raise KernelError(
            f"calls of `{function.__name__}` are nested more than {MAX_DEPTH} deep",
            remedy="Kernels can't be recursive.",
        )
    frame = Frame(function, read_source(function), {}, caller.depth + 1)
    for name, value in bound.arguments.items():
        frame.names[name] = _argument(function, name, unwrap(value))
    ctx.frame, loc = frame, ctx.builder.loc
    try:
        outcome = execute(ctx, frame.source.tree.body)
    finally:
        ctx.frame, ctx.builder.loc = caller, loc
    return None if outcome is None else outcome.value


def _argument(function: FunctionType, name: str, value: Any) -> Any:
    """An argument of an inlined function: a constant when its parameter is a tl.constexpr."""
    noted = _noted(function.__annotations__.get(name))
    if not isinstance(value, ir.Value) or noted != "constexpr":
        return value
    known = constant(value)
    if known is None:
        raise KernelError(
            f"parameter `{name}` of `{function.__name__}` is a tl.constexpr, and was given {describe(value)}",
            remedy="Pass a constant, or take tl.constexpr off the parameter.",
        )
    return known
