"""The processors that kernels are compiled for: one module a target, found by walking this folder."""

from __future__ import annotations

import os
from functools import lru_cache

from portkit import plugins
from portkit.errors import PortkitError, UsageError
from portkit.runtime.targets._target import Target

__all__ = ["Target", "by_name", "host", "targets"]


@lru_cache(maxsize=1)
def targets() -> dict[str, Target]:
    """Every target by name."""
    found = [module.TARGET for module in plugins.modules(__name__)]
    return {target.name: target for target in found}


def by_name(name: str) -> Target:
    """The target of that name; raises UsageError when there is none."""
    known = targets()
    if name not in known:
        raise UsageError(f"there is no target {name!r}", remedy=f"Known targets: {', '.join(sorted(known))}.")
    return known[name]


@lru_cache(maxsize=1)
def host() -> Target:
    """The target of this machine, with its processor's features.

    `PORTKIT_CPU` and `PORTKIT_CPU_FEATURES` override LLVM's answers.  Raises PortkitError on a machine of
    another family than the targets known.
    """
    from portkit.runtime.targets import _llvm

    triple, cpu, features = _llvm.host()
    cpu = os.environ.get("PORTKIT_CPU", cpu)
    features = os.environ.get("PORTKIT_CPU_FEATURES", features)
    for target in targets().values():
        if target.covers(triple):
            return target.configure(triple, cpu, features).permitted()
    raise PortkitError(
        f"there is no tile compiler target for {triple}",
        remedy=f"Known targets: {', '.join(sorted(targets()))}. Operators still run as torch composites.",
    )
