"""Programs run on the CPU before and after all rules, and compute the same.

Each rewriting rule has such a program, `fixtures/rules/PKxxx/run.py`, with a function `main`.  One that can't
run without CUDA before the rewrite also has `expected`, which gives what `main` must return after it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portkit import engine, ruleset
from portkit.apply import apply
from portkit.rule import Rule

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).parent.parent / "fixtures" / "rules"
PROGRAMS = sorted(FOLDER.glob("PK*/run.py"))
REWRITERS = [rule.id for rule in ruleset.all_rules() if rule.__module__.startswith("portkit.rewriters.")]


def _rules(folder: Path) -> list[type[Rule]]:
    """All rules, with the tables of a project's own that a fixture brings."""
    tables = tuple(sorted((folder / "data").glob("apis.toml")))
    return [rule.configured(tables) for rule in ruleset.all_rules()]


def _migrated(text: str, rules: list[type[Rule]]) -> str:
    for _ in range(12):
        done = apply(text, engine.check_text(text, rules=rules), python=True)
        assert not done.refused
        if done.text == text:
            return text
        text = done.text
    raise AssertionError("the rewrites do not come to rest")


def _load(text: str, path: Path) -> dict[str, Any]:
    """The names of a program, which is written to a file first: kernels are compiled from their source."""
    path.write_text(text, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "program", "__file__": str(path)}
    exec(compile(text, str(path), "exec"), names)
    return names


def _run(text: str, path: Path) -> Any:
    state = torch.get_rng_state()
    default = torch.get_default_dtype()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _load(text, path)["main"]()
    finally:
        torch.set_rng_state(state)
        torch.set_default_dtype(default)
        torch.set_default_device(None)


def _same(a: Any, b: Any, where: str) -> None:
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, msg=lambda text: f"{where}: {text}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for position, (one, other) in enumerate(zip(a, b, strict=True)):
            _same(one, other, f"{where}[{position}]")
    else:
        assert a == b, where


@pytest.fixture(autouse=True)
def _end_process_group() -> Iterator[None]:
    """Ends the process group of a program once gloo's threads are idle.

    Destroying a group joins those threads with the GIL held, while one that has just finished a collective
    may wait for the GIL to drop what it worked on: neither would go on.  A moment without the GIL lets it
    finish.
    """
    yield
    if torch.distributed.is_initialized():
        time.sleep(0.5)
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("rule_id", REWRITERS)
def test_each_rewriter_has_a_program(rule_id: str) -> None:
    assert (FOLDER / rule_id / "run.py").exists()


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.parent.name)
def test_program_computes_the_same_without_cuda(path: Path, tmp_path: Path) -> None:
    before = path.read_text(encoding="utf-8")
    rules = _rules(path.parent)
    after = _migrated(before, rules)
    assert path.parent.name in {item.rule for item in engine.check_text(before, rules=rules)}
    assert after != before
    result = _run(after, tmp_path / "after.py")
    if "\ndef expected()" in before:
        names = _load(after, tmp_path / "expected.py")
        reference = names["expected"]()
    else:
        reference = _run(before, tmp_path / "before.py")
    _same(reference, result, path.parent.name)
