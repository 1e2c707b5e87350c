"""Each target makes the vector instructions that its fixture lists, and knows what its processor has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from portkit.errors import UsageError
from portkit.runtime.targets import by_name, host, targets

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


@pytest.mark.parametrize("name", sorted(targets()))
def test_target_emits_its_vector_instructions(name):
    target = by_name(name)
    assembly = target.assembly(ADD.format(n=target.lanes(32)))
    for pattern in (FIXTURES / f"{name}.txt").read_text().splitlines():
        assert re.search(pattern, assembly), assembly


def test_each_fixture_has_its_target():
    assert {path.stem for path in FIXTURES.iterdir()} == set(targets())


@pytest.mark.parametrize("name", sorted(targets()))
def test_target_without_vectors_still_makes_code(name):
    target = by_name(name)
    off = ",".join(f"-{feature}" for feature, _, _ in target.levels)
    plain = target.configure(target.triple, target.cpu, f"{target.features},{off}")
    assert (plain.vector_feature, plain.vector_bits, plain.lanes(32)) == ("", 64, 2)
    assert not plain.has(target.levels[-1][0])
    if name != "x86_64":  # floating point is SSE there
        assert "fadd" in plain.assembly(ADD.format(n=2))


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
