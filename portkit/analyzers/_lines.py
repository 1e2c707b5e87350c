"""Lines of files that are not Python, with comments told apart and spans that findings can point at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from portkit.finding import Span

_HASH = re.compile(r"(?:^|(?<=\s))#.*")


@dataclass(frozen=True)
class Line:
    """One line without its comment and its end; `start` is where it begins in the text."""

    start: int
    text: str

    def span(self, match: re.Match[str], group: int | str = 0) -> Span:
        """The span of a match in this line."""
        return Span(self.start + match.start(group), self.start + match.end(group))


def lines(text: str, *, comments: bool = True) -> Iterator[Line]:
    """The lines of a text; with `comments`, what follows a `#` is cut off."""
    start = 0
    for raw in text.splitlines(keepends=True):
        body = raw.rstrip("\r\n")
        if comments:
            body = _HASH.sub("", body)
        yield Line(start, body)
        start += len(raw)
