"""Which of many short texts stand in a file: looked for among its distinct words, which are few."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_WORD = re.compile(rb"[a-z0-9_]+")
_LONG = 64  # bytes; longer words hardly come again
_MOST = 50_000  # words that are remembered


class Triggers:
    """Finds triggers (lower-case) in lower-case bytes, exactly as `trigger in data` would."""

    def __init__(self, triggers: Iterable[bytes]) -> None:
        self._by_core: dict[bytes, list[bytes]] = {}  # longest run of letters and digits → triggers with it
        for trigger in sorted(set(triggers)):
            self._by_core.setdefault(max(_WORD.findall(trigger), key=len, default=b""), []).append(trigger)
        self._bare = self._by_core.pop(b"", [])
        least: list[bytes] = []  # cores that hold no other one
        for core in sorted(self._by_core, key=len):
            if not any(other in core for other in least):
                least.append(core)
        self._any = re.compile(b"|".join(map(re.escape, least)) or rb"(?!)")
        self._known: dict[bytes, tuple[bytes, ...]] = {}

    def inside(self, data: bytes) -> set[bytes]:
        """The triggers that stand in `data`."""
        cores: set[bytes] = set()
        for word in set(_WORD.findall(data)):
            found = self._known.get(word)
            cores.update(self._cores(word) if found is None else found)
        hits = {trigger for trigger in self._bare if trigger in data}
        for core in cores:
            hits.update(trigger for trigger in self._by_core[core] if trigger == core or trigger in data)
        return hits

    def _cores(self, word: bytes) -> tuple[bytes, ...]:
        """The cores that stand in a word, which is remembered."""
        found = tuple(core for core in self._by_core if core in word) if self._any.search(word) else ()
        if len(word) <= _LONG:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[word] = found
        return found


@lru_cache(maxsize=64)
def of(triggers: frozenset[bytes]) -> Triggers:
    """The finder for a set of triggers: made once, for it remembers words."""
    return Triggers(triggers)
