"""Tables of a project's own APIs: how settings name them, and what is said of a wrong one."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import pytest

from portkit import engine, looking, ruleset
from portkit.cli import run
from portkit.config import load
from portkit.errors import ConfigError

TABLE = '[to]\n"acme.gpu.wait" = "pk.synchronize"\n'
CODE = "from acme import gpu\ngpu.wait()\ngpu.stop()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "portkit.toml").write_text('apis = ["tables/apis.toml"]\n')
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/apis.toml").write_text(TABLE)
    (tmp_path / "a.py").write_text(CODE)
    return tmp_path


def found(project: Path, jobs: int = 1) -> list[str]:
    result = engine.scan([project], load(project), jobs=jobs)
    return [f"{item.location.path}:{item.location.line} {item.support.value}" for item in result.findings]


def test_the_table_stands_beside_the_settings(project: Path) -> None:
    assert found(project) == ["a.py:2 auto"]
    (project / "portkit.toml").write_text("")
    assert found(project) == []


def test_a_table_that_changes_is_read_again(project: Path) -> None:
    before = ruleset.fingerprint(load(project).rules(ruleset.all_rules()))
    (project / "tables/apis.toml").write_text(TABLE + '[manual]\n"acme.gpu.stop" = "Ask."\n')
    assert found(project) == ["a.py:2 auto", "a.py:3 manual"]
    assert ruleset.fingerprint(load(project).rules(ruleset.all_rules())) != before


def test_rules_can_be_left_out_as_others(project: Path) -> None:
    (project / "portkit.toml").write_text('apis = ["tables/apis.toml"]\nignore = ["PK390"]\n')
    assert found(project) == []


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_know_the_table(project: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    monkeypatch.setattr(looking, "_ENOUGH", 1)
    monkeypatch.setattr(looking, "_can_fork", lambda: method == "fork")
    assert found(project, jobs=2) == ["a.py:2 auto"]


def test_rules_of_a_project_can_be_pickled(project: Path) -> None:
    rules = load(project).rules(ruleset.all_rules())
    assert pickle.loads(pickle.dumps(rules)) == rules
    plain = ruleset.all_rules()
    assert pickle.loads(pickle.dumps(plain)) == plain


def test_migrate_uses_the_table(project: Path) -> None:
    assert run(["migrate", str(project), "--phase", "full-model", "--write"]) == 0
    assert (project / "a.py").read_text().splitlines()[-2:] == ["pk.synchronize()", "gpu.stop()"]
    assert "import portkit.runtime as pk" in (project / "a.py").read_text()


def test_a_module_of_the_project_is_imported_before_it_is_used(project: Path) -> None:
    """`import acme.gpu` makes acme known, and not acme.host."""
    (project / "tables/apis.toml").write_text('[to]\n"acme.gpu.wait" = "acme.host.wait"\n')
    (project / "a.py").write_text("import acme.gpu\n\nacme.gpu.wait()\nacme.gpu.stop()\n")
    (project / "b.py").write_text("from acme import gpu, host\n\ngpu.wait()\nhost.f()\n")
    assert run(["migrate", str(project), "--phase", "full-model", "--write"]) == 0
    assert sorted((project / "a.py").read_text().split("\n")[:2]) == ["import acme.gpu", "import acme.host"]
    assert "acme.host.wait()" in (project / "a.py").read_text()
    assert (project / "b.py").read_text().splitlines()[1:] == ["", "host.wait()", "host.f()"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[too]", "1", "Did you mean to?"),
        ("to = 1", "1", "must be a table"),
        ('[to]\n"wait" = "pk.synchronize"', "2", "wait is no full name"),
        ('[to]\n"a b.c" = "pk.synchronize"', "2", "a b.c is no full name"),
        ('[to]\n\n"acme.a" = 1', "3", "to.acme.a must be a text"),
        ('[to]\n"acme.a" = "synchronize"', "2", "must be a full name such as pk.synchronize"),
        ('[to]\n"acme.a" = "pk.f()"', "2", "must be a full name such as pk.synchronize"),
        ('[to]\n"acme.a" = "pk.f"\n[manual]\n"acme.a" = "x"', "4", "is in to already"),
        ('[review]\n"acme.a" = "pk.f"', "2", "must be a table such as"),
        ('[review]\n"acme.a" = { to = "pk.f" }', "2", "note is missing"),
        ('[review."acme.a"]\nto = "pk.f"\nnot = "x"', "3", "Did you mean review.acme.a.note?"),
        ('[manual]\n"acme.a" = " "', "2", "must be a text that is not empty"),
        ("[libraries]\nacme = 1", "2", "must be a table with what and instead"),
        ('[libraries.acme]\nwhat = "x"', "1", "instead is missing"),
        ('[libraries.acme]\nwhat = "x"\ninsted = "y"', "3", "Did you mean libraries.acme.instead?"),
        (
            '[libraries.acme.k]\nwhat = "x"\ninstead = "y"\nrequirements = "z"',
            "4",
            "must be a list of strings",
        ),
        ("[to\n", "1:4", "not valid TOML"),
    ],
)
def test_a_wrong_table_is_one_error_with_its_line(
    project: Path, text: str, line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / "tables/apis.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        engine.scan([project], load(project))
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert said in str(caught.value)
    assert run(["scan", str(project)]) == 2
    assert capsys.readouterr().out == ""


def test_a_table_that_is_not_there(project: Path) -> None:
    (project / "tables/apis.toml").unlink()
    with pytest.raises(ConfigError, match=r"apis.toml: The table of APIs cannot be read: no such file"):
        engine.scan([project], load(project))


def test_packages_below_packages(project: Path) -> None:
    about = 'what = "w"\ninstead = "i"\n'
    text = f'[libraries.acme.kernels]\n{about}["libraries"."acme.fast"]\n{about}'
    (project / "tables/apis.toml").write_text(text)
    names = ("acme.kernels", "acme.fast.x", "acme.kernels_docs", "acme")
    (project / "a.py").write_text("".join(f"import {name}\n" for name in names))
    assert found(project) == ["a.py:1 manual", "a.py:2 manual"]
