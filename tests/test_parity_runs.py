"""Whole runs of minigpt: ten wrong rewrites, each found and named; the right one; traces; bad scripts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from planted import TINY, WRONG, plant

from portkit import cli, demo
from portkit.errors import UsageError
from portkit.parity import bisect, launch, modules, operator, trace, training
from portkit.parity.compare import Status
from portkit.parity.training import Options, Script

torch = pytest.importorskip("torch")
MINIGPT = Path(__file__).parent.parent / "fixtures" / "projects" / "minigpt"
THREADS = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module", autouse=True)
def _ended():
    yield
    launch.close()


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("minigpt") / "migrated"
    demo.migrate(MINIGPT, folder, lambda line: None)
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The original's trace for a dtype: CUDA is stood in for."""
    known = {}

    def record(dtype):
        if dtype not in known:
            script = gpt(MINIGPT, tmp_path_factory.mktemp("run"), dtype, standin=True)
            known[dtype] = training.record(script, Options(steps=3, tolerance=None, timeout=120))
            assert not known[dtype].run.error
        return known[dtype]

    return record


def gpt(root: Path, folder: Path, dtype: str, **more: object) -> Script:
    arguments = (*TINY, "--run_dir", str(folder), "--dtype", dtype)
    return Script(root, "train.py", arguments, THREADS, "migrated", **more)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_rewrite_is_found_and_its_edit_named(wrong, migrated, recorded, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(migrated, tree)
    planted = plant(tree, wrong)
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    original = recorded(wrong.dtype)
    report = training.compare(
        original, gpt(tree, tmp_path, wrong.dtype), steps=3, tolerance=None, timeout=120, bisect=300
    )
    assert report.status is Status.FAIL
    named = [(edit.path, edit.rule, edit.line) for edit in report.culprits.edits]
    assert named == [(wrong.path, planted.rule, planted.line)], report.reason
    assert (report.place.module if report.place else "") == wrong.module, report.reason
    assert before == {path: path.read_bytes() for path in before}  # only copies were changed
    json.dumps(report.to_dict(), allow_nan=False)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_right_migration_passes_in_every_precision(dtype, migrated, recorded, tmp_path):
    report = training.compare(
        recorded(dtype), gpt(migrated, tmp_path, dtype), steps=3, tolerance=None, timeout=120
    )
    assert report.status is Status.PASS, report.reason
    assert report.controls[-1] == "a lost gradient"


@pytest.mark.parametrize("seed", [1, 20])
def test_the_right_migration_passes_at_every_level_with_any_seed(seed, migrated, tmp_path):
    original = gpt(MINIGPT, tmp_path, "float32", standin=True)
    ours = gpt(migrated, tmp_path, "float32")
    made = training.record(original, Options(seed, 4, None, 120))
    report = training.compare(made, ours, seed=seed, steps=4, tolerance=None, timeout=120)
    assert report.status is Status.PASS, report.reason
    rows = modules.compare(original, ours, seed=seed, timeout=120)
    assert len(rows) == 6
    assert all(row.status is Status.PASS for row in rows), [row.reason for row in rows]
    operators, left = operator.recorded(made.run)
    assert not left
    assert all(row.status is Status.PASS for row in operators), [row.reason for row in operators]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ("\0\xff", "is damaged"),
        ('{"schema_version": 99, "runs": []}', "version 99"),
        ('{"schema_version": 1, "runs": [{"files": [3]}]}', "is damaged"),
    ],
)
def test_a_damaged_manifest_names_no_edit_and_is_no_pass(text, why, migrated, recorded, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(migrated, tree)
    plant(tree, WRONG[0])
    (tree / ".portkit" / "manifest.json").write_text(text, encoding="latin-1")
    script = gpt(tree, tmp_path, "float32")
    report = training.compare(recorded("float32"), script, steps=3, tolerance=None, timeout=120, bisect=60)
    assert report.status is Status.FAIL
    assert report.culprits.edits == ()
    assert why in report.notes[0]
    assert "\n" not in report.notes[0]


def test_a_recorded_run_gives_operators_their_shapes(recorded, tmp_path):
    file = tmp_path / "run.trace"
    trace.write(recorded("float32"), file)
    rows, left = operator.recorded(trace.read(file).run)
    assert not left
    assert {row.operator for row in rows} >= {"softmax", "matmul", "linear", "cross_entropy", "layer_norm"}
    assert all(row.status is Status.PASS for row in rows), [row.reason for row in rows]


def test_a_tree_without_a_manifest_names_no_edit(tmp_path):
    found = bisect.find(tmp_path, lambda tree: True, progress=lambda line: None)
    assert not found.edits
    assert "no migration" in found.why


# --- scripts that do not run ------------------------------------------------------------------------------

FIT = """
import torch
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(5, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    MORE
"""


def fit(folder: Path, more: str = "pass", text: str = FIT) -> Script:
    folder.mkdir(exist_ok=True)
    (folder / "fit.py").write_text(text.replace("MORE", more))
    return Script(folder, "fit.py", (), THREADS, folder.name)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("raise ValueError('no such file')", "ValueError: no such file"),
        ("while True: pass", "did not end within 4 s"),
        ("import argparse; p = argparse.ArgumentParser(); p.add_argument('data'); p.parse_args()", "data"),
        ("import sys; sys.stderr.buffer.write(bytes(range(256)) * 9); sys.exit(3)", ""),
        ("import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'input()']); time.sleep(99)",
         "did not end within 4 s"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import os; os._exit(3)", "exit code 3"),
        ("import sys; sys.exit('no data: give --data')", "no data: give --data"),
        ("input()", "EOFError"),
        ("import sys; sys.stderr.close(); raise ValueError", ""),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise ValueError('x' * 10**6 + chr(27))", "xxx"),
        ("loss.data.fill_(float('nan')); model.weight.data.fill_(float('nan'))", "nan at step 1"),
    ],
    ids=["crash", "hang", "arguments", "binary", "worker", "killed", "exit", "message", "input", "closed",
         "interrupt", "long", "nan"],
)  # fmt: skip
def test_a_script_that_fails_is_one_line_and_no_pass(more, why, tmp_path):
    good = fit(tmp_path / "good")
    bad = fit(tmp_path / "bad", more)
    report = training.compare(good, bad, steps=4, tolerance=1e-3, timeout=4)
    assert report.status is Status.FAIL
    assert why in report.reason
    assert "\n" not in report.reason
    assert report.reason.isprintable()
    report = training.compare(bad, good, steps=4, tolerance=1e-3, timeout=4)
    assert report.status is Status.SKIPPED


def test_a_script_that_writes_files_and_loads_with_workers_is_recorded(tmp_path):
    text = FIT.replace("for step in range(4):", "data = torch.utils.data.DataLoader(\n"
                       "    torch.randn(8, 3), num_workers=1, batch_size=2)\nfor batch in data:")  # fmt: skip
    script = fit(tmp_path / "a", "open('out.txt', 'ab').write(b'x')", text)
    made = training.run(script, seed=0, steps=0, timeout=60)
    assert not made.error
    assert len(made.losses) == 4
    assert (tmp_path / "a" / "out.txt").read_bytes() == b"xxxx"


def test_rounded_factors_of_products_are_found_and_their_unit_is_noise(monkeypatch):
    from portkit.parity import _observe

    assert _observe.product_unit("cpu") == _observe.product_unit("cpu", True) == 0.0
    exact = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b: exact(_as_tf32(a), _as_tf32(b)))
    seen = []
    calls = _observe.Calls(lambda **row: seen.append(row))
    with _observe._Watching(calls):
        assert _observe.product_unit("cpu") == pytest.approx(2.0**-10, rel=1e-3)
        values = torch.ones(1000)
        moved = (_observe.Rounding(1).disturbed(values) - values).abs().max().item()
    assert 2.0**-11 < moved <= 2.0**-10
    assert seen == []
    assert (_observe.Rounding(1).disturbed(values.double()) - values).abs().max().item() < 1e-15


def _as_tf32(values):
    """Ten explicit bits of the significand."""
    return ((values.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def test_a_run_whose_products_are_rounded_passes_against_one_that_is_exact(tmp_path):
    start = "import torch\nexact = torch.nn.functional.linear\n"
    tf32 = (
        start
        + "def tf32(x): return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)\n"
        "class Rounded(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x): return tf32(x)\n"
        "    @staticmethod\n    def backward(ctx, g): return g\n"
        "torch.nn.functional.linear = lambda x, w, b=None: exact(Rounded.apply(x), Rounded.apply(w), b)\n"
        "mm = torch.mm\ntorch.mm = lambda a, b: mm(tf32(a), tf32(b))\n"
    )
    sides = fit(tmp_path / "gpu", text=tf32 + FIT), fit(tmp_path / "cpu")
    report = training.compare(*sides, steps=4, tolerance=None, timeout=60)
    assert report.status is Status.PASS, report.reason
    wrong = fit(tmp_path / "wrong", text=FIT.replace(".square()", ".abs()"))
    report = training.compare(sides[0], wrong, steps=4, tolerance=None, timeout=60)
    assert report.status is Status.FAIL


def test_a_run_that_is_not_repeatable_proves_nothing(tmp_path):
    text = FIT.replace("import torch\n", "import torch, time\ntorch.manual_seed(time.time_ns())\n")
    script = fit(tmp_path / "a", text=text)
    report = training.compare(script, script, steps=3, tolerance=None, timeout=60)
    assert report.status is Status.BLIND
    assert "not repeatable" in report.reason


# --- traces -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace")
    fit(folder)
    options = ["--root", str(folder), "--cpu", "--steps", "3", "--output", str(folder / "run.trace")]
    assert cli.run(["record", "fit.py", *options]) == 0
    return folder / "run.trace"


def test_a_trace_is_what_was_run(file):
    found = trace.read(file)
    assert len(found.run.losses) == len(found.run.rates) == len(found.run.parameters) == 3
    assert len(found.noise) == 2
    assert {call.get("module") for call in found.run.calls} >= {"model"}
    assert b"pickle" not in file.read_bytes()


def test_a_trace_is_compared_with_another(file, tmp_path, capsys):
    options = ["--original", str(file), "--steps", "3", "--format", "json"]
    assert cli.run(["parity", "--level", "full-model", "fit.py", "--migrated", str(file), *options]) == 0
    other = fit(tmp_path / "b", text=FIT.replace("lr=0.1", "lr=0.2"))
    migrated = ["--migrated", str(other.root)]
    capsys.readouterr()
    assert cli.run(["parity", "--training", "fit.py", *migrated, *options]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "learning rate at step 0: 0.1 became 0.2" in found["training"]["reason"]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[: len(data) // 2], "cut off"),
        (lambda data: data[: data.rstrip().rindex(b"\n") + 1], "cut off"),
        (lambda data: data.replace(b'"step": 1', b'"step": 0', 1), "changed after it was recorded"),
        (lambda data: b"", "no trace"),
        (lambda data: bytes(range(256)), "no trace"),
        (lambda data: b"\x80\x04K\x01.", "no trace"),
    ],
    ids=["half", "no end", "changed", "empty", "binary", "pickle"],
)
def test_a_damaged_trace_is_one_line_and_no_pass(damage, why, file, tmp_path, capsys):
    broken = tmp_path / "broken.trace"
    broken.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UsageError, match=why):
        trace.read(broken)
    calls = ["--training", "fit.py", "--original", str(broken)]
    assert cli.run(["parity", *calls, "--migrated", str(file.parent)]) == 2
    assert cli.run(["parity", "--trace", str(broken)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_script_that_does_not_run_is_not_recorded(tmp_path, capsys):
    fit(tmp_path / "a", "raise OSError('disk full')")
    output = tmp_path / "x.trace"
    assert cli.run(["record", "fit.py", "--root", str(tmp_path / "a"), "-o", str(output)]) == 1
    assert "OSError: disk full" in capsys.readouterr().err
    assert not output.exists()
