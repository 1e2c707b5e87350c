"""Check the tables of rules against every torch from 2.6 on, each in a throw-away environment.

    python scripts/verify_torch.py [VERSION ...] [--results DIR]

Without versions: the newest of each minor one of the index.  Answers are kept in --results, so that a run
that was stopped goes on; docs/torch-versions.md is written from all of them.  Ends with 1 if a name that
migrated code uses is missing in one of them, or a signature is another.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from portkit import apifacts, verification  # noqa: E402
from portkit.errors import PortkitError  # noqa: E402
from portkit.verification import Verdict  # noqa: E402

PAGE = ROOT / "docs" / "torch-versions.md"
OLDEST = (2, 6)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # small wheels; tried first
Rows = dict[str, list[list[str]]]  # verdict → [name, table, detail]


def newest() -> list[str]:
    """The newest version of each minor one, from the index that pip uses."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for match in re.finditer(r"\b(\d+)\.(\d+)\.(\d+)\b", text):
        version = tuple(map(int, match.groups()))
        if version[:2] >= OLDEST:
            found[version[:2]] = max(version, found.get(version[:2], ()))
    return [".".join(map(str, found[key])) for key in sorted(found)]


def ask(version: str) -> Rows:
    """What one version says to the tables."""
    folder = Path(tempfile.mkdtemp(prefix="verify-torch-"))
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        python = str(folder / "bin" / "python")
        _install(python, version)
        report = verification.verify([python])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        verdict.value: sorted([i.fact.name, i.fact.place, i.detail] for i in report.of(verdict))
        for verdict in (Verdict.WRONG, Verdict.ABSENT, Verdict.UNTOLD)
    }


def _install(python: str, version: str) -> None:
    install = [python, "-m", "pip", "install", "-q", "--no-cache-dir", "numpy", f"torch=={version}"]
    small = [*install, "--index-url", CPU_INDEX]
    if subprocess.run(small, capture_output=True, check=False).returncode:
        subprocess.run(install, check=True)


def page(results: dict[str, Rows]) -> str:
    """docs/torch-versions.md."""
    return "\n".join(_page(results)) + "\n"


def _page(results: dict[str, Rows]) -> Iterator[str]:
    versions = sorted(results, key=lambda text: tuple(map(int, text.split("."))))
    yield "# torch versions"
    yield ""
    yield "Every name and signature of the tables behind the rules, looked up in these versions of torch by"
    yield "`python scripts/verify_torch.py`, which writes this page. See `portkit rules --verify`, too."
    yield "Builds for the CPU alone have no NCCL."
    yield ""
    yield "| torch | wrong | not in this version |"
    yield "|---|---|---|"
    for version in versions:
        rows = results[version]
        yield f"| {version} | {len(rows[Verdict.WRONG.value])} | {len(rows[Verdict.ABSENT.value])} |"
    yield ""
    yield from _matrix("Names that only some of them have", _partly(results), versions)
    yield from _matrix("Names of older versions, in none of these", _never(results), versions)
    wrong = sorted({(row[0], version, row[2]) for version in versions for row in results[version]["wrong"]})
    if wrong:
        yield from ("## Wrong", "")
        yield from (f"- torch {version}: `{name}`: {detail}" for name, version, detail in wrong)


def _absent(results: dict[str, Rows]) -> dict[str, set[str]]:
    """Name → the versions that have it not."""
    found: dict[str, set[str]] = {}
    for version, rows in results.items():
        for name, *_ in rows[Verdict.ABSENT.value]:
            found.setdefault(name, set()).add(version)
    return found


def _partly(results: dict[str, Rows]) -> dict[str, set[str]]:
    return {name: gone for name, gone in _absent(results).items() if len(gone) < len(results)}


def _never(results: dict[str, Rows]) -> dict[str, set[str]]:
    return {name: gone for name, gone in _absent(results).items() if len(gone) == len(results)}


def _matrix(title: str, table: dict[str, set[str]], versions: Sequence[str]) -> Iterator[str]:
    if not table:
        return
    yield from (f"## {title}", "")
    if all(len(gone) == len(versions) for gone in table.values()):
        yield from (f"- `{name}`" for name in sorted(table))
    else:
        yield f"| name | {' | '.join(versions)} |"
        yield f"|---|{'---|' * len(versions)}"
        for name in sorted(table):
            cells = ["" if version in table[name] else "yes" for version in versions]
            yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""


def _still(rows: Rows) -> Rows:
    """Answers of an earlier run, about facts that the tables still have."""
    known = {(fact.name, fact.place) for fact in apifacts.all_facts()}
    return {verdict: [row for row in found if (row[0], row[1]) in known] for verdict, found in rows.items()}


def main() -> int:
    """Ask all versions, write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--results", type=Path, default=Path(tempfile.gettempdir()) / "portkit-verify-torch")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    for version in options.versions or newest():
        file = options.results / f"{version}.json"
        if file.exists():
            continue
        print(f"torch {version} ...", flush=True)
        try:
            file.write_text(json.dumps(ask(version), indent=1))
        except (PortkitError, subprocess.CalledProcessError) as error:
            print(f"torch {version}: {error}", file=sys.stderr)
    results = {file.stem: _still(json.loads(file.read_text())) for file in options.results.glob("*.json")}
    if not results:
        return 2
    PAGE.write_text(page(results))
    wrong = [f"{version}: {row}" for version, rows in results.items() for row in rows["wrong"]]
    print("\n".join(wrong) or f"{len(results)} versions, nothing wrong; {PAGE.relative_to(ROOT)} is written")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
