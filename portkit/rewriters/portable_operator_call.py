"""Calls of operators for which portkit has a kernel of its own."""

from __future__ import annotations

from portkit import tables
from portkit.finding import Phase
from portkit.rewriters._replacing import ReplacingRule


class PortableOperatorCall(ReplacingRule):
    """An operator is called that has a portable kernel.

    What: calls of tensor operators, of torch or of libraries that need CUDA, which the data beside
    portkit's own operators (`portkit/runtime/ops/*.toml`) says they replace. `--operators` says how far
    this goes: `cuda-bound` (only what can't run elsewhere), `compute` (the default), `all`.
    Why: through `pk.ops`, each operator runs on every device, and can be compared with the original.
    Instead: `pk.ops.<operator>`; arguments are matched by the signatures of both sides. Calls with
    `*args`, unknown arguments, or values that ours does not take are left to a person.
    Safety: on a device without a kernel of its own, `pk.ops` computes with torch: never wrong, never
    slower than the fastest correct implementation that is there. Needs torch 2.6.
    """

    id = "PK101"
    name = "portable_operator_call"
    phase = Phase.OPERATOR
    triggers = (b"torch", b"flash_attn", b"apex", b"xformers", b"functional")
    folder = tables.RUNTIME / "ops"
    namespace = "pk.ops"
