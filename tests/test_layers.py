"""Who may import whom, what stays unloaded, and that each rule, operator and target has its fixture."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "portkit"
# what sits above both halves, and the other half; everything else in the package is the scan half
ABOVE = frozenset(
    {"cli", "parity", "templates", "gate", "demo", "run", "kernels", "keeping", "__init__", "__main__"}
)
SCAN_HALF = sorted(
    {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    - {*ABOVE, "runtime"}
)
HEAVY = ("torch", "llvmlite")


def _imports(path: Path) -> set[str]:
    """Every module name that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _files(*parts: str) -> list[Path]:
    found: list[Path] = []
    for part in parts:
        found += (PACKAGE / part).rglob("*.py") if (PACKAGE / part).is_dir() else [PACKAGE / f"{part}.py"]
    return sorted(path for path in found if path.exists())


def _id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", _files(*SCAN_HALF), ids=_id)
def test_scan_half_never_imports_the_runtime(path: Path) -> None:
    imported = _imports(path)
    assert not [name for name in imported if name.startswith("portkit.runtime")]
    assert not [name for name in imported if name.partition(".")[0] in HEAVY]


@pytest.mark.parametrize("path", _files("runtime"), ids=_id)
def test_runtime_half_imports_only_itself_and_errors(path: Path) -> None:
    allowed = ("portkit.runtime", "portkit.errors", "portkit.plugins", "portkit.__version__")
    ours = [name for name in _imports(path) if name.startswith("portkit.")]
    assert not [name for name in ours if not name.startswith(allowed)]


@pytest.mark.parametrize("path", _files("cli"), ids=_id)
def test_commands_import_only_light_modules_at_the_top(path: Path) -> None:
    light = {"__future__", "typer", "portkit", "portkit.errors", "portkit.plugins"}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {node.module or ""}
        else:
            continue
        assert all(name in light or name.partition(".")[0] in sys.stdlib_module_names for name in names)


def _loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def _cli(*arguments: str) -> str:
    return (
        "import io, contextlib\nfrom portkit.cli import run\n"
        f"with contextlib.redirect_stdout(io.StringIO()): run({list(arguments)!r})"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import portkit",
        "import portkit.engine",
        "import portkit.runtime",
        "import portkit.parity",
        _cli("--help"),
        _cli("scan", "fixtures/projects/minigpt", "--format", "json"),
        _cli("migrate", "fixtures/projects/minigpt", "--phase", "full-model"),
        _cli("rules"),
    ],
)
def test_torch_and_llvmlite_stay_unloaded(code: str) -> None:
    assert not _loaded_after(code) & set(HEAVY)


def test_help_loads_no_libcst_and_no_numpy() -> None:
    assert not _loaded_after(_cli("--help")) & {"libcst", "numpy", "jinja2"}


def _modules(folder: str) -> list[Path]:
    return [path for path in sorted((PACKAGE / folder).glob("*.py")) if not path.name.startswith("_")]


@pytest.mark.parametrize("path", [*_modules("analyzers"), *_modules("rewriters")], ids=_id)
def test_each_rule_has_a_fixture(path: Path) -> None:
    values = {
        target.id: node.value.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    folder = ROOT / "fixtures" / "rules" / str(values["id"])
    assert (folder / "report.txt").exists()
    assert list(folder.glob("before.*"))
    assert values["name"] == path.stem


@pytest.mark.parametrize("path", _modules("runtime/ops"), ids=_id)
def test_each_operator_has_its_data(path: Path) -> None:
    assert path.with_suffix(".toml").exists()


@pytest.mark.parametrize("path", _modules("runtime/targets"), ids=_id)
def test_each_target_has_a_fixture(path: Path) -> None:
    assert list((ROOT / "fixtures" / "targets").glob(f"{path.stem}.*"))
