"""Requirements that need CUDA move to a file beside the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from portkit import companions
from portkit.cli import run

TEXT = "numpy\nflash-attn>=2.3  # fast\ntorch==2.6.0+cu118\n--extra-index-url https://download.pytorch.org/whl/cu118\n"


def _migrate(root: Path, *options: str) -> None:
    assert run(["migrate", str(root), "--phase", "full-model", *options]) == 0


def _files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".portkit" not in path.parts
    }


def test_lines_move_and_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "requirements.txt").write_text(TEXT)
    before = _files(tmp_path)
    _migrate(tmp_path, "--write")
    assert _files(tmp_path) == before
    _migrate(tmp_path, "--write", "--unsafe")
    said = capsys.readouterr().err
    assert "What only machines with CUDA install is in requirements-cuda.txt." in said
    assert "--vendor" not in said
    assert _files(tmp_path) == {
        "requirements.txt": b"numpy\ntorch==2.6.0\n",
        "requirements-cuda.txt": b"-r requirements.txt\nflash-attn>=2.3  # fast\ntorch==2.6.0+cu118\n"
        b"--extra-index-url https://download.pytorch.org/whl/cu118\n",
    }
    _migrate(tmp_path, "--check", "--unsafe")  # nothing is left to do
    assert run(["undo", str(tmp_path)]) == 0
    assert _files(tmp_path) == before


def test_a_file_that_is_there_gets_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "base.txt").write_bytes(b"numpy\r\nxformers\r\nbitsandbytes\r\n")
    (tmp_path / "requirements" / "base-cuda.txt").write_bytes(b"-r base.txt\r\nbitsandbytes")
    _migrate(tmp_path, "--write", "--unsafe")
    assert _files(tmp_path) == {
        "requirements/base.txt": b"numpy\r\n",
        "requirements/base-cuda.txt": b"-r base.txt\r\nbitsandbytes\r\nxformers\r\n",
    }


@pytest.mark.parametrize(
    "text",
    [
        "flash-attn==2.3 \\\n    --hash=sha256:00\n",
        "numpy \\\n  ; python_version > '3'\n",
        "https://download.pytorch.org/whl/cu113/torch-1.12.0%2Bcu113-cp39-cp39-linux_x86_64.whl\n",
        "# flash-attn\n",
    ],
    ids=["hash", "continued", "wheel", "comment"],
)
def test_what_is_no_plain_line_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    _migrate(tmp_path, "--write", "--unsafe")
    assert _files(tmp_path) == {"requirements.txt": text.encode()}


@pytest.mark.parametrize(
    ("path", "optional"),
    [
        ("requirements-cuda.txt", True),
        ("requirements_gpu.txt", True),
        ("requirements/gpu.txt", True),
        ("gpu-requirements.txt", True),
        ("requirements/cu121.txt", True),
        ("requirements.txt", False),
        ("requirements-dev.txt", False),
        ("gpu/requirements.txt", False),
        ("requirements-cudos.txt", False),
    ],
)
def test_a_name_may_say_that_a_file_is_for_cuda(path: str, optional: bool) -> None:
    assert companions.is_optional(path) is optional
