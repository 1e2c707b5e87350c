"""Operator parity: every operator, a broken one, what a repository uses, and the command."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from portkit import cli, engine
from portkit.errors import ConfigError, UsageError
from portkit.parity import cases, document, operator, render
from portkit.parity.compare import Status
from portkit.parity.trace import Run
from portkit.runtime.ops import operators

MINIGPT = Path(__file__).parent.parent / "fixtures" / "projects" / "minigpt"
ALL = operators()
pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("name", ALL)
def test_every_operator_holds_and_no_comparison_is_blind(name, dtype):
    rows = operator.run([name], dtypes=[dtype])
    bad = [f"{r.implementation}: {r.reason}" for r in rows if r.status in (Status.FAIL, Status.BLIND)]
    assert not bad
    assert any(row.status is Status.PASS and row.cases > 5 for row in rows)


@pytest.fixture
def broken(monkeypatch):
    """Make one operator wrong in the way that a function says."""

    def breaker(name, wrong):
        known = dict(ALL)
        known[name] = replace(known[name], function=wrong(known[name]))
        monkeypatch.setattr("portkit.runtime.ops.operators", lambda: known)

    return breaker


def test_a_wrong_result_fails_and_names_the_sample(broken):
    def wrong(original):
        def function(*args, **kwargs):
            slightly_off = 1.0 if os.environ["PORTKIT_FORCE"] == "vendor" else 1.001
            return original.function(*args, **kwargs) * slightly_off

        return function

    broken("softmax", wrong)
    (row,) = operator.run(["softmax"], dtypes=["float32"], implementations=["composite"])
    assert row.status is Status.FAIL
    assert "sample row, result" in row.reason


def test_a_wrong_gradient_alone_fails(broken):
    def wrong(original):
        def function(x):
            if os.environ["PORTKIT_FORCE"] == "vendor":
                return original.function(x)
            y = original.function(x)
            return y + 0.01 * (x - x.detach())

        return function

    broken("silu", wrong)
    (row,) = operator.run(["silu"], dtypes=["float32"], implementations=["composite"])
    assert row.status is Status.FAIL
    assert "gradient 0" in row.reason
    assert all(one.verdict.status is Status.PASS for one in row.compared if one.output == "result")


def test_a_recorded_call_that_has_no_oracle_is_skipped_with_its_reason():
    tensor = {"shape": [2, 2, 5, 4], "dtype": "float32", "rms": 1.0, "numbers": [], "nonfinite": 0}
    call = {
        "step": 0, "operator": "scaled_dot_product_attention", "site": "model.py:3", "outputs": [tensor],
        "inputs": [tensor] * 3, "tensors": ["0", "1", "2"], "arguments": {"is_causal": True},
    }  # fmt: skip
    random = {**call, "arguments": {"is_causal": True, "dropout_p": 0.1}}
    rows, left = operator.recorded(Run((), (), "", calls=(call,)), implementations=["composite"])
    assert (rows[0].status, left) == (Status.PASS, [])
    rows, left = operator.recorded(Run((), (), "", calls=(random,)), implementations=["composite"])
    assert (rows[0].status, left) == (Status.SKIPPED, [])
    assert "dropout_p" in rows[0].reason


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("linear", [(4, 32), (50304, 32)]),  # the vocabulary of GPT-2: the gradient of x sums over it
        ("linear", [(20000, 32), (16, 32), (16,)]),
        ("matmul", [(4, 30000), (30000, 16)]),
        ("softmax", [(4, 50304)]),
        ("rms_norm", [(20000, 32)]),
    ],
)
def test_long_sums_are_no_worse_than_those_of_the_original(name, shapes):
    inputs = [
        {"shape": list(s), "dtype": "float32", "rms": 1.0, "numbers": [], "nonfinite": 0} for s in shapes
    ]
    arguments = {"softmax": {"dim": -1}, "rms_norm": {"normalized_shape": [32]}}.get(name, {})
    places = [str(i) for i in range(len(shapes))]
    call = {"step": 0, "operator": name, "site": "", "outputs": [], "inputs": inputs, "tensors": places}
    run = Run((), (), "", calls=({**call, "arguments": arguments},))
    (row,), left = operator.recorded(run, implementations=["tile"])
    assert not left
    assert row.status is Status.PASS, row.reason


def test_forcing_leaves_the_environment_as_it_was(monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", "vendor")
    with operator.forced("composite"):
        assert os.environ["PORTKIT_FORCE"] == "composite"
    assert os.environ["PORTKIT_FORCE"] == "vendor"
    monkeypatch.delenv("PORTKIT_FORCE")
    with operator.forced("tile"):
        pass
    assert "PORTKIT_FORCE" not in os.environ


def test_without_torch_only_tile_kernels_run(monkeypatch):
    monkeypatch.setattr(cases, "torch_installed", lambda: False)
    rows = operator.run(["softmax"], dtypes=["float32", "bfloat16"])
    by_place = {(row.implementation, row.dtype): row for row in rows}
    assert by_place["composite", "float32"].reason == "needs torch"
    assert by_place["tile", "bfloat16"].status is Status.SKIPPED
    assert by_place["tile", "float32"].status in (Status.PASS, Status.SKIPPED)


@pytest.mark.parametrize("name", ALL)
def test_without_torch_no_tile_kernel_fails_or_is_blind(monkeypatch, name):
    monkeypatch.setattr(cases, "torch_installed", lambda: False)
    rows = operator.run([name], dtypes=["float32", "float16"], implementations=["tile"])
    assert not [row.reason for row in rows if row.status in (Status.FAIL, Status.BLIND)]


def test_operators_that_a_repository_uses():
    used = cases.used(engine.scan([MINIGPT]))
    assert {"softmax", "matmul", "cross_entropy", "scaled_dot_product_attention", "linear"} <= set(used)
    assert set(used) <= set(ALL)


def test_unknown_operator_is_a_usage_error():
    with pytest.raises(UsageError, match="no operator nonsense"):
        cases.chosen(["nonsense"])


def test_command_writes_a_document_that_can_be_read_back(tmp_path, capsys):
    file = tmp_path / "parity.json"
    options = ["--operator", "silu", "--dtype", "float32", "--format", "json", "--output", str(file)]
    assert cli.run(["parity", *options]) == 0
    found = document.read(file)
    assert document.failures(found) == []
    assert {row["operator"] for row in found["rows"]} == {"silu"}
    assert capsys.readouterr().out == ""
    assert "silu" in render.terminal(found)


def test_command_ends_with_1_where_a_comparison_fails(broken, capsys):
    broken("gelu", lambda original: lambda x, *args, **kwargs: x * 1.0)
    options = ["--operator", "gelu", "--dtype", "float32", "--implementation", "composite"]
    assert cli.run(["parity", *options]) == 1
    captured = capsys.readouterr()
    assert "fail" in captured.out
    assert "1 of 1 comparisons did not pass" in captured.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--operator", "gel"], "no operator gel"),
        (["--dtype", "int8"], "no dtype int8"),
        (["--implementation", "fast"], "no implementation fast"),
        (["--operator", "silu", "--format", "xml"], "no format xml"),
        (["--training", "train.py"], "original repository is not given"),
        (["elsewhere"], "More than one path"),
    ],
)
def test_wrong_calls_are_one_line_with_exit_code_2(options, message, capsys):
    assert cli.run(["parity", str(MINIGPT), *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"kind": "other"}', '{"kind": "portkit-parity", "schema_version": 99}']
)
def test_other_files_are_refused(tmp_path, text):
    file = tmp_path / "parity.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match="parity report"):
        document.read(file)


def test_failures_are_listed_with_their_reason():
    rows = [
        {"operator": "gelu", "implementation": "tile", "dtype": "float32", "status": "blind", "reason": "why"}
    ]
    found = {"rows": rows, "training": None}
    assert document.failures(json.loads(json.dumps(found))) == ["gelu (tile, float32): blind: why"]
