"""Code that moves only together with that of other files: which of it stays, because one of them does."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping

from portkit.facts import Facts

Places = Callable[[str, str], frozenset[str]]  # path, name → the files that the name leads through


def held(facts: Mapping[str, Facts], places: Places) -> dict[str, str]:
    """Path → why its code can't move though nothing in the file itself stands against it.

    A kernel and the functions that it calls go through one compiler.  So where one stays, those stay that it
    calls, and those that call it: the files that share functions move all, or none.
    """
    joined: dict[str, set[str]] = defaultdict(set)
    for path, found in facts.items():
        for name in found.moving.shares if found.moving is not None else ():
            for other in places(path, name):
                theirs = facts.get(other)
                if other != path and theirs is not None and theirs.moving is not None:
                    joined[path].add(other)
                    joined[other].add(path)
    result: dict[str, str] = {}
    stays = {path: one.moving.stays for path, one in facts.items() if one.moving is not None}
    waiting = deque((path, path) for path in sorted(joined) if stays[path])
    while waiting:
        path, root = waiting.popleft()
        for other in sorted(joined[path]):
            if not stays[other] and other not in result:
                result[other] = f"its kernels share functions with {root}, which stays: {stays[root]}"
                waiting.append((other, root))
    return result
