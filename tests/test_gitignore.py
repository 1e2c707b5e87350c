"""`.gitignore` where git cannot say what it ignores: compared with git, on trees made by chance."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from portkit import discover, gitignore
from portkit.config import Config

NAMES = [
    "a",
    "b",
    "ab",
    "abc",
    "a.py",
    "b.py",
    "foo",
    "bar",
    "x y",
    "a[b].py",
    "#c",
    "!d",
    "é",
    "a-b",
    "A1",
    "*",
]
PIECES = [
    *("a", "b", "ab", "foo", "bar", "a.py", "*.py", "*", "**", "?", "??", "a*", "*b", "**b", "a**", "f?o"),
    *("[ab]", "[!a]*", "[^b]", "[a-c]", "[[:alpha:]]*", "[[:upper:]]?", "[]a]", "[a-", "[[:no:]]", "[a\\]]"),
    *(
        "[[a]",
        "\\a",
        "\\*",
        "\\#c",
        "\\!d",
        "#c",
        "x y",
        "x\\ y",
        "é",
        "a\\",
        "[a-]*",
        "[!-b]",
        "[[:x]",
        "a[[]b[]].py",
    ),
]
FORMS = [
    *("{0}", "{0}", "{0}", "/{0}", "{0}/", "/{0}/", "{0}/{1}", "/{0}/{1}", "{0}/{1}/", "**/{0}", "{0}/**"),
    *(
        "{0}/**/{1}",
        "**/{0}/{1}",
        "/**/{0}",
        "{0}/*",
        "!{0}",
        "!/{0}",
        "!{0}/{1}",
        "!{0}/",
        "!**/{0}",
        "{0} ",
    ),
    *("{0}\\ ", " {0}", "{0}//", "//{0}", "/", "!", "#{0}", "", "{0}\r", "{0}\\/{1}", "**\\/{0}", "***/{0}"),
]


def _tree(chance: random.Random, top: Path) -> None:
    """Folders three deep with files of a few names, and a `.gitignore` here and there."""
    places = [top]
    for _ in range(3):
        for place in list(places):
            for name in chance.sample(NAMES, 3):
                (place / name).mkdir(exist_ok=True)
                places.append(place / name)
    for place in dict.fromkeys(places):
        for name in chance.sample(NAMES, 4):
            if not (place / name).exists():
                (place / name).write_text("")
    for place in [top, *chance.sample(places, 4)]:
        forms = chance.choices(FORMS, k=chance.randint(1, 6))
        lines = [form.format(*chance.choices(PIECES, k=2)) for form in forms]
        if chance.random() < 0.2:
            lines[0] = "\ufeff" + lines[0]
        (place / ".gitignore").write_text("\n".join(lines) + chance.choice(["", "\n"]))


def _by_git(top: Path) -> list[str]:
    command = ["git", "-C", str(top), "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"]
    out = subprocess.run(command, capture_output=True, check=True).stdout
    return sorted(os.fsdecode(name) for name in out.split(b"\0") if name)


def _by_us(top: Path, **settings: bool) -> list[str]:
    walk = discover._Walk(top, [], Config(**settings).respect_gitignore)
    return sorted(file.relative_to(top).as_posix() for file in walk._walked(top))


@pytest.mark.parametrize("seed", range(60))
def test_the_same_files_as_git(seed: int, tmp_path: Path) -> None:
    top = tmp_path / "tree"
    top.mkdir()
    _tree(random.Random(seed), top)
    ours = _by_us(top)
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    assert ours == _by_git(top)


def test_the_trees_made_by_chance_show_differences(tmp_path: Path) -> None:
    """Else the comparison above would prove nothing."""
    ignored = 0
    for seed in range(10):
        top = tmp_path / str(seed)
        top.mkdir()
        _tree(random.Random(seed), top)
        everything = sum(len(files) for _, _, files in os.walk(top))
        assert len(_by_us(top, respect_gitignore=False)) == everything
        ignored += everything - len(_by_us(top))
    assert ignored > 100


@pytest.mark.parametrize("line", [*PIECES, *(form.format("a*", "[ab]") for form in FORMS)])
def test_one_pattern_as_check_ignore_has_it(line: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(line + "\n")
    paths = [f"{folder}{name}" for folder in ("", "a/", "foo/", "a/ab/") for name in NAMES]
    command = ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin", "-z"]
    asked = "\0".join(paths).encode()
    out = subprocess.run(command, input=asked, capture_output=True, check=False).stdout
    level = gitignore.level(tmp_path, b"")
    assert level is not None

    def ignored(path: str) -> bool:
        parts = path.split("/")
        folders = ["/".join(parts[:count]) for count in range(1, len(parts))]
        return any(gitignore.is_ignored([level], folder.encode(), True) for folder in folders) or (
            gitignore.is_ignored([level], path.encode(), False)
        )

    assert [path for path in paths if ignored(path)] == out.decode().split("\0")[:-1]


# --- in discover -------------------------------------------------------------------------------------


def _made(top: Path, *names: str) -> None:
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("")


def _found(*paths: Path, root: Path | None = None, gitignore: bool = True) -> list[str]:
    return [item.path for item in discover.discover(paths, Config(respect_gitignore=gitignore), root)[1]]


@pytest.fixture(params=["git", "no git"])
def top(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    _made(folder, "a.py", "out/b.py", "src/c.py", "src/gen/d.py", "src/gen/keep.py", "node_modules/e.py")
    (folder / ".gitignore").write_text("/out/\n")
    (folder / "src/.gitignore").write_text("gen/*\n!keep.py\n")
    if request.param == "git":
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def test_ignored_files_are_left_out_unless_asked_for(top: Path) -> None:
    assert _found(top) == ["a.py", "src/c.py", "src/gen/keep.py"]
    everything = ["a.py", "out/b.py", "src/c.py", "src/gen/d.py", "src/gen/keep.py"]
    assert _found(top, gitignore=False) == everything


def test_files_above_the_scanned_folder_hold(top: Path) -> None:
    assert _found(top / "src/gen", root=top) == ["src/gen/keep.py"]


def test_what_is_named_is_looked_at(top: Path) -> None:
    assert _found(top / "out", root=top) == ["out/b.py"]
    assert _found(top / "src/gen/d.py", root=top) == ["src/gen/d.py"]


def test_git_is_not_needed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(top))
    assert _found(top) == ["a.py", "src/c.py", "src/gen/keep.py"]


def test_checkouts_in_a_folder_that_is_none(tmp_path: Path) -> None:
    """Each is listed by its own git, exclusions of its own included."""
    for name in ("one", "two"):
        _made(tmp_path, f"{name}/a.py", f"{name}/local.py")
        subprocess.run(["git", "init", "-q", str(tmp_path / name)], check=True)
        (tmp_path / name / ".git/info/exclude").write_text("local.py\n")
    assert _found(tmp_path) == ["one/a.py", "two/a.py"]
