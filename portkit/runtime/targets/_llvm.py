"""The only door to llvmlite's set-up: targets are initialised once, and modules are checked before use."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portkit.runtime.targets._target import Target


@lru_cache(maxsize=1)
def binding() -> Any:
    """llvmlite.binding with every target and assembly printer initialised."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    return llvm


def versions() -> str:
    """The versions of llvmlite and of the LLVM inside it, as one string: part of every cache key."""
    import llvmlite

    return f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, binding().llvm_version_info))}"


def host() -> tuple[str, str, str]:
    """Triple, processor name and feature string of this machine."""
    llvm = binding()
    return (
        str(llvm.get_process_triple()),
        str(llvm.get_host_cpu_name()),
        str(llvm.get_host_cpu_features().flatten()),
    )


@lru_cache(maxsize=32)
def target_machine(target: Target, opt: int) -> Any:
    """A target machine that makes position-independent code."""
    family = binding().Target.from_triple(target.triple)
    return family.create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=opt,
        reloc="pic",
        codemodel="default",
        abiname=target.abi,
    )


def parse(target: Target, text: str) -> Any:
    """A verified module for the target; its triple is set, its data layout is the target's.

    Raises RuntimeError (llvmlite's own) when the text is not valid LLVM IR.
    """
    module = binding().parse_assembly(text)
    module.triple = target.triple
    module.data_layout = str(target_machine(target, 3).target_data)
    module.verify()
    return module
