"""The rules that there are, found by walking `analyzers/` and `rewriters/`, and those that a run uses."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from types import ModuleType

from portkit import plugins, suppress
from portkit.rule import Rule

_PACKAGES = ("portkit.analyzers", "portkit.rewriters")
_GROUP = "portkit.rules"  # entry points of other packages
_ENGINE = (suppress.UnusedSuppression, suppress.ExpiredSuppression)  # what the engine itself reports
ENGINE_RULES = frozenset(rule.id for rule in _ENGINE)


def rule_of(module: ModuleType) -> type[Rule] | None:
    """The one rule class that a module defines, or None."""
    found = [
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Rule) and item.__module__ == module.__name__
    ]
    return next((item for item in found if hasattr(item, "id")), None)


@cache
def all_rules() -> tuple[type[Rule], ...]:
    """Every rule, ours and those of installed packages, by id."""
    modules = [module for package in _PACKAGES for module in plugins.modules(package)]
    modules += plugins.external(_GROUP)
    found = {rule.id: rule for module in modules if (rule := rule_of(module)) is not None}
    return tuple(found[key] for key in sorted(found))


def documented() -> tuple[type[Rule], ...]:
    """Every rule that a report may name: those that look at code, and those of the engine."""
    return (*_ENGINE, *all_rules())


def unknown_id(patterns: Iterable[str]) -> tuple[str, str] | None:
    """The first of `patterns` (ids, or beginnings of ids) that fits no rule, and a hint; or None."""
    ids = [rule.id for rule in documented()]
    for pattern in patterns:
        if pattern == "ALL" or (pattern and any(item.startswith(pattern.upper()) for item in ids)):
            continue
        near = difflib.get_close_matches(pattern.upper(), ids, n=1)
        return pattern, f"Did you mean {near[0]}?" if near else "`portkit rules` lists them."
    return None


def choose(
    rules: Sequence[type[Rule]], select: Sequence[str], ignore: Sequence[str]
) -> tuple[type[Rule], ...]:
    """The rules whose id begins with one of `select` (all, if it is empty) and with none of `ignore`.

    Where both match, the longer one decides (`select = ["PK101"], ignore = ["PK1"]` keeps PK101); `ignore`
    decides between equals.
    """
    return tuple(rule for rule in rules if wanted(rule.id, select, ignore))


def wanted(identity: str, select: Sequence[str], ignore: Sequence[str]) -> bool:
    """Whether `select` and `ignore` let a rule id through."""
    chosen = _longest(identity, select) if select else 0
    return chosen > _longest(identity, ignore)


def _longest(identity: str, patterns: Sequence[str]) -> int:
    lengths = [
        0 if pattern == "ALL" else len(pattern)
        for pattern in patterns
        if pattern == "ALL" or identity.startswith(pattern.upper())
    ]
    return max(lengths, default=-1)


def fingerprint(rules: Sequence[type[Rule]]) -> str:
    """A short hash of a set of rules, and of the facts that a project adds to them."""
    text = ",".join(sorted(f"{rule.id}{rule.facts()}" for rule in rules))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
