"""The cache of object code: what is found, what is not trusted, what is evicted, and life without it."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from portkit.runtime.tile import cache
from portkit.runtime.tile.cache import Cache, Entry, decode, encode, key_of

ENTRY = Entry(b"\x7fELF some\ncode\x00", "kernel_1", 192)
KEY = key_of("text", "target")


@pytest.fixture
def store(tmp_path):
    return Cache(tmp_path / "deep" / "cache")


def test_what_was_put_is_found_again(store):
    assert store.get(KEY) is None
    store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY
    assert Cache(store.folder).get(KEY) == ENTRY
    assert [path.name for path in store.folder.iterdir()] == [f"{KEY}.pkobj"]


def test_another_key_finds_nothing(store):
    store.put(KEY, ENTRY)
    assert store.get(key_of("text", "other target")) is None
    assert key_of("a", "bc") != key_of("ab", "c")


def _damage(data):
    yield "empty", b""
    yield "cut in the code", data[:-3]
    yield "cut in the head", data[:10]
    yield "no code", data[: data.index(b"{")]
    yield "one bit of the code", data[:-1] + bytes([data[-1] ^ 1])
    yield "one bit of the facts", data.replace(b'"scratch": 192', b'"scratch": 193')
    yield "longer", data + b"\0"
    yield "foreign", b"\x7fELF\x02\x01\x01" + bytes(100)
    yield "text", "Kein Objekt: ü".encode()


@pytest.mark.parametrize(
    ("kind", "data"), list(_damage(encode(KEY, ENTRY))), ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_damaged_file_counts_as_absent_and_is_replaced(store, kind, data):
    store.put(KEY, ENTRY)
    path = store.folder / f"{KEY}.pkobj"
    path.write_bytes(data)
    assert store.get(KEY) is None
    store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY


def test_a_file_under_another_name_is_not_used(store):
    store.put(KEY, ENTRY)
    other = key_of("something else")
    os.rename(store.folder / f"{KEY}.pkobj", store.folder / f"{other}.pkobj")
    assert store.get(other) is None


@pytest.mark.parametrize("facts", [b"[]", b"{}", b"not json", b'{"key": "k", "symbol": "s", "scratch": []}'])
def test_a_right_checksum_over_wrong_facts_is_not_enough(facts):
    import hashlib

    body = facts + b"\ncode"
    data = cache.MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    assert decode("k", data) is None


def test_a_folder_in_the_place_of_an_entry_is_passed_over(store):
    (store.folder / f"{KEY}.pkobj").mkdir(parents=True)
    assert store.get(KEY) is None
    with pytest.warns(RuntimeWarning, match="not kept"):
        store.put(KEY, ENTRY)


def test_a_folder_that_cannot_be_written_warns_once(tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    store = Cache(file / "cache")
    with pytest.warns(RuntimeWarning, match="PORTKIT_CACHE_DIR"):
        store.put(KEY, ENTRY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(KEY, ENTRY)
        assert store.get(KEY) is None
        assert store.files() == []


def test_without_a_folder_nothing_is_kept():
    store = Cache(None)
    store.put(KEY, ENTRY)
    assert store.get(KEY) is None


def test_the_entries_used_longest_ago_are_evicted(tmp_path):
    size = len(encode(KEY, ENTRY))
    store = Cache(tmp_path, limit=3 * size)
    keys = [key_of(str(i)) for i in range(5)]
    for age, key in enumerate(reversed(keys)):
        store.put(key, ENTRY)
        os.utime(tmp_path / f"{key}.pkobj", (1000 + age, 1000 + age))
    assert store.get(keys[4]) == ENTRY  # the oldest is used again
    assert store.prune() == 2
    assert [store.get(key) is not None for key in keys] == [True, True, False, False, True]
    assert store.prune() == 0


def test_writing_evicts_by_itself(tmp_path):
    size = len(encode(KEY, ENTRY))
    store = Cache(tmp_path, limit=size)
    for i in range(2 * cache.PRUNE_EVERY + 1):
        store.put(key_of(str(i)), ENTRY)
    assert len(store.files()) == 1


def test_other_peoples_files_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    store = Cache(tmp_path, limit=1)
    store.put(KEY, ENTRY)
    store.prune()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"PORTKIT_CACHE_DIR": "/x/y"}, Path("/x/y")),
        ({"XDG_CACHE_HOME": "/x", "PORTKIT_CACHE_DIR": ""}, Path("/x/portkit")),
        ({"HOME": "/h", "XDG_CACHE_HOME": ""}, Path("/h/.cache/portkit")),
    ],
)
def test_the_place_of_the_cache(monkeypatch, variables, place):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("PORTKIT_CACHE_DIR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache.default_folder() == place


@pytest.mark.parametrize(("text", "limit"), [("1000", 1000), ("-5", 0), ("lots", cache.DEFAULT_LIMIT)])
def test_the_limit_from_the_environment(monkeypatch, text, limit):
    monkeypatch.setenv("PORTKIT_CACHE_SIZE", text)
    assert cache.default_limit() == limit


def test_writers_in_several_processes_leave_whole_files(tmp_path):
    code = (
        "import sys; from pathlib import Path; from portkit.runtime.tile.cache import *\n"
        "store = Cache(Path(sys.argv[1]), 10000)\n"
        "for i in range(200): store.put(key_of(str(i % 7)), Entry(bytes(1000 + i % 7), 's', i % 7))\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    store = Cache(tmp_path)
    for i in range(7):
        found = store.get(key_of(str(i)))
        assert found is None or found == Entry(bytes(1000 + i), "s", i)
    assert store.get(key_of("3")) is not None
    assert not list(tmp_path.glob(".new-*"))
