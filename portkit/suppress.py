"""Suppression comments: `# portkit: ignore[PK101] reason`, `# portkit: ignore`, `# portkit: ignore-file`.

With `until 2027-01-01` before the reason, a comment holds to the end of that day (UTC).
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone

from portkit.finding import Finding, Location, Phase, Support, Suppressed
from portkit.rule import Rule

_COMMENT = re.compile(
    r"(?:\#|//)\s*portkit:\s*(?P<word>ignore-file|ignore)\b(?:\[(?P<ids>[^\]]*)\])?(?P<reason>.*)",
    re.IGNORECASE,
)
_UNTIL = re.compile(
    r"[\s:–—-]*until:?\s+(?P<date>\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})\b",
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


class ExpiredSuppression(Rule):
    """A suppression comment had an end date, and that day is over.

    What: `# portkit: ignore[PK101] until 2025-06-30 reason` from 1 July 2025 on, and a date that does not
        exist or is not written as 2025-06-30.
    Why: someone promised to be done by then.  What the comment took out of the report counts again.
    Instead: resolve the finding and remove the comment, or agree on another date.
    Safety: reports only; found by the engine itself, and counted in no coverage.
    """

    id = "PK003"
    name = "expired_suppression"
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
    until: str = ""  # the last day that it holds, as it is written; empty: for ever
    used: set[str] = field(default_factory=set)

    @property
    def ended(self) -> str:
        """Why the comment no longer holds; empty if it does."""
        if not self.until:
            return ""
        try:
            last = datetime.strptime(self.until, "%Y-%m-%d").date()
        except ValueError:
            return f"has an end that is no date like 2027-01-31: {self.until}"
        return f"ended on {self.until}" if today() > last else ""

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


def today() -> date:
    """The day that end dates are compared with, the same for everyone who looks at the same time."""
    return datetime.now(timezone.utc).date()


def day_for(data: bytes) -> str:
    """The day, if what is found in a file with these bytes depends on it."""
    lower = data.lower() if b"ntil" in data.lower() else b""
    return today().isoformat() if b"portkit" in lower else ""


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
        until = _UNTIL.match(match["reason"])
        reason = (match["reason"][until.end() :] if until else match["reason"]).strip(" \t:-–—")
        place = (number, match.start() + 1, len(line) + 1)
        last = until["date"] if until else ""
        found.append(Suppression(*place, ids, whole, covers, line.strip(), reason, last))
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

    A suppression whose time is over takes nothing away, and gets a finding that says so.
    `ran` are the ids of the rules that looked: a comment about a rule that did not run is not called unused.
    """
    kept: list[Finding] = []
    dropped: list[Suppressed] = []
    for finding in findings:
        taking = [item for item in suppressions if item.takes(finding)]
        for item in taking:
            item.used.add(finding.rule)
        taking = [item for item in taking if not item.ended]
        if taking:
            dropped.append(Suppressed(finding, taking[0].reason))
        else:
            kept.append(finding)
    for item in suppressions:
        kept.extend(_unused(item, path, cell, ran))
        if item.ended and item.used:
            kept.append(_expired(item, path, cell))
    return kept, dropped


def _unused(item: Suppression, path: str, cell: int | None, ran: frozenset[str]) -> list[Finding]:
    idle = (item.ids & ran) - item.used if item.ids else (frozenset() if item.used else ran)
    if not idle:
        return []
    what = ", ".join(sorted(idle)) if item.ids else "anything"
    message = f"This comment does not suppress {what}."
    remedy = "Remove the comment, or the rule id that is no longer needed."
    return [_about(item, UnusedSuppression, path, cell, message, remedy)]


def _expired(item: Suppression, path: str, cell: int | None) -> Finding:
    what = ", ".join(sorted(item.used))
    why = f" ({item.reason})" if item.reason else ""
    message = f"This suppression of {what} {item.ended}{why}: what it covers counts again."
    remedy = "Resolve the finding and remove the comment, or agree on another date."
    return _about(item, ExpiredSuppression, path, cell, message, remedy)


def _about(
    item: Suppression, rule: type[Rule], path: str, cell: int | None, message: str, remedy: str
) -> Finding:
    """A finding about a comment itself."""
    return Finding(
        rule=rule.id,
        phase=rule.phase,
        support=Support.PORTABLE,
        location=Location(path, item.line, item.column, item.line, item.end_column, cell),
        message=message,
        remedy=remedy,
        snippet=item.snippet[:200],
    )
