"""A test for CUDA stays as it is where the branch behind it can't leave CUDA."""

from __future__ import annotations

import textwrap

import pytest

from portkit import engine
from portkit.config import Config
from portkit.finding import Finding, Support
from portkit.source import Kind

STUCK = "torch.cuda.FloatTensor"  # as a value, no rule can replace it


def cuda_tests(code: str) -> list[Finding]:
    found = engine.check_text(
        "import torch\n" + textwrap.dedent(code), path="x.py", kind=Kind.PYTHON, config=Config()
    )
    return [item for item in found if item.rule in ("PK303", "PK304", "PK107")]


@pytest.mark.parametrize(
    "code",
    [
        f"T = {STUCK} if torch.cuda.is_available() else torch.FloatTensor",
        f"T = torch.FloatTensor if not torch.cuda.is_available() else {STUCK}",
        f"if torch.cuda.is_available():\n    T = {STUCK}\nelse:\n    T = torch.FloatTensor",
        f"flag = torch.cuda.is_available()\nif flag and 1:\n    T = {STUCK}",
        f"def f(x):\n    if x.is_cuda:\n        return {STUCK}\n",
        f"def f(device):\n    if device.type == 'cuda':\n        return {STUCK}\n",
    ],
)
def test_stays_for_review_where_the_branch_needs_cuda(code: str) -> None:
    found = cuda_tests(code)
    assert [item.support for item in found] == [Support.REVIEW]
    assert "still needs CUDA (PK" in found[0].note


@pytest.mark.parametrize(
    "code",
    [
        "d = 'cuda' if torch.cuda.is_available() else 'cpu'\nprint(torch.cuda.is_available())",
        f"if torch.cuda.is_available():\n    torch.cuda.empty_cache()\nT = {STUCK}",
        f"if torch.cuda.is_available():\n    torch.cuda.empty_cache()\nelse:\n    T = {STUCK}",
        "if torch.cuda.is_available():\n    torch.cuda.synchronize()",
    ],
)
def test_opens_where_the_branch_is_portable(code: str) -> None:
    found = [item for item in cuda_tests(code) if "is_available" in str(item.qualified_name)]
    assert found
    assert {item.support for item in found} == {Support.AUTO}
