"""A file that only tells which version of Triton is installed goes on asking Triton."""

from __future__ import annotations

import pytest

from portkit import engine
from portkit.config import Config
from portkit.finding import Support
from portkit.source import Kind

TOLD = [
    'print(f"Triton {triton.__version__}")',
    "print(triton.__version__)",
    'info["triton"] = triton.__version__',
    'info = {"triton": triton.__version__}',
]
USED = [
    "new = triton.__version__ >= '3'",
    "new = Version(triton.__version__) >= Version('3')",
    "version = triton.__version__",
    "print(triton.__version__, triton.cdiv(3, 2))",
]


def support(use: str, guard: bool) -> Support:
    code = f"import triton\n{use}\n"
    if guard:
        code = f"try:\n    import triton\n    {use}\nexcept ImportError:\n    pass\n"
    found = engine.check_text(code, path="x.py", kind=Kind.PYTHON, config=Config())
    return next(item.support for item in found if item.rule == "PK103")


@pytest.mark.parametrize("use", TOLD)
def test_what_only_tells_the_version_keeps_its_import(use: str) -> None:
    assert support(use, guard=True) is Support.PORTABLE


@pytest.mark.parametrize("use", TOLD)
def test_an_import_that_would_fail_is_replaced(use: str) -> None:
    assert support(use, guard=False) is Support.AUTO


@pytest.mark.parametrize("use", USED)
def test_what_decides_by_the_version_asks_ours(use: str) -> None:
    assert support(use, guard=True) is Support.AUTO
