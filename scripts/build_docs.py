"""Build `docs/rules` and `docs/operators` from the sources.

Usage: build_docs.py [--check]    (--check: write nothing, exit 1 if a page is missing, stale or orphaned)
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from typing import Any

from portkit import plugins
from portkit.rule import Rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTICE = "<!-- Made by scripts/build_docs.py from the source: edit that, then run it. -->\n"
HEADINGS = ("What:", "Why:", "Instead:", "Safety:")


def rules() -> list[type[Rule]]:
    """Every rule of the two folders, by id."""
    found = [
        value
        for folder in ("portkit.analyzers", "portkit.rewriters")
        for module in plugins.modules(folder)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__
    ]
    return sorted(found, key=lambda rule: rule.id)


def _fixture(rule: type[Rule], stem: str) -> str:
    for path in sorted((ROOT / "fixtures" / "rules" / rule.id).glob(f"{stem}.*")):
        return f"```{path.suffix.lstrip('.')}\n{path.read_text().rstrip()}\n```\n"
    return ""


def rule_page(rule: type[Rule]) -> str:
    """The page of one rule: its docstring, and its fixture as the example."""
    lines = inspect.cleandoc(rule.__doc__ or "").splitlines()
    body = "\n".join(
        f"\n## {line.strip().rstrip(':')}\n" if line.strip() in HEADINGS else line for line in lines
    )
    for heading in HEADINGS:
        body = body.replace(f"\n{heading} ", f"\n\n## {heading.rstrip(':')}\n\n")
    folder = rule.__module__.split(".")[1]
    kind = "reports and replaces" if folder == "rewriters" else "reports only"
    parts = [
        NOTICE,
        f"# {rule.id} {rule.name}\n",
        f"Phase **{rule.phase.value}**, {kind}. Source: `portkit/{folder}/{rule.name}.py`.\n",
        body.strip() + "\n",
        "## Example\n\nBefore:\n",
        _fixture(rule, "before"),
    ]
    after = _fixture(rule, "after")
    return "\n".join([*parts, *(["After:\n", after] if after else [])])


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _docstrings(path: Path) -> tuple[str, list[tuple[str, str]]]:
    """A module's docstring, and the signature and docstring of each public function or class in it."""
    tree = ast.parse(path.read_text())
    entries: list[tuple[str, str]] = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        text = ast.get_docstring(node)
        if text is None or (isinstance(node, ast.FunctionDef) and node.decorator_list):
            continue
        arguments = f"({ast.unparse(node.args)})" if isinstance(node, ast.FunctionDef) else ""
        entries.append((f"{node.name}{arguments}", text))
    return ast.get_docstring(tree) or "", entries


def _replaced(entry: dict[str, Any], fallback: str) -> str:
    notes = [f"`{key}`: {why}" for key, why in entry.get("refuse", {}).items()]
    left = "; ".join(notes).replace("|", "\\|") or ""
    return (
        f"| `{entry['name']}` | `{entry.get('to', fallback)}` | {entry.get('tier', 'compute')} "
        f"| {entry.get('support', 'auto')} | {left} |"
    )


def operator_page(data: Path) -> str:
    """The page of one operator or module: what it computes and what it replaces."""
    facts = tomllib.loads(data.read_text())
    summary, entries = _docstrings(data.with_suffix(".py"))
    parts = [NOTICE, f"# {facts['name']}\n", summary + "\n"]
    public = {facts["name"], *(entry.get("to", facts["name"]) for entry in facts.get("replaces", []))}
    public |= {"reference", "reference_backward"}
    for signature, text in entries:
        if signature.partition("(")[0] not in public:
            continue  # allocate, forward, takes ...: parts that the operator's table holds together
        parts += [f"## `{signature}`\n", f"```text\n{text}\n```\n"]
    replaced = [_replaced(entry, facts["name"]) for entry in facts.get("replaces", [])]
    if replaced:
        parts += [
            "## Replaces\n",
            "| original | becomes | tier | support | refused when given |\n|---|---|---|---|---|",
            "\n".join(replaced) + "\n",
        ]
    return "\n".join(parts)


def pages() -> dict[Path, str]:
    """Path under docs/ → text, for every generated page."""
    built: dict[Path, str] = {}
    index = [NOTICE, "# Rules\n", "| id | name | phase | summary |\n|---|---|---|---|"]
    for rule in rules():
        built[DOCS / "rules" / f"{rule.id}.md"] = rule_page(rule)
        index.append(
            f"| [{rule.id}]({rule.id}.md) | {rule.name} | {rule.phase.value} | {_first_line(rule.__doc__)} |"
        )
    built[DOCS / "rules" / "index.md"] = "\n".join(index) + "\n"
    index = [
        NOTICE,
        "# Operators and modules\n",
        "| name | forward | backward | summary |\n|---|---|---|---|",
    ]
    for folder in ("ops", "nn"):
        for data in sorted((ROOT / "portkit" / "runtime" / folder).glob("*.toml")):
            name = f"{folder}.{data.stem}"
            facts = tomllib.loads(data.read_text())
            built[DOCS / "operators" / f"{name}.md"] = operator_page(data)
            summary, _ = _docstrings(data.with_suffix(".py"))
            marks = ["yes" if facts.get(key) else "no" for key in ("forward", "backward")]
            index.append(f"| [{name}]({name}.md) | {marks[0]} | {marks[1]} | {_first_line(summary)} |")
    built[DOCS / "operators" / "index.md"] = "\n".join(index) + "\n"
    return built


def main() -> int:
    """Write the pages, or check that they are up to date."""
    built = pages()
    present = {path for folder in ("rules", "operators") for path in (DOCS / folder).glob("*.md")}
    orphans = sorted(present - built.keys())
    stale = [path for path, text in built.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in [*stale, *orphans]:
            print(f"{path.relative_to(ROOT)}: out of date; run python scripts/build_docs.py", file=sys.stderr)
        return 1 if stale or orphans else 0
    for path in orphans:
        path.unlink()
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(built[path])
    print(f"{len(built)} pages, {len(stale)} written, {len(orphans)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
