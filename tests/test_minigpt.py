"""The demo repository: it needs CUDA as it is; migrated, its traps are unharmed and it trains on a CPU."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from portkit import coverage, demo, engine
from portkit.config import Config
from portkit.finding import Phase, Support

MINIGPT = Path(__file__).parent.parent / "fixtures" / "projects" / "minigpt"
ARGUMENTS = [*demo.ARGUMENTS, "--n_layer", "2", "--batch_size", "4", "--log_every", "1"]


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("minigpt") / "migrated"
    counts = demo.migrate(MINIGPT, folder, lambda line: None)
    assert all(counts.values())
    return folder


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = str(Path(demo.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error", **environment}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def everything(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob("*.py")))


def test_every_file_parses():
    for path in MINIGPT.rglob("*.py"):
        ast.parse(path.read_text(), str(path))
    notebook = json.loads((MINIGPT / "notebooks" / "analysis.ipynb").read_text())
    assert any(cell.get("outputs") for cell in notebook["cells"])


def test_it_has_dependencies_of_every_phase_and_kind():
    result = engine.scan([MINIGPT], Config(), jobs=1)
    assert not result.unparsed
    for phase in Phase:
        assert coverage.dependencies(result.findings, phase).total >= 10
    assert {f.support for f in result.findings} >= {Support.AUTO, Support.REVIEW, Support.MANUAL}
    files = {f.location.path for f in result.findings}
    expected = ("requirements.txt", "Dockerfile", "launch.sh", "configs/small.yaml", "setup.py")
    assert files >= {*expected, "ext/rotary_kernel.cu", "notebooks/analysis.ipynb"}


def test_data_that_only_looks_like_cuda_stays(migrated):
    text = everything(migrated)
    for kept in (
        '"cuda_rng_state": ',
        'run_dir: str = "runs/cuda_baseline"',
        'default="runs/cuda_baseline/last.pt"',
        '"building the cuda extension, this takes a minute"',
        'f"cuda memory {used:.0f} MiB',
        "minigpt_rotary_cuda",
        "class CUDAPrefetcher",
        '"out of CUDA memory: lower --batch_size"',
    ):
        assert kept in text
    assert "run_dir: runs/cuda_baseline" in (migrated / "configs/small.yaml").read_text()


@pytest.mark.parametrize(
    "gone",
    [
        'f"cuda:{', '"cuda:%d"', '"cuda:" +', '"cuda:{}"', ".cuda(", "from apex", "import triton",
        "torch.cuda.amp", "storage.cuda", 'device="cuda"', ".is_cuda", "device_ids=[local_rank]",
    ],
)  # fmt: skip
def test_what_needs_cuda_is_gone(migrated, gone):
    assert gone in everything(MINIGPT)
    body = everything(migrated).replace("import portkit.runtime.triton", "")
    assert gone not in body.replace("import triton as", "")


def test_files_without_findings_are_untouched(migrated):
    for name in ("minigpt/__init__.py", "README.md", "ext/rotary.cpp", "ext/rotary_kernel.cu"):
        assert (migrated / name).read_bytes() == (MINIGPT / name).read_bytes()


def test_the_original_does_not_run_on_a_cpu(tmp_path):
    pytest.importorskip("torch")
    done = python(MINIGPT, "-B", "train.py", *ARGUMENTS, "--steps", "1", "--run_dir", str(tmp_path))
    assert done.returncode != 0


def test_the_migrated_copy_trains_resumes_and_samples(migrated, tmp_path):
    pytest.importorskip("torch")
    run_dir = str(tmp_path / "run")
    done = python(
        migrated, "train.py", *ARGUMENTS, "--steps", "8", "--run_dir", run_dir, PORTKIT_FORCE="tile"
    )
    assert done.returncode == 0, done.stderr
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [entry["step"] for entry in history] == list(range(8))
    assert history[-1]["loss"] < history[0]["loss"] - 0.2

    checkpoint = str(tmp_path / "run" / "last.pt")
    more = [*ARGUMENTS, "--steps", "9", "--run_dir", run_dir, "--resume", checkpoint]
    done = python(migrated, "train.py", *more)
    assert done.returncode == 0, done.stderr
    assert "step    8" in done.stderr

    done = python(migrated, "sample.py", "--checkpoint", checkpoint, "--count", "5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the old ")


KERNELS = """
import torch
from minigpt.triton_ops import row_softmax, swiglu

for dtype, bound in ((torch.float32, 1e-6), (torch.bfloat16, 2e-2)):
    gate, up = (torch.randn(37, 41).to(dtype).requires_grad_() for _ in range(2))
    grad = torch.randn(37, 41).to(dtype)
    ours = torch.autograd.grad(swiglu(gate, up), (gate, up), grad)
    wide = [t.detach().double().requires_grad_() for t in (gate, up)]
    theirs = torch.autograd.grad(torch.nn.functional.silu(wide[0]) * wide[1], wide, grad.double())
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.double(), b, rtol=bound, atol=bound)
x = torch.randn(5, 27)
torch.testing.assert_close(row_softmax(x, 0.7), torch.softmax(x / 0.7, dim=-1))
"""


def test_the_triton_kernels_compute_the_same_on_the_cpu(migrated):
    pytest.importorskip("torch")
    done = python(migrated, "-c", KERNELS)
    assert done.returncode == 0, done.stderr
