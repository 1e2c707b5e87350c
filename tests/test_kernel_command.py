"""`portkit kernel`: kernels are compiled from their source text, and nothing of their file is run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portkit import cli
from portkit.kernels import arguments, checking, scopes
from portkit.kernels.isolate import World, path_and_name
from portkit.runtime.tile import as_triton

HEAD = """
import os
import torch_that_is_not_there
from math import pi
import triton
import triton.language as tl
from .helpers import scaled, FACTOR as F
from . import helpers as h

raise SystemExit("this file must not be run")
"""
KERNELS = '''
BLOCK_MOST = tl.constexpr(2 ** 7)
RUN_TIME = int(os.environ["SIZE"])
if RUN_TIME:
    fast_exp = os.environ["EXP"]
else:
    fast_exp = tl.exp

@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in [32, 64] for w in [1, 2]], key=["n"]
)
@triton.jit
def good(
    x_ptr, index, out, n, scale: "tl.float32" = 2.0,
    BLOCK: tl.constexpr = RUN_TIME, KIND: tl.constexpr = "sum",
):
    """Doc."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.load(index + i, mask=i < n, other=0)
    x = scaled(tl.load(x_ptr + j, mask=i < n), F, h.FACTOR) * pi
    if KIND == "sum":
        x = fast_exp(x)
    tl.store(out + i, x, mask=i < n)

@triton.jit
def needs(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), RUN_TIME)

@triton.jit
def wrong(x, N: tl.constexpr):
    tl.inline_asm_elementwise(x)

@triton.jit
def helper(x):
    return x + 1

@triton.jit
def passed(x, F: tl.constexpr):
    tl.store(x, F(1.0))

def plain(x):
    return x

def maker():
    size = 32
    @triton.jit
    def inner(x):
        tl.store(x + tl.arange(0, size), helper(1.0))
    return inner
'''
HELPERS = """
import triton
from triton.language import constexpr
FACTOR = constexpr(3)
@triton.jit
def scaled(x, by, too):
    return x * by * too
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    package = tmp_path / "package"
    package.mkdir()
    (package / "helpers.py").write_text(HELPERS)
    path = package / "kernels.py"
    path.write_text(HEAD + KERNELS)
    return path


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> dict[str, dict[str, Any]]:
    assert cli.run(["kernel", *words, "--format", "json"]) == code
    report = json.loads(capsys.readouterr().out)
    return {item["name"]: item for item in report["kernels"]}


def test_each_kernel_gets_its_verdict(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, str(file), code=1)
    assert {name: item["verdict"] for name, item in found.items()} == {
        "good": "compiles",
        "needs": "unknown",
        "wrong": "refused",
        "helper": "helper",
        "passed": "unknown",
        "maker.inner": "compiles",
    }
    assert found["good"]["arguments"] == [
        *("x_ptr: *fp32", "index: *i32", "out: *fp32", "n: i32", "scale: fp32", "BLOCK=32", "KIND=sum"),
    ]
    assert found["good"]["assumed"] == ["x_ptr", "index", "out", "n"]
    assert "`RUN_TIME`" in found["needs"]["reason"]
    assert "kernels.py:13" in found["needs"]["reason"]
    assert found["wrong"]["place"].startswith(f"{file}:{found['wrong']['line'] + 1}:")
    assert "inline_asm_elementwise" in found["wrong"]["source"]
    assert "^" in found["wrong"]["source"]


def test_a_value_that_is_given_makes_it_known(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, f"{file}:needs", "--arg", "RUN_TIME=3", "--arg", "x=*fp16", "--arg", "N=32", code=0)
    assert found["needs"]["arguments"] == ["x: *fp16", "N=32"]
    assert not found["needs"]["assumed"]
    assert told(capsys, f"{file}:passed", "--arg", "F=helper", code=0)["passed"]["arguments"][1] == "F=helper"


def test_a_kernel_is_shown_as_each_stage(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for stage, word in (("ir", "store"), ("llvm", "define"), ("asm", ".text")):
        assert cli.run(["kernel", f"{file}:maker.inner", "--show", stage]) == 0
        assert word in capsys.readouterr().out
    assert cli.run(["kernel", f"{file}:inner", "--show", "asm", "--target", "riscv64"]) == 0
    assert "rv64" in capsys.readouterr().out


def test_another_target_is_compiled_for(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, f"{file}:good", "--target", "aarch64", code=0)
    assert found["good"]["verdict"] == "compiles"
    assert cli.run(["kernel", f"{file}:inner", "--show", "llvm", "--target", "aarch64"]) == 0
    assert "aarch64" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.py"], "none.py"),
        (["FILE:nothing"], "no kernel nothing"),
        (["FILE:goood"], "Did you mean good?"),
        (["FILE", "--show", "ir"], "more than one kernel"),
        (["FILE:good", "--show", "ptx"], "no stage ptx"),
        (["FILE:good", "--arg", "x"], "NAME=VALUE"),
        (["FILE:good", "--arg", "q=1"], "--arg q"),
        (["FILE:good", "--arg", "n=12"], "no constant"),
        (["FILE:good", "--target", "z80"], "z80"),
        (["FILE", "--format", "xml"], "xml"),
        (["FILE:wrong", "--show", "ir"], "inline_asm_elementwise"),
    ],
)
def test_a_wrong_call(file: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert cli.run(["kernel", *(word.replace("FILE", str(file)) for word in words)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"def f(:\n", "no Python"),
        (b"\xff\xfe\x00", "bad.py"),
        (b"x = 1\n", "has no kernels"),
        (b"x = " + b"(" * 500 + b")" * 500, "bad.py"),
    ],
)
def test_a_file_without_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (tmp_path / "bad.py").write_bytes(content)
    assert cli.run(["kernel", str(tmp_path / "bad.py")]) == 2
    assert said in capsys.readouterr().err


def test_a_compiler_that_dies_ends_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    died = "import os, sys; sys.stdin.read(); os.kill(os.getpid(), 9)"
    real = subprocess.Popen
    turns = iter([[sys.executable, "-c", died]])
    monkeypatch.setattr(subprocess, "Popen", lambda command, **more: real(next(turns, command), **more))
    found = list(checking.check(file, ["wrong", "maker.inner"], {}, ""))
    assert [(v.name, v.verdict) for v in found] == [("wrong", "crashed"), ("maker.inner", "compiles")]


def test_what_the_file_defines_in_a_circle_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "circle.py"
    path.write_text(
        "import triton\nimport triton.language as tl\nA = B\nB = A\n"
        "@triton.jit\ndef k(x):\n    tl.store(x, A)\n"
    )
    with as_triton():
        (found,) = checking.verdicts(path, ["k"], {}, "")
    assert found.verdict == checking.UNKNOWN


def test_the_kernels_of_the_corpus_compile_with_likely_arguments() -> None:
    folder = Path(__file__).parent.parent / "fixtures" / "kernels"
    found = []
    for path in sorted(folder.glob("*.py")):
        with as_triton():
            world = checking.world_of(path, {})
            names = [item.name for item in checking.kernels(world)]
            found += checking.verdicts(path, names, {}, "")
        assert names
    taken = [v for v in found if v.verdict in (checking.COMPILES, checking.HELPER)]
    left = [v for v in found if v not in taken]
    assert len(left) <= 0.15 * len(found), [(v.name, v.reason) for v in left]
    assert all(v.verdict == checking.UNKNOWN for v in left)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 ** 4 + 1", 17),
        ("'a' if 1 < 2 <= 2 and not 0 else 'b'", "a"),
        ("max(1, 2) // 2", 1),
        ("float('inf')", float("inf")),
        ("(1, [2], {'a': 3}['a'])", (1, [2], 3)),
        ("triton.cdiv(7, 2)", 4),
        ("-~1", 2),
    ],
)
def test_constants_are_computed(tmp_path: Path, text: str, value: object) -> None:
    assert _value(tmp_path, text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("open('x')", "2 ** 10 ** 9", "'a' * 10 ** 9", "print", "[i for i in x]", "x.y", "1 // 0"),
        *("tl.load(1)", "().__class__"),
    ],
)
def test_what_takes_more_is_unknown(tmp_path: Path, text: str) -> None:
    with pytest.raises(checking.Unknown):
        _value(tmp_path, text)


def _value(folder: Path, text: str) -> object:
    path = folder / "constants.py"
    path.write_text(f"import triton\nimport triton.language as tl\nX = {text}\n")
    with as_triton():
        file = scopes.read(path)
        return World(file).value(file.scope, "X")


def test_a_path_may_hold_colons() -> None:
    assert path_and_name("a/b.py:k") == (Path("a/b.py"), "k")
    assert path_and_name("a/b.py:f.k") == (Path("a/b.py"), "f.k")
    assert path_and_name("C:/x/b.py") == (Path("C:/x/b.py"), "")
    assert path_and_name("b.py") == (Path("b.py"), "")


def test_arguments_are_shown_as_they_are_given() -> None:
    assert str(arguments.Argument("x", "*fp16", False, "given")) == "x: *fp16"
    assert str(arguments.Argument("N", 3, True, "given")) == "N=3"
