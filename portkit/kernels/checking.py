"""Which kernels of a file compile: each is tried, in a process that may die without ending the command."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from portkit.errors import KernelError, PortkitError, UsageError
from portkit.kernels import scopes
from portkit.kernels.arguments import GUESSES, Argument, Guess, arguments, constant_of
from portkit.kernels.evaluate import Unknown
from portkit.kernels.isolate import World
from portkit.kernels.scopes import Defined

_CERTAIN = "portkit does not support"
COMPILES, REFUSED, UNKNOWN, CRASHED, HELPER = "compiles", "refused", "unknown", "crashed", "helper"


@dataclass(frozen=True)
class Verdict:
    """What became of one kernel."""

    name: str
    line: int
    verdict: str
    arguments: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()  # names of arguments that nothing in the file tells
    reason: str = ""
    place: str = ""
    source: str = ""
    remedy: str = ""


def kernels(world: World) -> list[Defined]:
    """The functions of a file that are compiled, in order."""
    return [item for item in world.file.functions if world.is_jit(item.node, item.scope)]


def world_of(path: Path, given: Mapping[str, str]) -> World:
    """What is known of a file, with the names that are given."""
    file = scopes.read(path)
    world = World(file)
    parameters = {a.arg for f in file.functions for a in [*f.node.args.args, *f.node.args.kwonlyargs]}
    unknown = sorted(name for name in given if name not in parameters and name not in file.scope.bound)
    if unknown:
        raise UsageError(f"--arg {unknown[0]}: no kernel of {path} has it, nor the file.")
    evaluate = world.evaluator(file.scope)
    world.given = {n: constant_of(t, evaluate) for n, t in given.items() if n in file.scope.bound}
    return world


def check(path: Path, names: Sequence[str], given: Mapping[str, str], target: str) -> Iterator[Verdict]:
    """The verdict on each of the kernels named, in order."""
    left = list(names)
    while left:
        request = {"path": str(path), "names": left, "given": dict(given), "target": target}
        child = subprocess.Popen(
            [sys.executable, "-m", "portkit.kernels.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert child.stdin is not None
        assert child.stdout is not None
        with child:
            child.stdin.write(json.dumps(request))
            child.stdin.close()
            for line in child.stdout:
                found = json.loads(line)
                if "usage" in found:
                    raise UsageError(found["usage"], remedy=found["remedy"])
                lists = {key: tuple(found[key]) for key in ("arguments", "assumed")}
                yield Verdict(**{**found, **lists})
                del left[0]
        if left and child.returncode == 0:
            raise RuntimeError(f"no verdict on {left[0]}")
        if left:
            yield Verdict(left.pop(0), 0, CRASHED, reason=f"the compiler ended with {child.returncode}")


def verdicts(path: Path, names: Iterable[str], given: Mapping[str, str], target: str) -> Iterator[Verdict]:
    """The verdicts, found in this process."""
    world = world_of(path, given)
    known = {item.name: item for item in kernels(world)}
    for name in names:
        yield _safely(known[name], world, given, target)


def _safely(defined: Defined, world: World, given: Mapping[str, str], target: str) -> Verdict:
    try:
        return verdict(defined, world, given, target)
    except UsageError:
        raise
    except Exception as error:  # a fault of ours is told of the one kernel that shows it
        told = f"fault of portkit: {type(error).__name__}: {error}"
        return Verdict(defined.name, defined.node.lineno, CRASHED, reason=told)


def verdict(defined: Defined, world: World, given: Mapping[str, str], target: str) -> Verdict:
    """The verdict on one kernel: likely arguments of several kinds are tried, where nothing tells them."""
    if returns_value(defined.node):
        return Verdict(defined.name, defined.node.lineno, HELPER)
    outcome = None
    for guess in GUESSES:
        found = _tried(defined, world, given, target, guess)
        if found.verdict == COMPILES or not found.assumed:
            return found
        outcome = outcome or found
    assert outcome is not None
    return outcome


def _tried(defined: Defined, world: World, given: Mapping[str, str], target: str, guess: Guess) -> Verdict:
    from portkit.runtime.tile.compile import compile_kernel

    chosen: list[Argument] = []
    facts: dict[str, Any] = {}
    try:
        chosen = arguments(defined, world, given, guess)
        compile_kernel(world.kernel(defined), specs(chosen), chosen_target(target))
        kind = COMPILES
    except Unknown as error:
        kind, facts = UNKNOWN, _told(error)
    except KernelError as error:
        certain = error.message.startswith(_CERTAIN) or all(item.origin != "assumed" for item in chosen)
        kind, facts = REFUSED if certain else UNKNOWN, _told(error)
    return Verdict(
        defined.name,
        defined.node.lineno,
        kind,
        tuple(str(item) for item in chosen),
        tuple(item.name for item in chosen if item.origin == "assumed"),
        **facts,
    )


def _told(error: PortkitError) -> dict[str, str]:
    return {
        "reason": error.message,
        "place": error.place,
        "source": error.source,
        "remedy": error.remedy,
    }


def specs(chosen: Sequence[Argument]) -> list[Any]:
    """What the compiler is told of the arguments."""
    from portkit.runtime.tile.signature import Constexpr, placeholder

    return [Constexpr(item.value) if item.constant else placeholder(item.value) for item in chosen]


def chosen_target(name: str) -> Any:
    """The target of a name; that of this machine for none."""
    from portkit.runtime import targets

    return targets.by_name(name) if name else targets.host()


def returns_value(node: ast.FunctionDef) -> bool:
    """Whether a function gives a value back: such a one is part of the kernels that call it."""
    inner = [item for item in ast.walk(node) if isinstance(item, ast.Return)]
    return any(item.value is not None and not _is_none(item.value) for item in inner)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def as_json(found: Sequence[Verdict], path: Path, target: str) -> str:
    """The verdicts as JSON."""
    return json.dumps(
        {"schema_version": 1, "file": str(path), "target": target, "kernels": [asdict(v) for v in found]},
        indent=2,
    )


def rows(verdict: Verdict) -> list[str]:
    """A verdict for a terminal."""
    head = f"{verdict.verdict:<9} {verdict.name}" + (f" (line {verdict.line})" if verdict.line else "")
    found = [head]
    if verdict.arguments:
        found.append(f"          with {', '.join(verdict.arguments)}")
    if verdict.assumed:
        found.append(f"          assumed: {', '.join(verdict.assumed)}")
    if verdict.verdict == HELPER:
        found.append("          returns a value: it is compiled inside the kernels that call it")
    if verdict.verdict == UNKNOWN and verdict.assumed:
        found.append("          with others it may compile: give them with --arg NAME=VALUE")
    if verdict.reason:
        found.append(f"          {verdict.place + ': ' if verdict.place else ''}{verdict.reason}")
        found += [f"      {line}" for line in verdict.source.splitlines()]
        found += [f"          {verdict.remedy}"] if verdict.remedy else []
    return found
