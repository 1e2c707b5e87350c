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


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (".gitlab-ci.yml", "train:\n  image: nvidia/cuda:12.1.0-base\n  tags:\n    - gpu\n", {"PK404"}),
        (".gitlab-ci.yml", "train:\n  tags: [gpu]\n  script:\n    - nvidia-smi\n", {"PK403"}),
        ("azure-pipelines.yml", "pool: gpu-pool\nsteps:\n- script: pip install triton\n", {"PK403", "PK401"}),
        (".circleci/config.yml", "jobs:\n  t:\n    resource_class: gpu.nvidia.small\n", {"PK403"}),
        ("Jenkinsfile", "agent { docker { image 'nvcr.io/nvidia/pytorch:23.10-py3' } } // gpu\n", {"PK404"}),
        ("Jenkinsfile", "sh 'pip install flash-attn'\n// sh 'nvidia-smi'\n", {"PK401"}),
        ("docker-compose.yml", "services:\n  a:\n    image: ubuntu\n    runtime: nvidia\n", {"PK403"}),
        ("k8s.yaml", "resources:\n  limits:\n    nvidia.com/gpu: 1\n", {"PK403"}),
        ("ds_config.json", '{"fp16": {"enabled": true}, "optimizer": {"type": "OneBitAdam"}}', {"PK402"}),
        ("conf/trainer.yaml", "trainer:\n  accelerator: gpu\n  devices: 4\n", {"PK402"}),
        ("pixi.toml", '[dependencies]\npytorch-cuda = "12.*"\n', {"PK401"}),
        ("env/gpu.yaml", "name: x\nchannels:\n  - nvidia\ndependencies:\n  - numpy\n", {"PK401"}),
        ("run.slurm", "#!/bin/bash\n#SBATCH -G 2\nsrun python a.py\n", {"PK403"}),
        ("run.pbs", "#PBS -l select=1:ngpus=4\n", {"PK403"}),
        ("model.args", "# for 8 GPUs\n--bf16\n--transformer-impl inference_optimized\n", {"PK403"}),
        ("model.args", "# --transformer-impl transformer_engine\n--transformer-impl local\n", set()),
        # what says nothing of CUDA
        (
            ".gitlab-ci.yml",
            "train:\n  image: python:3.12\n  tags:\n    - linux\n  script:\n    - pytest\n",
            set(),
        ),
        ("azure-pipelines.yml", "pool:\n  vmImage: ubuntu-latest\n# nvidia-smi\n", set()),
        (".circleci/config.yml", "jobs:\n  t:\n    resource_class: medium\n", set()),
        ("Jenkinsfile", "sh 'pytest' // nvidia-smi\n", set()),
        ("docker-compose.yml", "services:\n  a:\n    image: ubuntu\n    runtime: runc\n", set()),
        ("k8s.yaml", "resources:\n  limits:\n    cpu: 1\n", set()),
        ("ds_config.json", '{"bf16": {"enabled": true}, "fp16": {"enabled": false}}', set()),
        ("conf/trainer.yaml", "trainer:\n  accelerator: auto\n  devices: 4\n", set()),
        ("pixi.toml", '[dependencies]\npytorch-cpu = "*"\n[tasks]\ntriton = "run"\n', set()),
        ("mkdocs.yml", "nav:\n  - CUDA guide: cuda.md\n  - GPU: gpu.md\ntheme: cuda-docs\n", set()),
        ("package.json", '{"name": "gpu.js", "dependencies": {"gpu.js": "^2"}}', set()),
        ("run.pbs", "#PBS -l select=1:ncpus=4\n", set()),
        ("words.json", '["cuda", "gpu", "nvidia", "triton"]', set()),
        ("Makefile", "docs:\n\tmkdocs build  # the cuda guide\n", set()),
    ],
)
def test_files_of_other_tools(path: str, text: str, expected: set[str]) -> None:
    chosen = [rule for rule in RULES.values() if rule.id.startswith("PK4")]
    found = engine.check_text(text, path, kind_of(path), rules=chosen)
    assert {item.rule for item in found} == expected, [item.message for item in found]


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("docker run nvcr.io/nvidia/tritonserver:21.12-py3", "KIND_CPU"),
        ("docker run nvcr.io/nvidia/tritonserver:20.07-py3-clientsdk", "tritonclient"),
        ("docker run nvcr.io/nvidia/pytorch:21.12-py3", "python:3.12-slim"),
        ("python pretrain.py --transformer-impl transformer_engine", "--transformer-impl local"),
        ("python train.py --use-flash-attn", "Leave the option out"),
    ],
)
def test_remedies_fit_what_is_asked_for(line: str, remedy: str) -> None:
    found = engine.check_text(f"{line}\n", "run.sh", Kind.SHELL, rules=list(RULES.values()))
    assert any(remedy in item.remedy for item in found)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ('same = x.type() == "torch.cuda.FloatTensor"', "Compare the dtype"),
        ("make(torch.cuda.FloatTensor)", "Pass a dtype"),
    ],
)
def test_a_tensor_type_is_compared_or_passed(line: str, remedy: str) -> None:
    found = engine.check_text(f"import torch\n{line}\n", "a.py", Kind.PYTHON, rules=[RULES["PK104"]])
    assert [item.remedy.startswith(remedy) for item in found] == [True]


def test_a_patched_member_is_told_as_such() -> None:
    text = 'import torch\n\nmonkeypatch.setattr(torch.cuda.nvtx, "range_push", print)\n'
    found = engine.check_text(text, "a.py", Kind.PYTHON, rules=[RULES["PK314"]])
    assert [item.message for item in found] == ["torch.cuda.nvtx.range_push is patched"]
