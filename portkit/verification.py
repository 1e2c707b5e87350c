"""`portkit rules --verify`: the facts of the tables against the installed torch and libraries."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from portkit import apifacts, probe
from portkit.apifacts import Fact, Role
from portkit.errors import PortkitError, UsageError

PROBE = Path(__file__).parent / "probe.py"
_TIMEOUT = 600.0
_UNKNOWN = ("...", "<factory>")  # a default that the installed version does not tell


class Verdict(str, Enum):
    """What became of one fact."""

    RIGHT = "right"
    WRONG = "wrong"  # a name that must exist does not, or a signature is another
    ABSENT = "absent"  # a name that code may hold is not in this version
    UNTOLD = "untold"  # the name is there, but nothing says its signature
    NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Checked:
    """One fact, and what the installed version says to it."""

    fact: Fact
    verdict: Verdict
    detail: str = ""


@dataclass
class Report:
    """All facts, checked with one Python."""

    torch: str
    checked: list[Checked] = field(default_factory=list)

    def of(self, verdict: Verdict) -> list[Checked]:
        """The facts with this verdict."""
        return [item for item in self.checked if item.verdict is verdict]


def verify(python: Sequence[str] = (sys.executable,)) -> Report:
    """Ask a Python (this one, if none is given) for every name and signature of the tables.

    Raises UsageError where it has no torch, and PortkitError where it can't be asked.
    """
    every = apifacts.all_facts()
    names = sorted({fact.name for fact in every if not fact.name.startswith("pk.")})
    signatures = sorted({fact.name for fact in every if fact.signature is not None})
    try:
        done = subprocess.run(
            [*python, str(PROBE)],
            input=json.dumps({"names": names, "signatures": signatures}),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        answers = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise PortkitError(f"{python[0]} can't be asked: {error}", remedy="Check that it runs.") from None
    if answers is None:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PortkitError(f"{python[0]} can't be asked: {last}", remedy="Check that it imports torch.")
    if not answers["torch"]:
        raise UsageError("torch is not installed.", remedy="pip install 'portkit[torch]'")
    return Report(answers["torch"], [_check(fact, answers["names"]) for fact in every])


def _check(fact: Fact, answers: Mapping[str, Any]) -> Checked:
    if fact.name.startswith("pk."):
        known = apifacts.is_ours(fact.name.removeprefix("pk."))
        return Checked(
            fact, Verdict.RIGHT if known else Verdict.WRONG, "" if known else "the runtime has it not"
        )
    answer = answers[fact.name]
    package = fact.name.partition(".")[0]
    if not answer["found"]:
        if package != "torch":
            return Checked(fact, Verdict.NOT_INSTALLED)
        verdict = Verdict.WRONG if fact.role is Role.USED else Verdict.ABSENT
        return Checked(fact, verdict, answer["why"])
    if fact.signature is None:
        return Checked(fact, Verdict.RIGHT)
    if answer["overloads"] is None:
        return Checked(fact, Verdict.UNTOLD)
    differences = [difference(fact.signature, overload) for overload in answer["overloads"]]
    wrong = "" in differences or min(differences, key=len)
    return Checked(fact, Verdict.RIGHT) if wrong is True else Checked(fact, Verdict.WRONG, str(wrong))


def difference(signature: str, installed: Sequence[Sequence[Any]]) -> str:
    """How a signature of a table differs from the installed one; empty where a call means the same.

    The table may leave out the first parameter (`self`), and have more at the end than an older version has.
    """
    tree = ast.parse(f"def f({signature}): pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    ours = probe.parameters(tree.args)
    theirs = [list(row) for row in installed]
    if theirs and theirs[0][0] in ("self", "cls") and (not ours or ours[0][0] != theirs[0][0]):
        theirs = theirs[1:]
    if any(str(row[0]).startswith("*") for row in theirs):
        theirs = [row for row in theirs if not str(row[0]).startswith("*")]
        ours = ours[: len(theirs)]
    positional = [row for row in theirs if not row[1]], [row for row in ours if not row[1]]
    return next(_differences(*positional, theirs), "")


def _differences(
    theirs: Sequence[Sequence[Any]], ours: Sequence[Sequence[Any]], everything: Sequence[Sequence[Any]]
) -> Iterator[str]:
    for one, other in zip(theirs, ours, strict=False):
        if one[0] != other[0]:
            yield f"has {one[0]} where the table has {other[0]}"
        elif not _same_default(one[2], other[2]):
            yield f"has {one[0]}={one[2]}, the table {other[0]}={other[2]}"
    if len(theirs) > len(ours):
        yield f"also takes {theirs[len(ours)][0]} by position"


def _same_default(one: str | None, other: str | None) -> bool:
    if one in _UNKNOWN or one == other:
        return True
    if one is None or other is None:
        return False
    try:
        return bool(ast.literal_eval(one) == ast.literal_eval(other))
    except (ValueError, SyntaxError):
        return one.rpartition(".")[2] == other.rpartition(".")[2]


def lines(report: Report, *, verbose: bool = False) -> Iterator[str]:
    """The report for a person: what is wrong, then what this version has not."""
    for item in report.of(Verdict.WRONG):
        yield f"wrong   {item.fact.place}: {item.fact.name}: {item.detail}"
    for verdict in (Verdict.ABSENT, Verdict.UNTOLD, Verdict.NOT_INSTALLED) if verbose else ():
        for item in report.of(verdict):
            yield f"{verdict.value:13s} {item.fact.place}: {item.fact.name}"
    counts = ", ".join(f"{len(report.of(verdict))} {verdict.value}" for verdict in Verdict)
    yield f"torch {report.torch}: {len(report.checked)} facts: {counts}"
