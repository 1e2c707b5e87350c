"""NCCL as the back end of torch.distributed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from portkit.finding import Edit, Finding, Phase, Replace, Support
from portkit.rewriters import _references, _sinks, _sites
from portkit.rewriters._devices import identifier
from portkit.rule import Context

_PAIRS = re.compile(r"(?:^|,)\s*\w+:nccl\s*(?:,|$)")
_OF_NCCL = "torch.cuda.nccl."
_SYMMETRIC = "torch.distributed._symmetric_memory."
_NOTE = "Without CUDA the default back end is another one, and the test is then true for it."


class NcclBackend(_references.ReferenceRule):
    """The process group is bound to NCCL.

    What: `init_process_group("nccl")`, `backend="nccl"`, variables, defaults and options that hold the
    back end, `"nccl" if torch.cuda.is_available() else "gloo"`, comparisons, and `"cpu:gloo,cuda:nccl"`.
    Why: NCCL exists for NVIDIA GPUs only.
    Instead: `pk.distributed_backend()`, which is "nccl" on CUDA, "gloo" on the CPU, and the vendor's
    elsewhere. Comparisons need a review; composite strings and lists of choices are left to a person.
    Safety: the same on CUDA. Needs torch 2.6.
    """

    id = "PK307"
    name = "nccl_backend"
    phase = Phase.FULL_MODEL
    triggers = (b"nccl", b"symmetric_memory", b"_multigpu")
    what = "{name} exists with NCCL only"

    def about(self, name: str) -> bool:
        return self.handles(name) or name.startswith(_SYMMETRIC)

    def reference(self, node: ast.expr, ctx: Context) -> Iterator[Finding]:
        """Also report what works through NVLink alone; NCCL may be asked where it is there."""
        name = ctx.resolve(node) or ""
        if name.startswith(_OF_NCCL) and _is_under_a_test_for_nccl(node, ctx):
            if self.handles(name) and not _references.is_alias(node, ctx):
                yield ctx.finding(
                    self,
                    node,
                    f"{name} exists with NCCL only",
                    support=Support.PORTABLE,
                    remedy="It is asked only where NCCL is there.",
                    qualified_name=name,
                )
            return
        yield from super().reference(node, ctx)
        if not name.startswith(_SYMMETRIC) or isinstance(ctx.parent(node), ast.Attribute):
            return
        if _references.is_alias(node, ctx):
            return
        yield ctx.finding(
            self,
            node,
            f"{name} shares memory between GPUs",
            support=Support.MANUAL,
            remedy="Use torch.distributed collectives where the device is not CUDA.",
            qualified_name=name,
        )

    def visit_IfExp(self, node: ast.IfExp, ctx: Context) -> Iterable[Finding]:
        if is_choice(node, ctx):
            yield self._replaced(node, ctx)

    def visit_MatchValue(self, node: ast.MatchValue, ctx: Context) -> Iterable[Finding]:
        if _is_nccl(node.value):
            yield self._manual(node, ctx, "Add a case for other back ends: a pattern can't call portkit.")

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.value, str) and _PAIRS.search(node.value):
            yield self._manual(
                node, ctx, "Leave the back end out: torch then takes the default of each device type."
            )
        elif _is_nccl(node) or (node.value == "NCCL" and self._goes_to_a_group(node, ctx)):
            yield from self._literal(node, ctx)

    def _goes_to_a_group(self, node: ast.Constant, ctx: Context) -> bool:
        """Whether "NCCL", which torch takes in any case, is the back end of a process group."""
        parent = ctx.parent(node)
        call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call):
            return False
        last = (ctx.resolve(call.func) or identifier(call.func)).rpartition(".")[2]
        return last in ("init_process_group", "new_group")

    def _literal(self, node: ast.Constant, ctx: Context) -> Iterator[Finding]:
        child: ast.AST = node
        for parent in ctx.parents(node):
            if isinstance(parent, ast.IfExp):
                if is_choice(parent, ctx):
                    return
            elif not isinstance(parent, (ast.BoolOp, ast.NamedExpr)):
                break
            child = parent
        if isinstance(parent, ast.Compare):
            yield from self._comparison(node, parent, ctx)
        elif isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
            yield self._manual(
                node, ctx, "Add the other back ends; pk.distributed_backend() names the default."
            )
        elif _is_backend(child, parent, ctx):
            yield self._replaced(node, ctx)
        elif not isinstance(parent, (ast.Expr, ast.JoinedStr, ast.MatchValue, ast.Dict)):
            yield ctx.finding(
                self,
                node,
                "It is not visible whether this string becomes a back end",
                support=Support.UNKNOWN,
                remedy="If it does, use pk.distributed_backend().",
            )

    def _comparison(self, node: ast.Constant, parent: ast.Compare, ctx: Context) -> Iterator[Finding]:
        if len(parent.ops) == 1 and isinstance(parent.ops[0], (ast.Eq, ast.NotEq)):
            yield self._replaced(node, ctx, _NOTE)
        else:
            yield self._manual(node, ctx, "Compare with pk.distributed_backend().")

    def _replaced(self, node: ast.expr, ctx: Context, note: str = "") -> Finding:
        text, imports = _references.spell(ctx, "pk.distributed_backend")
        edits: list[Edit] = [Replace(ctx.span(node), f"{text}()"), *imports]
        return ctx.finding(
            self,
            node,
            "The back end is NCCL, which exists for NVIDIA GPUs only",
            support=Support.REVIEW if note else Support.AUTO,
            remedy=f"Use {text}().",
            note=note,
            edits=edits,
        )

    def _manual(self, node: ast.AST, ctx: Context, remedy: str) -> Finding:
        message = "The back end is NCCL, which exists for NVIDIA GPUs only"
        return ctx.finding(self, node, message, support=Support.MANUAL, remedy=remedy)


def _is_nccl(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "nccl"


def is_choice(node: ast.AST | None, ctx: Context) -> bool:
    """Whether an expression is `"nccl" if torch.cuda.is_available() else "gloo"`, or its mirror image."""
    if not isinstance(node, ast.IfExp):
        return False
    test, first, second = node.test, node.body, node.orelse
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, first, second = test.operand, second, first
    asks = _sites.is_availability(test, ctx) or _asks_for_nccl(test, ctx)
    if not asks or not _is_nccl(first):
        return False
    return isinstance(second, ast.Constant) and second.value == "gloo"


def _is_under_a_test_for_nccl(node: ast.AST, ctx: Context) -> bool:
    """Whether a node is reached only if `is_nccl_available()` holds: behind it in an `and`, or a branch."""
    child = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
            before = parent.values[: next(i for i, value in enumerate(parent.values) if value is child)]
            if any(_asks_for_nccl(value, ctx) for value in before):
                return True
        elif isinstance(parent, (ast.If, ast.IfExp)):
            body = parent.body if isinstance(parent.body, list) else [parent.body]
            test = parent.test
            parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
            if any(child is item for item in body) and any(_asks_for_nccl(item, ctx) for item in parts):
                return True
        elif isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        child = parent
    return False


def _asks_for_nccl(test: ast.expr, ctx: Context) -> bool:
    return isinstance(test, ast.Call) and ctx.resolve(test.func) == "torch.distributed.is_nccl_available"


def _is_backend(child: ast.AST, parent: ast.AST, ctx: Context) -> bool:
    if isinstance(parent, ast.keyword):
        call = ctx.parent(parent)
        if isinstance(call, ast.Call) and _sinks.is_option(call):
            flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            return parent.arg == "default" and any("backend" in _sites.words(flag) for flag in flags)
        return "backend" in _sites.words(parent.arg or "")
    if isinstance(parent, ast.Call):
        callee = ctx.resolve(parent.func) or identifier(parent.func)
        return callee.rpartition(".")[2] in ("init_process_group", "new_group") and child is not parent.func
    return any("backend" in _sites.words(name) for name in _sinks.holders(child, parent, ctx))
