"""Asking a person about each rewrite: what it is, what it changes, why; nothing is written meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TextIO

from portkit import diffs, rulebook
from portkit.applying.units import apply_source
from portkit.cells import split_notebook
from portkit.finding import Finding
from portkit.source import Kind, Source

_KEYS = {
    "a": "accept this rewrite",
    "s": "skip it",
    "A": "accept it, and all others of this rule",
    "S": "skip it, and all others of this rule",
    "w": "why: the page of the rule",
    "q": "quit: skip everything else",
    "?": "this help",
}
_WORDS = {"y": "a", "yes": "a", "accept": "a", "n": "s", "no": "s", "skip": "s", "why": "w", "quit": "q"}


class Interview:
    """Decides which rewrites to leave by asking; implements `rounds.Decide`.

    Answers are read a line at a time; the end of the input means quit.
    """

    def __init__(self, answers: TextIO, screen: TextIO, *, colour: bool = False) -> None:
        self.answers = answers
        self.screen = screen
        self.colour = colour
        self.stopped = False
        self._by_rule: dict[str, bool] = {}  # the answer for all of a rule

    def __call__(self, source: Source, findings: Sequence[Finding]) -> set[int]:
        """The positions of the rewrites that the user does not want."""
        leave = {index for index, item in enumerate(findings) if not self._wants(source, item)}
        for index, item in enumerate(findings):
            if index in leave:
                continue
            missing = [findings[k] for k in leave if findings[k].sort_key in item.needs]
            if missing and not self.stopped:
                other = missing[0]
                self._say(
                    f"Skipped with it: {item.location}: {item.rule}, since the branch behind this test "
                    f"needs {other.rule} in line {other.location.line}."
                )
            if missing:
                leave.add(index)
        return leave

    def confirm(self, question: str) -> bool:
        """Ask a question that only `y` answers with yes."""
        return self._read(f"{question} [y/N] ").strip().lower() in ("y", "yes")

    def _wants(self, source: Source, finding: Finding) -> bool:
        if self.stopped or finding.rule in self._by_rule:
            return not self.stopped and self._by_rule[finding.rule]
        shown = list(_difference(source, finding))
        if not shown:
            return True  # it can't be carried out as things stand: the applier says why
        self._show(finding, shown)
        while True:
            key = self._answer(finding)
            if key in "aA":
                self._by_rule.update({finding.rule: True} if key == "A" else {})
                return True
            if key in "sS":
                self._by_rule.update({finding.rule: False} if key == "S" else {})
                return False
            if key == "q":
                self.stopped = True
                return False
            if key == "w":
                self._say(rulebook.explain(finding.rule, colour=self.colour))
            else:
                self._say("\n".join(f"  {letter}  {meaning}" for letter, meaning in _KEYS.items()))

    def _show(self, finding: Finding, shown: Sequence[bytes]) -> None:
        self._say("")
        self._say(f"{finding.location}: {finding.rule} ({finding.phase.value}, {finding.support.value})")
        self._say(f"{finding.message.rstrip('.')}. {finding.remedy}")
        lines = diffs.coloured(shown) if self.colour else shown
        self._say("".join(line.decode("utf-8", "replace") for line in lines).rstrip("\n"))
        if finding.note:
            self._say(f"Note: {finding.note}")

    def _answer(self, finding: Finding) -> str:
        rule = finding.rule
        line = self._read(f"[a]ccept, [s]kip, [A]ccept or [S]kip all {rule}, [w]hy, [q]uit, ? ")
        if not line:
            return "q"
        word = line.strip()
        word = _WORDS.get(word.lower(), word)
        return word if word in _KEYS else "?"

    def _read(self, prompt: str) -> str:
        self.screen.write(prompt)
        self.screen.flush()
        try:
            line = self.answers.readline()
        except UnicodeDecodeError:
            return "?\n"
        if not self.answers.isatty():  # what was typed is on no screen
            self.screen.write(line or os.linesep)
        return line

    def _say(self, text: str) -> None:
        self.screen.write(f"{text}\n")


def _difference(source: Source, finding: Finding) -> Iterator[bytes]:
    """What one rewrite alone changes, as hunks of a diff; of a notebook, in the cell."""
    result = apply_source(source, [finding])
    before, after = source.text, result.text
    if source.kind is Kind.NOTEBOOK and before != after:
        number = finding.location.cell or 0
        before, after = source.units[number].text, split_notebook(after)[number].text
    hunks = diffs.diff(source.path, before.encode(errors="replace"), after.encode(errors="replace"))
    for line in hunks:
        if not line.startswith((b"--- a/", b"+++ b/", b'--- "a/', b'+++ "b/')):
            yield line
