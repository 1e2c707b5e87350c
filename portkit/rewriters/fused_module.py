"""Layers for which portkit has a module of its own."""

from __future__ import annotations

from portkit import tables
from portkit.finding import Phase
from portkit.rewriters._replacing import ReplacingRule


class FusedModule(ReplacingRule):
    """A layer is built that has a portable counterpart.

    What: constructors of layers, of apex, flash-attn and others, which the data beside portkit's own modules
    (`portkit/runtime/nn/*.toml`) says they replace.
    Why: fused layers of these libraries exist for CUDA only.
    Instead: `pk.nn.<module>`, with the same constructor arguments and the same `state_dict`. Subclasses and
    calls with `*args` are left to a person; `isinstance` tests name the new class.
    Safety: the same parameters under the same names, so that checkpoints keep loading. Needs torch 2.6.
    """

    id = "PK204"
    name = "fused_module"
    phase = Phase.MODULE
    triggers = (b"torch", b"apex", b"flash_attn", b"transformer_engine", b"xformers")
    folder = tables.RUNTIME / "nn"
    namespace = "pk.nn"
    is_class = True
