"""Random programs of several modules: what is said of a name must be what Python makes of it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from portkit.discover import Found
from portkit.facts import gather
from portkit.flow import Flow
from portkit.linking import links_of
from portkit.names import Names
from portkit.parsing import parse
from portkit.scopes import Tree
from portkit.source import Kind

PROGRAMS = 300
NAMES = ("fuse", "norm", "adam", "amp")
MODULES = ("a", "b", "c", "pkg", "pkg.d", "pkg.e")

# a package whose every name is a text that says what it is, and a program that imports everything
PACKAGE = """
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return "apex." + name
"""
RUN = """
import importlib, json, sys
found = []
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    for module in {modules!r}:
        try:
            names = vars(importlib.import_module(module))
        except Exception:
            names = {{}}
        found.append({{key: names[key] if isinstance(names[key], str) else "other"
                      for key in {names!r} if names.get(key) is not None}})
    sys.path.pop(0)
    for module in {modules!r}:
        sys.modules.pop(module, None)
print(json.dumps(found))
"""


def _spelled(module: str, at: str, rng: random.Random) -> str:
    """A module as another one may name it."""
    if at.startswith("pkg") and module.startswith("pkg") and rng.random() < 0.6:
        return "." + module.removeprefix("pkg").lstrip(".")
    return module


def _statement(at: str, rng: random.Random) -> str:
    name, other = rng.choice(NAMES), rng.choice(NAMES)
    module = _spelled(rng.choice([item for item in MODULES if item != at]), at, rng)
    return rng.choice(
        [
            f"from apex import {name}",
            f"from apex import {name} as {other}",
            f"import apex as {name}\n{name} = {name}.{other}",
            f"from {module} import {name}",
            f"from {module} import {name} as {other}",
            f"from {module} import *",
            f"{name} = {other}",
            f"def {name}(): pass",
            f"{name} = 'cuda'",
            f"if int('{rng.randrange(2)}'):\n    from apex import {name}",
            f"if int('{rng.randrange(2)}'):\n    {name} = 'other'",
            f"try:\n    from {module} import {name}\nexcept ImportError:\n    {name} = None",
            f"__all__ = ['{name}']",
            f"def use():\n    global {name}\n    {name} = 1",
        ]
    )


def _program(folder: Path, rng: random.Random) -> dict[str, str]:
    files = {"apex/__init__.py": PACKAGE}
    for module in MODULES:
        lines = [_statement(module, rng) for _ in range(rng.randrange(1, 5))]
        name = "pkg/__init__.py" if module == "pkg" else f"{module.replace('.', '/')}.py"
        files[name] = "\n".join(lines) + "\n"
    uses = [(module, name) for module in MODULES for name in NAMES]
    imports = [f"from {module} import {name} as n{number}" for number, (module, name) in enumerate(uses)]
    files["probe.py"] = "\n".join(imports) + "\n"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return files


def _said(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """Name of a module → what we say that it is, where we are sure."""
    own = {name: text for name, text in files.items() if not name.startswith("apex")}
    facts = {}
    for name, text in own.items():
        tree = Tree(parse(text))
        names = Names(tree)
        facts[name] = gather(tree, names, Flow(names))
    found = [Found(folder / name, name, Kind.PYTHON) for name in own]
    links = links_of(found, facts).get("probe.py")
    if links is None:
        return {}
    return {name: meaning.name for name, meaning in links.names if not meaning.several}


def test_what_is_said_of_names_is_true(tmp_path: Path) -> None:
    rng = random.Random(7)
    folders = [tmp_path / str(number) for number in range(PROGRAMS)]
    programs = [_program(folder, rng) for folder in folders]
    script = RUN.format(modules=MODULES, names=NAMES)
    command = [sys.executable, "-c", script, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    real = iter(json.loads(done.stdout))
    said, wrong = 0, []
    for folder, files in zip(folders, programs, strict=True):
        meant = _said(folder, files)
        for module in MODULES:
            for name, value in next(real).items():
                claim = meant.get(f"{module}.{name}")
                said += claim is not None
                if claim is not None and claim != value:
                    wrong.append((folder.name, module, name, claim, value))
    assert wrong == []
    assert said > PROGRAMS / 2  # else the test would hold of a program that says nothing
