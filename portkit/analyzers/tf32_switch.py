"""Settings of cuDNN and of CUDA's matrix products."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule

_PRECISION = frozenset(
    {
        "torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.cudnn.allow_tf32",
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
        "torch.backends.cuda.matmul.fp32_precision",
        "torch.backends.cudnn.fp32_precision",
        "torch.backends.cudnn.conv.fp32_precision",
        "torch.backends.cudnn.rnn.fp32_precision",
    }
)
_SPEED = frozenset(
    {
        "torch.backends.cudnn.benchmark",
        "torch.backends.cudnn.benchmark_limit",
        "torch.backends.cudnn.deterministic",
        "torch.backends.cudnn.enabled",
    }
)
_IGNORED = "It is ignored elsewhere; torch.nn.attention.sdpa_kernel names back ends."
_CALLS = {
    "torch.backends.cuda.sdp_kernel": (
        Support.MANUAL,
        "Use torch.nn.attention.sdpa_kernel, which names back ends.",
    ),
    "torch.backends.cuda.enable_flash_sdp": (Support.PORTABLE, _IGNORED),
    "torch.backends.cuda.enable_math_sdp": (Support.PORTABLE, _IGNORED),
    "torch.backends.cuda.enable_mem_efficient_sdp": (Support.PORTABLE, _IGNORED),
    "torch.backends.cuda.enable_cudnn_sdp": (Support.PORTABLE, _IGNORED),
    "torch.backends.cudnn.flags": (Support.PORTABLE, "Ignored elsewhere."),
    "torch.backends.cudnn.version": (
        Support.MANUAL,
        "It is None without cuDNN: keep the call under a test for CUDA.",
    ),
    "torch.backends.cudnn.is_available": (
        Support.PORTABLE,
        "It is false without cuDNN; what stands under it is for CUDA only.",
    ),
}


class Tf32Switch(Rule):
    """A setting of cuDNN or of CUDA's matrix products.

    What: `torch.backends.cuda.matmul.allow_tf32 = True`, `torch.backends.cudnn.benchmark = True`, and so on;
    `torch.backends.cuda.sdp_kernel`, `torch.backends.cudnn.version()`.
    Why: they do nothing elsewhere, so that the two machines compute in different precision.
    Instead: nothing has to change for the program to run: the settings are accepted and ignored without CUDA.
    `torch.set_float32_matmul_precision("high")` asks every device for the same.
    Safety: nothing is rewritten: on a CPU, "high" may also lower the precision, which TF32 on CUDA never did
    there. Results with TF32 differ from full precision by about 1e-3: compare with the switch off.
    """

    id = "PK106"
    name = "tf32_switch"
    phase = Phase.OPERATOR
    minutes = 10
    triggers = (b"backends",)

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node)
        if name in _CALLS:
            yield self._report(node, ctx, name, f"{name} speaks of CUDA only", *_CALLS[name])
        elif isinstance(node.ctx, ast.Store) and name is not None:
            yield from self._setting(node, ctx, name)

    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node)
        if name in _CALLS and isinstance(node.ctx, ast.Load):
            yield self._report(node, ctx, name, f"{name} speaks of CUDA only", *_CALLS[name])

    def _setting(self, node: ast.expr, ctx: Context, name: str) -> Iterator[Finding]:
        if name in _PRECISION:
            yield self._report(
                node,
                ctx,
                name,
                f"{name} sets the precision on CUDA only",
                Support.PORTABLE,
                "Ignored elsewhere. Compare results with it switched off.",
            )
        elif name in _SPEED:
            yield self._report(
                node, ctx, name, f"{name} is a setting of cuDNN", Support.PORTABLE, "Ignored elsewhere."
            )

    def _report(
        self, node: ast.expr, ctx: Context, name: str, message: str, support: Support, remedy: str
    ) -> Finding:
        return ctx.finding(self, node, message, support=support, remedy=remedy, qualified_name=name)
