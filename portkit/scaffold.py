"""What `portkit init` writes: settings with a gate at today's coverage, and a workflow for CI."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import portkit
from portkit import config, coverage, engine
from portkit.engine import ScanResult
from portkit.errors import UsageError
from portkit.files import write_atomically
from portkit.finding import Phase
from portkit.parity import cases
from portkit.templating import environment

SYSTEMS = {"github": (".github/workflows/portkit.yml", "github.yml.j2")}
PARITY = "portkit-parity.json"


def run(root: Path, ci: str, force: bool) -> list[str]:
    """Write what is missing in the repository at `root`; returns one line for each file.

    Settings that are there stay.  Raises UsageError for an unknown CI system, or a workflow that is there
    already (unless `force`).
    """
    if not root.is_dir():
        raise UsageError("There is no such folder.", place=str(root), remedy="Check the path.")
    if ci and ci not in SYSTEMS:
        raise UsageError(f"There is no CI system {ci}.", remedy=f"Use one of {', '.join(SYSTEMS)}.")
    if ci and (root / SYSTEMS[ci][0]).exists() and not force:
        raise UsageError(
            "The workflow exists already.", place=str(root / SYSTEMS[ci][0]), remedy="--force replaces it."
        )
    chosen = config.load(root)
    result = engine.scan([root], chosen)
    parity = PARITY if cases.used(result) else ""
    done = [_settings(root, chosen, result, parity)]
    if ci:
        done.append(_workflow(root, ci, parity))
    return done


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
    name, template = SYSTEMS[ci]
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
