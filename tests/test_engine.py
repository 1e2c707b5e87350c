"""The engine: order, ids, suppression, notebooks, bad input, processes, coverage."""

from __future__ import annotations

import ast
import json
import os
import random
import types
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from toy_rules import TOYS, CudaMethod, CudaName

from portkit import coverage, engine, parsing, plugins, ruleset
from portkit.check import RuleFault
from portkit.config import Config
from portkit.errors import UsageError
from portkit.finding import Finding, Location, Phase, Support
from portkit.inventory import Seen, Use
from portkit.rule import Context, Rule
from portkit.source import Kind

TRAIN = """\
import torch

class Trainer:
    def step(self, x):
        if torch.cuda.is_available():
            x = x.cuda()
        torch.cuda.synchronize()
        return x @ x
"""


def check(text: str, rules: tuple[type[Rule], ...] = TOYS) -> list[Finding]:
    return engine.check_text(text, "a.py", Kind.PYTHON, Config(), rules)


def scan(folder: Path, **options: object) -> engine.ScanResult:
    options.setdefault("rules", TOYS)
    return engine.scan([folder], **options)  # type: ignore[arg-type]


def test_findings_carry_what_a_report_needs() -> None:
    first, second, third = check(TRAIN)
    assert (first.rule, first.qualified_name) == ("PK901", "torch.cuda.is_available")
    assert first.location == Location("a.py", 5, 12, 5, 35)
    assert first.scope == "Trainer.step"
    assert (second.rule, second.guard, second.snippet) == (
        "PK902",
        "torch.cuda.is_available()",
        "x = x.cuda()",
    )
    assert (third.rule, third.guard) == ("PK901", None)
    assert len({first.id, second.id, third.id}) == 3


def test_ids_survive_a_move_and_tell_equals_apart() -> None:
    text = "import torch\ntorch.cuda.synchronize()\ntorch.cuda.synchronize()\n"
    moved = "# a\n# b\n" + text.replace("\n", "\n\n").replace("cuda.", "cuda.", 1)
    assert [item.id for item in check(text)] == [item.id for item in check(moved)]
    assert len({item.id for item in check(text)}) == 2


class Twice(Rule):
    """Says everything twice."""

    id = "PK905"
    name = "twice"
    phase = Phase.MODULE
    triggers = (b"cuda",)

    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        for _ in range(2):
            yield ctx.finding(self, node, "name", support=Support.UNKNOWN, remedy="")


def test_what_is_said_twice_counts_once() -> None:
    assert len(check("cuda\n", (Twice,))) == 1


def test_no_rule_sees_a_file_without_its_trigger() -> None:
    assert check("import torch\nx.CUDA_\n", (Twice,)) != []
    assert check("import torch\n", (Twice,)) == []


# --- suppression -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("x.cuda()  # portkit: ignore[PK902] because", []),
        ("x.cuda()  # portkit: ignore", []),
        ("x.cuda()  # PORTKIT: Ignore[pk902, PK901]", ["PK001"]),
        ("x.cuda()  # portkit: ignore[PK901]", ["PK001", "PK902"]),
        ("# portkit: ignore[PK902] because\nx.cuda()", []),
        ("# portkit: ignore[PK902]\n# more words\n\nx.cuda()", []),
        ("# portkit: ignore[PK902]\ny = 1\nx.cuda()", ["PK001", "PK902"]),
        ("f(\n    x.cuda(),\n)  # portkit: ignore[PK902]", ["PK001", "PK902"]),
        ("x.cuda(\n    0,  # portkit: ignore[PK902]\n)", []),
        ("# portkit: ignore-file\nx.cuda()\ny.cuda()", []),
        ("# portkit: ignore-file[PK901]\nx.cuda()", ["PK001", "PK902"]),
        ("# portkit: ignore[PK777]\nx.cuda()", ["PK902"]),
        ("s = '# portkit: ignore[PK902]'; x.cuda()", ["PK902"]),
        ("s = \"it's\"; x.cuda()  # portkit: ignore[PK902] don't ask", []),
        ("s = '''\n# portkit: ignore-file\n'''\nx.cuda()", ["PK902"]),
        ("y = 1  # portkit: ignore[PK902]\nx = 'cuda'", ["PK001"]),
        ("y = 1  # portkit: ignore[PK902]", ["PK001"]),
    ],
)
def test_suppression(text: str, rules: list[str]) -> None:
    assert sorted(item.rule for item in check(text + "\n")) == rules


def test_suppressed_findings_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x.cuda()  # portkit: ignore[PK902]\n")
    (tmp_path / "b.sh").write_text("pip install nvidia-cuda  # portkit: ignore[PK903]\n")
    result = scan(tmp_path)
    assert (result.findings, len(result.suppressed)) == ([], 2)


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        ("# portkit: ignore[PK902] the loader needs it", "the loader needs it"),
        ("# portkit: ignore: see issue #12", "see issue #12"),
        ("# portkit: ignore[PK902]", ""),
        ("# portkit: ignore-file — generated", "generated"),
    ],
)
def test_a_suppressed_finding_is_kept_with_its_reason(tmp_path: Path, comment: str, reason: str) -> None:
    (tmp_path / "a.py").write_text(f"x.cuda()  {comment}\n")
    suppressed = scan(tmp_path).suppressed
    assert [(item.finding.rule, item.reason) for item in suppressed] == [("PK902", reason)]
    assert suppressed[0].finding.id


def test_a_suppression_changes_no_id_of_others(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x.cuda()\nx.cuda()\n")
    first, second = scan(tmp_path).findings
    (tmp_path / "a.py").write_text("# portkit: ignore\nx.cuda()\nx.cuda()\n")
    result = scan(tmp_path)
    assert [item.id for item in result.findings] == [second.id]
    assert [item.finding.id for item in result.suppressed] == [first.id]


def test_per_path_ignores_take_suppressed_findings_too(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x.cuda()  # portkit: ignore\ny.cuda()\n")
    result = scan(tmp_path, config=Config(per_path_ignores=(("a.py", ("PK902",)),)))
    assert (result.findings, result.suppressed) == ([], [])


def test_unused_suppressions_count_in_no_coverage() -> None:
    findings = check("y = 1  # portkit: ignore[PK902]\n")
    assert [item.rule for item in findings] == ["PK001"]
    assert coverage.dependencies(findings).total == 0


# --- notebooks ---------------------------------------------------------------------------------------


def notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells], "metadata": {}})


def test_what_an_earlier_cell_defines_is_told_in_its_own_words(tmp_path: Path) -> None:
    first = "\n" * 40 + "import torch\nbase = torch.cuda"
    (tmp_path / "a.ipynb").write_text(notebook(first, "base.synchronize()  # cuda"))
    (called,) = [item for item in engine.scan([tmp_path]).findings if item.location.cell == 1]
    assert [alias.via for alias in called.aliases] == ["base = torch.cuda", "import torch"]


def test_cells_know_what_earlier_cells_imported(tmp_path: Path) -> None:
    text = notebook(
        "%matplotlib inline\nimport torch as th", "!pip install nvidia-cuda", "th.cuda.synchronize()"
    )
    (tmp_path / "a.ipynb").write_text(text)
    found = scan(tmp_path).findings
    assert [(item.rule, item.location.cell, item.location.line) for item in found] == [
        ("PK903", 1, 1),
        ("PK901", 2, 1),
    ]
    assert found[1].qualified_name == "torch.cuda.synchronize"
    assert str(found[1].location) == "a.ipynb#2:1:1"


def test_one_broken_cell_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(notebook("import torch\nx.cuda()", "y = = 1", "z.cuda()"))
    result = scan(tmp_path)
    assert [item.location.cell for item in result.findings] == [0, 2]
    assert [(item.path, item.line) for item in result.unparsed] == [("a.ipynb", 1)]
    assert "cell 1" in result.unparsed[0].reason


# --- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason", "line"),
    [
        (b"x.cuda()\nprint x\n", "is Python 2", 2),
        (b"x.cuda()\ntry:\n    pass\nexcept E, e:\n    pass\n", "is Python 2", 4),
        (b"x.cuda(async=True)\n", "non_blocking", 1),
        (b"x.cuda()\n<<<<<<< HEAD\ny\n=======\nz\n>>>>>>> b\n", "merge conflict", 2),
        (b"if x.cuda():\n\ty\n        z\n", "tabs and spaces", 3),
        (b"x.cuda()\nclass {{ name }}:\n    pass\n", "template", 2),
        (b"x.cuda(\n", "is not valid Python", 1),
        (b"x.cuda()\0", "null bytes", None),
        (b"# coding: klingon\nx.cuda()\n", "encoding", 1),
        (b"x.cuda() # \xff\n", "not valid utf-8", 1),
        (b"x = cuda" + b"(" * 3000 + b")" * 3000, "nested too", None),
        (b"cuda = " + b"-" * 60_000 + b"1\n", "nested too", None),
    ],
)
def test_what_cannot_be_parsed_is_one_line_and_the_rest_goes_on(
    tmp_path: Path, data: bytes, reason: str, line: int | None
) -> None:
    (tmp_path / "bad.py").write_bytes(data)
    (tmp_path / "good.py").write_text("x.cuda()\n")
    result = scan(tmp_path)
    assert [item.location.path for item in result.findings] == ["good.py"]
    (bad,) = result.unparsed
    assert bad.path == "bad.py"
    assert reason in bad.reason
    assert "\n" not in bad.reason
    assert line is None or bad.line == line
    assert result.files == 2


def test_deep_expressions_end_in_no_traceback() -> None:
    text = "import torch\nx = torch.cuda" + ".a" * 5000 + "\ny = " + " + ".join(["'cuda'"] * 3000) + "\n"
    assert isinstance(check(text), list)


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x.cuda()\n")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    assert [item.location.path for item in scan(tmp_path).findings] == ["a.py"]


def test_reasons_name_old_python() -> None:
    for text in ("print 'x'", "exec 'x'", "raise E, 'x'", "x <> y", "0777", "10L"):
        with pytest.raises(parsing.NotPython) as caught:
            parsing.parse(text)
        assert "Python 2" in caught.value.reason, text


# --- many files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 3])
def test_order_does_not_depend_on_processes(tmp_path: Path, jobs: int) -> None:
    numbers = list(range(230))
    random.Random(0).shuffle(numbers)
    for number in numbers:
        (tmp_path / f"m{number:03}.py").write_text("import torch\ntorch.cuda.synchronize()\nx.cuda()\n" * 2)
    result = scan(tmp_path, jobs=jobs)
    assert len(result.findings) == 4 * 230
    places = [(item.location.path, item.location.line) for item in result.findings]
    assert places == sorted(places)
    assert result.lines == 6 * 230


def test_stdin_is_python() -> None:
    result = engine.scan(["-"], rules=TOYS, stdin=b"import torch\nx.cuda()\n")
    assert [item.location.path for item in result.findings] == ["<stdin>"]
    assert engine.scan(["-"], rules=TOYS, stdin=b"x.cuda(\n").unparsed[0].path == "<stdin>"


def test_per_path_ignores(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("a.py", "tests/b.py"):
        (tmp_path / name).write_text("import torch\nx.cuda()\ntorch.cuda.synchronize()\n")
    config = Config(per_path_ignores=(("tests", ("PK902",)),))
    found = scan(tmp_path, config=config).findings
    assert [(item.location.path, item.rule) for item in found] == [
        ("a.py", "PK902"),
        ("a.py", "PK901"),
        ("tests/b.py", "PK901"),
    ]


# --- what the context says of edits ------------------------------------------------------------------


def test_lossy_when_a_name_was_guessed() -> None:
    (found,) = check("from model import *\ntorch.cuda.synchronize()\n")
    assert found.lossy
    (found,) = check("import torch\nfrom model import *\ntorch.cuda.synchronize()\n")
    assert not found.lossy


class Literal(Rule):
    """A CUDA literal; would rewrite it."""

    id = "PK906"
    name = "literal"
    phase = Phase.FULL_MODEL
    triggers = (b"cuda",)

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        from portkit.finding import Replace

        if node.value == "cuda":
            edits = [Replace(ctx.span(node), "other")]
            yield ctx.finding(self, node, "x", support=Support.AUTO, remedy="", edits=edits)


def test_a_pattern_is_never_rewritten() -> None:
    (found,) = check('match d:\n    case "cuda":\n        pass\n', (Literal,))
    assert (found.support, found.edits) == (Support.MANUAL, ())


@pytest.mark.parametrize("text", ["f'{x} {torch.cuda.synchronize()}'", "f'''\n\n{torch.cuda.Event()} é'''"])
def test_places_inside_f_strings_are_right_or_not_edited(text: str) -> None:
    code = f"import torch\ny = {text}\n"
    (found,) = check(code, (CudaName,))
    for edit in found.edits:
        assert code[edit.span.start : edit.span.end].startswith("torch.cuda.")  # type: ignore[union-attr]
    assert found.edits or found.support is Support.MANUAL


# --- coverage ----------------------------------------------------------------------------------------


def test_coverage_of_dependencies() -> None:
    findings = check(TRAIN + "\nfrom other import *\n")
    overall = coverage.dependencies(findings)
    assert (overall.total, overall.resolved, overall.percent) == (3, 2, 66.7)
    operator = coverage.dependencies(findings, Phase.OPERATOR)
    assert (operator.total, operator.resolved, operator.percent) == (1, 0, 0.0)
    assert coverage.dependencies(findings, Phase.MODULE).percent is None


def test_lossy_sites_never_count_as_resolved() -> None:
    overall = coverage.dependencies(check("from model import *\ntorch.cuda.synchronize()\n"))
    assert (overall.total, overall.lossy, overall.resolved) == (1, 1, 0)


def test_operators_are_counted_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import torch, numpy as np\nimport torch.nn.functional as F\nfrom torch import nn\n"
        "l = nn.Linear(3, 4)\ny = F.softmax(x @ w, -1) + torch.softmax(x, 0)\nz = y.softmax(0).split(',')\n"
        "import portkit.runtime as pk\npk.ops.softmax(x)\npk.device()\n"
        "np.sum(x)\ntorch.save(x, 'a')\ntorch.manual_seed(0)\nx.cuda()\nself.sum()\n"
    )
    found = scan(tmp_path).operators
    assert {item.name: item.calls for item in found.used} == {
        "torch.nn.Linear": 1,
        "torch.nn.functional.softmax": 1,
        "torch.softmax": 1,
        "torch.Tensor.softmax": 1,
        "torch.Tensor.split": 1,
        "portkit.runtime.ops.softmax": 1,
    }
    assert {item.name: item.unknown for item in found.every if item.unknown} == {"torch.matmul": 1}


def test_operator_coverage_comes_from_the_data_of_the_runtime() -> None:
    table = coverage.kernels()
    forward = [name for name, data in table.items() if data.get("forward")]
    uses = [Use(name, Seen.NAME, line, None) for name in forward for line in range(3)]
    counted = coverage.operators({"a.py": [*uses, Use("torch.linalg.svd", Seen.NAME, 1, None)]})
    assert [item.name for item in counted.used if not item.forward] == ["torch.linalg.svd"]
    total = 3 * len(forward) + 1
    assert counted.share("forward", calls=True) == round(100 * 3 * len(forward) / total, 1)
    assert coverage.operators({}).share("forward") is None


# --- the real rules ----------------------------------------------------------------------------------


def test_rules_are_found_by_walking_and_have_what_they_must() -> None:
    rules = ruleset.all_rules()
    assert len({rule.id for rule in rules}) == len(rules)
    for rule in ruleset.documented():
        assert rule.__doc__
        assert rule.name
        assert rule.phase in Phase
        assert all(trigger == trigger.lower() for trigger in rule.triggers)


def test_a_rule_that_fails_is_our_fault_and_is_not_hidden() -> None:
    class Broken(CudaMethod):
        def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
            raise KeyError("oops")

    with pytest.raises(RuleFault, match=r"Broken failed at a.py:2: KeyError\('oops'\)"):
        check("\nx.cuda()\n", (Broken,))


def test_rules_of_other_packages_come_through_the_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("their_rules.slow_copy")
    rule = type("SlowCopy", (Rule,), {"id": "XX101", "__module__": module.__name__, "triggers": (b"x",)})
    module.SlowCopy = rule  # type: ignore[attr-defined]
    monkeypatch.setattr(plugins, "external", lambda group: [module] if group == "portkit.rules" else [])
    ruleset.all_rules.cache_clear()
    try:
        assert rule in ruleset.all_rules()
    finally:
        ruleset.all_rules.cache_clear()


def test_a_plugin_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint("broken", "no_such_package_anywhere.rules", "portkit.rules")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    with pytest.raises(UsageError, match="no_such_package_anywhere"):
        list(plugins.external("portkit.rules"))


def test_progress_counts_every_file(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.py").write_text("x = 1\n")
    seen: list[tuple[int, int]] = []
    scan(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 5) for number in range(1, 6)]
