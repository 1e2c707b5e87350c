"""What was worked out from all files of a scan together, kept for the next one of the very same files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from portkit import fingerprint, kept

Value = TypeVar("Value")


class Whole:
    """Answers about one state of all files; without a store, each is worked out when it is asked for."""

    def __init__(self, store: kept.Kept | None = None, keys: Iterable[bytes] = ()) -> None:
        """`keys` hold everything that the answers depend on: one of each file."""
        self._store = store
        self._key = b"".join(keys) if store is not None else b""

    def get(self, make: Callable[[], Value], *about: str) -> Value:
        """What `make` gives, which is plain data; `about` says what it is and what else it depends on."""
        if self._store is None:
            return make()
        key = fingerprint.of_file(self._key, *about)
        found = self._store.get(key)
        if found is None:
            found = make()
            self._store.put(key, kept.encode(found))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the store of the files' own results says it
                self._store.save()
        return cast("Value", found)
