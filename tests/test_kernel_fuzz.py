"""Random kernels in the language that people write: compiled and interpreted results agree.

`scripts/fuzz_kernels.py` tries many more, and makes a kernel that fails small.
"""

from __future__ import annotations

import random

import pytest
from kernel_check import check
from kernel_grammar import Grammar


@pytest.mark.parametrize("seed", range(60))
def test_random_kernel(seed: int) -> None:
    choose = random.Random(seed).randrange
    check(Grammar(choose).build(2 + choose(8)))
