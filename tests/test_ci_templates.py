"""The files that `portkit init --ci` writes: each is well formed, and each of its commands parses."""

from __future__ import annotations

import re
import shlex
import subprocess
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
