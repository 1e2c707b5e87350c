"""Seeds and states of the CUDA random number generator."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import Finding, Phase, Support, Wrap
from portkit.rewriters import _calls
from portkit.rewriters._references import ReferenceRule
from portkit.rule import Context


class CudaRng(ReferenceRule):
    """Random numbers are seeded, saved or restored on CUDA only.

    What: `torch.cuda.manual_seed`, `manual_seed_all`, `get_rng_state*`, `set_rng_state*`, and
    `torch.set_rng_state(checkpoint[...])`, whose argument may have been moved off the CPU by `map_location`.
    Why: other accelerators keep their own generators, so a run that seeds CUDA only is not repeatable there;
    `torch.set_rng_state` takes CPU tensors only.
    Instead: `pk.manual_seed(seed)` and its relatives, which work on whichever accelerator is there.
    Keys under which states are stored in checkpoints (`"cuda_rng_state"`) are data and stay as they are.
    Safety: the same generators on CUDA; nothing happens on a CPU-only build, as before. `.cpu()` on a tensor
    that is on the CPU already returns it unchanged. Needs torch 2.6.
    """

    id = "PK305"
    name = "cuda_rng"
    phase = Phase.FULL_MODEL
    triggers = (
        b"rng_state",
        b"manual_seed",
        b"default_generators",
        b"initial_seed",
        b"seed_all",
        b"cuda.seed",
    )
    what = "{name} reaches the generators of CUDA only"

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        yield from super().visit_Call(node, ctx)
        if ctx.resolve(node.func) == "torch.set_rng_state":
            yield from self._loaded_state(node, ctx)

    def _loaded_state(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        given = _calls.argument(node, 0, "new_state")
        if given is None or not isinstance(given.node, ast.Subscript):
            return
        yield ctx.finding(
            self,
            given.node,
            "torch.set_rng_state takes CPU tensors only, and map_location may have moved this one",
            support=Support.AUTO,
            remedy="Add .cpu() to the state.",
            edits=[Wrap(ctx.span(given.node), "", ".cpu()")],
            qualified_name="torch.set_rng_state",
        )
