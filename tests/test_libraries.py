"""The tables of packages that need CUDA, and how names and requirements are looked up in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from portkit import engine, tables
from portkit.analyzers import _libraries
from portkit.finding import Finding, Phase
from portkit.ruleset import all_rules

TABLES = sorted((tables.FOLDER / "libraries").glob("*.toml"))
RULES = {rule.id: rule for rule in all_rules()}
KEYS = {
    "imports",
    "requirements",
    "what",
    "instead",
    "phase",
    "effort",
    "only_listed",
    "kernels",
    "by",
    "partly",
    "use",
}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_each_row_says_what_a_name_is_and_what_to_do(path: Path) -> None:
    for package in tables.read(path)["package"]:
        assert set(package) <= KEYS, package
        assert package["what"]
        assert package["instead"].endswith((".", ")."))
        assert package["effort"] > 0
        assert package["imports"] or package["requirements"]
        seen: set[str] = set()
        for use in package.get("use", ()):
            assert set(use) <= {"names", "what", "instead", "phase", "effort"}, use
            assert use["names"]
            assert use["what"]
            assert use["instead"].endswith((".", ")."))
            assert use["effort"] > 0
            assert not seen.intersection(use["names"]), (package["imports"], seen.intersection(use["names"]))
            seen.update(use["names"])


def test_no_import_name_stands_in_two_tables() -> None:
    names = [name for library in _libraries.libraries() for name in library.imports]
    assert len(names) == len(set(names))


def test_other_rules_that_look_at_imports_exist() -> None:
    names = {rule.name for rule in RULES.values()}
    assert {library.by for library in _libraries.libraries() if library.by} <= names


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("flash_attn.flash_attn_func", "flash_attn_func"),
        ("flash_attn.flash_attn_interface.flash_attn_func", "flash_attn_func"),
        ("flash_attn_interface.flash_attn_varlen_func", "flash_attn_varlen_func"),
        ("apex.amp.initialize", "amp.initialize"),
        ("apex.optimizers.fused_adam.FusedAdam", "FusedAdam"),
        ("apex.contrib.optimizers.distributed_fused_adam.DistributedFusedAdam", "DistributedFusedAdam"),
        ("apex.parallel.SyncBatchNorm.convert", "parallel.SyncBatchNorm"),
        ("apex.transformer.parallel_state.initialize_model_parallel", "transformer.parallel_state"),
        ("bitsandbytes.nn.modules.Linear4bit", "nn.Linear4bit"),
        ("bitsandbytes.optim.adamw.AdamW8bit", "optim.AdamW8bit"),
        ("nvidia.dali.fn.readers.file", "fn.readers"),
        ("nvidia.dali.fn.random.uniform", "fn.uniform"),
        ("nvidia.dali.ops.random.CoinFlip", "ops.random.CoinFlip"),
        ("nvidia.dali.fn.decoders.audio", "fn.decoders.audio"),
        ("nvidia.dali.fn.decoders.image", "fn.decoders"),
        ("nvidia.dali.fn.mel_filter_bank", "fn.mel_filter_bank"),
        ("nvidia.dali.fn.cast", "fn.cast"),
        ("nvidia.dali.fn.resize", "fn"),
        ("apex.pyprof.nvtx.init", "pyprof"),
        ("apex.parallel.DistributedDataParallel", "parallel.DistributedDataParallel"),
        ("cudf.from_pandas", "from_pandas"),
        ("dask_cudf.from_cudf", "from_cudf"),
        ("cudf.io.parquet.ParquetWriter", "io"),
        ("nvtabular.utils.device_mem_size", "device_mem_size"),
        ("transformer_engine.pytorch.Fp8Unpadding", "Fp8Unpadding"),
        ("transformer_engine.pytorch.optimizers.multi_tensor_scale", "multi_tensor_scale"),
        ("transformer_engine.pytorch.optimizers.FusedSGD", "FusedSGD"),
        (
            "transformer_engine.pytorch.attention.rope.apply_fused_qkv_rotary_pos_emb",
            "apply_fused_qkv_rotary_pos_emb",
        ),
        ("transformer_engine.pytorch.distributed.gather_along_first_dim", "gather_along_first_dim"),
        ("flash_attn_interface.get_scheduler_metadata", "get_scheduler_metadata"),
        ("cumm.tensorview.from_numpy", "tensorview"),
        ("transformer_engine.pytorch.router.fused_moe_aux_loss", "fused_moe_aux_loss"),
        ("transformer_engine.pytorch.permutation.moe_permute", "moe_permute"),
        ("numba.cuda.jit", "jit"),
        ("cupy.cuda.Stream.null.use", "cuda.Stream"),
        ("transformer_engine.pytorch.Linear", "Linear"),
        ("faiss.StandardGpuResources", "StandardGpuResources"),
    ],
)
def test_the_row_that_fits_a_name_best(name: str, row: str) -> None:
    library = _libraries.needs_cuda(name)
    assert library is not None
    use = _libraries.use_of(library, name)
    assert use is not None
    assert use.name == row


@pytest.mark.parametrize(
    "name",
    [
        "faiss.IndexFlatL2",
        "mmcv.imread",
        "onnxruntime.InferenceSession",
        "dgl.graph",
        "numba.njit",
        "nvidia_smile.x",
        "cuda.helpers.f",
        "vllm.LLM",
        "pytorch3d.structures.Meshes",
        "detectron2.config.get_cfg",
        "torch.nn.Linear",
        "apexcharts.draw",
    ],
)
def test_names_that_need_no_cuda(name: str) -> None:
    assert _libraries.needs_cuda(name) is None


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("flash_attn", "flash_attn"),
        ("Flash.Attn", "flash_attn"),
        ("nvidia-cublas-cu12", "nvidia"),
        ("nvidia-dali-cuda120", "nvidia.dali"),
        ("nvidia-docker2", "nvidia-docker*"),
        ("nvidia-pyindex", "nvidia-pyindex"),
        ("nvidia-nccl-cu12", "nvidia"),
        ("dask-cuda", "dask_cuda"),
        ("cuml-cu12", "cuml"),
        ("nvidia-container-toolkit", "nvidia-docker*"),
        ("nvidia-ml-py", "pynvml"),
        ("nvidia_modelopt", "modelopt"),
        ("cupy-cuda12x", "cupy"),
        ("spconv-cu118", "spconv"),
        ("onnxruntime-gpu", "onnxruntime"),
        ("tensorflow-gpu", "tensorflow-gpu"),
        ("pytorch-cuda", "cudatoolkit"),
    ],
)
def test_requirements_are_found(name: str, package: str) -> None:
    library = _libraries.of_requirement(name)
    assert library is not None
    assert library.package == package


@pytest.mark.parametrize(
    "name", ["torch", "numpy", "onnxruntime", "tritonclient", "cudos", "faiss-cpu", "mmcv", "flash", "jax"]
)
def test_requirements_that_need_no_cuda(name: str) -> None:
    assert _libraries.of_requirement(name) is None


def _found(text: str) -> list[Finding]:
    return engine.check_text(text, rules=[RULES["PK102"]])


def test_a_function_is_told_once_a_file_with_the_number_of_its_places() -> None:
    calls = "".join(f"y{i} = flash_attn_varlen_func(x)\n" for i in range(5))
    found = _found(f"from flash_attn import flash_attn_varlen_func\n{calls}")
    assert [(item.location.line, item.occurrences) for item in found] == [(1, 1), (2, 5)]
    assert found[1].message.endswith("(5 places in this file)")
    assert found[1].effort.minutes == 120 + 4 * 2


def test_a_place_that_is_suppressed_does_not_count_and_hides_no_other() -> None:
    text = (
        "from apex import amp\n"
        "amp.initialize(a)  # portkit: ignore[PK102] kept\n"
        "amp.initialize(b)\n"
        "amp.initialize(c)\n"
    )
    found = _found(text)
    assert [(item.rule, item.location.line, item.occurrences) for item in found] == [
        ("PK102", 1, 1),
        ("PK102", 3, 2),
    ]


def test_the_id_of_a_function_stays_when_another_place_comes_first() -> None:
    one = "from apex import amp\n\n\ndef f():\n    amp.initialize(a)\n"
    more = "from apex import amp\n\n\ndef e():\n    amp.initialize(x)\n\n\ndef f():\n    amp.initialize(a)\n"
    assert [item.id for item in _found(one)] == [item.id for item in _found(more)]


def test_phase_and_effort_come_from_the_row() -> None:
    found = _found("import apex\napex.parallel.DistributedDataParallel(m)\napex.normalization.other(x)\n")
    assert [item.phase for item in found] == [Phase.OPERATOR, Phase.FULL_MODEL, Phase.MODULE]


def test_asking_whether_a_function_is_there_is_no_use_of_it() -> None:
    text = (
        "try:\n    from flash_attn import flash_attn_varlen_func as f\nexcept ImportError:\n    f = None\n"
        "if f is not None and f:\n    pass\n"
    )
    assert [item.support.value for item in _found(text)] == ["portable"]


def test_a_kernel_is_one_finding_whatever_it_calls() -> None:
    text = (
        "from numba import cuda\n\n\n@cuda.jit\ndef k(x):\n    i = cuda.grid(1)\n    cuda.syncthreads()\n\n\n"
        "@cuda.jit('void(f4[:])')\ndef g(x):\n    cuda.grid(1)\n"
    )
    assert [item.message for item in _found(text)][1:] == [
        "k is a kernel for numba.cuda: kernels that are compiled for CUDA",
        "g is a kernel for numba.cuda: kernels that are compiled for CUDA",
    ]


def test_a_project_that_is_a_library_itself_does_not_depend_on_it(tmp_path: Path) -> None:
    (tmp_path / "apex").mkdir()
    (tmp_path / "apex" / "__init__.py").write_text("")
    (tmp_path / "apex" / "amp.py").write_text("def initialize(x):\n    return x\n")
    (tmp_path / "train.py").write_text("from apex import amp\nimport cupy\namp.initialize(cupy.zeros(1))\n")
    found = engine.scan([tmp_path], rules=[RULES["PK102"]]).findings
    assert [item.qualified_name for item in found] == ["cupy", "cupy.zeros"]


def test_a_folder_of_scripts_about_a_library_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "deepspeed").mkdir()
    (tmp_path / "deepspeed" / "launch.py").write_text("import deepspeed\n")
    (tmp_path / "train.py").write_text("import deepspeed\n")
    found = engine.scan([tmp_path], rules=[RULES["PK102"]]).findings
    assert [item.location.path for item in found] == ["deepspeed/launch.py", "train.py"]


def test_a_decorator_that_compiles_nothing_makes_no_kernel() -> None:
    text = "from fla.utils import input_guard\n\n\n@input_guard\ndef forward(x):\n    return x\n"
    assert [item.message for item in _found(text)][1:] == [
        "fla.utils.input_guard needs CUDA: helpers around Triton (fla)"
    ]


def test_names_about_cuda_are_told_of_modules_that_the_project_lacks(tmp_path: Path) -> None:
    """A submodule that was not fetched is another's code; a module in any folder is the project's own."""
    files = {
        "code/pkg/__init__.py": "",
        "code/pkg/utils.py": "def move_to_cuda(x):\n    return x\n",
        "train.py": "from pkg.utils import move_to_cuda\nfrom pkg.megatron.mpu import get_cuda_rng\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = [item.location.line for item in engine.scan([tmp_path]).findings if item.rule == "PK334"]
    assert found == [2]


def test_a_name_that_is_only_tested_or_annotated_costs_little() -> None:
    """The work is where something of the library runs."""
    text = (
        "from apex.optimizers import FusedLAMB\n"
        "def state(optimizer: FusedLAMB):\n    return isinstance(optimizer, FusedLAMB)\n"
        "def make(params):\n    return FusedLAMB(params)\n"
    )
    found = [item for item in engine.check_text(text) if item.rule == "PK102"]
    minutes = {item.location.line: item.effort.minutes for item in found}
    assert minutes[2] <= 5 < minutes[5]
    assert minutes.get(3, 0) <= 5


def test_an_import_for_type_checkers_alone_asks_for_nothing() -> None:
    text = "import typing\n\nif typing.TYPE_CHECKING:\n    import apex\nelse:\n    import flash_attn\n"
    assert [(item.support.value, item.effort.minutes > 0) for item in _found(text)] == [
        ("portable", False),
        ("manual", True),
    ]


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("dask_cuda.LocalCUDACluster", "LocalCluster"),
        ("cuvs.neighbors.cagra", "faiss-cpu"),
        ("pylibraft.random.rmat", "networkx"),
        ("emerging_optimizers.scalar_optimizers.Lion", "torch.optim"),
        ("nvidia_resiliency_ext.fault_tolerance.RankMonitorClient", "max-restarts"),
        ("cuml.cluster.KMeans", "scikit-learn"),
    ],
)
def test_parts_of_rapids_have_the_counterparts_of_their_own(name: str, instead: str) -> None:
    library = _libraries.needs_cuda(name)
    assert library is not None
    use = _libraries.use_of(library, name)
    assert instead in (use.instead if use else library.instead)
