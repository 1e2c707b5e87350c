"""Parsing other people's code without their warnings (invalid escapes, `is` with a literal)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quietly() -> Iterator[None]:
    """Silence warnings about the code that is parsed inside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
