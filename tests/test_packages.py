"""The table of packages: what is required and imported, in which version, and whether it needs CUDA."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from portkit import engine, packages, reports, requirements
from portkit.packages import Package
from portkit.source import load


def table(folder: Path, files: dict[str, str]) -> dict[str, Package]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {item.name: item for item in engine.scan([folder]).packages}


def required(name: str, text: str) -> list[tuple[str, str, int]]:
    return [(item.name, item.spec, item.line) for item in requirements.of_source(load(text.encode(), name))]


LISTED = """\
torch==2.1.0+cu118   # a comment
NumPy >= 1.2, < 2
-r other.txt
--extra-index-url https://example.com/whl/cu118
flash_attn @ git+https://example.com/x/flash-attention.git@v2
git+https://example.com/NVIDIA/apex.git@abc
-e git+https://example.com/CompVis/t.git@master#egg=taming
scipy ; python_version < "3"
transformers[torch]~=4.3
https://example.com/some-1.0-py3-none-any.whl
./local/package
"""


def test_requirements_files() -> None:
    assert required("requirements.txt", LISTED) == [
        ("torch", "==2.1.0+cu118", 1),
        ("numpy", ">= 1.2, < 2", 2),
        ("flash-attn", "@ git+https://example.com/x/flash-attention.git@v2", 5),
        ("apex", "@ git+https://example.com/NVIDIA/apex.git@abc", 6),
        ("taming", "@ git+https://example.com/CompVis/t.git@master#egg=taming", 7),
        ("scipy", "", 8),
        ("transformers", "~=4.3", 9),
    ]


def test_conda_environments() -> None:
    text = (
        "name: thing\nchannels:\n  - nvidia\n  - pytorch\ndependencies:\n  - python=3.8\n"
        "  - pytorch=1.11.0=py3.8_cuda11.3\n  - conda-forge::faiss-gpu>=1.7\n  - pip:\n    - apex==0.1\n"
        "    - -e git+https://example.com/openai/CLIP.git#egg=clip\nprefix: /opt/thing\n"
    )
    assert required("environment.yml", text) == [
        ("python", "=3.8", 6),
        ("pytorch", "=1.11.0", 7),
        ("faiss-gpu", ">=1.7", 8),
        ("apex", "==0.1", 10),
        ("clip", "@ git+https://example.com/openai/CLIP.git#egg=clip", 11),
    ]


def test_pyproject() -> None:
    text = (
        '[project]\nname = "apex"\ndependencies = [\n  "torch>=2",\n  "flash_attn==2.5.8",\n]\n'
        '[project.optional-dependencies]\ngpu = ["cupy-cuda12x"]\n'
        '[tool.poetry.dependencies]\npython = "^3.9"\nnumpy = "^1.2"\nscipy = { version = "1.3" }\n'
        '[tool.other]\nthing = ["xformers"]\n'
    )
    assert required("pyproject.toml", text) == [
        ("torch", ">=2", 4),
        ("flash-attn", "==2.5.8", 5),
        ("cupy-cuda12x", "", 8),
        ("numpy", ">=1.2", 11),
        ("scipy", "==1.3", 12),
    ]
    assert required("pyproject.toml", "[project\n") == []
    assert required("pyproject.toml", "project = 3\n[tool]\npoetry = [1]\n") == []


def test_tools_with_tables_of_their_own() -> None:
    text = (
        '[project]\ndependencies = [\n  "torchvision",\n  "torch>=2",\n]\n[dependency-groups]\ntrain = '
        '["apex==1", {include-group = "test"}]\n'
        '[tool.pdm.dev-dependencies]\ngpu = ["xformers==0.0.28"]\n'
        '[tool.uv]\ndev-dependencies = ["triton>=3"]\nno-build-isolation-package = ["flash-attn"]\n'
        '[tool.poetry.group.gpu.dependencies]\nbitsandbytes = {version = "0.43.0", optional = true}\n'
        'flash-attn = {git = "https://example.com/x/flash-attention"}\n'
        '[tool.hatch.envs.gpu]\nextra-dependencies = ["cupy-cuda12x"]\nfeatures = ["deepspeed"]\n'
        '[tool.pixi.feature.gpu.dependencies]\ncuda-version = "12.*"\n'
    )
    assert required("pyproject.toml", text) == [
        ("torchvision", "", 3),
        ("torch", ">=2", 4),
        ("apex", "==1", 7),
        ("bitsandbytes", "==0.43.0", 14),
        ("flash-attn", "@ git+https://example.com/x/flash-attention", 15),
        ("xformers", "==0.0.28", 9),
        ("triton", ">=3", 11),
        ("cupy-cuda12x", "", 17),
        ("cuda-version", "==12.*", 20),
    ]


def test_other_manifests() -> None:
    assert required(
        "Pipfile",
        '[[source]]\nname = "pypi"\n[packages]\ntorch = {version = "==2.1.0", index = "x"}\nxformers = "*"\n'
        '[dev-packages]\npytest = ">=7"\n[train]\nflash-attn = "==2.5"\n[scripts]\napex = "run"\n',
    ) == [("torch", "==2.1.0", 4), ("xformers", "", 5), ("pytest", ">=7", 7), ("flash-attn", "==2.5", 9)]
    assert required(
        "setup.cfg",
        "[metadata]\nname = x\n[options]\npackages = apex\ninstall_requires =\n    torch>=2  # why\n"
        "    flash-attn==2.1\n"
        "[options.extras_require]\ngpu = cupy>=1; python_version < '4'\n[tool:pytest]\nmarkers = triton\n",
    ) == [("torch", ">=2", 6), ("flash-attn", "==2.1", 7), ("cupy", ">=1", 9)]
    assert required("setup.cfg", "no section\n") == []
    assert required("Pipfile", "[packages\n") == []
    assert required("pixi.toml", '[dependencies]\ntorch = "2.1.*"\n[tasks]\napex = "run"\n') == [
        ("torch", "==2.1.*", 2)
    ]


def test_commands_that_install() -> None:
    text = (
        "FROM x\nRUN pip install --no-cache-dir -r requirements.txt && \\\n"
        "    pip3 install torch==1.8 -f https://d \\\n"
        "      'flash-attn==2.0'\nRUN conda install -c nvidia cudatoolkit=11.3 -y\n# pip install commented\n"
        "RUN python -m pip install . -e .[dev] $EXTRA wheels/x.whl\nRUN echo pip install said\n"
        "RUN uv pip install --index-strategy unsafe git+https://example.com/a/flash-attention.git\n"
        "RUN apt-get install gcc\n"
        "RUN pip install --prefix \"$(python -c 'import sys; print(sys.prefix)')\" x\n"
    )
    assert required("Dockerfile", text) == [
        ("torch", "==1.8", 3),
        ("flash-attn", "==2.0", 4),
        ("cudatoolkit", "=11.3", 5),
        ("flash-attn", "@ git+https://example.com/a/flash-attention.git", 9),
        ("x", "", 11),
    ]


def test_cells_that_install() -> None:
    sources = (
        "!pip install -q bitsandbytes==0.41",
        "%pip install apex",
        "print('pip install no')",
        "%%bash\npip install x",
    )
    cells = [{"cell_type": "code", "source": source} for source in sources]
    found = requirements.of_source(load(json.dumps({"cells": cells}).encode(), "a.ipynb"))
    assert [(item.name, item.cell) for item in found] == [("bitsandbytes", 0), ("apex", 1), ("x", 3)]


SETUP = """\
from setuptools import setup
needed = ["numpy", "flash-attn==2.1"]
setup(name="apex", install_requires=needed, extras_require={"gpu": ["cupy>=1"]}, keywords=["xformers"])
"""


def test_setup_py(tmp_path: Path) -> None:
    found = table(tmp_path, {"setup.py": SETUP})
    assert {name: [at.spec for at in item.declared] for name, item in found.items()} == {
        "flash-attn": ["==2.1"],
        "cupy": [">=1"],
        "numpy": [""],
        "setuptools": [],
    }


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        ("==2.5.8", "2.5.8"),
        ("=1.11.0", "1.11.0"),
        ("=1.11.0=py3", "1.11.0"),
        ("===1.0", "1.0"),
        ("==2.1.0+cu118", "2.1.0+cu118"),
        ("", None),
        (">=2", None),
        ("==2.*", None),
        ("==2,<3", None),
        ("@ git+https://example.com", None),
    ],
)
def test_only_exact_versions_are_pins(spec: str, version: str | None) -> None:
    assert requirements.pinned(spec) == version


# --- the table ---------------------------------------------------------------------------------------

FILES = {
    "requirements.txt": "flash-attn==2.5.8\nopencv-python\nPyYAML\ntorch==2.1+cu118\nnvidia-ml-py\n",
    "a.py": "import torch\nimport cv2, yaml\nfrom flash_attn import flash_attn_func\nimport os, json\n",
    "b.py": "import torch\ntry:\n    import flash_attn\nexcept ImportError:\n    pass\nfrom . import own\n",
    "c.py": "import torch\nimport helpers\nimport apexlike\nimport b\nfrom numba import cuda\n",
    "helpers/__init__.py": "",
    "plain.py": '"""import nonsense\nimport the thing.\n"""\nimport yaml as y, unheard\n',
}


def test_names_are_matched_and_files_counted(tmp_path: Path) -> None:
    found = table(tmp_path, FILES)
    assert set(found) == {
        *("flash-attn", "opencv-python", "pyyaml", "torch", "nvidia-ml-py", "apexlike", "numba.cuda")
    }
    flash = found["flash-attn"]
    assert (flash.cuda, flash.versions, flash.count, flash.guarded) == (packages.ONLY, ["2.5.8"], 2, 1)
    assert [(at.path, at.line, at.guarded) for at in flash.used] == [("a.py", 3, 0), ("b.py", 3, 1)]
    assert flash.imports == {"flash_attn"}
    assert flash.blocks
    assert "scaled_dot_product_attention" in flash.instead
    assert (found["torch"].cuda, found["torch"].versions) == (packages.BUILD, ["2.1+cu118"])
    assert (found["opencv-python"].cuda, found["opencv-python"].imports) == (packages.PORTABLE, {"cv2"})
    assert [at.sure for at in found["pyyaml"].used] == [True, False]
    assert (found["nvidia-ml-py"].cuda, found["nvidia-ml-py"].count) == (packages.ONLY, 0)
    assert found["apexlike"].cuda == packages.UNKNOWN
    assert [item.cuda for item in found.values()][:3] == [packages.ONLY] * 3


def test_an_optional_import_of_a_package_that_nothing_requires_does_not_block(tmp_path: Path) -> None:
    text = "import torch\ntry:\n    import apex\nexcept ImportError:\n    pass\n"
    found = table(tmp_path, {"a.py": text})
    assert (found["apex"].cuda, found["apex"].blocks) == (packages.ONLY, False)


def test_modules_of_the_project_are_no_packages(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        {
            "src/pkg/apex.py": "import torch\n",
            "src/pkg/train.py": "import torch\nimport apex\nimport pkg.apex\nimport tools\n",
            "tools.py": "import torch\n",
        },
    )
    assert set(found) == {"torch"}


def test_one_name_for_all_the_names_of_a_library(tmp_path: Path) -> None:
    found = table(
        tmp_path, {"requirements.txt": "flash_attn==1.0\nFlash-Attn==2.0\nspconv-cu113\nnvidia-cublas-cu12\n"}
    )
    assert {name: item.versions for name, item in found.items()} == {
        "flash-attn": ["1.0", "2.0"],
        "spconv-cu113": [],
        "nvidia-cublas-cu12": [],
    }


def test_reports_name_what_needs_cuda(tmp_path: Path) -> None:
    table(tmp_path, FILES)
    result = engine.scan([tmp_path])
    terminal = reports.render("terminal", result, width=200)
    assert (
        "4 need CUDA: flash-attn 2.5.8, numba.cuda, nvidia-ml-py (not imported), torch 2.1+cu118" in terminal
    )
    verbose = reports.render("terminal", result, verbose=True, width=200)
    assert "Packages of others" in verbose
    markdown = reports.render("markdown", result)
    assert "| <code>flash-attn</code> | 2.5.8 | 2 | 1 |" in markdown
    data = json.loads(reports.render("json", result))
    (flash,) = [item for item in data["dependencies"] if item["package"] == "flash-attn"]
    assert flash["required"] == [{"path": "requirements.txt", "cell": None, "line": 1, "spec": "==2.5.8"}]
    assert (flash["import_files"], flash["import_count"], flash["import_guarded"]) == (2, 2, 1)
