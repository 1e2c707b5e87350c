"""The files that `portkit init --ci` writes: each is well formed, and each of its commands parses."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import portkit
from portkit import cli, scaffold

SYSTEMS = sorted(scaffold.systems())
CODE = {
    True: "import torch\nimport torch.nn.functional as F\n\ny = F.softmax(torch.zeros(3).cuda(), dim=-1)\n",
    False: "import torch\n\ntorch.cuda.synchronize()\n",
}


def written(folder: Path, system: str, operators: bool) -> Path:
    """The workflow of a small repository, with or without operators to compare."""
    (folder / "train.py").write_text(CODE[operators])
    assert cli.run(["init", str(folder), "--ci", system]) == 0
    return folder / scaffold.systems()[system][0]


def commands(file: Path) -> list[str]:
    """The shell commands of a workflow, in the order in which they run."""
    text = file.read_text()
    if file.suffix not in (".yml", ".yaml"):
        return re.findall(r"^\s*sh '(.*)'$", text, re.MULTILINE)
    return list(_strings(yaml.safe_load(text), ("run", "script", "entry")))


def _strings(data: Any, keys: tuple[str, ...]) -> Iterator[str]:
    if isinstance(data, list):
        for item in data:
            yield from _strings(item, keys)
    if isinstance(data, dict):
        for key, value in data.items():
            if key in keys:
                yield from value if isinstance(value, list) else [value]
            else:
                yield from _strings(value, keys)


def test_the_systems_that_are_asked_for_are_there():
    assert SYSTEMS == ["github", "gitlab", "jenkins", "pre-commit"]


@pytest.mark.parametrize("operators", [True, False])
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_command_parses_and_the_gate_is_among_them(tmp_path, system, operators):
    root = typer.main.get_command(cli.app())
    seen = []
    for line in commands(written(tmp_path, system, operators)):
        words = shlex.split(line.partition("||")[0])
        if not words[0].endswith("portkit"):
            assert words[0].endswith(("pip", "python3")), line
            continue
        command = root.commands[words[1]]
        command.make_context(words[1], words[2:])  # raises where an option is not one
        seen.append(words[1])
    assert seen[-1] == "gate"
    assert ("parity" in seen) is (operators and system != "pre-commit")


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_workflow_installs_this_version_and_has_no_rest_of_a_template(tmp_path, system):
    text = written(tmp_path, system, True).read_text()
    assert re.search(rf'"portkit(?:\[torch\])?=={re.escape(portkit.__version__)}"', text)
    assert not re.search(r"\{\{(?! github)|\{%|\{#|\t| $", text, re.MULTILINE)
    for pair in ("{}", "[]", "()"):
        assert text.count(pair[0]) == text.count(pair[1])


# --- the systems' own rules -------------------------------------------------------------------------------


@pytest.mark.parametrize("operators", [True, False])
@pytest.mark.parametrize(("system", "schema"), [("github", "github-workflows"), ("gitlab", "gitlab-ci")])
def test_a_workflow_is_valid_by_its_schema(tmp_path, system, schema, operators):
    pytest.importorskip("check_jsonschema")
    file = written(tmp_path, system, operators)
    assert _validated(file, schema).returncode == 0, _validated(file, schema).stdout
    file.write_text(file.read_text().replace("timeout", "time-out"))
    assert _validated(file, schema).returncode == 1


def _validated(file: Path, schema: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(file)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_pre_commit_file_is_valid_by_its_schema(tmp_path):
    pytest.importorskip("pre_commit")
    file = written(tmp_path, "pre-commit", True)
    command = [sys.executable, "-m", "pre_commit", "validate-config", str(file)]
    assert subprocess.run(command).returncode == 0
    file.write_text(file.read_text().replace("entry:", "enter:"))
    assert subprocess.run(command, capture_output=True).returncode == 1


@pytest.mark.parametrize("operators", [True, False])
def test_the_jenkinsfile_is_groovy_and_a_declarative_pipeline(tmp_path, operators):
    pytest.importorskip("tree_sitter_groovy")
    text = written(tmp_path, "jenkins", operators).read_bytes()
    root = _groovy(text)
    assert not root.has_error
    assert _groovy(text.replace(b"stage('Gate') {", b"stage('Gate' {")).has_error
    assert [name for name, _ in _blocks(root)] == ["pipeline"]
    ((_, pipeline),) = _blocks(root)
    sections = dict(_blocks(pipeline))
    assert list(sections) == ["options", "stages", "post"]
    stages = list(_blocks(sections["stages"]))
    assert [name for name, _ in stages] == ["stage"] * (5 if operators else 4)
    assert all([name for name, _ in _blocks(stage)] == ["steps"] for _, stage in stages)
    assert [name for name, _ in _blocks(sections["post"])] == ["always"]


def _groovy(text: bytes) -> Any:
    import tree_sitter
    import tree_sitter_groovy

    language = tree_sitter.Language(tree_sitter_groovy.language())
    return tree_sitter.Parser(language).parse(text).root_node


def _blocks(node: Any) -> Iterator[tuple[str, Any]]:
    """The calls in a block that have a block of their own: name, block."""
    for child in node.named_children:
        call = child.named_children[0] if child.type == "expression_statement" else child
        if call.type == "method_invocation" and call.child_by_field_name("body"):
            yield call.child_by_field_name("name").text.decode(), call.child_by_field_name("body")


def test_the_steps_of_the_workflow_run_as_they_stand(tmp_path):
    """All but the installation: in an empty home, with nothing but `portkit` and the system's tools."""
    pytest.importorskip("torch")
    (tmp_path / "repository").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "portkit"
    package = Path(portkit.__file__).parent.parent
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{package}" exec "{sys.executable}" -m portkit "$@"\n')
    program.chmod(0o755)
    file = written(tmp_path / "repository", "github", True)
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    steps = commands(file)
    assert steps.pop(0).startswith("pip install ")
    for step in [*steps, *steps]:  # what they wrote the first time is no part of the repository
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step],
            cwd=tmp_path / "repository",
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    made = sorted(path.name for path in (tmp_path / "repository").glob("portkit-*"))
    assert made == ["portkit-gate.sarif", "portkit-junit.xml", "portkit-parity.json", "portkit-report.html"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_workflow_is_replaced_only_by_force(tmp_path, capsys, system):
    file = tmp_path / scaffold.systems()[system][0]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    assert cli.run(["init", str(tmp_path), "--ci", system]) == 2
    assert file.read_text() == "mine"
    assert "exists already" in capsys.readouterr().err
    assert cli.run(["init", str(tmp_path), "--ci", system, "--force"]) == 0
    assert file.read_text() != "mine"


def test_a_branch_of_any_name_is_one_name_in_the_workflow(tmp_path):
    subprocess.run(["git", "init", "-q", "-b", 'a"],x', str(tmp_path)], check=True)
    assert cli.run(["init", str(tmp_path), "--ci", "github"]) == 0
    data = yaml.safe_load((tmp_path / ".github/workflows/portkit.yml").read_text())
    assert data[True]["push"]["branches"] == ['a"],x']  # `on` is a truth value in YAML 1.1
