"""Runs the steps of the workflow that `portkit init --ci github` writes for a repository, in a copy of it.

    python scripts/run_workflow.py REPOSITORY

Each `run:` step runs as it stands, with bash as a runner of GitHub's does it, in a new virtual environment
and with an empty home.  A wheel built from this checkout stands in for the registry's.
Exits with 1 where a step fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")


def main() -> int:
    """The exit code."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="portkit-") as name:
        return _run(Path(sys.argv[1]), Path(name))


def _run(source: Path, work: Path) -> int:
    wheels, repository, home = work / "wheels", work / "repository", work / "home"
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run(pip, check=True)
    shutil.copytree(source, repository, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    home.mkdir()
    venv.create(work / "venv", with_pip=True)
    init = [sys.executable, "-m", "portkit", "init", str(repository), "--ci", "github", "--force"]
    subprocess.run(init, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    ended = True
    for step in _steps(repository / ".github/workflows/portkit.yml"):
        if ended or step.get("if") == "always()":
            print(f"== {step['name']}: {step['run']}", flush=True)
            done = subprocess.run([*BASH, step["run"]], cwd=repository, env=_environment(work, wheels, home))
            print(f"-- exit {done.returncode}", flush=True)
            ended = ended and done.returncode == 0
    print("every step ended with 0" if ended else "a step failed")
    return 0 if ended else 1


def _steps(file: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"] if "run" in step]


def _environment(work: Path, wheels: Path, home: Path) -> dict[str, str]:
    """Only what a fresh runner has, and how this machine's pip reaches a registry."""
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    links = " ".join(filter(None, [str(wheels), pip.pop("PIP_FIND_LINKS", "")]))
    path = f"{work / 'venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return {**pip, "PIP_FIND_LINKS": links, "PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}


if __name__ == "__main__":
    sys.exit(main())
