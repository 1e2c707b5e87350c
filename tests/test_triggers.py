"""Triggers are found as a search for each of them would find them."""

from __future__ import annotations

import random

from portkit import ruleset
from portkit.triggers import Triggers

KNOWN = sorted({trigger for rule in ruleset.all_rules() for trigger in rule.triggers})


def test_found_as_by_searching_for_each() -> None:
    chance = random.Random(7)
    finder = Triggers(KNOWN)
    for _ in range(300):
        parts = chance.choices(
            [*KNOWN, b" ", b"\n", b"_", b"x", b"(", b"\xc3\xa9", b"cu", b"da", b"d" * 90], k=30
        )
        cut = chance.randrange(5)
        data = b"".join(parts)[cut : -cut or None]
        assert finder.inside(data) == {trigger for trigger in KNOWN if trigger in data}


def test_nothing_to_find() -> None:
    assert Triggers(()).inside(b"cuda") == set()
    assert Triggers((b"<<<", b"a.b")).inside(b"x <<< y a_b") == {b"<<<"}
    assert Triggers((b"cuda",)).inside(b"") == set()
