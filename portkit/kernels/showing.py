"""One kernel as text: what the command line asks for, and the stage that it wants to see."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from portkit.errors import UsageError
from portkit.kernels import checking
from portkit.kernels.arguments import GUESSES, arguments
from portkit.kernels.isolate import World
from portkit.kernels.scopes import Defined

_STAGES = {"ir": "ir", "llvm": "llir", "asm": "asm"}


def given(texts: Sequence[str]) -> dict[str, str]:
    """The arguments of `--arg NAME=VALUE`."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UsageError(f"--arg {text} is not NAME=VALUE.", remedy="For example: --arg x=*fp16.")
        found[name.strip()] = value.strip()
    return found


def chosen(world: World, name: str) -> list[Defined]:
    """The kernels of a file, or the one of a name."""
    known = checking.kernels(world)
    path = world.file.scope.file
    if not known:
        raise UsageError(
            f"{path} has no kernels.", remedy="A kernel is a function under @triton.jit or @portkit.jit."
        )
    if not name:
        return known
    found = [item for item in known if name in (item.name, item.node.name)]
    if not found:
        names = [item.name for item in known]
        close = difflib.get_close_matches(name, names, n=1)
        remedy = f"Did you mean {close[0]}?" if close else f"It has {', '.join(names)}."
        raise UsageError(f"{path} has no kernel {name}.", remedy=remedy)
    return found


def stage(world: World, wanted: Sequence[Defined], given: Mapping[str, str], show: str, target: str) -> str:
    """A stage of compiling one kernel, as text."""
    from portkit.runtime.tile.compile import stages

    if show not in _STAGES:
        raise UsageError(f"There is no stage {show}.", remedy=f"Stages: {', '.join(_STAGES)}.")
    if len(wanted) > 1:
        names = ", ".join(item.name for item in wanted)
        path = world.file.scope.file
        raise UsageError(f"{path} has more than one kernel.", remedy=f"Name one, as in {path}:NAME: {names}.")
    defined = wanted[0]
    verdict = checking.verdict(defined, world, given, target)
    if verdict.verdict != checking.COMPILES:
        raise UsageError("\n".join(checking.rows(verdict)))
    for guess in GUESSES:
        with_these = arguments(defined, world, given, guess)
        if tuple(map(str, with_these)) == verdict.arguments:
            break
    made = stages(world.kernel(defined), checking.specs(with_these), checking.chosen_target(target))
    return made[_STAGES[show]].rstrip("\n")
