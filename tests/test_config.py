"""Settings: where they come from, what they choose, and what is said of a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from portkit import tomlfile
from portkit.config import Config, load, load_file, matches
from portkit.discover import discover, project_root
from portkit.errors import ConfigError, UsageError
from portkit.ruleset import wanted


def written(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_defaults_without_a_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert load(tmp_path) == Config()


def test_all_keys(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        [tool.portkit]
        include = ["src"]
        exclude = ["legacy"]
        select = ["ALL"]
        ignore = ["PK001"]
        operators = "all"
        [tool.portkit.per-path-ignores]
        "tests/*" = ["PK0"]
        [tool.portkit.gate]
        coverage = { operator = 90 }
        parity = true
        """,
    )
    config = load(tmp_path)
    assert (config.include, config.exclude, config.operators) == (("src",), ("legacy",), "all")
    assert config.per_path_ignores == (("tests/*", ("PK0",)),)
    assert config.gate == {"coverage": {"operator": 90}, "parity": True}
    assert config.file == file
    assert config.is_ignored("tests/a.py", "PK001")
    assert not config.is_ignored("src/a.py", "PK001")


def test_the_nearest_file_counts_and_portkit_toml_comes_first(tmp_path: Path) -> None:
    written(tmp_path, '[tool.portkit]\noperators = "all"\n')
    (tmp_path / "deep").mkdir()
    assert load(tmp_path / "deep").operators == "all"
    written(tmp_path, 'operators = "cuda-bound"\n', "portkit.toml")
    assert load(tmp_path / "deep").operators == "cuda-bound"
    written(tmp_path / "deep", "[project]\nname = 'x'\n")
    assert load(tmp_path / "deep").operators == "cuda-bound", "a pyproject without our table is passed over"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[tool.portkit]\nexlude = []", "2", "Did you mean exclude?"),
        ("[tool.portkit]\nzzz = 1", "2", "Known keys"),
        ("[tool.portkit]\nselect = 'PK101'", "2", "must be a list"),
        ("[tool.portkit]\n# a line\ninclude = [\n  'a',\n  1,\n]", "3", "include must be a list"),
        ("[tool.portkit]\nselect = ['PK30I']", "2", "Did you mean PK3"),
        ("[tool.portkit]\nignore = ['']", "2", "names no rule"),
        ("[tool.portkit]\noperators = 'some'", "2", "must be one of"),
        ("[tool.portkit]\nrespect-gitignore = 1", "2", "must be true or false"),
        ("[tool.portkit]\napis = 'x.toml'", "2", "must be a list"),
        ("[tool.portkit.gate]\ncoverag = 1", "2", "Did you mean gate.coverage?"),
        ("[tool.portkit]\ngate = 1", "2", "gate must be a table"),
        ('x = """\n[tool.portkit]\n"""\n[tool.portkit]\nselect = 1', "5", "must be a list"),
        ("[tool.portkit.per-path-ignores]\na = 1", "2", "must be a list"),
        ("[tool.portkit.per-path-ignores]\n\n'a/*.b' = ['PK9999']", "3", "names no rule"),
        ("[tool]\nportkit = {per-path-ignores = {'a' = [], 'b' = 1}}", "2", "must be a list"),
        ("tool.portkit.'select' = 3", "1", "must be a list"),
        ("[tool]\nportkit = 3", "2", "must be a table"),
        ("[tool.portkit\n", "1:14", "not valid TOML"),
        ("[tool.portkit]\na = 1\nb = [1", "3:7", "not valid TOML"),
    ],
)
def test_wrong_settings_name_the_file_the_line_and_the_key(
    tmp_path: Path, text: str, line: str, said: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert said in str(caught.value)


def test_a_settings_file_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "portkit.toml").write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(ConfigError, match=r"portkit.toml:2: .* not UTF-8"):
        load(tmp_path)


def test_a_mark_of_byte_order_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "portkit.toml").write_bytes(b"\xef\xbb\xbfoperators = 'all'\n")
    assert load(tmp_path).operators == "all"


def test_every_key_of_real_files_has_its_line() -> None:
    """On the TOML files that we have ourselves, against what the parser says there is."""
    root = Path(__file__).parent.parent
    for file in [root / "pyproject.toml", *(root / "portkit").rglob("*.toml")]:
        text = file.read_text(encoding="utf-8")
        lines = dict(tomlfile._keys(text))
        for keys in _paths_of(tomlfile.read(file)):
            assert keys[-1] in text.splitlines()[lines[keys] - 1], (file, keys)


def _paths_of(table: object, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(table, dict):
        for key, value in table.items():
            yield (*above, key)
            yield from _paths_of(value, (*above, key))
    elif isinstance(table, list):
        for value in table:
            yield from _paths_of(value, above)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        load_file(tmp_path / "none.toml")


def test_unknown_ids_on_the_command_line_are_refused() -> None:
    with pytest.raises(UsageError, match="PK00X"):
        Config().with_choice(["PK00X"], [])


@pytest.mark.parametrize(
    ("select", "ignore", "chosen"),
    [
        ((), (), True),
        (("PK1",), (), True),
        (("PK2",), (), False),
        ((), ("PK101",), False),
        ((), ("PK1",), False),
        (("PK101",), ("PK1",), True),
        (("PK1",), ("PK101",), False),
        (("PK1",), ("PK1",), False),
        (("ALL",), (), True),
        (("ALL",), ("PK1",), False),
        (("PK1",), ("ALL",), True),
    ],
)
def test_the_longer_pattern_decides(select: tuple[str, ...], ignore: tuple[str, ...], chosen: bool) -> None:
    assert wanted("PK101", select, ignore) is chosen


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("tests/a.py", "tests", True),
        ("src/tests/a.py", "tests", True),
        ("src/a.py", "*.py", True),
        ("src/deep/a.py", "src/*", True),
        ("src/deep/a.py", "src", True),
        ("src/a.py", "src/", True),
        ("src/a.py", "./src", True),
        ("src/deep/a.py", "**/a.py", True),
        ("a.py", "**/a.py", True),
        ("src/a.py", "lib/*", False),
        ("tests.py", "tests", False),
    ],
)
def test_patterns(path: str, pattern: str, fits: bool) -> None:
    assert matches(path, pattern) is fits


def _paths(config: Config, root: Path) -> list[str]:
    return [item.path for item in discover([root], config)[1] if item.path.endswith(".py")]


def test_patterns_are_relative_to_the_folder_of_the_settings(tmp_path: Path) -> None:
    """Whichever folder is scanned, the same files are left out."""
    for name in ("src/old/a.py", "src/new/b.py", "old/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    written(tmp_path, 'exclude = ["src/old"]\nper-path-ignores = { "src/new" = ["PK1"] }', "portkit.toml")
    config = load(tmp_path / "src")
    assert _paths(config, tmp_path) == ["old/c.py", "src/new/b.py"]
    assert _paths(config, tmp_path / "src") == ["new/b.py"]
    assert config.anchored(tmp_path / "src").is_ignored("new/b.py", "PK101")
    assert not config.anchored(tmp_path / "old").is_ignored("new/b.py", "PK101")


def test_settings_below_the_scanned_root(tmp_path: Path) -> None:
    (tmp_path / "part/src").mkdir(parents=True)
    for name in ("part/src/a.py", "part/b.py", "c.py"):
        (tmp_path / name).write_text("")
    written(tmp_path / "part", 'exclude = ["src/*"]', "portkit.toml")
    assert _paths(load(tmp_path / "part"), tmp_path) == ["c.py", "part/b.py"]


def test_the_project_is_the_checkout_or_the_folder_of_the_settings(tmp_path: Path) -> None:
    folder = tmp_path / "a/b/c"
    folder.mkdir(parents=True)
    assert project_root([folder], Config()) == folder
    assert project_root([folder, tmp_path / "a"], Config()) == tmp_path / "a"
    file = written(tmp_path / "a/b", "", "portkit.toml")
    assert project_root([folder], load_file(file)) == tmp_path / "a/b"
    elsewhere = written(tmp_path, "", "other.toml")
    (tmp_path / "a/.git").mkdir()
    assert project_root([folder], load_file(elsewhere)) == tmp_path / "a"
