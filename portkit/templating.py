"""Jinja2 templates of the package."""

from __future__ import annotations

import re
from functools import cache

import jinja2
from markupsafe import Markup, escape

_CODE = re.compile(r"`([^`]+)`")


@cache
def environment() -> jinja2.Environment:
    """Templates under `portkit/templates`; text put into HTML is escaped, a missing name is an error."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("portkit", "templates"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["code"] = code
    return made


def code(text: str) -> Markup:
    """Escaped text in which what stands between backticks is marked up as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))
