"""What there is to say about rules: the list, and the page of one."""

from __future__ import annotations

import difflib
import inspect
import io
import json
import textwrap
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from portkit import ruleset
from portkit.errors import UsageError
from portkit.rule import Rule

HEADINGS = ("What:", "Why:", "Instead:", "Safety:")
_INDENT = 2


def summary(rule: type[Rule]) -> str:
    """The first line of a rule's docstring."""
    return inspect.cleandoc(rule.__doc__ or "").partition("\n")[0]


def does(rule: type[Rule]) -> str:
    """Whether a rule only reports, or also replaces."""
    return "rewrites" if ".rewriters." in rule.__module__ else "reports"


def as_json() -> str:
    """Every rule as a JSON list."""
    rows = [
        {
            "id": rule.id,
            "name": rule.name,
            "phase": rule.phase.value,
            "support": does(rule),
            "summary": summary(rule),
            "source": rule.__module__,
        }
        for rule in ruleset.documented()
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False)


def as_table(*, colour: bool = False, width: int = 120) -> str:
    """Every rule as a table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("id", "name", "phase", "support"):
        table.add_column(heading, no_wrap=True)
    table.add_column("finds")
    for rule in ruleset.documented():
        table.add_row(rule.id, rule.name, rule.phase.value, does(rule), summary(rule))
    return _printed([table], colour, width)


def find(word: str) -> type[Rule]:
    """The rule with this id or name.  Raises UsageError with the nearest one."""
    rules = ruleset.documented()
    for rule in rules:
        if word.upper() == rule.id or word.lower().replace("-", "_") == rule.name:
            return rule
    known = [name for rule in rules for name in (rule.id, rule.name)]
    near = difflib.get_close_matches(word.upper(), known, n=1) or difflib.get_close_matches(word, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else "`portkit rules` lists them."
    raise UsageError(f"There is no rule {word}.", remedy=hint)


def explain(word: str, *, colour: bool = False, width: int = 100) -> str:
    """The page of one rule, from its docstring.  Raises UsageError if there is no such rule."""
    rule = find(word)
    head = Text.assemble((f"{rule.id} {rule.name}", "bold"), f"  ({rule.phase.value}, {does(rule)})")
    return _printed([head, Text(""), *_body(rule, width)], colour, width)


def _body(rule: type[Rule], width: int) -> Iterator[RenderableType]:
    """The paragraphs of a docstring, filled to the width, with the headings set off; code stays as it is."""
    for paragraph in _paragraphs(inspect.cleandoc(rule.__doc__ or "")):
        heading = next((word for word in HEADINGS if paragraph.startswith(word)), "")
        body = paragraph.removeprefix(heading).strip("\n")
        if heading:
            yield Text(heading.rstrip(":"), style="bold")
        if body.startswith(" " * (_INDENT + 1)) and not heading:
            yield Text(body)
        else:
            filled = textwrap.fill(" ".join(body.split()), width - _INDENT)
            yield Text(textwrap.indent(filled, " " * _INDENT if heading else ""))
        yield Text("")


def _paragraphs(text: str) -> Iterator[str]:
    """Blocks of lines; a blank line or a heading begins a new one."""
    block: list[str] = []
    for line in text.splitlines():
        if block and (not line.strip() or line.startswith(HEADINGS)):
            yield "\n".join(block)
            block = []
        if line.strip():
            block.append(line)
    if block:
        yield "\n".join(block)


def _printed(parts: list[RenderableType], colour: bool, width: int) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        emoji=False,
        markup=False,
    )
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text))
    return "\n".join(line.rstrip() for line in stream.getvalue().split("\n")).rstrip("\n")
