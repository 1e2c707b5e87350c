"""Kinds of code that a plain rename breaks, one file each in `fixtures/cases`.

A file has the code, what the rules say of it, what becomes of it (`After`; with `--unsafe`, `Unsafe`; without
the section nothing changes), and code that looks alike and is left alone even with `--unsafe`.  What has a
function `main` is run on the CPU before and after, and has to compute the same; what can't run without CUDA
before says in `Expected` what it must give after.

`PORTKIT_UPDATE=1 pytest tests/test_cases.py` writes reports and results anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from portkit import engine
from portkit.finding import Phase, Support
from portkit.migrate import Options, rewrite
from portkit.parsing import NotPython, parse
from portkit.source import Kind, Source, load

FOLDER = Path(__file__).parent.parent / "fixtures" / "cases"
UPDATE = bool(os.environ.get("PORTKIT_UPDATE"))
NAMES = {
    "python": "case.py",
    "sh": "case.sh",
    "yaml": "case.yaml",
    "json": "case.json",
    "dockerfile": "Dockerfile",
    "requirements": "requirements.txt",
}
SECTION = re.compile(r"^## (?P<name>\w+)\n\n```(?P<language>\w+)\n(?P<text>.*?)^```\n", re.M | re.S)
NEEDS_CUDA = (RuntimeError, AssertionError, ValueError, TypeError, ImportError)
SECTIONS = ("Before", "Report", "After", "Unsafe", "Expected", "Untouched")


class Case:
    """The sections of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8")
        found = list(SECTION.finditer(text))
        self.head = text[: found[0].start()] if found else text
        self.parts = {match["name"]: match["text"] for match in found}
        self.language = found[0]["language"] if found else ""

    def source(self, section: str) -> Source:
        return load(self.parts[section].encode(), NAMES[self.language])

    def write(self) -> None:
        """Write the file anew."""
        blocks = [
            f"## {name}\n\n```{'text' if name == 'Report' else self.language}\n{self.parts[name]}```\n"
            for name in SECTIONS
            if name in self.parts
        ]
        self.path.write_text(self.head + "\n".join(blocks), encoding="utf-8")


CASES = [Case(path) for path in sorted(FOLDER.glob("*.md"))]
RUN = [case for case in CASES if "\ndef main(" in case.parts.get("Before", "")]
CALM = [case for case in CASES if "\ndef main(" in case.parts.get("Untouched", "")]


def _label(case: Case) -> str:
    return case.path.stem


def _migrated(source: Source, *, unsafe: bool = False) -> str:
    return rewrite(source, Options(Phase.FULL_MODEL, unsafe=unsafe)).text


def _report(source: Source) -> str:
    found = engine.check_text(source.text, source.path, source.kind)
    rows = [f"{item.location.line}: {item.rule} {item.support.value} {item.message}" for item in found]
    if source.kind is Kind.PYTHON:
        try:
            parse(source.text)
        except NotPython as error:
            rows.append(f"{error.line}: not parsed: {error.reason}")
    return "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize("case", CASES, ids=_label)
def test_case_comes_out_right(case: Case) -> None:
    before = case.source("Before")
    report, after, unsafe = _report(before), _migrated(before), _migrated(before, unsafe=True)
    if UPDATE:
        case.parts = {name: text for name, text in case.parts.items() if name not in ("After", "Unsafe")}
        case.parts["Report"] = report
        case.parts |= {"After": after} if after != before.text else {}
        case.parts |= {"Unsafe": unsafe} if unsafe != after else {}
        case.write()
    assert report == case.parts["Report"]
    assert after == case.parts.get("After", before.text)
    assert unsafe == case.parts.get("Unsafe", after)
    assert set(case.parts) <= set(SECTIONS)


@pytest.mark.parametrize("case", CASES, ids=_label)
def test_what_looks_alike_is_left_alone(case: Case) -> None:
    source = case.source("Untouched")
    assert _migrated(source, unsafe=True) == source.text
    found = engine.check_text(source.text, source.path, source.kind)
    assert [item for item in found if item.support in (Support.AUTO, Support.REVIEW)] == []


@pytest.mark.parametrize("case", [case for case in CASES if "After" not in case.parts], ids=_label)
def test_what_stays_is_told_with_a_remedy(case: Case) -> None:
    source = case.source("Before")
    found = engine.check_text(source.text, source.path, source.kind)
    assert found or "not parsed" in case.parts["Report"]
    assert [item for item in found if not item.remedy] == []


@pytest.mark.parametrize("case", [case for case in CASES if "After" in case.parts], ids=_label)
def test_a_second_run_changes_nothing(case: Case) -> None:
    after = case.source("After")
    assert _migrated(after) == after.text


@pytest.mark.parametrize("case", RUN, ids=_label)
def test_case_computes_the_same(case: Case, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.accelerator.is_available():
        pytest.skip("the results are those of a machine without an accelerator")
    import executing

    after = case.parts.get("After", case.parts["Before"])
    texts = (after, case.parts.get("Unsafe", after))
    results = [executing.run(text, tmp_path / "after.py") for text in texts]
    if "Expected" in case.parts:
        reference = executing.load(case.parts["Expected"], tmp_path / "expected.py")["expected"]()
        with pytest.raises(NEEDS_CUDA):  # else it could be run, and compared
            executing.run(case.parts["Before"], tmp_path / "before.py")
    else:
        reference = executing.run(case.parts["Before"], tmp_path / "before.py")
    for result in results:
        executing.same(reference, result, case.path.stem)


@pytest.mark.parametrize("case", CALM, ids=_label)
def test_what_looks_alike_runs(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import executing

    executing.run(case.parts["Untouched"], tmp_path / "untouched.py")
