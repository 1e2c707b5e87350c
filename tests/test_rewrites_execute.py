"""Programs run on the CPU before and after all rules, and compute the same.

Each rewriting rule has such a program, `fixtures/rules/PKxxx/run.py`, with a function `main`.  One that can't
run without CUDA before the rewrite also has `expected`, which gives what `main` must return after it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from portkit import engine, ruleset
from portkit.apply import apply
from portkit.rule import Rule

pytest.importorskip("torch")
executing = pytest.importorskip("executing")

FOLDER = Path(__file__).parent.parent / "fixtures" / "rules"
PROGRAMS = sorted(FOLDER.glob("PK*/run.py"))
REWRITERS = [rule.id for rule in ruleset.all_rules() if [*(FOLDER / rule.id).glob("after*.py")]]


def _rules(folder: Path) -> list[type[Rule]]:
    """All rules, with the tables of a project's own that a fixture brings."""
    tables = tuple(sorted((folder / "data").glob("apis.toml")))
    return [rule.configured(tables) for rule in ruleset.all_rules()]


def _migrated(text: str, rules: list[type[Rule]]) -> str:
    for _ in range(12):
        done = apply(text, engine.check_text(text, rules=rules), python=True)
        assert not done.refused
        if done.text == text:
            return text
        text = done.text
    raise AssertionError("the rewrites do not come to rest")


@pytest.mark.parametrize("rule_id", REWRITERS)
def test_each_rewriter_has_a_program(rule_id: str) -> None:
    assert (FOLDER / rule_id / "run.py").exists()


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.parent.name)
def test_program_computes_the_same_without_cuda(path: Path, tmp_path: Path) -> None:
    before = path.read_text(encoding="utf-8")
    rules = _rules(path.parent)
    after = _migrated(before, rules)
    assert path.parent.name in {item.rule for item in engine.check_text(before, rules=rules)}
    assert after != before
    result = executing.run(after, tmp_path / "after.py")
    if "\ndef expected()" in before:
        names = executing.load(after, tmp_path / "expected.py")
        reference = names["expected"]()
    else:
        reference = executing.run(before, tmp_path / "before.py")
    executing.same(reference, result, path.parent.name)
