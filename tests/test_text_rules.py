"""Files that are not Python: kinds by name, command lines, kernels in text."""

from __future__ import annotations

import pytest

from portkit import engine
from portkit.analyzers import _commands, _cuda_text
from portkit.cells import Unit
from portkit.context import UnitContext
from portkit.ruleset import all_rules
from portkit.source import Kind, kind_of

RULES = {rule.id: rule for rule in all_rules()}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("requirements/gpu.txt", Kind.REQUIREMENTS),
        ("requirements/CMakeLists.txt", Kind.CMAKE),
        ("docs/notes.txt", Kind.OTHER),
        ("conda/meta.yaml", Kind.REQUIREMENTS),
        ("Pipfile", Kind.TOML),
        ("uv.lock", Kind.TOML),
        ("csrc/CMakeLists.txt", Kind.CMAKE),
        ("cmake/FindNCCL.cmake", Kind.CMAKE),
        ("Makefile", Kind.MAKE),
        ("Jenkinsfile", Kind.SHELL),
        (".env", Kind.SHELL),
        ("setup.cfg", Kind.INI),
        ("image.def", Kind.DOCKERFILE),
    ],
)
def test_kinds_of_files(name: str, kind: Kind) -> None:
    assert kind_of(name) is kind


def _lines(text: str, kind: Kind = Kind.SHELL, path: str = "x") -> list[str]:
    ctx = UnitContext(path, kind, Unit(text, None), "compute", None)
    lines = list(_commands.commands(ctx))
    assert all(len(line.text) <= len(text) - line.start for line in lines)
    return [" ".join(line.text.split()) for line in lines if line.text.strip()]


def test_a_continued_line_is_one_command_and_keeps_its_places() -> None:
    text = "pip install a \\\n  # why\n  b \\\r\n  c\nls # x\n"
    assert _lines(text) == ["pip install a b c", "ls"]
    ctx = UnitContext("x", Kind.SHELL, Unit(text, None), "compute", None)
    first = next(_commands.commands(ctx))
    assert text[first.start + first.text.index(" c") :].startswith(" c\nls")


def test_a_hash_in_quotes_or_in_a_word_is_no_comment() -> None:
    assert _lines("a '# b' c#d # e\n") == ["a '# b' c#d"]


def test_what_is_only_printed_is_no_command() -> None:
    assert _lines('echo "nvidia-smi"\necho "export X=1" >> ~/.bashrc\n') == ['echo "export X=1" >> ~/.bashrc']


def test_lines_of_a_notebook_that_go_to_the_shell() -> None:
    assert _lines("import x\n!pip install a\ny = !ls\n", Kind.NOTEBOOK) == ["!pip install a", "y = !ls"]
    assert _lines("%%bash\npip install a\n", Kind.NOTEBOOK) == ["%%bash", "pip install a"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("__global__ void f(int *x) { x[0] = 1; }", ["f"]),
        ("template <typename T> __global__ void __launch_bounds__(N * (2 + 1), 2) f(T x) {}", ["f"]),
        ("__global__ void __cluster_dims__(2, 1, 1) f(int x)\n{ if (x) { x = 1; } }", ["f"]),
        ('extern "C" __global__ void\nf(const float *__restrict__ x) {}', ["f"]),
        ("#define D(N) __global__ void N##_fwd(int x) {}", ["N##_fwd"]),
        ("__global__ static inline void f(dim3 a = dim3(1, 2)) {}", ["f"]),
        ('const char *s = "__global__ void f() {}"; // __global__ void g() {}', []),
        ("/* __global__ void f() {} */ void g() {}", []),
        ("__global__", []),
        ("__global__ void f(", ["f"]),  # cut off: what is there is told
        ('auto s = R"(__global__ void f() {})";', []),
    ],
)
def test_kernels_in_text(text: str, names: list[str]) -> None:
    assert [item.name for item in _cuda_text.kernels(_cuda_text.code(text))] == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("f<<<1, 2>>>(x);", ["f"]),
        ("ns::f<T, Pair<int, 4>> <<<g, b, 0, s>>>(x);", ["f"]),
        ("cout << a << b;", []),
        ("<<<<<<< HEAD\nint x;\n=======\n>>>>>>> main", []),
        ('log("f<<<1, 2>>>");', []),
        ("<<<1, 2>>>(x)", []),
    ],
)
def test_launches_in_text(text: str, names: list[str]) -> None:
    assert [item.name for item in _cuda_text.launches(_cuda_text.code(text))] == names


def test_a_lock_file_is_one_finding() -> None:
    text = "".join(
        f'[[package]]\nname = "{name}"\nversion = "1"\n\n' for name in ("torch", "triton", "numpy")
    )
    text += "".join(f'[[package]]\nname = "nvidia-lib{i}-cu12"\n' for i in range(9))
    found = engine.check_text(text, "uv.lock", Kind.TOML, rules=list(RULES.values()))
    assert [item.rule for item in found] == ["PK401"]
    assert "10 packages" in found[0].message


@pytest.mark.parametrize("rule", ["PK401", "PK402", "PK403", "PK404", "PK405", "PK406", "PK407"])
def test_broken_text_raises_nothing(rule: str) -> None:
    for text in (
        "",
        "\n",
        "\\",
        "cuda\\",
        "FROM",
        "__global__ void f((((",
        "[",
        "key:",
        "<<<",
        "f<<<",
        "a\0b",
        "ARG =",
    ):
        for kind in Kind:
            if kind not in (Kind.PYTHON, Kind.NOTEBOOK):
                engine.check_text(text + " cuda nvidia __global__ gpu", "x", kind, rules=[RULES[rule]])
