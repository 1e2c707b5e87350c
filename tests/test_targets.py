"""Each target makes the vector instructions that its fixture lists, and knows what its processor has."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import portkit
import portkit.runtime.tile.language as tl
from portkit.errors import UsageError
from portkit.runtime.targets import by_name, host, targets
from portkit.runtime.tile import compile, ir, load, team_ir
from portkit.runtime.tile.lower import lower
from portkit.runtime.tile.signature import Constexpr, Runtime

FIXTURES = Path(__file__).parent.parent / "fixtures" / "targets"
ADD = """
define void @add(ptr %a, ptr %b) {{
  %x = load <{n} x float>, ptr %a, align 4
  %y = load <{n} x float>, ptr %b, align 4
  %z = fadd <{n} x float> %x, %y
  store <{n} x float> %z, ptr %a, align 4
  ret void
}}
"""


@portkit.jit
def softmax_row(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(values - tl.max(values, 0))
    tl.store(y + row + columns, e / tl.sum(e, 0), mask=columns < n)


def patterns(name, prefix=""):
    """A fixture's instructions: those of a softmax row, or with the prefix those of a sum without vectors."""
    lines = (FIXTURES / f"{name}.txt").read_text().splitlines()
    wanted = [row for row in lines if not row.startswith("#") and row.startswith("plain: ") == bool(prefix)]
    return [row.removeprefix(prefix) for row in wanted]


@pytest.fixture(scope="module")
def row():
    pointer = Runtime(ir.Type(ir.Pointer(ir.F32)))
    return compile.optimised(softmax_row, [pointer, pointer, Runtime(ir.Type(ir.I32)), Constexpr(1024)])


@pytest.mark.parametrize("name", sorted(targets()))
def test_target_turns_a_kernel_into_its_vector_instructions(name, row):
    target = by_name(name)
    lowered = lower(row, target)
    assembly = target.assembly(lowered.text)
    for pattern in patterns(name):
        assert re.search(rf"^\t{pattern}", assembly, re.MULTILINE), pattern
    called = re.findall(r"^\t(?:callq?|bl|jal|tail|brasl)\t(.*)", assembly, re.MULTILINE)
    assert not called, "the code needs a library"


@pytest.mark.parametrize("name", sorted(targets()))
def test_target_makes_object_code(name, row):
    target = by_name(name)
    assert load.text_to_code(lower(row, target).text, target)[:4] == b"\x7fELF"


@pytest.mark.parametrize("name", sorted(targets()))
@pytest.mark.parametrize("kind", ["openmp", "pool", "python"])
def test_target_makes_code_for_the_launcher(name, kind):
    """LLVM has an assembler here for this machine alone: elsewhere the loop stays without its hint."""
    target = by_name(name)
    here = target if target.runs_here else replace(target, pause="")
    assert load.text_to_code(team_ir.text(kind, here), target)[:4] == b"\x7fELF"


def test_each_fixture_has_its_target():
    assert {path.stem for path in FIXTURES.iterdir()} == set(targets())


@pytest.mark.parametrize("name", sorted(targets()))
def test_target_without_vectors_still_makes_code(name):
    target = by_name(name)
    vectors = [feature for feature, _, _ in target.levels]
    kept = [feature for feature in target.features.split(",") if feature[1:] not in vectors]
    features = ",".join(kept + [f"-{feature}" for feature in vectors])
    plain = target.configure(target.triple, target.cpu, features)
    assert (plain.vector_feature, plain.vector_bits, plain.lanes(32)) == ("", 64, 2)
    assert not plain.has(target.levels[-1][0])
    assembly = plain.assembly(ADD.format(n=2))
    expected = patterns(name, "plain: ")
    assert expected
    for pattern in expected:
        assert re.search(rf"^\t{pattern}", assembly, re.MULTILINE), pattern


def test_features_can_be_taken_back():
    target = by_name("x86_64").configure("x86_64-pc-linux", "", "+avx512f,+avx,-avx512f")
    assert (target.vector_feature, target.vector_bits, target.registers) == ("avx", 256, 16)


def test_host_is_one_of_the_targets_and_runs_here():
    here = host()
    assert here.name in targets()
    assert here.runs_here
    assert here.vector_bits >= 64
    assert sum(target.runs_here for target in targets().values()) == 1


def test_unknown_target_is_refused():
    with pytest.raises(UsageError, match="no target 'vax'"):
        by_name("vax")


def test_bad_llvm_text_is_an_error():
    with pytest.raises(RuntimeError):
        host().assembly("define void @f( {")
