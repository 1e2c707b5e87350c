"""Every rule on its fixture: what it reports, what applying gives, and that nothing is left to do then.

`PORTKIT_UPDATE=1 pytest tests/test_rules.py` writes report.txt and after.* anew, to be reviewed as a diff.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from portkit import engine, ruleset, tables
from portkit.apply import apply
from portkit.finding import Finding, Support
from portkit.rewriters import _calls, _operators
from portkit.rule import Rule
from portkit.source import Kind

FOLDER = Path(__file__).parent.parent / "fixtures" / "rules"
UPDATE = bool(os.environ.get("PORTKIT_UPDATE"))
RULES = {rule.id: rule for rule in ruleset.all_rules()}
KINDS = {
    ".py": Kind.PYTHON,
    ".manual.py": Kind.PYTHON,
    ".host.py": Kind.PYTHON,
    ".requirements.txt": Kind.REQUIREMENTS,
    ".conda.yml": Kind.REQUIREMENTS,
    ".toml": Kind.TOML,
    ".yml": Kind.YAML,
    ".json": Kind.JSON,
    ".sh": Kind.SHELL,
    ".dockerfile": Kind.DOCKERFILE,
    ".cu": Kind.CUDA,
    ".cpp": Kind.CPP,
    ".cmake": Kind.CMAKE,
    ".mk": Kind.MAKE,
    ".cfg": Kind.INI,
    ".ini": Kind.INI,
    ".pbtxt": Kind.INI,
    ".ipynb": Kind.NOTEBOOK,
    ".Pipfile": Kind.TOML,
    ".ci.yml": Kind.YAML,
    ".Jenkinsfile": Kind.SHELL,
}
ROUNDS = 12


def _befores(folder: Path = FOLDER) -> list[Path]:
    return sorted(folder.glob("PK*/before.*"))


def _label(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _kind(path: Path) -> Kind:
    return KINDS[path.name.removeprefix("before").removeprefix("after")]


def _rule(folder: Path) -> type[Rule]:
    """The rule of a fixture; with the data of the fixture, if it brings some."""
    rule = RULES[folder.name]
    data = folder / "data"
    return type(rule.__name__, (rule,), {"folder": data}) if data.is_dir() else rule


def _findings(text: str, path: Path, rules: list[type[Rule]]) -> list[Finding]:
    return engine.check_text(text, path.name, _kind(path), rules=rules)


def _applied(text: str, path: Path, rules: list[type[Rule]]) -> str:
    """The text after applying rules until nothing changes, reviews included."""
    for _ in range(ROUNDS):
        done = apply(text, _findings(text, path, rules), python=_kind(path) is Kind.PYTHON)
        assert not done.refused, [(finding.message, why) for finding, why in done.refused]
        if done.text == text:
            return text
        text = done.text
    raise AssertionError(f"{path} does not come to rest after {ROUNDS} rounds")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _report(folder: Path) -> str:
    befores = sorted(folder.glob("before.*"))
    rows = []
    for path in befores:
        prefix = f"{path.name}:" if len(befores) > 1 else ""
        for item in _findings(_read(path), path, [_rule(folder)]):
            where = item.location
            rows.append(
                f"{prefix}{where.line}:{where.column} {item.rule} {item.support.value} {item.message}"
            )
    return "\n".join(rows) + "\n"


def test_each_rule_has_a_fixture_and_each_fixture_a_rule() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(RULES)


@pytest.mark.parametrize("rule_id", sorted(RULES))
def test_rule_is_documented_and_named_after_its_module(rule_id: str) -> None:
    rule = RULES[rule_id]
    text = rule.__doc__ or ""
    assert [word for word in ("What:", "Why:", "Instead:", "Safety:") if word not in text] == []
    assert rule.__module__.rpartition(".")[2] == rule.name
    assert rule.__name__ == "".join(word.capitalize() for word in rule.name.split("_"))
    assert all(trigger == trigger.lower() for trigger in rule.triggers)


@pytest.mark.parametrize("rule_id", sorted(RULES))
def test_rule_reports_what_its_fixture_says(rule_id: str) -> None:
    folder = FOLDER / rule_id
    found = _report(folder)
    if UPDATE:
        (folder / "report.txt").write_text(found, encoding="utf-8")
    assert found == _read(folder / "report.txt")


_FRAMES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass)


def _quiet(path: Path, text: str, told: set[int]) -> int:
    """How many statements of a fixture (lines, where it is no Python) are code in which nothing is found."""
    if path.suffix != ".py":
        lines = enumerate(text.splitlines(), start=1)
        code = [n for n, line in lines if re.search(r"\w{3}", line) and not re.match(r"\s*(?:#|//)", line)]
        return sum(n not in told for n in code)
    count = 0
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt) or isinstance(node, _FRAMES):
            continue
        asks = any(
            isinstance(n, (ast.Call, ast.Attribute, ast.Compare, ast.Constant)) for n in ast.walk(node)
        )
        docs = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        block = getattr(node, "body", None)
        last = block[0].lineno - 1 if block else node.end_lineno or node.lineno
        lines_of_it = set(range(node.lineno, max(last, node.lineno) + 1))
        count += asks and not docs and lines_of_it.isdisjoint(told)
    return count


@pytest.mark.parametrize("rule_id", sorted(RULES))
def test_fixture_holds_as_much_that_is_not_found(rule_id: str) -> None:
    found = quiet = 0
    for path in sorted((FOLDER / rule_id).glob("before.*")):
        told: set[int] = set()
        places: set[tuple[int | None, int]] = set()
        for item in _findings(_read(path), path, [_rule(path.parent)]):
            lines = [item.location.line, *(line for _, line in item.others)]
            places.update((item.location.cell, line) for line in lines)
            told.update(lines, range(item.location.line, item.location.end_line + 1))
        found += len(places)
        quiet += _quiet(path, _read(path), told) if path.suffix != ".ipynb" else 0
    assert quiet >= found


@pytest.mark.parametrize("path", _befores(), ids=_label)
def test_rule_rewrites_its_fixture(path: Path) -> None:
    rules = [_rule(path.parent)]
    before = _read(path)
    result = _applied(before, path, rules)
    expected = path.with_name(path.name.replace("before", "after", 1))
    if UPDATE and result != before:
        expected.write_text(result, encoding="utf-8")
    assert expected.exists() == (result != before)
    if expected.exists():
        assert result == _read(expected)
        left = _findings(result, path, rules)
        assert [item.message for item in left if item.edits] == []
        stayed = [item for item in _findings(before, path, rules) if not item.edits]
        assert Counter(item.message for item in left) <= Counter(item.message for item in stayed)
        if path.suffix == ".py":
            compile(before, str(path), "exec")
            compile(result, str(expected), "exec")


@pytest.mark.parametrize("path", _befores(), ids=_label)
def test_analyzers_carry_no_edits(path: Path) -> None:
    rule = RULES[path.parent.name]
    edits = [item for item in _findings(_read(path), path, [rule]) if item.edits]
    assert not edits or rule.__module__.startswith("portkit.rewriters.")


@pytest.mark.parametrize("path", _befores(), ids=_label)
def test_edits_match_the_support_class(path: Path) -> None:
    """A rewrite that is promised exists; one that is not safe says why; the rest say what to do."""
    for item in _findings(_read(path), path, [_rule(path.parent)]):
        assert bool(item.edits) == (item.support in (Support.AUTO, Support.REVIEW)), item
        assert bool(item.note) == (item.support is Support.REVIEW), item
        assert item.remedy, item


@pytest.mark.parametrize("path", [p for p in _befores() if p.suffix == ".py"], ids=_label)
def test_all_rules_together_come_to_rest(path: Path) -> None:
    result = _applied(_read(path), path, list(RULES.values()))
    compile(result, str(path), "exec")


# --- the data that rules read ------------------------------------------------------------------------


def _data() -> list[Path]:
    return sorted(path for folder in ("ops", "nn") for path in (tables.RUNTIME / folder).glob("*.toml"))


@pytest.mark.parametrize("path", _data(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_operator_data_fits_the_operator(path: Path) -> None:
    """Every parameter that data names exists, on both sides."""
    entries = tables.read(path)["replaces"]
    everything = _operators.replacements(path.parent)
    assert entries
    for entry in entries:
        found = everything[entry["name"]]
        theirs = {parameter.name for parameter in found.signature}
        ours = _our_parameters(path, found.to, entries)
        assert {*found.map, *found.drop, *found.refuse, *found.require} <= theirs, found.name
        passed = theirs - set(found.drop) - set(found.refuse)
        assert {found.map.get(name, name) for name in passed} | set(found.add) <= ours, found.name
        assert found.tier in _operators.TIERS
        assert (found.support == "review") == bool(found.note), found.name


def _our_parameters(path: Path, name: str, entries: list[dict[str, str]]) -> set[str]:
    tree = ast.parse(_read(path.with_suffix(".py")))
    node: ast.AST = next(item for item in tree.body if getattr(item, "name", "") == name)
    if isinstance(node, ast.ClassDef):
        inits = [item for item in node.body if getattr(item, "name", "") == "__init__"]
        if not inits:  # inherited from torch's module of the same name
            signature = next(item["signature"] for item in entries if item["name"] == f"torch.nn.{name}")
            return {parameter.name for parameter in _calls.signature(signature)}
        node = inits[0]
    assert isinstance(node, ast.FunctionDef)
    return {item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}


def test_tables_name_the_rules_that_read_them() -> None:
    names = {rule.name for rule in RULES.values()}
    assert set(tables.load("torch_cuda")) <= names


def test_targets_in_tables_exist_in_the_runtime() -> None:
    runtime = _read(tables.RUNTIME / "__init__.py")
    for section in tables.load("torch_cuda").values():
        for target in section.get("to", {}).values():
            name = target.rpartition(".")[2]
            if target.count(".") == 2 and target.startswith("pk."):
                module = _read(tables.RUNTIME / f"{target.split('.')[1]}.py")
                assert re.search(rf"^(?:class|def) {name}\b", module, re.M), target
            elif target.startswith("pk."):
                assert f'"{name}"' in runtime, target
