"""Arguments of model libraries that ask for CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import Edit, Finding, Phase, Replace, Support
from portkit.rewriters import _devices, _references, _sites
from portkit.rule import Context, Rule

_BITS = frozenset({"load_in_8bit", "load_in_4bit"})
_ARGUMENTS = ("TrainingArguments",)
_ATTENTION = frozenset({"attn_implementation", "_attn_implementation"})
_FLASH = frozenset({"flash_attention_2", "flash_attention_3"})
_SWITCHES = frozenset({"use_flash_attn", "use_flash_attention", "use_flash_attention_2", "use_flash"})


class PretrainedForCuda(Rule):
    """A model library is asked for something that only CUDA has.

    What: `attn_implementation="flash_attention_2"`, `load_in_8bit=True`, `device_map={"": 0}`,
    `max_memory={0: "10GB"}`, `TrainingArguments(fp16=True)`, `use_flash_attn=True`.
    Why: flash attention and 8-bit layers need CUDA; a plain integer is a CUDA ordinal; mixed precision in
    float16 is refused on the CPU.
    Instead: `"sdpa"` where the device is not CUDA, `pk.device(i)` in a device map,
    `fp16=torch.accelerator.is_available()`. Quantised loading and memory limits are left to a person.
    Safety: the same on CUDA. `"sdpa"` computes the same attention with other kernels. Other forms of a device
    map need a review.
    """

    id = "PK332"
    name = "pretrained_for_cuda"
    phase = Phase.FULL_MODEL
    triggers = (b"flash", b"load_in_", b"device_map", b"max_memory", b"fp16")

    def visit_keyword(self, node: ast.keyword, ctx: Context) -> Iterable[Finding]:
        call = ctx.parent(node)
        if isinstance(call, ast.Call):
            yield from self._argument(node.arg or "", node.value, call, ctx)

    def _argument(self, name: str, value: ast.expr, call: ast.Call, ctx: Context) -> Iterator[Finding]:
        constant = value.value if isinstance(value, ast.Constant) else None
        if name in _ATTENTION and constant in _FLASH:
            yield self._attention(value, ctx)
        elif name in _BITS and constant is not False and constant != 0:
            yield self._manual(
                value,
                ctx,
                f"{name} needs bitsandbytes, whose kernels are for CUDA first",
                "Load the model in bfloat16 where the device is not CUDA.",
                Support.MANUAL if constant is True else Support.UNKNOWN,
            )
        elif name in _SWITCHES and constant is True:
            yield self._manual(
                value,
                ctx,
                f"{name} asks for kernels of CUDA",
                'Pass pk.device_type() == "cuda".',
                Support.UNKNOWN,
            )
        elif name == "device_map" and isinstance(value, ast.Dict):
            yield from self._map(value, ctx)
        elif name == "max_memory" and _has_ordinals(value):
            yield self._limits(value, ctx)
        elif name == "fp16" and constant is True:
            yield from self._half(value, call, ctx)

    def visit_Assign(self, node: ast.Assign, ctx: Context) -> Iterable[Finding]:
        """`device_map = {"": 0}`, `kwargs["attn_implementation"] = "flash_attention_2"`."""
        names = {_devices.identifier(target) for target in node.targets}
        if "device_map" in names and isinstance(node.value, ast.Dict):
            yield from self._map(node.value, ctx)
        elif "max_memory" in names and _has_ordinals(node.value):
            yield self._limits(node.value, ctx)
        elif names & _ATTENTION and isinstance(node.value, ast.Constant) and node.value.value in _FLASH:
            yield self._attention(node.value, ctx)

    def _limits(self, value: ast.expr, ctx: Context) -> Finding:
        return self._manual(
            value,
            ctx,
            "Memory limits are given by CUDA ordinal",
            "Leave max_memory out where pk.device_count() is 0.",
            Support.MANUAL,
        )

    def _attention(self, value: ast.expr, ctx: Context) -> Finding:
        local, imports = ctx.use(_references.RUNTIME)
        text = f'{ctx.source(value)} if {local}.device_type() == "cuda" else "sdpa"'
        if _is_chosen(value, ctx):
            return ctx.finding(
                self,
                value,
                "Flash attention is for CUDA",
                support=Support.PORTABLE,
                remedy="It is chosen under a condition already.",
            )
        edits: list[Edit] = [Replace(ctx.span(value), text), *imports]
        return ctx.finding(
            self,
            value,
            "Flash attention is for CUDA",
            support=Support.AUTO,
            remedy=f"Use {text}.",
            edits=edits,
        )

    def _map(self, value: ast.Dict, ctx: Context) -> Iterator[Finding]:
        text, imports = _references.spell(ctx, "pk.device")
        for place in value.values:
            if not _is_ordinal(place):
                continue
            yield ctx.finding(
                self,
                place,
                "A device map holds a CUDA ordinal",
                support=Support.REVIEW,
                remedy=f"Use {text}({ctx.source(place)}).",
                note="The map holds a torch.device then, which is not equal to an integer.",
                edits=[Replace(ctx.span(place), f"{text}({ctx.source(place)})"), *imports],
            )

    def _half(self, value: ast.expr, call: ast.Call, ctx: Context) -> Iterator[Finding]:
        callee = ctx.resolve(call.func) or _devices.identifier(call.func)
        if not callee.endswith(_ARGUMENTS):
            yield self._manual(
                value,
                ctx,
                "float16 is asked for, which the CPU computes slowly or not at all",
                "If it is for mixed precision, pass pk.is_available().",
                Support.UNKNOWN,
            )
            return
        text, imports = _references.spell(ctx, "torch.accelerator.is_available")
        yield ctx.finding(
            self,
            value,
            "Mixed precision in float16 is refused on the CPU",
            support=Support.AUTO,
            remedy=f"Use {text}().",
            edits=[Replace(ctx.span(value), f"{text}()"), *imports],
        )

    def _manual(self, node: ast.expr, ctx: Context, message: str, remedy: str, support: Support) -> Finding:
        return ctx.finding(self, node, message, support=support, remedy=remedy)


def _has_ordinals(node: ast.expr) -> bool:
    if isinstance(node, ast.DictComp):
        return True
    keys = node.keys if isinstance(node, ast.Dict) else []
    return any(isinstance(key, ast.Constant) and type(key.value) is int for key in keys)


def _is_ordinal(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int"


def _is_chosen(node: ast.expr, ctx: Context) -> bool:
    return isinstance(ctx.parent(node), ast.IfExp) or _sites.under_device_test(node, ctx)
