"""Write portkit/operators.txt and portkit/tensors.txt from the torch that is installed.

The first holds the public operators of torch that compute on tensors; the second what gives a tensor without
computing one (constructors, views, conversions).  The scan reads both, so that it never needs torch.
Names that other versions of torch have stay in: only names are added, never taken away.

Usage: build_operators.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

FOLDER = Path(__file__).parent.parent / "portkit"
NAMESPACES = ("torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Give a tensor, but move or make data instead of computing.
_MADE = _words(
    """
    arange as_tensor asarray bartlett_window blackman_window clone empty empty_like empty_permuted
    empty_strided eye from_dlpack from_file from_numpy frombuffer full full_like hamming_window
    hann_window kaiser_window linspace logspace ones ones_like rand rand_like randint randint_like
    randn randn_like randperm range scalar_tensor tensor tril_indices triu_indices zeros zeros_like
    complex polar new new_empty new_empty_strided new_full new_ones new_tensor new_zeros fftfreq
    rfftfreq sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor
    sparse_csc_tensor sparse_csr_tensor adjoint as_strided as_strided_ as_subclass conj contiguous
    copy_ detach detach_ expand expand_as flatten moveaxis movedim narrow permute pin_memory ravel
    reshape reshape_as resize_ resize_as_ resolve_conj resolve_neg select set_ squeeze squeeze_
    swapaxes swapaxes_ swapdims swapdims_ t t_ transpose transpose_ unflatten unsafe_chunk unsqueeze
    unsqueeze_ view view_as view_as_complex view_as_real alias bfloat16 bool byte cdouble cfloat
    chalf char cpu cuda double float half int ipu long short to type type_as xpu requires_grad_
    share_memory_
    """
)
# Have no tensor as their result, or are no operators at all.
_NEITHER = _words(
    """
    apply_ backward broadcast_shapes can_cast compile crow_indices data_ptr dense_dim dim dim_order
    element_size fork from_buffer get_device get_default_dtype import_ir_module init_num_threads
    item load manual_seed map2_ map_ merge_type_from_type_comment module_load numel nelement
    nonzero_static numpy output_nr parse_ir parse_schema parse_type_comment
    prepare_multiprocessing_environment promote_types record_stream reinforce result_type resize
    resize_as register_hook retain_grad save seed initial_seed storage storage_offset storage_type
    size sparse_dim stride sym_constrain_range sym_constrain_range_for_size sym_fresh_size sym_int
    sym_float sym_ite sym_max sym_min sym_not sym_sqrt sym_sum thread_safe_generator tolist
    to_dlpack typename unify_type_list untyped_storage vmap wait while_loop int_repr qscheme
    ndimension mtia classproperty assert_int_or_pair boolean_dispatch handle_torch_function
    has_torch_function has_torch_function_unary has_torch_function_variadic
    autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
    compiled_with_cxx11_abi profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 typing_extensions
    """
)
# Gone from torch and from Tensor (torch.linalg has them still).
_GONE = _words(
    """
    cond eig lstsq matrix_rank solve symeig
    """
)
_NEITHER_STARTS = ("is_", "get_", "set_", "q_", "import_", "use_", "are_", "sym_", "_", "cudnn_is")
# Modules of torch that hold operators written in Python.
_PYTHON = (
    *("torch.functional", "torch.nn.functional", "torch._jit_internal", "torch._VF"),
    *("torch._lowrank", "torch._lobpcg"),
)
_NO_OPERATOR = _words(
    """
    Buffer Container DataParallel Flatten Identity Module ModuleDict ModuleList Parameter
    ParameterDict ParameterList Sequential Unflatten UninitializedBuffer UninitializedParameter
    LinearCrossEntropyOptions
    """
)


def _members(namespace: str) -> Iterator[str]:
    holder = torch
    for part in namespace.split(".")[1:]:
        holder = getattr(holder, part)
    for name in dir(holder):
        value = getattr(holder, name, None)
        if not name.startswith("_") and callable(value) and not isinstance(value, type):
            yield name


def _is_neither(namespace: str, name: str) -> bool:
    gone = name in _GONE and namespace != "torch.linalg"
    return gone or name in _NEITHER or name.startswith(_NEITHER_STARTS)


def tables() -> tuple[set[str], set[str]]:
    """Names that compute, and names that only make tensors."""
    compute, made = set(), set()
    for namespace in NAMESPACES:
        for name in _members(namespace):
            if namespace in ("torch", "torch.nn.functional") and not _takes_tensors(namespace, name):
                continue
            if name in _MADE:
                made.add(f"{namespace}.{name}")
            elif not _is_neither(namespace, name):
                compute.add(f"{namespace}.{name}")
    for name in dir(torch.nn):
        value = getattr(torch.nn, name)
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and name not in _NO_OPERATOR:
            compute.add(f"torch.nn.{name}")
    made.update(("torch.nn.Parameter", "torch.nn.Buffer", "torch.Tensor", "torch.nn.UninitializedParameter"))
    return compute, made


def _takes_tensors(namespace: str, name: str) -> bool:
    """Whether a function of a crowded namespace is an operator: native, or known to be one in Python."""
    if name in _MADE:
        return True
    holder = torch if namespace == "torch" else torch.nn.functional
    value = getattr(holder, name)
    module = getattr(value, "__module__", "") or ""
    native = type(value).__name__ == "builtin_function_or_method" and module in ("", "torch._C._nn", "torch")
    return native or module in _PYTHON


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="Write nothing; fail where a name is missing.")
    check = parser.parse_args().check
    status = 0
    for file, names in zip(("operators.txt", "tensors.txt"), tables(), strict=True):
        path = FOLDER / file
        before = set(path.read_text(encoding="ascii").split()) if path.exists() else set()
        new = names - before
        if check and new:
            print(f"{file} lacks {', '.join(sorted(new))}", file=sys.stderr)
            status = 1
        elif not check:
            path.write_text("".join(f"{name}\n" for name in sorted(before | names)), encoding="ascii")
    return status


if __name__ == "__main__":
    sys.exit(main())
