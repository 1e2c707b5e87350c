"""The arguments that a kernel is compiled for: those given, those that its file names, else likely ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from portkit.errors import UsageError
from portkit.kernels import usage
from portkit.kernels.evaluate import Evaluator, Unknown
from portkit.kernels.isolate import World
from portkit.kernels.scopes import Defined

_SIZE = 64  # of tiles, where nothing says another
_AXIS_NAMES = ("axis", "dim")


@dataclass(frozen=True)
class Guess:
    """What is assumed of conditions, and of what pointers point to."""

    true: bool
    integers: bool = False


GUESSES = (Guess(True), Guess(False), Guess(True, integers=True))


@dataclass(frozen=True)
class Argument:
    """One argument: a constant, or the name of a type (`*fp32`, `i32`)."""

    name: str
    value: Any
    constant: bool
    origin: str  # given, launch, autotune, default, assumed

    def __str__(self) -> str:
        return f"{self.name}{'=' if self.constant else ': '}{shown(self.value)}"


def shown(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, str):
        return value
    return str(getattr(value, "__name__", None) or getattr(value, "name", None) or value)


def arguments(defined: Defined, world: World, given: Mapping[str, str], guess: Guess) -> list[Argument]:
    """One argument for each parameter; raises Unknown where even the kind of one can't be told."""
    from portkit.runtime.tile.signature import MISSING

    kernel = world.kernel(defined)
    used = _usage(defined, world, 0)
    evaluate = world.evaluator(defined.scope)
    launched = _launched(defined, world)
    tuned = _tuned(defined.node, evaluate)
    found = []
    for param in kernel.params:
        name = param.name
        text = given.get(name)
        if text is not None:
            found.append(_given(name, text, param.is_constexpr, evaluate))
        elif not param.is_constexpr:
            found.append(_runtime(param, used, launched, guess))
        elif name in tuned:
            found.append(Argument(name, tuned[name], True, "autotune"))
        elif name in launched:
            found.append(Argument(name, launched[name], True, "launch"))
        elif param.default is not ... and param.default is not MISSING:
            found.append(Argument(name, param.default, True, "default"))
        else:
            found.append(Argument(name, _likely(name, used, guess.true), True, "assumed"))
    return found


def _runtime(param: Any, used: usage.Usage, launched: Mapping[str, Any], guess: Guess) -> Argument:
    from portkit.runtime.tile.signature import CANONICAL

    name = param.name
    if name in used.descriptors:
        raise Unknown(f"`{name}` is a tensor descriptor: only its launch tells its block")
    value = launched.get(name, ...)
    if param.dtype is not None:
        return Argument(name, CANONICAL[param.annotation], False, "default")
    if name in used.pointers or name.lower().endswith(("ptr", "ptrs", "_pointer")):
        return Argument(
            name, "*i32" if guess.integers or name in used.integers else "*fp32", False, "assumed"
        )
    if isinstance(value, bool):
        return Argument(name, "i1", False, "launch")
    if isinstance(value, (int, float)):
        return Argument(name, "i32" if isinstance(value, int) else "fp32", False, "launch")
    if name in used.maybe_none:
        return Argument(name, None, True, "assumed")
    real = any(word in name.lower() for word in _REAL) and name not in used.integers
    return Argument(name, "fp32" if real else "i32", False, "assumed")


_REAL = (
    "scale",
    "eps",
    "alpha",
    "beta",
    "gamma",
    "momentum",
    "lr",
    "weight_decay",
    "prob",
    "p_drop",
    "temperature",
)


def _likely(name: str, used: usage.Usage, true: bool) -> Any:
    from portkit.runtime.tile import language

    if name in used.called:
        raise Unknown(
            f"`{name}` is a function that the launch passes", remedy=f"Give it: --arg {name}=FUNCTION."
        )
    if name in used.types or "dtype" in name.lower():
        return language.float32
    if name in used.texts:
        return used.texts[name]
    if name in used.sizes:
        return _SIZE
    if name in used.conditions or name.upper().startswith(("IS_", "HAS_", "USE_", "STORE_", "WITH_")):
        return true
    if name in used.axes or name.lower() in _AXIS_NAMES:
        return 0
    return _SIZE


def _given(name: str, text: str, constant: bool, evaluate: Evaluator) -> Argument:
    from portkit.runtime.tile.signature import CANONICAL, DTYPES

    if not constant and text.removeprefix("*") in CANONICAL:
        star = "*" if text.startswith("*") else ""
        return Argument(name, star + CANONICAL[text.removeprefix("*")], False, "given")
    if not constant and text != "None":
        raise UsageError(
            f"--arg {name}={text}: `{name}` is no constant, and {text} is no type.",
            remedy=f"Types are *fp32 (a pointer), i32 and so on, of {', '.join(sorted(set(DTYPES)))}.",
        )
    return Argument(name, constant_of(text, evaluate), True, "given")


def constant_of(text: str, evaluate: Evaluator) -> Any:
    """The constant that a text on the command line means: a number, a type, a name of the file, or a text."""
    from portkit.runtime.tile.signature import CANONICAL, DTYPES

    if text in CANONICAL:
        return DTYPES[CANONICAL[text]]
    try:
        return evaluate(ast.parse(text, mode="eval").body)
    except (SyntaxError, Unknown, ValueError):
        return text


def _usage(defined: Defined, world: World, depth: int) -> usage.Usage:
    def callee(node: ast.expr) -> tuple[ast.FunctionDef, usage.Usage] | None:
        if depth > 3:
            return None
        try:
            found = world.evaluator(defined.scope)(node)
        except Unknown:
            return None
        other = world.defined(found)
        return None if other is None else (other.node, _usage(other, world, depth + 1))

    return usage.usage(defined.node, callee)


def _launched(defined: Defined, world: World) -> dict[str, Any]:
    """Arguments of the first launch in the file that are known without running it."""
    found: dict[str, Any] = {}
    names = [a.arg for a in [*defined.node.args.posonlyargs, *defined.node.args.args]]
    for node in ast.walk(world.file.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
            continue
        target = node.func.value
        if not (isinstance(target, ast.Name) and target.id == defined.node.name):
            continue
        evaluate = world.evaluator(world.file.scope)
        words = [(word.arg, word.value) for word in node.keywords if word.arg]
        for name, value in [*zip(names, node.args, strict=False), *words]:
            if name in found or isinstance(value, ast.Starred):
                continue
            try:
                found[name] = evaluate(value)
            except Unknown:
                continue
    return found


def _tuned(node: ast.FunctionDef, evaluate: Evaluator) -> dict[str, Any]:
    """The constants of the first configuration of an autotuned kernel that are known."""
    for decorator in node.decorator_list:
        for call in ast.walk(decorator):
            if not (isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Dict)):
                continue
            if getattr(call.func, "attr", getattr(call.func, "id", "")) != "Config":
                continue
            return dict(_known(call.args[0], _with(evaluate, dict(_first_items(decorator, evaluate)))))
    return {}


def _with(evaluate: Evaluator, local: dict[str, Any]) -> Evaluator:
    """An evaluator that knows some names more."""
    return Evaluator(lambda name: local[name] if name in local else evaluate.name(name))


def _known(node: ast.Dict, evaluate: Evaluator) -> Iterator[tuple[str, Any]]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            try:
                yield key.value, evaluate(value)
            except Unknown:
                continue


def _first_items(node: ast.AST, evaluate: Evaluator) -> Iterator[tuple[str, Any]]:
    """The variables of comprehensions, with the first item of what they run over."""
    for part in ast.walk(node):
        if isinstance(part, ast.comprehension) and isinstance(part.target, ast.Name):
            try:
                items = evaluate(part.iter)
                yield part.target.id, next(iter(items))
            except (Unknown, StopIteration, TypeError):
                continue
