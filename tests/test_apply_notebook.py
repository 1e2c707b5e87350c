"""Writing cells back into a notebook's JSON: any spelling, any layout, and every other byte stays."""

from __future__ import annotations

import json
import random
import re

import pytest

from portkit.applying import notebook
from portkit.cells import split_notebook
from portkit.errors import ApplyError

LETTERS = 'ab "\\\t/é😀{}[],:#\n\n'


class Speller:
    """Spells JSON in random but legal ways."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def space(self) -> str:
        return self.rng.choice(["", "", " ", "\n", "\r\n  ", "\t"])

    def letter(self, char: str) -> str:
        if char == "\n":
            return self.rng.choice(["\\n", "\\n", "\\u000a"])
        if char == "/":
            return self.rng.choice(["/", "\\/"])
        if char in '"\\\t':
            return json.dumps(char)[1:-1]
        return json.dumps(char, ensure_ascii=self.rng.random() < 0.1)[1:-1]

    def value(self, value: object) -> str:
        comma = f"{self.space()},{self.space()}"
        if isinstance(value, str):
            return f'"{"".join(map(self.letter, value))}"'
        if isinstance(value, list):
            return f"[{self.space()}{comma.join(map(self.value, value))}{self.space()}]"
        if isinstance(value, dict):
            pairs = [f"{self.value(key)}{self.space()}:{self.value(item)}" for key, item in value.items()]
            return f"{{{self.space()}{comma.join(pairs)}{self.space()}}}"
        return json.dumps(value)

    def text(self, length: int) -> str:
        return "".join(self.rng.choice(LETTERS) for _ in range(self.rng.randrange(length)))

    def source(self) -> object:
        text, kind = self.text(40), self.rng.random()
        if kind < 0.4:
            return text
        return re.findall(r"[^\n]*\n|[^\n]+", text) if kind < 0.8 else [self.text(5), self.text(5)]

    def shuffled(self, table: dict[str, object]) -> dict[str, object]:
        items = list(table.items())
        self.rng.shuffle(items)
        return dict(items)

    def notebook(self) -> str:
        cells = [
            self.shuffled(
                {
                    "cell_type": self.rng.choice(["code", "code", "markdown"]),
                    "source": self.source(),
                    "outputs": [{"text": self.source(), "source": "x"}],
                    "metadata": {"source": [1, {"cells": []}]},
                }
            )
            for _ in range(self.rng.randrange(1, 5))
        ]
        return self.value(self.shuffled({"metadata": {"cells": 1}, "cells": cells, "nbformat": 4}))


def without_sources(text: str) -> str:
    """The JSON text with a mark in the place of every source of a code cell."""
    out, end = "", 0
    for cell in notebook.sources(text):
        assert cell is not None
        out += text[end : cell.start] + "@"
        end = cell.end
    return out + text[end:]


@pytest.mark.parametrize("seed", range(300))
def test_any_notebook(seed: int) -> None:
    speller = Speller(seed)
    text = speller.notebook()
    before = [unit.text for unit in split_notebook(text)]
    changed = {
        index: old.replace("a", "Z", 1) if speller.rng.random() < 0.5 else speller.text(9) + old + "\n#"
        for index, old in enumerate(before)
        if speller.rng.random() < 0.6
    }
    new = notebook.write(text, changed)
    assert [unit.text for unit in split_notebook(new)] == [
        changed.get(i, old) for i, old in enumerate(before)
    ]
    assert without_sources(new) == without_sources(text)
    for index, (old_cell, new_cell) in enumerate(
        zip(notebook.sources(text), notebook.sources(new), strict=True)
    ):
        assert old_cell is not None
        assert new_cell is not None
        old, now = text[old_cell.start : old_cell.end], new[new_cell.start : new_cell.end]
        assert old[0] == now[0]
        assert index in changed or old == now


def test_lines_that_stay_keep_their_spelling() -> None:
    text = '{"cells": [{"cell_type": "code", "source": ["\\u0061 = 1\\n", "b = \\/\\n", "c"]}]}'
    assert notebook.write(text, {0: "a = 1\nB = /\nc"}) == text.replace('"b = \\/\\n"', '"B = /\\n"')


@pytest.mark.parametrize("text", ["", "{", '{"cells": [', '{"cells": [{"cell_type": "code", "source": }]}'])
def test_broken_json_is_an_apply_error(text: str) -> None:
    with pytest.raises(ApplyError):
        notebook.write(text, {0: "x"})
