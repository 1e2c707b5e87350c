"""Imports from packages that no table knows, of things that are about CUDA by their names."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable

from portkit.analyzers import _libraries
from portkit.finding import Finding, Phase, Support
from portkit.rewriters import _sites
from portkit.rewriters.cuda_extension_build import may_be_compiled
from portkit.rule import Context, Rule

_TOLD_ELSEWHERE = frozenset({"torch", "triton", "numba", "cupy", "portkit"})
_ABOUT = re.compile(r"(?<![A-Za-z])cuda|Cuda|CUDA")


class CudaNamedImport(Rule):
    """Something of another package is about CUDA by its name.

    What: `from decoders import BatchedDecoderCuda`, `from megatron.core import get_cuda_rng_tracker`: names
    with CUDA in them from packages that portkit has no table of, and from submodules that were not fetched.
    Why: what such a name does on another device is up to the package.
    Instead: see what it does without CUDA; a table of your own (`apis`) tells portkit of the package.
    Safety: nothing is rewritten. Modules of the project itself count where they are defined, and an import
    whose failure is handled is portable.
    """

    id = "PK334"
    name = "cuda_named_import"
    phase = Phase.FULL_MODEL
    minutes = 15
    triggers = (b"cuda",)
    of_others = True

    def visit_ImportFrom(self, node: ast.ImportFrom, ctx: Context) -> Iterable[Finding]:
        if node.level or node.module is None:
            return
        names = [item.name for item in node.names if _ABOUT.search(item.name)]
        if not names and _ABOUT.search(node.module):
            names = [item.name for item in node.names]
        top = node.module.partition(".")[0]
        if top in _TOLD_ELSEWHERE or top in sys.stdlib_module_names or _libraries.of_name(node.module):
            return
        names = [
            name
            for name in names
            if not may_be_compiled(name) and _libraries.of_name(f"{node.module}.{name}") is None
        ]
        if not names or node.module.endswith("_cuda"):
            return
        guarded = _sites.in_import_guard(node, ctx)
        yield ctx.finding(
            self,
            node,
            f"{', '.join(names)} of {node.module} {'is' if len(names) == 1 else 'are'} about CUDA by name",
            support=Support.PORTABLE if guarded else Support.UNKNOWN,
            remedy="The program goes on without it."
            if guarded
            else "See what it does where there is no CUDA.",
            qualified_name=node.module,
        )
