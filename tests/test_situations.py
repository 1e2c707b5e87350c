"""All rules on the situations of `fixtures/situations.md`, in which a plain rename would break a program."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from portkit import engine
from portkit.finding import Phase
from portkit.migrate import Options, rewrite
from portkit.source import load

PATH = Path(__file__).parent.parent / "fixtures" / "situations.md"
UPDATE = bool(os.environ.get("PORTKIT_UPDATE"))
SECTION = re.compile(
    r"## (?P<name>[^\n]+)\n\n```python\n(?P<before>.*?)```\n\n(?P<report>[^\n]+)\n"
    r"(?:\n```python\n(?P<after>.*?)```\n)?",
    re.S,
)
CASES = [
    (match["name"], match["before"], match["report"], match["after"])
    for part in re.split(r"(?m)^(?=## )", PATH.read_text(encoding="utf-8"))[1:]
    if (match := SECTION.match(part))
]


def _migrated(text: str) -> str:
    """What is left after all safe rewrites."""
    return rewrite(load(text.encode(), "situation.py"), Options(Phase.FULL_MODEL)).text


def _report(text: str) -> str:
    found = {f"{item.rule} {item.support.value}" for item in engine.check_text(text)}
    return ", ".join(sorted(found)) or "nothing"


def _section(name: str, before: str) -> str:
    after = _migrated(before)
    result = f"\n```python\n{after}```\n" if after != before else ""
    return f"## {name}\n\n```python\n{before}```\n\n{_report(before)}\n{result}"


def test_every_section_is_read() -> None:
    text = PATH.read_text(encoding="utf-8")
    head = text[: text.index("\n## ")]
    assert len(CASES) == len(re.findall("(?m)^## ", text)) == len({name for name, *_ in CASES})
    if UPDATE:
        sections = [_section(name, before) for name, before, *_ in CASES]
        PATH.write_text("\n".join([head, *sections]), encoding="utf-8")


@pytest.mark.parametrize(("name", "before", "report", "after"), CASES, ids=[case[0] for case in CASES])
def test_situation_comes_out_right(name: str, before: str, report: str, after: str | None) -> None:
    assert _report(before) == report
    result = _migrated(before)
    assert result == (before if after is None else after)
    compile(result, name, "exec")
