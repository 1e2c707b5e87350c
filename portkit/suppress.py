"""Suppression comments: `# portkit: ignore[PK101] reason`, `# portkit: ignore`, `# portkit: ignore-file`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field

from portkit.finding import Finding, Location, Phase, Support, Suppressed
from portkit.rule import Rule

_COMMENT = re.compile(
    r"(?:\#|//)\s*portkit:\s*(?P<word>ignore-file|ignore)\b(?:\[(?P<ids>[^\]]*)\])?(?P<reason>.*)",
    re.IGNORECASE,
)
_LINE_END = re.compile(r"\r\n|\r|\n")


class UnusedSuppression(Rule):
    """A suppression comment suppresses nothing.

    What: `# portkit: ignore[PK101]` where PK101 finds nothing on that line, and the like.
    Why: it would hide a finding that comes later, and tells the reader something that is not so.
    Instead: remove the comment, or the rule id in it.
    Safety: reports only; found by the engine itself, and counted in no coverage.
    """

    id = "PK001"
    name = "unused_suppression"
    phase = Phase.FULL_MODEL
    triggers = ()


@dataclass
class Suppression:
    """One comment, the lines that it covers, and whether it was of use."""

    line: int
    column: int
    end_column: int
    ids: frozenset[str]  # empty: every rule
    whole_file: bool
    covers: int  # the line whose findings it takes away
    snippet: str
    reason: str = ""  # what the comment says besides
    used: set[str] = field(default_factory=set)

    def takes(self, finding: Finding) -> bool:
        """Whether this comment takes `finding` away."""
        if self.ids and finding.rule not in self.ids:
            return False
        lines = range(finding.location.line, finding.location.end_line + 1)
        return (
            self.whole_file
            or self.covers == finding.location.line
            or (self.covers == self.line and self.line in lines)
        )


def find(text: str, python: str | None = None) -> list[Suppression]:
    """The suppression comments of one unit.  A comment alone on its line covers the next line of code.

    `python` is the unit as Python, if it is; what stands inside a string there is no comment.
    """
    if "portkit:" not in text.lower():
        return []
    lines = _LINE_END.split(text)
    real = _comments(python) if python is not None else None
    found = []
    for number, line in enumerate(lines, start=1):
        match = _COMMENT.search(line)
        if match is None or (real is not None and number not in real):
            continue
        ids = frozenset(word.strip().upper() for word in (match["ids"] or "").split(",") if word.strip())
        alone = not line[: match.start()].strip()
        covers = _next_code_line(lines, number) if alone else number
        whole = match["word"].lower() == "ignore-file"
        reason = match["reason"].strip(" \t:-–—")
        place = (number, match.start() + 1, len(line) + 1)
        found.append(Suppression(*place, ids, whole, covers, line.strip(), reason))
    return found


def _comments(python: str) -> set[int] | None:
    """The lines of a Python text that hold a comment; None where it cannot be split into tokens."""
    stream = io.StringIO(_LINE_END.sub("\n", python))
    try:
        tokens = list(tokenize.generate_tokens(stream.readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def _next_code_line(lines: Sequence[str], number: int) -> int:
    for following in range(number, len(lines)):
        text = lines[following].strip()
        if text and not text.startswith(("#", "//")):
            return following + 1
    return number


def apply(
    findings: Sequence[Finding],
    suppressions: Sequence[Suppression],
    path: str,
    cell: int | None,
    ran: frozenset[str],
) -> tuple[list[Finding], list[Suppressed]]:
    """The findings that are left, with one more for each suppression that was of no use; and those that went.

    `ran` are the ids of the rules that looked: a comment about a rule that did not run is not called unused.
    """
    kept: list[Finding] = []
    dropped: list[Suppressed] = []
    for finding in findings:
        taking = [item for item in suppressions if item.takes(finding)]
        for item in taking:
            item.used.add(finding.rule)
        if taking:
            dropped.append(Suppressed(finding, taking[0].reason))
        else:
            kept.append(finding)
    for item in suppressions:
        kept.extend(_unused(item, path, cell, ran))
    return kept, dropped


def _unused(item: Suppression, path: str, cell: int | None, ran: frozenset[str]) -> list[Finding]:
    idle = (item.ids & ran) - item.used if item.ids else (frozenset() if item.used else ran)
    if not idle:
        return []
    what = ", ".join(sorted(idle)) if item.ids else "anything"
    return [
        Finding(
            rule=UnusedSuppression.id,
            phase=UnusedSuppression.phase,
            support=Support.PORTABLE,
            location=Location(path, item.line, item.column, item.line, item.end_column, cell),
            message=f"This comment does not suppress {what}.",
            remedy="Remove the comment, or the rule id that is no longer needed.",
            snippet=item.snippet[:200],
        )
    ]
