"""`portkit rules --verify`: the facts of the tables against the torch that is installed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from portkit import apifacts, probe, verification
from portkit.apifacts import Fact, Role
from portkit.cli import run
from portkit.errors import PortkitError, UsageError
from portkit.verification import Verdict

PAGE = Path(__file__).parent.parent / "docs/torch-versions.md"


@pytest.fixture(scope="module")
def report() -> verification.Report:
    pytest.importorskip("torch")
    return verification.verify()


def test_no_fact_is_wrong(report: verification.Report) -> None:
    assert [(item.fact.name, item.detail) for item in report.of(Verdict.WRONG)] == []
    assert len(report.of(Verdict.RIGHT)) > 1500


def test_the_page_has_the_oldest_and_the_pinned_version() -> None:
    pinned = re.search(r"(?m)^torch==(\d+\.\d+)", (PAGE.parent.parent / "constraints.txt").read_text())
    versions = set(re.findall(r"(?m)^\| (\d+\.\d+)\.\d+ \| 0 \|", PAGE.read_text()))
    assert {"2.6", *([pinned[1]] if pinned else [])} <= versions


def test_the_facts_are_those_of_every_table() -> None:
    every = apifacts.all_facts()
    places = {fact.place.rpartition("/")[0] for fact in every}
    assert {"tables", "tables/libraries", "runtime/ops", "runtime/nn"} <= places
    by_name = {fact.name: fact for fact in every if fact.signature}
    assert by_name["torch.nn.functional.gelu"].signature == "input, *, approximate='none'"
    found = {(fact.name, fact.role) for fact in every}
    assert ("torch.cuda.synchronize", Role.FOUND) in found
    assert ("pk.synchronize", Role.USED) in found
    assert ("torch.optim.Adam", Role.USED) in found or ("torch.optim", Role.USED) in found


WRONG = (
    Fact("torch.no_such_thing", Role.USED, "t.toml"),
    Fact("pk.no_such_thing", Role.USED, "t.toml"),
    Fact("torch.softmax", Role.FOUND, "t.toml", "x, dim, dtype=None"),
    Fact("torch.nn.Linear", Role.FOUND, "t.toml", "in_features, out_features, bias=False"),
    Fact("torch.Tensor.softmax", Role.FOUND, "t.toml", "self, axis"),
)


def test_wrong_facts_are_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    others = (
        Fact("torch.no_such_old_thing", Role.FOUND, "t.toml"),
        Fact("no_such_library", Role.FOUND, "t.toml"),
    )
    monkeypatch.setattr(apifacts, "all_facts", lambda: (*WRONG, *others))
    assert run(["rules", "--verify", "--verbose"]) == 1
    out, err = capsys.readouterr()
    for fact in WRONG:
        assert f"wrong   t.toml: {fact.name}: " in out
    assert "absent        t.toml: torch.no_such_old_thing" in out
    assert "not installed t.toml: no_such_library" in out
    assert "has bias=True, the table bias=False" in out
    assert "has input where the table has x" in out
    assert "5 facts of the tables do not hold" in err


@pytest.mark.parametrize(
    ("table", "installed", "detail"),
    [
        ("a, b=1", "a, b=1", ""),
        ("a, b=1, *, c=2", "a, b=1", ""),  # an older version
        ("a, b=1", "a, b=1, *, c=2", ""),  # only by keyword: positions stay
        ("a, b=1", "self, a, b=1", ""),
        ("a, b='x'", 'a, b="x"', ""),
        ("a, b=1", "a, b=...", ""),
        ("a, b=1", "a, b=1, c=2", "also takes c by position"),
        ("a, b=1", "a, c=1", "has c where the table has b"),
        ("a, b=1", "a, b=2", "has b=2, the table b=1"),
        ("a, b", "b, a", "has b where the table has a"),
        ("a, *, b=1", "a, b=1", "also takes b by position"),
    ],
)
def test_differences_of_signatures(table: str, installed: str, detail: str) -> None:
    import ast

    tree = ast.parse(f"def f({installed}): pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    assert verification.difference(table, probe.parameters(tree.args)) == detail


def test_signatures_of_functions_that_are_written_in_c() -> None:
    torch = pytest.importorskip("torch")
    [softmax] = probe.overloads(torch.softmax, "torch.softmax") or []
    assert [row[0] for row in softmax][:3] == ["input", "dim", "dtype"]
    [gelu] = probe.overloads(torch.nn.functional.gelu, "torch.nn.functional.gelu") or []
    assert [row[:2] for row in gelu] == [["input", False], ["approximate", True]]
    [method] = probe.overloads(torch.Tensor.softmax, "torch.Tensor.softmax") or []
    assert [row[0] for row in method] == ["self", "dim", "dtype"]


def test_a_python_without_torch() -> None:
    with pytest.raises(UsageError, match="torch is not installed"):
        verification.verify([sys.executable, "-S"])


def test_a_python_that_is_none() -> None:
    with pytest.raises(PortkitError, match="can't be asked"):
        verification.verify(["/no/such/python"])
