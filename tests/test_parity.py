"""Parity: metrics against values worked out by hand, verdicts, curves, and two small training scripts."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from portkit.errors import UsageError
from portkit.parity import compare, curves, training
from portkit.parity.compare import Limits, Status

TIGHT = Limits(1e-6, 1e-5)
VALUES = np.random.default_rng(0).standard_normal((7, 33))


def test_metrics_by_hand():
    oracle = np.array([1.0, -2.0, 4.0, 0.0])
    actual = np.array([1.0, -2.0 - 2.0**-21, 4.0, 1e-3], dtype=np.float64)
    m = compare.measure(actual, oracle, "float32", Limits(1e-3, 0.0))
    assert m.max_abs == 1e-3
    assert m.max_rel == 2.0**-22
    assert m.rmse == pytest.approx(math.sqrt((2.0**-42 + 1e-6) / 4))
    assert m.over == {"1e-06": 0.0, "0.0001": 0.0, "0.01": 0.0}
    assert m.excess == 1.0
    assert m.ulp_share == 0.5  # 2**-21 at 2.0 is two units in the last place of float32


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.0, "float32", np.spacing(np.float32(1.0))),
        (3.9, "float32", np.spacing(np.float32(3.9))),
        (1e-40, "float32", np.spacing(np.float32(0.0))),
        (0.0, "float16", np.spacing(np.float16(0.0))),
        (1000.0, "float16", np.spacing(np.float16(1000.0))),
        (-5.0, "float64", np.spacing(5.0)),
        (1.5, "bfloat16", 2.0**-7),
    ],
)
def test_ulp_is_the_spacing_of_the_format(value, dtype, expected):
    assert compare.ulp(np.array(value), dtype) == expected


def test_equal_infinities_and_nans_are_no_mismatch():
    odd = np.array([np.inf, -np.inf, np.nan, 1.0])
    assert compare.measure(odd, odd, "float32", TIGHT).nonfinite == 0
    assert compare.measure(odd[::-1], odd, "float32", TIGHT).nonfinite == 4


def test_a_rounded_result_passes_and_every_control_is_caught():
    verdict = compare.judge(VALUES.astype(np.float32), VALUES, "float32", TIGHT)
    assert verdict.status is Status.PASS
    assert verdict.controls == tuple(name for name, _ in compare.FAULTS)


@pytest.mark.parametrize(("name", "damage"), compare.FAULTS, ids=[name for name, _ in compare.FAULTS])
def test_each_fault_fails(name, damage):
    assert (
        compare.judge(damage(VALUES.copy(), np.abs(VALUES).max()), VALUES, "float32", TIGHT).status
        is Status.FAIL
    )


def test_a_tolerance_that_lets_everything_through_is_blind():
    verdict = compare.judge(VALUES, VALUES, "float32", Limits(100.0, 0.0))
    assert verdict.status is Status.BLIND
    assert "sign" in verdict.reason


def test_within_the_bound_but_much_worse_than_the_original_fails():
    ours = VALUES + 1e-3
    loose = Limits(1e-2, 0.0)
    assert compare.judge(ours, VALUES, "float32", loose).status is Status.PASS
    verdict = compare.judge(ours, VALUES, "float32", loose, original=VALUES.astype(np.float32))
    assert verdict.status is Status.FAIL
    assert "original" in verdict.reason


def test_rounding_where_the_oracle_is_zero_throughout_is_no_matter():
    zeros, bound = np.zeros(9), Limits(2e-6, 1e-5)
    assert compare.judge(zeros + 1e-8, zeros, "float32", bound, original=zeros).status is Status.PASS
    assert compare.judge(zeros + 1e-6, zeros, "float32", bound, original=zeros).status is Status.FAIL


def test_shapes_must_agree_and_empty_results_are_skipped():
    assert compare.judge(VALUES[:3], VALUES, "float32", TIGHT).status is Status.FAIL
    assert compare.judge(VALUES[:0], VALUES[:0], "float32", TIGHT).status is Status.SKIPPED


def test_metrics_become_json():
    verdict = compare.judge(np.full(3, np.nan), np.zeros(3), "float32", TIGHT)
    assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False))["status"] == "fail"


def test_curves_name_the_first_step_that_diverges():
    curve = [3.0, 2.0, 1.5, 1.2]
    assert curves.diverges("loss", curve, curve, 1e-6) is None
    found = curves.diverges("loss", curve, [3.0, 2.0, 1.6, 9.0], 1e-3)
    assert (found.step, found.original, found.migrated) == (2, 1.5, 1.6)
    assert curves.diverges("loss", curve, curve[:3], 1e-3).step == 3
    assert curves.difference(curve, [3.0, 2.0, 1.6, 1.2]).worst_step == 2


def test_a_loose_tolerance_makes_curves_blind():
    assert curves.control([3.0, 2.0, 1.0], 1e-3)[0] is Status.PASS
    assert curves.control([3.0, 2.0, 1.0], 0.2)[0] is Status.BLIND


SCRIPT = """
import sys
import torch
from torch.nn.functional import mse_loss

if len(sys.argv) > 1 and sys.argv[1] == "--cuda":
    torch.zeros(1).cuda()
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
for _ in range(6):
    x = torch.randn(16, 4)
    loss = mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _script(folder: Path, rate: float, label: str, *arguments: str) -> training.Script:
    folder.mkdir()
    (folder / "fit.py").write_text(SCRIPT.replace("RATE", str(rate)))
    environment = {"OMP_NUM_THREADS": "1"}
    return training.Script(folder, "fit.py", arguments, environment, label)


def test_equal_scripts_have_equal_curves(tmp_path):
    pytest.importorskip("torch")
    one, other = _script(tmp_path / "a", 0.1, "original"), _script(tmp_path / "b", 0.1, "copy")
    report = training.compare(one, other, steps=4)
    assert report.status is Status.PASS, report.reason
    assert len(report.original.losses) == len(report.original.norms) == 4
    assert report.original == report.migrated
    assert report.controls[-1] == "a lost gradient"
    json.dumps(report.to_dict(), allow_nan=False)


def test_norms_are_those_before_clipping_and_scaling(tmp_path):
    pytest.importorskip("torch")
    script = _script(tmp_path / "a", 0.1, "original")
    text = (script.root / "fit.py").read_text()
    plain = training.run(script, seed=3, steps=3, timeout=60)
    clipped = text.replace(
        "    optimizer.step",
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)\n    optimizer.step",
    )
    scaled = clipped.replace(
        "loss.backward()", "scaler.scale(loss).backward()\n    scaler.unscale_(optimizer)"
    )
    scaled = scaled.replace("for _", "scaler = torch.amp.GradScaler('cpu', init_scale=512.0)\nfor _")
    (script.root / "fit.py").write_text(scaled)
    other = training.run(script, seed=3, steps=3, timeout=60)
    assert other.losses[0] == pytest.approx(plain.losses[0], rel=1e-6)
    assert other.norms[0] == pytest.approx(plain.norms[0], rel=1e-6)
    assert min(other.norms) > 0.1  # far above the 1e-3 that they are clipped to


def test_another_learning_rate_diverges_at_the_first_step(tmp_path):
    pytest.importorskip("torch")
    one, other = _script(tmp_path / "a", 0.1, "original"), _script(tmp_path / "b", 0.2, "copy")
    report = training.compare(one, other, steps=0)
    assert report.status is Status.FAIL
    assert (report.divergence.curve, report.divergence.step) == ("learning rate", 0)


def test_an_original_that_needs_cuda_is_skipped_with_its_reason(tmp_path):
    pytest.importorskip("torch")
    one, other = _script(tmp_path / "a", 0.1, "original", "--cuda"), _script(tmp_path / "b", 0.1, "copy")
    report = training.compare(one, other, steps=2)
    assert report.status is Status.SKIPPED
    assert "does not run on the CPU" in report.reason


def test_no_script_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no training script missing"):
        training.run(training.Script(tmp_path, "missing.py"), seed=0, steps=1, timeout=5)


def test_parity_does_not_import_torch():
    code = "import sys, portkit.parity, portkit.parity.training; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0
