"""Kernels of the corpus through front end, verifier and interpreter, against NumPy."""

from __future__ import annotations

from typing import Any

import kernel_cases
import pytest

from portkit.runtime.tile import frontend, interpret, verify
from portkit.runtime.tile.signature import Runtime


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in kernel_cases.cases()])
def test_corpus(case: dict[str, Any]) -> None:
    values, specs = kernel_cases.specs(case)
    func = frontend.build(case["kernel"], specs)
    verify.verify(func)
    runtime = [value for value, spec in zip(values, specs, strict=True) if isinstance(spec, Runtime)]
    interpret.run(func, runtime, case["grid"])
    kernel_cases.check(case, values)
