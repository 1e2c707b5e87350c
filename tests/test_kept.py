"""Results that are kept between scans: the same to the byte, safe when damaged, bounded in size."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from toy_rules import TOYS

from portkit import callers, engine, fingerprint, kept, looking, reports, ruleset
from portkit.check import Rules
from portkit.config import Config
from portkit.kept import Kept
from portkit.rule import Rule

ROOT = Path(__file__).parent.parent
FORMATS = reports.formats()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PORTKIT_CACHE_SIZE", raising=False)
    return tmp_path / "cache" / "scan"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "fixtures" / "projects", tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files that were really looked at."""
    paths: list[str] = []
    real = looking.look_at

    def note(task: looking.Task, *others: object) -> looking.Looked:
        paths.append(task.found.path)
        return real(task, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(looking, "look_at", note)
    return paths


def texts(project: Path, *, jobs: int = 1, cache: bool = True, config: Config | None = None) -> list[str]:
    """Every report of one scan."""
    result = engine.scan([project], config or Config(), jobs=jobs, cache=cache)
    return [reports.render(name, result, verbose=True) for name in FORMATS]


def only_file(folder: Path) -> Path:
    (file,) = files(folder)
    return file


def files(folder: Path) -> list[Path]:
    """The files with the results of single files; beside each lies one with what all files gave together."""
    return [file for file in folder.glob(f"*{kept.SUFFIX}") if not file.stem.endswith("-whole")]


def test_a_second_scan_looks_at_nothing_and_says_the_same(
    project: Path, folder: Path, looked: list[str]
) -> None:
    without = texts(project, cache=False)
    assert not folder.exists()
    cold = texts(project)
    looked.clear()
    warm = texts(project)
    assert looked == []
    assert without == cold == warm


def test_processes_keep_the_same_as_one(
    project: Path, folder: Path, looked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_ENOUGH", 2)
    monkeypatch.setattr(looking, "_BATCH", 3)
    cold = texts(project, jobs=2)
    assert looked == []  # in this process
    assert texts(project, jobs=2) == cold == texts(project, cache=False)


def test_only_a_changed_file_is_looked_at_again(project: Path, folder: Path, looked: list[str]) -> None:
    texts(project)
    file = next(iter(sorted(project.rglob("*.py"))))
    before = file.stat()
    file.write_text(file.read_text() + "\nimport torch\ntorch.cuda.synchronize()\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # times prove nothing
    looked.clear()
    changed = texts(project)
    assert looked == [file.relative_to(project).as_posix()]
    assert changed == texts(project, cache=False)


def test_what_all_files_give_together_is_worked_out_once(
    project: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links and reach: for the same files from the disk, anew as soon as one of them has changed."""
    asked: list[str] = []
    for module, name in ((engine, "links_of"), (callers, "affects")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, _real=real, _name=name: asked.append(_name) or _real(*a))
    cold = texts(project)
    assert asked == ["links_of", "affects"]
    assert texts(project) == cold
    assert asked == ["links_of", "affects"]
    file = next(iter(sorted(project.rglob("*.py"))))
    file.write_text(file.read_text() + "\n")
    texts(project)
    assert asked == ["links_of", "affects"] * 2


def test_the_package_around_the_root_counts(tmp_path: Path, folder: Path) -> None:
    """What a file is called follows from folders that are not scanned."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "__init__.py").touch()
    (inner / "helpers.py").write_text("import torch\nfrom torch.cuda import synchronize as wait\n")
    (inner / "main.py").write_text("import torch\nfrom outer.inner.helpers import wait\nwait()\n")
    before = texts(inner)
    (inner.parent / "__init__.py").touch()
    assert texts(inner) != before
    assert texts(inner) == texts(inner, cache=False)


def test_a_file_that_moved_is_looked_at_again(project: Path, folder: Path, looked: list[str]) -> None:
    texts(project)
    file = next(iter(sorted(project.rglob("*.py"))))
    file.rename(file.with_name("moved.py"))
    looked.clear()
    assert texts(project) == texts(project, cache=False)
    assert file.with_name("moved.py").relative_to(project).as_posix() in looked


def test_what_a_file_takes_from_another_counts(tmp_path: Path, folder: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.py").write_text("import torch\nfrom helpers import wait\nwait()\n")
    (project / "helpers.py").write_text("import torch\nfrom torch.cuda import synchronize as wait\n")
    cold = texts(project)
    assert any("main.py:3" in text for text in cold)
    (project / "helpers.py").write_text("import torch\nfrom torch import sum as wait\n")
    changed = texts(project)
    assert changed != cold
    assert changed == texts(project, cache=False)


@pytest.mark.parametrize("config", [Config(operators="all"), Config(select=("PK3",))], ids=str)
def test_other_settings_make_use_of_nothing(
    project: Path, folder: Path, looked: list[str], config: Config
) -> None:
    texts(project)
    looked.clear()
    assert texts(project, config=config) == texts(project, cache=False, config=config)
    assert looked
    assert len(files(folder)) == 2


def test_the_fingerprint_covers_sources_rules_settings_and_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = ruleset.all_rules()
    known = {fingerprint.of_run(rules, Config())}

    def differs(rules: Sequence[type[Rule]] = rules, operators: str = "compute") -> None:
        now = fingerprint.of_run(rules, Config(operators=operators))
        assert now is not None
        assert now not in known
        known.add(now)

    assert fingerprint.of_run(rules, Config(exclude=("a",))) in known  # which files, not what is in them
    differs(rules[1:])
    differs(operators="all")
    differs((*rules, *TOYS))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version", "3.99")
        differs()
    with monkeypatch.context() as patch:
        patch.setattr(fingerprint, "_ours", lambda: "other sources")
        differs()


def test_every_source_and_table_counts(tmp_path: Path) -> None:
    place = tmp_path / "package"
    (place / "tables").mkdir(parents=True)
    seen = set()
    for name in ("a.py", "tables/a.toml", "names.txt"):
        for text in ("1", "2"):
            (place / name).write_text(text)
            seen.add(fingerprint._hash(place))
    assert len(seen) == 6


def test_a_rule_made_on_the_spot_is_never_kept(project: Path, folder: Path) -> None:
    class Local(TOYS[0]):  # type: ignore[misc, valid-type]
        """A toy."""

    engine.scan([project], rules=[Local], cache=True)
    assert not folder.exists()


# --- what lies on the disk ---------------------------------------------------------------------------


def test_damage_anywhere_is_mended(project: Path, folder: Path) -> None:
    cold = texts(project)
    file = only_file(folder)
    good = file.read_bytes()
    places = sorted({0, 5, 16, 31, 33, 47, 49, 52, 60, len(good) // 2, len(good) - 1})
    damaged = [good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :] for place in places]
    damaged += [b"", good[: len(good) // 2], good[:40], good[:-1], good + b"more", good[16:], b"\0" * 4096]
    for data in damaged:
        file.write_bytes(data)
        assert texts(project) == cold
    file.unlink()
    file.mkdir()
    with pytest.warns(RuntimeWarning, match="results are not kept"):
        assert texts(project) == cold


def test_a_record_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "owned"),)

    store = Kept(tmp_path, "a")
    for number, value in enumerate((Bomb(), os.path.join, Path("a"), Rules)):
        key = number.to_bytes(16, "big")
        store.put(key, pickle.dumps(value) if number else pickle.dumps(Bomb()))
        assert store.get(key) is None
    assert not (tmp_path / "owned").exists()


def test_records_that_nothing_asks_for_go_in_the_end(tmp_path: Path) -> None:
    old, used = b"o" * 16, b"u" * 16
    store = Kept(tmp_path, "a")
    store.put(old, kept.encode(1))
    store.put(used, kept.encode(2))
    store.save()
    for number in range(kept._MOST_AGE + 2):
        store = Kept(tmp_path, "a")
        assert store.get(used) == 2
        store.put(b"n" * 16, kept.encode(number))
        store.save()
    assert Kept(tmp_path, "a").get(old) is None


def test_a_scan_of_a_part_keeps_what_is_known_of_the_rest(
    project: Path, folder: Path, looked: list[str]
) -> None:
    engine.scan([project], cache=True, root=project)
    (project / "minigpt" / "new.py").write_text("import torch\n")
    engine.scan([project / "minigpt"], cache=True, root=project)
    looked.clear()
    engine.scan([project], cache=True, root=project)
    assert looked == []


def test_the_size_is_bounded(tmp_path: Path) -> None:
    body = kept.encode("x" * 1000)
    for number in range(8):
        store = Kept(tmp_path, str(number), limit=5000)
        for key in range(3):
            store.put(bytes([key]) * 16, body)
        store.save()
        os.utime(store.file or "", (time.time() - 100 + number, time.time() - 100 + number))
    assert sorted(file.stem for file in tmp_path.iterdir()) == ["7"]
    large = Kept(tmp_path, "large", limit=5000)
    for key in range(10):
        large.put(bytes([key]) * 16, body)
    large.save()
    assert (tmp_path / f"large{kept.SUFFIX}").stat().st_size < 5000
    assert len(Kept(tmp_path, "large")) == 4
    assert Kept(tmp_path, "none", limit=0).save() is None
    assert not (tmp_path / "none.scan").exists()


def test_what_a_process_that_died_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".new-dead").write_bytes(b"half")
    os.utime(tmp_path / ".new-dead", (0, 0))
    (tmp_path / ".new-alive").write_bytes(b"half")
    kept.prune(tmp_path, 1 << 20)
    assert [file.name for file in tmp_path.iterdir()] == [".new-alive"]


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid"), reason="needs modes of files")
def test_a_folder_that_cannot_be_written_is_a_warning(project: Path, folder: Path) -> None:
    folder.parent.write_text("a file stands where the folder should")
    with pytest.warns(RuntimeWarning, match="PORTKIT_CACHE_DIR"):
        warned = texts(project)
    assert warned == texts(project, cache=False)


# --- the command -------------------------------------------------------------------------------------


def command(project: Path, *options: str, **environment: str) -> SimpleNamespace:
    env = {key: value for key, value in os.environ.items() if key != "PORTKIT_NO_CACHE"}
    done = subprocess.run(
        [sys.executable, "-m", "portkit", "scan", str(project), "--format", "json", *options],
        capture_output=True,
        cwd=ROOT,
        env={**env, **environment},
    )
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(out=done.stdout, err=done.stderr)


def test_many_processes_at_once(project: Path, folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        outputs = {item.out for item in pool.map(lambda _: command(project), range(8))}
    assert outputs == {command(project, "--no-cache").out}
    assert {file.suffix for file in folder.iterdir()} == {kept.SUFFIX}  # no temporary file is left
    assert len(Kept(folder, only_file(folder).stem)) > 5


def test_no_cache_keeps_nothing(project: Path, folder: Path) -> None:
    command(project, "--no-cache")
    command(project, PORTKIT_NO_CACHE="1")
    assert not folder.exists()
    command(project)
    assert only_file(folder)
