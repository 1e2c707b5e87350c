"""Jinja2 templates of the package."""

from __future__ import annotations

from functools import cache

import jinja2


@cache
def environment() -> jinja2.Environment:
    """Templates under `portkit/templates`; text put into HTML is escaped, a missing name is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("portkit", "templates"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
