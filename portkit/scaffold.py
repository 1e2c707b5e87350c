"""What `portkit init` writes: settings with a gate at today's coverage, and a workflow for CI."""

from __future__ import annotations

import difflib
import math
import re
import subprocess
from functools import cache
from pathlib import Path

import portkit
from portkit import config, coverage, engine
from portkit.engine import ScanResult
from portkit.errors import UsageError
from portkit.files import write_atomically
from portkit.finding import Phase
from portkit.parity import cases
from portkit.templating import environment

_FOLDER = "ci"  # of templates: one file a system, whose first line says which file it becomes
_FILE = re.compile(r"\{#- file: (\S+) -#\}")
PARITY = "portkit-parity.json"


@cache
def systems() -> dict[str, tuple[str, str]]:
    """Each CI system with the file that it reads, and the template of that file."""
    made = environment()
    found = {}
    for name in sorted(made.list_templates(filter_func=lambda name: name.startswith(f"{_FOLDER}/"))):
        assert made.loader is not None
        head = _FILE.match(made.loader.get_source(made, name)[0])
        assert head is not None, f"{name} does not say which file it becomes"
        found[name.removeprefix(f"{_FOLDER}/").partition(".")[0]] = (head[1], name)
    return found


def run(root: Path, ci: str, force: bool) -> list[str]:
    """Write what is missing in the repository at `root`; returns one line for each file.

    Settings that are there stay.  Raises UsageError for an unknown CI system, or a workflow that is there
    already (unless `force`).
    """
    if not root.is_dir():
        raise UsageError("There is no such folder.", place=str(root), remedy="Check the path.")
    if ci:
        _check(root, ci, force)
    chosen = config.load(root)
    result = engine.scan([root], chosen)
    parity = PARITY if cases.used(result) else ""
    done = [_settings(root, chosen, result, parity)]
    if ci:
        done.append(_workflow(root, ci, parity))
    return done


def _check(root: Path, ci: str, force: bool) -> None:
    known = systems()
    if ci not in known:
        near = difflib.get_close_matches(ci, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Use one of {', '.join(known)}."
        raise UsageError(f"There is no CI system {ci}.", remedy=hint)
    file = root / known[ci][0]
    if file.exists() and not force:
        remedy = "--force replaces it; `portkit init` in an empty folder writes one to copy from."
        raise UsageError("The workflow exists already.", place=str(file), remedy=remedy)


def _settings(root: Path, chosen: config.Config, result: ScanResult, parity: str) -> str:
    if chosen.file is not None:
        return f"kept {chosen.file}: it has settings already"
    pyproject = root / "pyproject.toml"
    template = environment().get_template("settings.toml.j2")
    shares = [(phase.value, _share(result, phase)) for phase in Phase]
    if not pyproject.exists():
        file = root / "portkit.toml"
        text = template.render(table="tool.portkit", coverage=shares, parity=parity)
        write_atomically(file, text.encode())
        return f"wrote {file}"
    before = pyproject.read_bytes()
    text = template.render(table="tool.portkit", coverage=shares, parity=parity)
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    gap = newline if before.endswith(b"\n") or not before else newline * 2
    write_atomically(pyproject, before + gap + text.encode().replace(b"\n", newline))
    return f"added [tool.portkit] to {pyproject}"


def _share(result: ScanResult, phase: Phase) -> int:
    """Today's coverage of a phase in whole percent, rounded down; 100 where nothing is left to do."""
    percent = coverage.dependencies(result.findings, phase).percent
    return 100 if percent is None else math.floor(percent)


def _workflow(root: Path, ci: str, parity: str) -> str:
    name, template = systems()[ci]
    file = root / name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The folder cannot be made: {(error.strerror or str(error)).lower()}.", place=str(file.parent)
        ) from None
    text = environment().get_template(template).render(
        version=portkit.__version__, parity=parity, branch=_branch(root)
    )  # fmt: skip
    write_atomically(file, text.encode())
    return f"wrote {file}"


def _branch(root: Path) -> str:
    """The branch that is checked out; "main" where there is none."""
    try:
        shown = subprocess.run(
            ["git", "-C", str(root), "symbolic-ref", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "main"
    return shown.stdout.strip() or "main"
